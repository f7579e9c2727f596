"""Searches that somebody makes up to be costly, on both engines: signs of patterns mean themselves, and every request
reads its budget of rows and no more, whatever it looks for and whatever strangers have written."""

import asyncio
from collections.abc import Iterator

import pytest

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.store import evidence, paging
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.held_search import HeldFilter
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.record_packing import Detail
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.search_language import SearchFault, SearchPlace
from gatepost.store.store import Store

BUDGET, MESSAGES = 10, 45
# What backtracks in a naive search, what is a sign of a pattern or of SQL, and what is long.
HOSTILE = (
    *(
        "a" * 450 + "b",
        "%a" * 100 + "b",
        "_" * 300,
        "%",
        "_",
        "\\",
        "\\%",
        "[a-z]",
        ".*.*.*.*b",
        "(a+)+$",
        "'",
        "''; --",
    ),
    *(
        "\0",
        "\ud800",
        "x" * 20_000,
        " ".join("a" * n + "b" for n in range(1, 40)),
        "\u0390" * 500,
        "a" * 63 + "@" + "a" * 63,
    ),
)


def filters(text: str) -> list[MessageFilter]:
    return [
        MessageFilter(subject=text),
        MessageFilter(sender=text),
        MessageFilter(sender=f"*{text}*"),
        MessageFilter(recipient=text),
        MessageFilter(recipient=f"*{text}*"),
        MessageFilter(anywhere=text),
        MessageFilter(tag=text),
        MessageFilter(next_hop_id=text),
        MessageFilter(ggrid=text),
        MessageFilter(subject=text, sender=text, recipient=text, anywhere=text, tag=text),
    ]


def made(number: int, subject: str = "a" * 900) -> MessageRecord:
    sender = f"{'a' * 60}@{'a' * 60}.example"
    report = Report("spam", "quarantine", ("text:lure",), 1, "r", subject=subject, senders=(sender,))
    envelope = Envelope(sender, (f"{'a' * 60}@rcpt.example",))
    return MessageRecord(new_id(), 1, number, envelope, 5, "ab" * 32, report)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
async def test_every_request_reads_its_budget(store: Store, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(paging, "ROW_BUDGET", BUDGET)

    await asyncio.gather(*(store.messages.record(made(number)) for number in range(1, MESSAGES)))
    for wanted in filters(text):
        before, pages = None, 0
        while True:
            page = await store.messages.search(wanted, before, 50)
            pages += 1
            assert page.rows == (), wanted
            # A request that would read on without end has no end here either.
            assert pages <= MESSAGES // BUDGET + 2, wanted
            before = page.next
            if before is None:
                break


@pytest.mark.parametrize("sign", ["100%", "a_b", "back\\slash", "[x]", "it's"])
async def test_signs_of_patterns_mean_themselves(store: Store, sign: str) -> None:
    named = made(1, f"about {sign} of it")
    others = [made(number, "about 100 axb backslash x its of it") for number in range(2, 9)]
    await asyncio.gather(*map(store.messages.record, [named, *others]))
    found = await store.messages.search(MessageFilter(subject=sign))
    assert [row.ggrid for row in found.rows] == [named.ggrid]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
async def test_other_searches_take_any_text(store: Store, text: str) -> None:
    """Held mail, the audit trail and entries of lists: nothing is found, and nothing fails."""
    await store.quarantine.hold(made(1))
    await store.lists.add(None, BY_NAME["blocked-senders"], [NewEntry("q@x.example", "q@x.example", "why")], CLI)
    for held in (HeldFilter(sender=text), HeldFilter(recipient=text), HeldFilter(subject=text)):
        assert (await store.quarantine.search(held)).rows == (), held
    for audit in (AuditFilter(actor=text), AuditFilter(action=text)):
        assert (await store.audit.page(audit)).rows == (), audit
    await store.lists.page(None, "blocked-senders", prefix=text)
    await store.lists.page(None, "blocked-senders", part=text)


def test_the_values_of_a_record_are_collected_once_for_all_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of forty terms over messages with thousands of links was forty times what it is for one."""
    collected = []
    listed = evidence._list_values

    def note(detail: Detail) -> Iterator[tuple[evidence.EvidenceKind, str]]:
        collected.append(detail)
        return listed(detail)

    monkeypatch.setattr(evidence, "_list_values", note)
    links = tuple(Subject("link", f"https://h{number}.example/", "") for number in range(50))
    report = Report("clean", "deliver", (), 0, "", subjects=links)
    details = [Detail(Envelope("a@b.example", ("c@d.example",)), report) for _ in range(2)]
    for detail in details:
        for term in range(40):
            assert evidence.has_any_evidence(detail, [("link", f"h{term}.example")])
            assert not evidence.has_any_evidence(detail, [("link", f"x{term}.example")])
    assert [id(each) for each in collected] == [id(each) for each in details]


async def test_campaigns_are_few_conditions(store: Store) -> None:
    """Each has a dozen conditions of its own: forty would be five hundred for each record."""
    records = [made(number) for number in range(1, 8)]
    await asyncio.gather(*map(store.messages.record, records))
    for ids, taken in ((records[:4], True), (records[:5], False), (records[:1] * 40, False)):
        for word in (" OR ", " ", " NOT "):
            text = word.join(f"campaign:{each.ggrid}" for each in ids)
            found = await store.messages.read_search(text, SearchPlace(1), None)
            assert isinstance(found, SearchFault) is not taken, text
            if isinstance(found, SearchFault):
                assert found.message == "A search has at most 4 campaigns."
                assert text[found.start : found.end].startswith("campaign:")
