"""Snapshots of lists: packed once for all messages of a version, small, and gone when the last message has ended."""

import asyncio
import gc
import weakref
from typing import Any

import msgspec
import pytest
from tests.own_names import replace_in

from gatepost.guard.answers import lists as list_answers
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.dns import Resolver
from gatepost.guard.answers.lists import ListAnswers
from gatepost.guard.service import Guard
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME, make_custom_list
from gatepost.lists.entries import UnkeyedEntry
from gatepost.lists.unkeyed import UnkeyedLists, compile_lists, pack_lists
from gatepost.mail.message import Envelope
from gatepost.policy.rules import shipped_policy
from gatepost.process.background_work import MAX_REST_SECONDS, BackgroundWork
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import BytesBody
from gatepost.settings.keys import GuardSettings
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry
from gatepost.store.store import Store
from gatepost.workers.fair_queue import FairQueue
from gatepost.workers.pool import PoolSettings, WorkerPool

PHRASES = BY_NAME["blocked-phrases"]
RAW = b"From: a@sender.example\r\nSubject: Hello\r\n\r\nPlease wire it today.\r\n"


def test_what_is_packed_is_what_is_compiled() -> None:
    source = UnkeyedLists(
        "v",
        {
            "blocked-phrases": (
                UnkeyedEntry("blocked-phrases", "global", "wire it", "wire it"),
                UnkeyedEntry("mine", "tenant", "a", "aa"),
            ),
            "own-domains": (UnkeyedEntry("own-domains", "tenant", "own.example", "own.example"),),
            "partner-domains": (UnkeyedEntry("partner-domains", "tenant", "bank.example", "bank.example"),),
            "protected-people": (UnkeyedEntry("protected-people", "global", "ann <a@x.example>", "Ann <a@x.example>"),),
            "trusted-relays": (UnkeyedEntry("trusted-relays", "global", "192.0.2.0/24", "192.0.2.0/24"),),
        },
        custom={"tenant:mine": "blocked-phrases"},
        keyed=("url",),
    )
    assert compile_lists(pack_lists(source)).source == source
    assert compile_lists(pack_lists(UnkeyedLists())).source == UnkeyedLists()


async def test_packed_once_for_all_messages_of_a_version(store: Store) -> None:
    lists = ListAnswers(store)
    entries = [NewEntry(f"phrase {number}", f"phrase {number}", "c" * 1_000) for number in range(500)]
    await store.lists.add(None, PHRASES, entries, CLI)
    tenants = [None, None, new_id(), None]
    found = await asyncio.gather(*(lists.snapshot(tenant) for tenant in tenants * 10))
    assert lists.packed == 2, "one for each scope that was asked for"
    assert all(each.data is found[0].data for each in found if each.key == found[0].key)
    assert len(found[0].data) < 500 * 20, "comments stay here"
    await store.lists.add(None, PHRASES, [NewEntry("one more", "one more")], CLI)
    again = await asyncio.gather(*(lists.snapshot(None) for _ in range(10)))
    assert lists.packed == 3
    assert {each.version for each in again} != {found[0].version}


