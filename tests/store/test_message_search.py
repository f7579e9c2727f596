"""Searching results on both engines: what fits, every row once, newest first, and never another tenant's."""

import asyncio
import random
from collections.abc import Sequence

import msgspec
import pytest
from tests.store.conftest import NewRecord

from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.store import paging
from gatepost.store.message_records import MessageRecord
from gatepost.store.messages import MessageSummary
from gatepost.store.paging import Page
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.store import Store

MINE, THEIRS = new_id(), new_id()


def mail(
    base: MessageRecord,
    completed: int,
    sender: str = "ann@x.example",
    recipients: Sequence[str] = ("bob@y.example",),
    subject: str = "Hello",
    tenant: str | None = None,
    verdict: str = "clean",
    decision: str = "deliver",
    tags: tuple[str, ...] = (),
) -> MessageRecord:
    report = msgspec.structs.replace(base.report, subject=subject, verdict=verdict, decision=decision, tags=tags)
    envelope = Envelope(sender, tuple(recipients), tenant=tenant)
    return msgspec.structs.replace(base, ggrid=new_id(), completed=completed, envelope=envelope, report=report)


async def all_pages(store: Store, wanted: MessageFilter, limit: int) -> tuple[list[str], list[Page[MessageSummary]]]:
    pages = [await store.messages.search(wanted, None, limit)]
    while pages[-1].next is not None:
        pages.append(await store.messages.search(wanted, pages[-1].next, limit))
        assert len(pages) < 500
    return [row.ggrid for page in pages for row in page.rows], pages


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (MessageFilter(), "gfedcba"),
        (MessageFilter(tenant=MINE), "gba"),
        (MessageFilter(tenant=MINE.upper()), "gba"),
        (MessageFilter(tenant=THEIRS), "c"),
        (MessageFilter(tenant=new_id()), ""),
        (MessageFilter(since=300), "gfedc"),
        (MessageFilter(until=300), "ba"),
        (MessageFilter(since=200, until=400), "cb"),
        (MessageFilter(since=400, until=200), ""),
        (MessageFilter(sender="Ann@X.example"), "ba"),
        (MessageFilter(sender="<ann@x.example>"), "ba"),
        (MessageFilter(sender="x.example"), "cba"),
        (MessageFilter(sender="@x.example"), "cba"),
        (MessageFilter(sender="y.example"), ""),
        (MessageFilter(sender="ann"), "gba"),
        (MessageFilter(sender="*x.example*"), "gfcba"),
        (MessageFilter(sender="ann@"), "gba"),
        (MessageFilter(sender=""), "d"),  # bounces
        (MessageFilter(sender="%"), ""),
        (MessageFilter(sender="' OR 1=1 --"), ""),
        (MessageFilter(sender="müller@groß.example"), "e"),
        (MessageFilter(sender="GROSS.example"), "e"),
        (MessageFilter(recipient="BOB@y.example"), "gfcba"),
        (MessageFilter(recipient="y.example"), "gfecba"),
        (MessageFilter(recipient="carol"), "e"),
        (MessageFilter(recipient="ob@y.example"), ""),
        (MessageFilter(recipient="bob@y.example", tenant=MINE), "gba"),
        (MessageFilter(recipient="bob@y.example", tenant=THEIRS, sender="x.example"), "c"),
        (MessageFilter(recipient="bob@y.example", sender="ann@x.example", subject="invoice"), "a"),
        (MessageFilter(subject="invoice"), "ca"),
        (MessageFilter(subject="2026 INVOICE"), "a"),
        (MessageFilter(subject="grüße"), "e"),
        (MessageFilter(subject="  "), "gfedcba"),
        (MessageFilter(subject="%"), "f"),
        (MessageFilter(verdict="spam"), "fc"),
        (MessageFilter(verdict="spam", tenant=THEIRS), "c"),
        (MessageFilter(verdict="spam", tenant=MINE), ""),
        (MessageFilter(decision="quarantine"), "f"),
        (MessageFilter(tag="url:homograph"), "f"),
        (MessageFilter(tag="url:homo"), ""),
        (MessageFilter(sender="x.example", tenant=MINE), "ba"),
    ],
)
async def test_filters(store: Store, new_record: NewRecord, wanted: MessageFilter, expected: str) -> None:
    base = new_record()

    records = {
        "a": mail(base, 100, subject="Invoice of 2026", tenant=MINE),
        "b": mail(base, 200, "<ANN@x.example>", tenant=MINE),
        "c": mail(base, 300, "carl@x.example", subject="invoices", tenant=THEIRS, verdict="spam"),
        "d": mail(base, 400, "", ("c@z.example",)),
        "e": mail(base, 500, "Müller@Groß.example", ("carol@y.example", "c@z.example"), "Viele GRÜSSE"),
        "f": mail(
            *(base, 600, "no@sub.x.example"),
            subject="100 % \0 off",
            verdict="spam",
            decision="quarantine",
            tags=("url:homograph", "text:lure"),
        ),
        "g": mail(base, 700, "joann@x.example.net", tenant=MINE),
    }
    names = {record.ggrid: name for name, record in records.items()}
    await asyncio.gather(*map(store.messages.record, records.values()))
    found, pages = await all_pages(store, wanted, 100)
    assert "".join(names[uid] for uid in found) == expected
    assert pages[-1].reached is None
    if wanted == MessageFilter():
        for row in pages[0].rows:
            record = records[names[row.ggrid]]
            kept = (record.envelope.sender, record.envelope.recipients, record.report.subject, record.report.tags)
            assert (
                row.sender,
                row.recipients,
                row.subject.replace("\N{REPLACEMENT CHARACTER}", "\0"),
                row.tags,
            ) == kept
            assert (row.completed, row.score, row.size) == (record.completed, record.report.score, record.size)


