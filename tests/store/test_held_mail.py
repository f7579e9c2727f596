"""What the quarantine has on record, on both engines."""

import asyncio

import msgspec
import pytest
from tests.store.conftest import NewRecord

from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.quarantine import UNDECIDED_MILLISECONDS
from gatepost.store.store import Store

TOKEN = Actor("token", "mta")
FAR = 1 << 50


def sent(record: MessageRecord, sender: str = "a@x.example", *recipients: str) -> MessageRecord:
    envelope = msgspec.structs.replace(record.envelope, sender=sender, recipients=recipients or ("b@y.example",))
    return msgspec.structs.replace(record, envelope=envelope)


async def test_what_is_held_comes_back_whole(store: Store, new_record: NewRecord) -> None:
    record = new_record(tenant=new_id(), subject="s\0")

    assert await store.quarantine.hold(record)
    assert not await store.quarantine.hold(msgspec.structs.replace(record, size=1)), (
        "the first of a ggrid is the one held"
    )
    mail = await store.quarantine.find(record.ggrid.upper())
    assert mail
    assert (mail.record, mail.state, mail.release) == (record, "held", None)
    assert (await store.quarantine.totals())[1] == record.size
    assert await store.quarantine.totals() == (1, record.size)
    for stranger in (new_id(), "\0", ""):
        assert await store.quarantine.find(stranger) is None


async def test_a_tenant_sees_its_own(store: Store, new_record: NewRecord) -> None:
    mine, theirs = new_id(), new_id()

    record = new_record(tenant=mine)
    await store.quarantine.hold(record)
    await store.quarantine.hold(new_record())
    assert await store.quarantine.find(record.ggrid, mine.upper())
    assert await store.quarantine.find(record.ggrid, theirs) is None
    assert not await store.quarantine.delete(record.ggrid, CLI, theirs)
    assert [m.record.ggrid for m in (await store.quarantine.search(HeldFilter(tenant=mine))).rows] == [record.ggrid]
    assert (await store.quarantine.search(HeldFilter(tenant=theirs))).rows == ()
    assert await store.quarantine.delete(record.ggrid, CLI, mine)
    assert await store.quarantine.find(record.ggrid) is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (HeldFilter(), "edcba"),
        (HeldFilter(verdict="spam"), "edcba"),
        (HeldFilter(verdict="malware"), ""),
        (HeldFilter(sender="Ann@X.example"), "a"),
        (HeldFilter(sender="<ann@x.example>"), "a"),
        (HeldFilter(sender="x.example"), "ba"),
        (HeldFilter(sender="@x.example"), "ba"),
        (HeldFilter(sender="ample"), ""),
        (HeldFilter(sender=""), "d"),  # bounces
        (HeldFilter(sender="%"), ""),
        (HeldFilter(sender="' OR 1=1 --"), ""),
        (HeldFilter(recipient="b@y.example"), "dcba"),
        (HeldFilter(recipient="c@z.example"), "eb"),
        (HeldFilter(recipient="z.example"), "eb"),
        (HeldFilter(recipient="z.example", sender="x.example"), "b"),
        (HeldFilter(since=0), "edcba"),
        (HeldFilter(since=FAR), ""),
        (HeldFilter(released=True), ""),
        (HeldFilter(sender="ü@x.example"), "b"),
    ],
)
async def test_filters(store: Store, new_record: NewRecord, wanted: HeldFilter, expected: str) -> None:
    names = {}
    for name, sender, *recipients in (
        ("a", "<Ann@x.example>"),
        ("b", "Ü@x.example", "b@y.example", "C@Z.example", "c@z.example"),
        ("c", "no address"),
        ("d", ""),
        ("e", "a\0b", "<c@z.example>"),
    ):
        record = sent(new_record(), sender, *recipients)
        names[record.ggrid] = name
        await store.quarantine.hold(record)
    assert "".join(names[mail.record.ggrid] for mail in (await store.quarantine.search(wanted)).rows) == expected


async def test_pages(store: Store, new_record: NewRecord) -> None:
    ids = [new_id() for _ in range(25)]
    for uid in ids:
        await store.quarantine.hold(new_record(uid))
    seen: list[str] = []
    while page := (await store.quarantine.search(HeldFilter(), seen[-1] if seen else None, 10)).rows:
        seen += [mail.record.ggrid for mail in page]
    assert seen == ids[::-1]
    assert len((await store.quarantine.search(HeldFilter(), limit=-1)).rows) == 1


async def test_one_of_many_gets_the_claim(store: Store, new_record: NewRecord) -> None:
    record = new_record()
    await store.quarantine.hold(record)
    claims = await asyncio.gather(*(store.quarantine.claim(record.ggrid, f"h{n}", 1_000, 2_000) for n in range(20)))
    assert sum(claims) == 1
    winner = f"h{claims.index(True)}"
    mail = await store.quarantine.find(record.ggrid)
    assert mail
    assert (mail.state, mail.lease) == ("releasing", 2_000)
    await store.quarantine.give_back(record.ggrid, "somebody else")
    assert not await store.quarantine.claim(record.ggrid, "late", 2_000, 3_000), "the lease has not run out"
    await store.quarantine.give_back(record.ggrid, winner)
    assert await store.quarantine.claim(record.ggrid, "next", 2_000, 3_000)
    assert await store.quarantine.claim(record.ggrid, "after a crash", 3_001, FAR)
    assert not await store.quarantine.delete(record.ggrid, CLI), "it is being released"


