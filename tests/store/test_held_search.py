"""Looking through held mail on both engines."""

import asyncio
import random
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from tests.store.conftest import NewRecord

from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.policy.rules import Verdict
from gatepost.store import held_search, open_store, paging, quarantine
from gatepost.store.audit import CLI
from gatepost.store.engine import Read, Work
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.quarantine import HeldCounts
from gatepost.store.search_conditions import prepare_filter
from gatepost.store.search_language import SearchFault, SearchPlace, parse_search
from gatepost.store.sqlite import open_file, run_work
from gatepost.store.store import Store

T = TypeVar("T")
MINE, THEIRS = new_id(), new_id()


def mail(
    base: MessageRecord, tenant: str | None, sender: str, recipients: tuple[str, ...], subject: str, score: int
) -> MessageRecord:
    verdict: Verdict = "spam" if score < 800 else "phishing"
    report = msgspec.structs.replace(base.report, subject=subject, score=score, verdict=verdict)
    envelope = Envelope(sender, recipients, tenant=tenant)
    return msgspec.structs.replace(base, ggrid=new_id(), envelope=envelope, report=report)


async def all_of(store: Store, wanted: HeldFilter, limit: int) -> list[str]:
    found: list[str] = []
    before = None
    for _ in range(500):
        page = await store.quarantine.search(wanted, before, limit)
        found += [held.record.ggrid for held in page.rows]
        before = page.next
        assert before is not None or page.reached is None
        if before is None:
            return found
    raise AssertionError("it does not end")


def fits(record: MessageRecord, released: bool, wanted: HeldFilter) -> bool:
    sender, recipients = record.envelope.sender, record.envelope.recipients
    return (
        released == wanted.released
        and wanted.tenant in (None, record.envelope.tenant)
        and wanted.verdict in (None, record.report.verdict)
        and (wanted.sender is None or sender == wanted.sender or sender.endswith(f"@{wanted.sender}"))
        and (
            wanted.recipient is None
            or any(each == wanted.recipient or each.endswith(f"@{wanted.recipient}") for each in recipients)
        )
        and (wanted.subject is None or wanted.subject.lower() in record.report.subject.lower())
        and (wanted.score is None or record.report.score >= wanted.score)
    )