async def test_a_ggrid_leads_to_one_message_of_ones_own(store: Store, new_record: NewRecord) -> None:
    record = mail(new_record(), 5, tenant=MINE)
    await store.messages.record(record)
    for tenant, found in ((None, 1), (MINE, 1), (THEIRS, 0)):
        page = await store.messages.search(MessageFilter(tenant=tenant, ggrid=f" {record.ggrid.upper()} "))
        assert (len(page.rows), page.next) == (found, None)
    assert (await store.messages.search(MessageFilter(ggrid="\0"))).rows == ()


async def test_the_beginning_of_an_id_finds_its_messages(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the field and as a text, page by page, with the other conditions, and never another tenant's."""
    monkeypatch.setattr(paging, "ROW_BUDGET", 70)  # seven rows of both tables
    base, moment = new_record(), 1_700_000_000_000_000_000
    ids = [new_id(moment + step * 1_000_000) for step in range(20)]
    records = [
        msgspec.structs.replace(
            mail(base, 900 - place % 3, tenant=MINE if place % 4 else THEIRS, verdict="spam" if place < 5 else "clean"),
            ggrid=uid,
        )
        for place, uid in enumerate(ids)
    ]
    other = mail(base, 950, tenant=MINE, subject=f"about {ids[0][:8]}")
    newest = ids[::-1]

    await asyncio.gather(*map(store.messages.record, [*records, other]))
    for wanted, expected in (
        (MessageFilter(ggrid=ids[0][:8]), newest),
        (MessageFilter(anywhere=ids[0][:8].upper()), newest),
        (MessageFilter(anywhere=ids[0][:8], tenant=MINE), [uid for uid in newest if ids.index(uid) % 4]),
        (MessageFilter(ggrid=ids[0][:13], verdict="spam"), newest[15:] if ids[4][:13] == ids[0][:13] else [ids[0]]),
        (MessageFilter(anywhere=ids[0][:8], since=900), [uid for uid in newest if ids.index(uid) % 3 == 0]),
        (MessageFilter(ggrid=ids[7].replace("-", "")[:31]), [ids[7]]),
        (MessageFilter(ggrid="ffffffff"), []),
        (MessageFilter(ggrid="0199%"), []),
        (MessageFilter(ggrid="' OR 1=1 --"), []),
    ):
        for limit in (2, 100):
            found, _ = await all_pages(store, wanted, limit)
            assert found == expected, (wanted, limit)
    assert (await store.messages.count(MessageFilter(anywhere=ids[7][:23]))).messages == 1
    assert (await store.messages.count(MessageFilter(ggrid="ffffffff"))).messages == 0
    # Where no id begins so, the text has its other meanings.
    await store.messages.purge(901)
    found, _ = await all_pages(store, MessageFilter(anywhere=ids[0][:8], tenant=MINE), 10)
    assert found == [other.ggrid]
    assert (await store.messages.count(MessageFilter(anywhere=ids[0][:8], tenant=MINE))).messages == 1


@pytest.mark.parametrize("seed", range(3))
async def test_every_row_once_and_in_order(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever is asked for, however small the pages and the budget: the same as looking at everything at once."""
    monkeypatch.setattr(paging, "ROW_BUDGET", 7)
    chance = random.Random(seed)
    base = new_record()
    records = [
        mail(
            base,
            chance.randrange(20),  # many at the same time
            chance.choice(("a@x.example", "b@x.example", "a@y.example")),
            chance.sample(("r@y.example", "s@y.example", "t@z.example"), chance.randrange(1, 4)),
            chance.choice(("one two", "Two three", "three")),
            chance.choice((None, MINE, THEIRS)),
            chance.choice(("clean", "spam")),
        )
        for _ in range(60)
    ]
    filters = [
        MessageFilter(
            tenant=chance.choice((None, MINE)),
            since=chance.choice((None, 5)),
            until=chance.choice((None, 15)),
            sender=chance.choice((None, None, "a@x.example", "x.example", "a@")),
            recipient=chance.choice((None, None, "r@y.example", "z.example", "t@")),
            subject=chance.choice((None, "two")),
            verdict=chance.choice((None, "spam")),
        )
        for _ in range(25)
    ]

    await asyncio.gather(*map(store.messages.record, records))
    everything = [row.ggrid for row in (await store.messages.search(MessageFilter(), None, 1_000)).rows]
    by_id = {record.ggrid: record for record in records}
    assert sorted(everything) == sorted(by_id)
    times = [by_id[uid].completed for uid in everything]
    assert times == sorted(times, reverse=True)
    for wanted in filters:
        found, pages = await all_pages(store, wanted, chance.randrange(1, 6))
        assert found == [uid for uid in everything if fits(by_id[uid], wanted)], wanted
        assert all(page.next is not None for page in pages if page.reached is not None)


def fits(record: MessageRecord, wanted: MessageFilter) -> bool:
    """What the filters of the test above mean, said once more."""
    sender, recipients = record.envelope.sender, record.envelope.recipients
    return (
        wanted.tenant in (None, record.envelope.tenant)
        and (wanted.since is None or record.completed >= wanted.since)
        and (wanted.until is None or record.completed < wanted.until)
        and {None: True, "a@x.example": sender == "a@x.example", "x.example": sender.endswith("@x.example")}.get(
            wanted.sender, "a@" in sender
        )
        and {
            None: True,
            "r@y.example": "r@y.example" in recipients,
            "z.example": any(each.endswith("@z.example") for each in recipients),
        }.get(wanted.recipient, "t@z.example" in recipients)
        and (wanted.subject is None or "two" in record.report.subject.lower())
        and wanted.verdict in (None, record.report.verdict)
    )


async def test_looking_stops_and_says_where(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "ROW_BUDGET", 10)
    base = new_record()

    needle = mail(base, 0, subject="needle")
    await asyncio.gather(*map(store.messages.record, [needle, *(mail(base, n) for n in range(1, 36))]))
    found, pages = await all_pages(store, MessageFilter(subject="needle"), 5)
    assert found == [needle.ggrid]
    assert [page.reached for page in pages] == [26, 16, 6, None]
    assert [len(page.rows) for page in pages] == [0, 0, 0, 1]
    assert len((await store.messages.search(MessageFilter(), None, 1_000)).rows) == 36, "no text, no budget"
    assert (await store.messages.search(MessageFilter(), "nonsense", 1)).rows[0].completed == 35
    assert len((await store.messages.search(MessageFilter(), None, -3)).rows) == 1


async def test_what_is_purged_is_not_found(store: Store, new_record: NewRecord) -> None:
    base = new_record()

    people = [f"p{n}@y.example" for n in range(150)]
    await asyncio.gather(*(store.messages.record(mail(base, n, recipients=people)) for n in range(5)))
    assert len((await store.messages.search(MessageFilter(recipient="p99@y.example"))).rows) == 5
    assert await store.messages.purge(3) == 3
    for wanted in (MessageFilter(recipient="p99@y.example"), MessageFilter(sender="x.example"), MessageFilter()):
        assert [row.completed for row in (await store.messages.search(wanted)).rows] == [4, 3]
    assert await store.messages.purge(100) == 2
    assert (await store.messages.search(MessageFilter(recipient="p1@y.example"))) == Page(())


async def test_a_tenant_that_goes_is_found_no_more(store: Store, new_record: NewRecord) -> None:
    tenant = await store.tenants.create("t")
    mine = mail(new_record(), 1, tenant=tenant.uid)  # type: ignore[union-attr]
    other = mail(new_record(), 2)
    await asyncio.gather(*map(store.messages.record, [mine, other]))
    await store.tenants.delete(tenant.uid)  # type: ignore[union-attr]
    assert [row.ggrid for row in (await store.messages.search(MessageFilter())).rows] == [other.ggrid]


async def test_the_first_of_a_ggrid_is_the_one_found(store: Store, new_record: NewRecord) -> None:
    first = mail(new_record(), 1, subject="first")
    again = [msgspec.structs.replace(first, completed=n) for n in range(2, 6)]
    await store.messages.record(first)
    await asyncio.gather(*map(store.messages.record, [*again, mail(new_record(), 9)]))
    assert [row.completed for row in (await store.messages.search(MessageFilter())).rows] == [9, 1]
    same = mail(new_record(), 20)
    await asyncio.gather(*(store.messages.record(same) for _ in range(5)))
    assert [row.completed for row in (await store.messages.search(MessageFilter())).rows] == [20, 9, 1]
    assert sum(bucket.messages for bucket in await store.traffic.buckets(None, 0, 100, 1)) == 3


async def test_text_that_no_index_has_a_place_for(store: Store, new_record: NewRecord) -> None:
    """PostgreSQL takes 2,704 bytes in an index, and no NUL; folding can triple a text."""
    chance = random.Random(4)
    wild = "".join(chr(chance.randrange(0x20000, 0x2A6DF)) for _ in range(1_200))

    for n, text in enumerate((wild, "\u0390" * 1_200, "\0" * 1_200)):
        record = mail(new_record(), n, f"{text}@x.example", [f"{n}{text}"], text, tags=(text[:300],))
        assert await store.messages.record(record) == record
        assert await store.quarantine.hold(record)
        assert (await store.messages.search(MessageFilter(sender=text[:20]))).rows[0].ggrid == record.ggrid
    assert await store.messages.purge(100) == 3
