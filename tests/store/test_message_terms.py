"""The one search field: what a text can mean, and that a message is found by each of its meanings, on both engines."""

import msgspec
import pytest
from tests.store.conftest import NewRecord

from gatepost.analysis.report import FileSeen
from gatepost.ids import new_id
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.store import paging
from gatepost.store.evidence import Evidence
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_index import parse_term
from gatepost.store.message_records import MessageRecord
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.store import Store

GGRID, HASH = new_id(), "ab" * 32


def wanted_record(base: MessageRecord, completed: int = 500) -> MessageRecord:
    recipients = tuple(f"user{number}@many.example" for number in range(150))
    report = msgspec.structs.replace(
        base.report,
        subject="Your Prize waits",
        senders=("bradesco@resgatepremios.example",),
        sender_names=("Banco Bradesco S.A.",),
        tags=("link:other-site",),
        message_id="<id-7@mailer.example>",
        subjects=(Subject("link", "https://login.evil.example/x", "1"),),
        files=(FileSeen("1.2/Rechnung 7.pdf", "pdf", 1, HASH, ("Rechnung 7.pdf",)),),
    )
    envelope = Envelope("root@ubuntu-s.example.net", (*recipients, "late@last.example"), "192.0.2.7", "x", None)
    return msgspec.structs.replace(base, ggrid=GGRID, completed=completed, envelope=envelope, report=report)


FINDS = [
    "bradesco@resgatepremios.example",
    "BRADESCO@Resgatepremios.example",
    "resgatepremios.example",
    "@resgatepremios.example",
    "bradesco",
    "banco bradesco",
    "root@ubuntu-s.example.net",
    "ubuntu-s.example.net",
    "ubuntu",
    "user0@many.example",
    "user149@many.example",
    "late@last.example",
    "many.example",
    "last.example",
    "prize waits",
    "192.0.2.7",
    "login.evil.example",
    "evil.example",
    "hxxps://login[.]evil[.]example/x",
    "https://evil.example/other",
    "rechnung 7.PDF",
    HASH,
    HASH.upper(),
    "<id-7@mailer.example>",
    "id-7@mailer.example",
    "link:other-site",
    GGRID.upper(),
    "\u2068late@last.example\u2069",
]
FINDS_NOT = [
    "bradesco@other.example",
    "premios.example",
    "user150@many.example",
    "any.example",
    "prize lost",
    "192.0.2.8",
    "vil.example",
    "cd" * 32,
    "link:other",
    new_id(),
    "%",
    "' OR 1=1 --",
    "banco nobody",
]


@pytest.mark.parametrize("is_digested", [True, False])
async def test_a_message_is_found_by_what_people_tell(store: Store, new_record: NewRecord, is_digested: bool) -> None:
    base = new_record()

    record = wanted_record(base)
    if not is_digested:
        # More values than a narrow row has digests for: the record itself is compared.
        links = tuple(Subject("link", f"https://h{number}.evil.example/", "1") for number in range(80))
        report = msgspec.structs.replace(record.report, subjects=(*record.report.subjects, *links))
        record = msgspec.structs.replace(record, report=report)
    await store.messages.record(record)
    await store.quarantine.hold(record)
    for number in range(5):
        await store.messages.record(msgspec.structs.replace(base, ggrid=new_id(), completed=number))
    for text in FINDS:
        found = await store.messages.search(MessageFilter(anywhere=text))
        assert [row.ggrid for row in found.rows] == [GGRID], text
        held = await store.quarantine.search(HeldFilter(anywhere=text))
        assert [row.record.ggrid for row in held.rows] == [GGRID], text
    for text in FINDS_NOT:
        assert (await store.messages.search(MessageFilter(anywhere=text))).rows == (), text
        assert (await store.quarantine.search(HeldFilter(anywhere=text))).rows == (), text
    for text in ("bradesco@resgatepremios.example", "resgatepremios.example", "banco"):
        found = await store.messages.search(MessageFilter(evidence=Evidence(header_from=text)))
        assert [row.ggrid for row in found.rows] == [GGRID], text
    assert (await store.messages.search(MessageFilter(recipient="user149@many.example"))).rows


async def test_pages_of_several_meanings_have_every_message_once(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is sender, recipient and link host in turn; pages are merged in the order of time, also where the budget of
    one query ends before those of the others."""
    base = new_record()
    monkeypatch.setattr(paging, "ROW_BUDGET", 7)

    expected = []
    for number in range(40):
        links = (Subject("link", "https://x.example/", "1"),) if number % 4 == 2 else ()
        envelope = Envelope(
            "a@x.example" if number % 4 == 0 else "a@y.example",
            ("b@x.example",) if number % 4 == 1 else ("b@z.example",),
        )
        report = msgspec.structs.replace(base.report, subject="s", senders=(), subjects=links, files=())
        record = msgspec.structs.replace(
            base, ggrid=new_id(), completed=1_000 + number, envelope=envelope, report=report
        )
        await store.messages.record(record)
        if number % 4 != 3:
            expected.append(record.ggrid)
    wanted, before, found = MessageFilter(anywhere="x.example"), None, []
    for _ in range(60):
        page = await store.messages.search(wanted, before, 3)
        found += [row.ggrid for row in page.rows]
        before = page.next
        if before is None:
            break
    assert found == expected[::-1]
    monkeypatch.setattr(paging, "ROW_BUDGET", 30_000)
    count = await store.messages.count(wanted)
    assert (count.messages, count.more) == (30, False)
    assert (await store.messages.count(MessageFilter(sender="y.example"))).messages == 30


async def test_counting_ends(store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    base = new_record()
    assert paging.MAX_COUNTED == 10_000
    monkeypatch.setattr("gatepost.store.messages.MAX_COUNTED", 5)

    for number in range(9):
        await store.messages.record(msgspec.structs.replace(base, ggrid=new_id(), completed=number))
    count = await store.messages.count(MessageFilter())
    assert (count.messages, count.more) == (5, True)


@pytest.mark.parametrize(
    "text", ["", " ", "@", "<>", "*", "a" * 10_000, "\0", "\ud800", "::::", "[::1", "http://", "💥 x"]
)
def test_any_text_means_something_or_nothing(text: str) -> None:
    assert parse_term(text) == parse_term(text)
