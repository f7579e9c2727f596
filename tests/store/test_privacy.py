"""Finding and erasing an address, on both engines."""

import msgspec
import pytest
from tests.store.conftest import NewRecord
from tests.store_reading import mail_engine

from gatepost.analysis.report import Line
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope, Receipt
from gatepost.mail.sender_history import Facet, facet_key
from gatepost.store import privacy
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.engine import Many, Read, Work, Write
from gatepost.store.held_search import HeldFilter
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.privacy import TEXTS, FoundEntry, Person, new_pseudonym
from gatepost.store.record_packing import compress
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.sightings import SightingBatch
from gatepost.store.sql import Row, compose
from gatepost.store.store import Store

ANN = Person("Ann@Example.ORG")
BY = Actor("user", "ann@example.org", new_id())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ann@example.org", True),
        ("<Ann@EXAMPLE.org>", True),
        ("Mail from ann@example.org.", True),
        ("mailto:ann@example.org?subject=x", True),
        ("https://x.example/?e=ann%40example.org&y", True),
        ("https://x.example/?e=ann@example.org", True),
        ("bounce+ann=example.org@list.example", True),
        ("'ann@example.org'", True),
        ("joann@example.org", False),
        ("x.ann@example.org", False),
        ("x+ann@example.org", False),
        ("ann+tag@example.org", False),
        ("ann@example.org.evil.example", False),
        ("ann@example.orgs", False),
        ("ann@sub.example.org", False),
        ("ann at example.org", False),
        ("", False),
    ],
)
def test_where_an_address_is(text: str, found: bool) -> None:
    assert ANN.is_in(text) is found
    replaced = ANN.replace(text, "erased-1@erased.invalid")
    assert (replaced != text) is found
    assert not ANN.is_in(replaced)


def test_an_address_of_another_script() -> None:
    person = Person("jürgen@bücher.example")
    assert person.address == "jürgen@xn--bcher-kva.example"
    assert person.is_in("von JÜRGEN@bücher.example")
    assert person.is_in("jürgen@xn--bcher-kva.example")
    assert person.may_be_in("x jürgen".encode())