async def test_lists_that_change_all_the_time_are_loaded_once_for_all_who_wait(store: Store) -> None:
    """A message needs what held when it came, not what was changed while others loaded."""
    lists = ListAnswers(store)
    await lists.snapshot(None)
    read, began, go_on = store.list_lookup.unkeyed, asyncio.Event(), asyncio.Event()

    async def read_slowly(tenant: str | None) -> UnkeyedLists:
        found = await read(tenant)
        began.set()
        await go_on.wait()
        return found

    store.list_lookup.unkeyed = read_slowly  # type: ignore[method-assign]
    await store.lists.add(None, PHRASES, [NewEntry("first", "first")], CLI)
    early = asyncio.ensure_future(lists.snapshot(None))
    await began.wait()
    await store.lists.add(None, PHRASES, [NewEntry("second", "second")], CLI)
    ask, asked = store.list_lookup.unkeyed_version, asyncio.Semaphore(0)

    async def ask_and_count(tenant: str | None) -> str:
        version = await ask(tenant)
        asyncio.get_running_loop().call_soon(asked.release)  # when the caller waits for the load
        return version

    store.list_lookup.unkeyed_version = ask_and_count  # type: ignore[method-assign]
    late = [asyncio.ensure_future(lists.snapshot(None)) for _ in range(20)]
    for _ in range(2):  # the first of them, and one that began when all had come
        await asked.acquire()
    go_on.set()
    assert b"second" not in (await early).data
    assert all(b"second" in each.data for each in await asyncio.gather(*late))
    assert lists.packed == 3, "the first of all, the early one, and one for all late ones"


async def test_loads_rest_while_much_mail_comes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    own = BackgroundWork()
    monkeypatch.setattr(list_answers, "background", own)
    replace_in(monkeypatch, list_answers, "asyncio", sleep=sleep)
    lists = ListAnswers(store)
    for number in range(3):
        await store.lists.add(None, PHRASES, [NewEntry(f"phrase {number}", f"phrase {number}")], CLI)
        for _ in range(100 if number else 0):
            own.note_mail()
        await lists.snapshot(None)
    assert lists.packed == 3
    assert len(slept) == 2, "the first load waits for nobody"
    assert all(seconds <= MAX_REST_SECONDS for seconds in slept)


async def test_comments_are_added_and_nothing_stays_behind(store: Store) -> None:
    """With real workers, and without the garbage collector: each message and each snapshot is freed when it ends."""

    async def scan(guard: Guard, alive: list[Any]) -> ScanResult:
        body = BytesBody(RAW)
        alive.append(weakref.ref(body))
        envelope = Envelope("a@sender.example", ("b@rcpt.example",))
        result = await guard.scan(ScanRequest(new_id(), 1, envelope), body)
        assert isinstance(result, ScanResult)
        return result

    answerer = Answerer(Resolver(["127.0.0.1:9"], 0.2))
    pool = WorkerPool(PoolSettings(1, 60.0, 20.0, 1 << 30), answerer.answer, shipped_policy())
    guard = Guard(GuardSettings(), store, pool, answerer, FairQueue(20, 20, 5.0))
    await guard.start()
    mine = make_custom_list("mine", "phrase", "policy", "Mine", "", 10)
    await store.lists.create(None, mine, CLI)
    await store.lists.add(None, mine, [NewEntry("wire it today", "wire it today", "INC-7")], CLI)
    alive: list[Any] = []
    gc.collect()
    gc.disable()
    try:
        for number in range(5):
            result = await scan(guard, alive)
            notes = [(note.list, note.entry, note.comment) for note in result.report.lists]
            assert notes == [("mine", "wire it today", "INC-7")]
            record = await store.messages.find(result.ggrid)
            assert record
            assert record.report == result.report
            await store.lists.add(None, PHRASES, [NewEntry(f"other {number}", f"other {number}")], CLI)
        await asyncio.gather(*(scan(guard, alive) for _ in range(3)))
        # The last answers of the loop's own callbacks.
        await asyncio.sleep(0)
        assert [reference() for reference in alive] == [None] * len(alive)
    finally:
        gc.enable()
    await guard.stop()


async def test_a_report_without_hits_costs_no_statement(store: Store) -> None:
    from gatepost.analysis.report import ListNote, Report

    lists = ListAnswers(store)
    report = Report(
        "policy", "quarantine", (), 0, "x", lists=(ListNote("blocked-urls", "global", "a", "blocked", "1"),)
    )
    await store.close()
    # Storage is closed: a statement would fail.
    assert await lists.with_comments(None, report) is report
    assert await lists.with_comments(None, msgspec.structs.replace(report, lists=())) is not None