@pytest.mark.parametrize("seed", range(2))
async def test_every_message_once_and_in_order(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(paging, "ROW_BUDGET", 5)
    chance = random.Random(seed)
    base = new_record()
    records = [
        mail(
            base,
            chance.choice((None, MINE, THEIRS)),
            chance.choice(("a@x.example", "b@x.example", "a@y.example")),
            tuple(chance.sample(("r@y.example", "s@y.example", "t@z.example"), chance.randrange(1, 4))),
            chance.choice(("Grüße von uns", "Invoice")),
            chance.randrange(600, 1_000),
        )
        for _ in range(40)
    ]

    gone = set()
    for record in records:
        await store.quarantine.hold(record)
        if chance.random() < 0.3:
            await store.quarantine.mark_released(record.ggrid, record.envelope.recipients, CLI)
            gone.add(record.ggrid)
    for _ in range(25):
        wanted = HeldFilter(
            tenant=chance.choice((None, MINE)),
            verdict=chance.choice((None, None, "spam")),
            sender=chance.choice((None, None, "a@x.example", "x.example")),
            recipient=chance.choice((None, None, "r@y.example", "y.example")),
            since=chance.choice((None, 5)),
            released=chance.choice((False, False, True)),
            until=chance.choice((None, 1 << 50)),
            subject=chance.choice((None, "GRÜSSE", "invoice")),
            score=chance.choice((None, 700)),
        )
        said = msgspec.structs.replace(wanted, subject="grüße" if wanted.subject == "GRÜSSE" else wanted.subject)
        expected = [each.ggrid for each in reversed(records) if fits(each, each.ggrid in gone, said)]
        assert await all_of(store, wanted, chance.randrange(1, 7)) == expected, wanted
        count = await store.quarantine.count(wanted)
        assert count.messages == len(expected) or (count.more and count.messages < len(expected)), wanted
    assert await all_of(store, HeldFilter(until=5), 10) == []
    assert await all_of(store, HeldFilter(since=1 << 50, sender="x.example"), 10) == []
    mine = [each for each in records if each.ggrid not in gone and each.envelope.tenant == MINE]
    spam = sum(each.report.verdict == "spam" for each in mine)
    assert await store.quarantine.counts(MINE.upper()) == HeldCounts(
        len(mine), {"phishing": len(mine) - spam, "spam": spam}
    )
    assert (await store.quarantine.counts()).messages == len(records) - len(gone)


async def test_an_id_or_its_beginning_is_found_however_old(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.store.quarantine.EXAMINED", 3)
    base, moment = new_record(), 1_700_000_000_000_000_000
    ids = [new_id(moment + step * 1_000_000) for step in range(8)]
    records = [
        msgspec.structs.replace(mail(base, MINE if place % 2 else THEIRS, "a@x.example", ("b@y.example",), "Hi", 700))
        for place in range(8)
    ]

    for uid, record in zip(ids, records, strict=True):
        await store.quarantine.hold(msgspec.structs.replace(record, ggrid=uid))
    for _ in range(5):
        await store.quarantine.hold(new_record(new_id()))
    mine = [uid for uid in ids[::-1] if ids.index(uid) % 2]
    for wanted, expected in (
        (HeldFilter(anywhere=ids[0]), ids[:1]),
        (HeldFilter(anywhere=ids[0], tenant=MINE), []),
        (HeldFilter(anywhere=ids[0][:8]), ids[::-1]),
        (HeldFilter(anywhere=ids[0][:8], tenant=MINE), mine),
        (HeldFilter(anywhere=ids[0][:8], verdict="phishing"), []),
        (HeldFilter(anywhere=ids[0][:8], recipient="b@y.example"), ids[::-1]),
        (HeldFilter(anywhere=ids[0][:8], deleted=True), []),
        (HeldFilter(anywhere="ffffffff"), []),
    ):
        for limit in (2, 100):
            assert await all_of(store, wanted, limit) == expected, (wanted, limit)


async def test_nonsense_for_a_cursor(store: Store, new_record: NewRecord) -> None:
    await store.quarantine.hold(new_record())
    for before in ("", "x", "1.", ".", "9" * 30, "\0", "²"):
        await store.quarantine.search(HeldFilter(), before)
        await store.quarantine.search(HeldFilter(sender="x.example"), before)
    assert await store.quarantine.counts(new_id()) == HeldCounts(0, {})


async def test_a_page_begins_after_a_message_by_its_id_even_if_that_is_gone(
    store: Store, new_record: NewRecord
) -> None:
    ids = [new_id() for _ in range(5)]
    for uid in ids:
        await store.quarantine.hold(new_record(uid))

    async def after(ggrid: str) -> list[int]:
        return [ids.index(held.record.ggrid) for held in (await store.quarantine.search(HeldFilter(), ggrid)).rows]

    assert await after(ids[3].upper()) == [2, 1, 0]
    await store.quarantine.delete(ids[3], CLI)
    assert await after(ids[3]) == [2, 1, 0]
    assert await after(new_id()) == [4, 2, 1, 0]
    assert await after("00000000-0000-7000-8000-000000000000") == []
    assert await after("nonsense") == [4, 2, 1, 0]


NOT_THERE = ("never", "host:never.example OR from:nobody OR subject:never", "user77@never.example", "file:never.pdf")


@pytest.mark.parametrize("text", NOT_THERE)
def test_what_is_not_there_costs_few_look_ups(
    tmp_path: Path, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """On SQLite, texts of a few rows are looked up one by one; then both tables are read once, in their own order."""
    monkeypatch.setattr(held_search, "QUICK_ROWS", 20)
    query = parse_search(text, SearchPlace(0))
    assert not isinstance(query, SearchFault)
    reads: list[Read] = []

    def watched(work: Work[T]) -> Work[T]:
        answer = None
        while True:
            try:
                step = work.send(answer)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            assert isinstance(step, Read)
            reads.append(step)
            answer = yield step

    async def fill() -> None:
        store = open_store("sqlite:g.db", tmp_path)
        for number in range(60):
            await store.quarantine.hold(mail(new_record(), None, "a@b.example", ("c@d.example",), f"Hello {number}", 1))
        await store.close()

    asyncio.run(fill())
    connection = open_file(tmp_path / "g.db")
    wanted = prepare_filter(HeldFilter(query=query))
    page = run_work(connection, watched(quarantine._find_page(wanted, None, 50, by_lookup=True)))
    assert (page.rows, page.next) == ((), None), "all is known"
    looked_up = [each for each in reads if "JOIN held_search" in each.statement and " OFFSET " not in each.statement]
    assert [each.parameters[1] for each in looked_up] == [20], "rows whose texts are looked up"
    *_, last = reads
    plan = [
        str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {last.statement.sqlite}", list(last.parameters))
    ]
    assert [line for line in plan if "SEARCH t" in line] == [], plan
    assert sum(line.startswith("SCAN t") for line in plan) == 1, "texts are read once"
    assert sum("SEARCH h USING COVERING INDEX held_in_order" in line for line in plan) == 1, plan
    connection.close()