async def test_a_release_is_added_once_to_record_and_audit_trail(store: Store, new_record: NewRecord) -> None:
    record = new_record(tenant=new_id())
    await store.messages.record(record)
    await store.quarantine.hold(record)
    await store.quarantine.claim(record.ggrid, "h", 1, FAR)
    release = await store.quarantine.mark_released(record.ggrid, ["b@y.example", "c@y.example"], TOKEN)
    assert (release.by, release.recipients) == ("token:mta", ("b@y.example", "c@y.example"))
    mail = await store.quarantine.find(record.ggrid)
    assert mail
    assert (mail.state, mail.release) == ("released", release)
    # The decision is as it was; the release stands beside it.
    assert await store.messages.find(record.ggrid) == msgspec.structs.replace(record, release=release)
    trail = (await store.audit.page(AuditFilter(scope=record.envelope.tenant))).rows
    assert [(each.actor, each.action, each.count) for each in trail] == [(TOKEN, "quarantine.release", 2)]
    assert trail[0].sample == (record.ggrid, "b@y.example", "c@y.example")
    again = await store.quarantine.mark_released(record.ggrid, ["d@y.example"], CLI)
    assert again == release
    assert len((await store.audit.page(AuditFilter())).rows) == 1
    await store.quarantine.give_back(record.ggrid, "h")
    assert not await store.quarantine.claim(record.ggrid, "h", FAR, FAR)
    assert not await store.quarantine.delete(record.ggrid, CLI)
    assert (await store.quarantine.search(HeldFilter())).rows == ()
    assert [m.record.ggrid for m in (await store.quarantine.search(HeldFilter(released=True))).rows] == [record.ggrid]
    assert (await store.quarantine.totals())[1] == 0
    assert await store.quarantine.totals() == (0, 0)
    assert await store.quarantine.needed_among([record.ggrid]) == frozenset()


async def test_deletion_and_export_are_audited(store: Store, new_record: NewRecord) -> None:
    record = new_record()
    await store.quarantine.hold(record)
    assert await store.quarantine.needed_among([record.ggrid, new_id()]) == {record.ggrid}
    assert await store.quarantine.needed_among([]) == frozenset()
    await store.audit.note_export(record.ggrid, None, CLI)
    assert await store.quarantine.delete(record.ggrid, CLI)
    assert not await store.quarantine.delete(record.ggrid, CLI)
    assert [each.action for each in (await store.audit.page(AuditFilter())).rows] == [
        "quarantine.delete",
        "quarantine.export",
    ]
    # Nothing of it is left to be found by.
    assert (await store.quarantine.search(HeldFilter(recipient="b@rcpt.example"))).rows == ()
    assert await store.quarantine.hold(record)


async def test_retention(store: Store, new_record: NewRecord) -> None:
    records = [new_record() for _ in range(600)]
    await asyncio.gather(*map(store.quarantine.hold, records))
    busy, lapsed, gone, on_record = (record.ggrid for record in records[:4])
    await store.messages.record(records[3])
    await store.quarantine.claim(busy, "h", 1, FAR)
    await store.quarantine.claim(lapsed, "h", 1, 2)
    for ggrid in (gone, on_record):
        await store.quarantine.mark_released(ggrid, ["b@y.example"], CLI)
    assert await store.quarantine.purge(0) == 0
    # Of what was released the record stays while the result does; what is being released stays in any case.
    assert await store.quarantine.purge(FAR) == 598
    assert await store.quarantine.find(busy)
    assert await store.quarantine.find(on_record)
    await store.messages.purge(FAR)
    assert await store.quarantine.purge(FAR) == 1


async def test_a_departed_tenant_leaves_nothing(store: Store, new_record: NewRecord) -> None:
    tenant = await store.tenants.create("t")
    uid = getattr(tenant, "uid", "")
    mine, other = new_record(tenant=uid), new_record()
    await store.quarantine.hold(mine)
    await store.quarantine.hold(other)
    await store.tenants.delete(uid)
    assert await store.quarantine.find(mine.ggrid) is None
    assert await store.quarantine.find(other.ggrid)


async def test_undecided_is_counted_for_a_day(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 5_000_000_000_000
    monkeypatch.setattr("gatepost.store.quarantine.now", lambda: now)

    assert [await store.quarantine.undecided_before("d") for _ in range(3)] == [0, 1, 2]
    assert await store.quarantine.undecided_before("other\0") == 0
    now += UNDECIDED_MILLISECONDS - 1
    assert await store.quarantine.undecided_before("d") == 3
    now += 1
    assert await store.quarantine.undecided_before("d") == 1
    await store.quarantine.purge(0)
    assert await store.quarantine.undecided_before("d") == 2


async def test_a_thousand_recipients(store: Store, new_record: NewRecord) -> None:
    recipients = tuple(f"r{n}@y.example" for n in range(1_000))
    record = msgspec.structs.replace(new_record(), envelope=Envelope("a@x.example", recipients))
    await store.quarantine.hold(record)
    await store.quarantine.hold(msgspec.structs.replace(new_record(), envelope=Envelope("a@x.example", ())))
    assert [m.record for m in (await store.quarantine.search(HeldFilter(recipient="r999@y.example"))).rows] == [record]