@pytest.mark.parametrize("text", ["", "ann", "@example.org", "ann@", "a nn@example.org", "a" * 600 + "@example.org"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        Person(text)


def mail(
    base: MessageRecord, sender: str, *recipients: str, shown: str = "", tenant: str | None = None
) -> MessageRecord:
    line = Line("sender:x", "t", "From", {"shown": shown or "nobody"}, 0, 0, "clean")
    report = msgspec.structs.replace(
        base.report,
        lines=(line,),
        subjects=(Subject("from", sender, "From"),),
        senders=(sender,),
        subject=f"To {shown}",
    )
    return msgspec.structs.replace(base, ggrid=new_id(), envelope=Envelope(sender, recipients), report=report)


async def erase_results(store: Store) -> int:
    after: int | None = 0
    deleted = 0
    while after is not None:
        found, after, _ = await store.privacy.messages_about(ANN, after)
        deleted += await store.privacy.delete_messages([(each.completed, uid) for uid, each in found])
    return deleted


async def test_results(store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "STEP", 2)

    base = new_record()
    alone = mail(base, "bob@x.example", "ann@example.org")
    shared = mail(base, "bob@x.example", "Ann@example.org", "carol@x.example")
    sent = mail(base, "ann@example.org", "carol@x.example")
    named = mail(base, "bob@x.example", "carol@x.example", shown="ann@example.org")
    other = mail(base, "bob@x.example", "joann@example.org", shown="joann@example.org")
    for record in (alone, shared, sent, named, other):
        await store.messages.record(record)
    assert await erase_results(store) == 4
    assert await erase_results(store) == 0

    for record in (alone, shared, sent, named):
        assert await store.messages.find(record.ggrid) is None
    assert await store.messages.find(other.ggrid) == other
    for wanted in (
        MessageFilter(recipient="ann@example.org"),
        MessageFilter(sender="ann@example.org"),
        MessageFilter(recipient="carol@x.example"),
    ):
        assert (await store.messages.search(wanted)).rows == ()
    assert [row.ggrid for row in (await store.messages.search(MessageFilter())).rows] == [other.ggrid]


async def test_held_mail(store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "STEP", 2)

    base = new_record()
    held = {
        "alone": mail(base, "bob@x.example", "ann@example.org"),
        "shared": mail(base, "bob@x.example", "ann@example.org", "carol@x.example"),
        "sent": mail(base, "ann@example.org", "carol@x.example"),
        "released": msgspec.structs.replace(
            mail(base, "ann@example.org", "carol@x.example"), receipt=Receipt(queue_id="ann@example.org")
        ),
        "leased": mail(base, "bob@x.example", "ann@example.org"),
        "other": mail(base, "bob@x.example", "carol@x.example"),
    }
    for record in held.values():
        await store.quarantine.hold(record)
    await store.quarantine.mark_released(held["released"].ggrid, ("ann@example.org",), BY)
    assert await store.quarantine.claim(held["leased"].ggrid, "other process", 0, 1 << 50)
    names = {record.ggrid: name for name, record in held.items()}

    async def go(*, delete: bool = False) -> dict[str, str]:
        after: str | None = ""
        fates: dict[str, str] = {}
        while after is not None:
            found, after, _ = await store.privacy.held_about(ANN, after)
            for each in found:
                ggrid = each.record.ggrid
                fates[names[ggrid]] = await store.privacy.erase_held(ANN, ggrid, CLI, delete=delete)
        return fates

    fates = await go()
    assert fates == {
        "alone": "deleted",
        "shared": "changed",
        "sent": "kept",
        "released": "deleted",
        "leased": "kept",
    }
    assert await go() == {"sent": "kept", "leased": "kept"}
    assert await store.quarantine.find(held["alone"].ggrid) is None
    shared = await store.quarantine.find(held["shared"].ggrid)
    assert shared is not None
    assert shared.record.envelope.recipients == ("carol@x.example",)
    assert await store.quarantine.find(held["released"].ggrid) is None
    rows = (await store.quarantine.search(HeldFilter(recipient="ann@example.org"))).rows
    assert [names[row.record.ggrid] for row in rows] == ["leased"]
    rows = (await store.quarantine.search(HeldFilter(recipient="carol@x.example"))).rows
    assert {names[row.record.ggrid] for row in rows} == {"shared", "sent", "other"}
    assert await go(delete=True) == {"sent": "deleted", "leased": "kept"}


@pytest.mark.parametrize("damage", [b"", b"\x00\x81", b"\x02damaged", b"\x01ann@example.org"])
async def test_records_that_cannot_be_read(store: Store, new_record: NewRecord, damage: bytes) -> None:
    """Those of others stay as they are, byte for byte, and are counted; those of the person are known by the columns
    beside them."""
    base = new_record()
    other, shared, alone, whole = (
        mail(base, "bob@x.example", "carol@x.example"),
        mail(base, "bob@x.example", "ann@example.org", "carol@x.example"),
        mail(base, "bob@x.example", "ann@example.org"),
        mail(base, "bob@x.example", "dave@x.example", shown="ann@example.org"),
    )
    for record in (other, shared, alone, whole):
        await store.messages.record(record)
        await store.quarantine.hold(record)
    damaged = tuple(record.ggrid for record in (other, shared, alone))

    def break_them() -> Work[None]:
        for table in ("messages", "held"):
            yield Write(compose(f"UPDATE {table} SET detail = $2 WHERE @one_of(ggrid, $1)"), (Many(damaged), damage))

    def stored(ggrid: str) -> Work[tuple[Row, ...]]:
        of_held = yield Read(compose("SELECT sender, subject, detail FROM held WHERE ggrid = $1"), (ggrid,))
        statement = "SELECT tenant, verdict, sender, recipients, subject, detail, header FROM messages"
        return (*(yield Read(compose(f"{statement} WHERE ggrid = $1"), (ggrid,))), *of_held)

    await mail_engine(store).change(break_them)
    before = await mail_engine(store).change(lambda: stored(other.ggrid))
    found, _, unreadable = await store.privacy.messages_about(ANN)
    assert ({record.ggrid for _, record in found}, unreadable) == ({shared.ggrid, alone.ggrid, whole.ggrid}, 1)
    held, _, unreadable = await store.privacy.held_about(ANN)
    assert ({each.record.ggrid for each in held}, unreadable) == ({shared.ggrid, alone.ggrid, whole.ggrid}, 1)

    assert await erase_results(store) == 3
    fates = [await store.privacy.erase_held(ANN, each.record.ggrid, CLI) for each in held]
    assert sorted(fates) == ["changed", "deleted", "kept"]
    assert await mail_engine(store).change(lambda: stored(other.ggrid)) == before

    assert await store.messages.find(alone.ggrid) is None
    assert await store.quarantine.find(alone.ggrid) is None
    assert await store.messages.find(shared.ggrid) is None
    of_carol = (await store.messages.search(MessageFilter(recipient="carol@x.example"))).rows
    assert [row.ggrid for row in of_carol] == [other.ggrid]
    assert (await store.messages.search(MessageFilter(recipient="ann@example.org"))).rows == ()
    still = (await store.quarantine.search(HeldFilter(recipient="carol@x.example"))).rows
    assert {row.record.ggrid for row in still} == {other.ggrid, shared.ggrid}
    assert (await store.quarantine.search(HeldFilter(recipient="ann@example.org"))).rows == ()
    left, _, unreadable = await store.privacy.held_about(ANN)
    assert ([each.record.ggrid for each in left], unreadable) == ([whole.ggrid], 2)


async def test_history_lists_and_audit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "ROWS", 2)

    address, domain = (
        facet_key(Facet.PROVEN_ADDRESS, "ann@example.org"),
        facet_key(Facet.PROVEN_DOMAIN, "example.org"),
    )
    tenant = new_id()
    batches = [SightingBatch(owner, 100, {address: 2, domain: 2}) for owner in (None, tenant)]
    await store.sightings.record(batches)
    history = await store.privacy.history_about(ANN)
    assert len(history) == 2
    assert await store.privacy.erase_history(history) == 2
    assert await store.privacy.history_about(ANN) == ()
    assert await store.sightings.count(tenant) == 1

    senders, people = BY_NAME["blocked-senders"], BY_NAME["blocked-urls"]
    await store.lists.add(None, senders, [NewEntry("ann@example.org", "ann@example.org", "x")], BY)
    await store.lists.add(None, senders, [NewEntry("z@example.org", "z@example.org", "as Ann@example.org said")], CLI)
    await store.lists.add(None, people, [NewEntry("evil.example", "evil.example", "plain")], CLI)
    found: list[FoundEntry] = []
    after: tuple[int, str] | None = (0, "")
    while after is not None:
        some, after, _ = await store.privacy.entries_about(ANN, after)
        found += some
    assert [(each.entry, each.is_entry) for each in found] == [("ann@example.org", True), ("z@example.org", False)]
    assert await store.privacy.erase_comments(ANN, found, "erased-1@erased.invalid") == 2
    assert await store.lists.remove(None, "blocked-senders", ["ann@example.org"], CLI) == 1

    before = (await store.audit.page(AuditFilter())).rows
    after_id: int | None = 0
    changed = 0
    while after_id is not None:
        records, after_id, _ = await store.privacy.audit_about(ANN, after_id)
        changed += await store.privacy.erase_audit(ANN, records, "erased-1@erased.invalid")
    assert changed == 3, "two name the address, and one has it in the comment that it changed"
    values = [await store.audit.changes(row.id) for row in before]
    assert "ann@example.org" not in repr(values).lower()
    assert "as erased-1@erased.invalid said" in repr(values)
    trail = (await store.audit.page(AuditFilter())).rows
    assert [(row.id, row.time, row.action, row.count) for row in trail] == [
        (row.id, row.time, row.action, row.count) for row in before
    ]
    assert "ann@example.org" not in repr(trail)
    assert trail[-1].actor.name == trail[-1].sample[0] == "erased-1@erased.invalid"
    assert trail[-1].actor.id == BY.id


async def test_saved_searches_work_and_headers(store: Store, new_record: NewRecord) -> None:
    async def erase_texts(store: Store, kind: str) -> list[dict[str, str]]:
        (texts,) = [each for each in TEXTS if each.kind == kind]
        found = await store.privacy.texts_about(ANN, texts)
        assert await store.privacy.erase_texts(ANN, texts, found, "erased-1@erased.invalid") == len(found)
        assert await store.privacy.texts_about(ANN, texts) == ()
        return [texts.describe(row) for row in found]

    await store.users.save_search("u", "/messages", "hers", "q=to%3Aann%40example.org")
    await store.users.save_search("u", "/messages", "others", "q=joann%40example.org")
    assert await erase_texts(store, "searches") == [{"name": "hers", "query": "q=to%3Aann%40example.org"}]
    assert [each.name for each in await store.users.saved_searches("u")] == ["others"]

    work = await store.bulk_actions.create("u", "release", ["x", "y"])
    await store.bulk_actions.add_results(work.id, ["550 ann@example.org: no such user", ""])
    (named,) = await erase_texts(store, "work")
    assert named["id"] == work.id
    done = await store.bulk_actions.find(work.id, "u")
    assert done
    assert done.results == ("550 erased-1@erased.invalid: no such user", "")

    kept = msgspec.structs.replace(new_record(), header=compress(b"Cc: Ann <ann@example.org>\r\n"))
    await store.messages.record(kept)
    assert await store.messages.header(kept.ggrid) == b"Cc: Ann <ann@example.org>\r\n"
    assert await erase_results(store) == 1
    assert await store.messages.header(kept.ggrid) is None


async def test_the_audit_trail_takes_no_other_change(store: Store) -> None:
    await store.tenants.create("x")
    for statement in (
        "UPDATE audit SET actor_name = 'mallory'",
        "UPDATE audit SET sample = '[\"erased-1\"]', time = 5",
        "UPDATE audit SET sample = '[\"erased-1\"]', action = 'nothing'",
        "DELETE FROM audit",
    ):

        def work(statement: str = statement):  # type: ignore[no-untyped-def]
            yield Write(compose(statement))

        with pytest.raises(Exception, match="only grows"):
            await store._engine.change(work)


def test_pseudonyms_say_nothing() -> None:
    one, other = new_pseudonym(), new_pseudonym()
    assert one != other
    assert one.startswith("erased-")
    assert one.endswith("@erased.invalid")
