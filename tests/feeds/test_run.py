"""Runs of feeds on both engines: what they add and remove, what they leave alone, what they refuse, and the lock."""

import asyncio
import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.feeds.running import keys, ran

from gatepost.analysis.report import Report
from gatepost.feeds import run as feed_run
from gatepost.feeds.run import FeedBusy, FeedRunner, RunOptions
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME, make_custom_list
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.policy.layers import unchanged_policies
from gatepost.settings.feeds import FeedSettings
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.feeds import FEED
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.times import now

Feed = Callable[..., FeedSettings]
URLS = BY_NAME["blocked-urls"]
DAY = 86_400_000

pytestmark = pytest.mark.process
on_sqlite = pytest.mark.parametrize("storage_url", ["sqlite"], indirect=True)


async def deliver(store: Store, link: str, age: int = 0, tenant: str | None = None, decision: Any = "deliver") -> str:
    """Put a message on record that was delivered some days ago."""
    report = Report("clean", decision, (), 0, "", subject="Invoice", subjects=(Subject("link", link, "html"),))
    envelope = Envelope("a@x.example", ("bob@rcpt.example", "eve@rcpt.example"), tenant=tenant)
    moment = now() - age * DAY
    record = MessageRecord(new_id(), moment, moment, envelope, 1, "00" * 32, report)
    await store.messages.record(record)
    return record.ggrid


async def test_a_feed_fills_its_list_and_keeps_it_current(
    store: Store, runner: FeedRunner, served: Any, feed: Feed
) -> None:
    served.say("/list", "a.example\nb.example\nhand.example\nbad one!\n", ETag='"1"')
    await store.lists.add(None, URLS, [NewEntry("hand.example", "hand.example", "mine")], CLI)
    first = await ran(runner, feed())
    assert (first.result, first.counts.added, first.counts.kept, first.counts.invalid) == ("changed", 2, 1, 1)
    entries = {entry.key: entry for entry in (await store.lists.page(None, "blocked-urls")).rows}
    assert {key: entry.modified_by for key, entry in entries.items()} == {
        "a.example": "feed:test",
        "b.example": "feed:test",
        "hand.example": "cli",
    }
    assert entries["a.example"].comment.startswith("test, 20")
    # The source says that nothing has changed: nothing is read.
    second = await ran(runner, feed())
    assert (second.result, second.counts.added, second.counts.entries) == ("unchanged", 0, 3)
    assert served.seen("if-none-match") == ["", '"1"']
    # Somebody takes an entry over; the feed drops all but one, which is more than it may.
    await store.lists.add(None, URLS, [NewEntry("b.example", "b.example", "mine now")], CLI)
    served.say("/list", "c.example\na.example\n", ETag='"2"')
    third = await ran(runner, feed())
    assert (third.counts.added, third.counts.removed) == (1, 0)
    assert await keys(store) == ["a.example", "b.example", "c.example", "hand.example"]
    served.say("/list", "c.example\n", ETag='"3"')
    fourth = await ran(runner, feed())
    assert (fourth.counts.added, fourth.counts.removed) == (0, 1)
    assert await keys(store) == ["b.example", "c.example", "hand.example"]
    trail = [(each.actor.label, each.action) for each in (await store.audit.page(AuditFilter())).rows]
    assert ("feed:test", "feed.run") in trail
    assert ("feed:test", "entries.delete") in trail


@pytest.mark.variant
async def test_what_vanished_can_expire_later(store: Store, runner: FeedRunner, served: Any, feed: Feed) -> None:
    settings = feed(keep_vanished=3)
    served.say("/list", "a.example\nb.example\n")
    await ran(runner, settings)
    served.say("/list", "a.example\n")
    outcome = await ran(runner, settings)
    assert (outcome.counts.removed, outcome.counts.expiring) == (0, 1)
    (_, vanished) = (await store.lists.page(None, "blocked-urls")).rows
    assert vanished.key == "b.example"
    assert vanished.expires is not None
    assert 2 * DAY < vanished.expires - now() <= 3 * DAY
    again = await ran(runner, settings)
    assert again.result == "unchanged"
    assert (await store.lists.find(None, "blocked-urls", ("b.example",)))[0].expires == vanished.expires
    # It comes back, and lasts.
    served.say("/list", "a.example\nb.example\n")
    assert (await ran(runner, settings)).counts.updated == 1
    assert (await store.lists.find(None, "blocked-urls", ("b.example",)))[0].expires is None


@on_sqlite
async def test_what_is_not_plausible_changes_nothing(store: Store, runner: FeedRunner, served: Any, feed: Feed) -> None:
    served.say("/list", "a.example\nb.example\nc.example\n")
    await ran(runner, feed())
    everything = await keys(store)
    for body, words in (
        ("a.example\n", "has lost 2 of its 3 entries"),
        ("", "has lost 3 of its 3 entries"),
        ("<!doctype html>\n<p>Sorry!</p>\na.example\n", "2 of 3 values are no entries"),
        ("\n".join(f"h{number}.example" for number in range(11)), "more than 10 entries"),
    ):
        served.say("/list", body)
        outcome = await ran(runner, feed(max_entries=10))
        assert outcome.result == "refused"
        assert words in outcome.message
        assert await keys(store) == everything
    state = await store.feeds.state("test")
    assert (state.record.failures, state.record.result, state.record.counts.entries) == (4, "refused", 3)
    assert (await store.jobs.find(FEED, "test")).holder == ""
    served.say("/list", "x", 503)
    assert (await ran(runner, feed())).result == "failed"
    # The operator looks, and accepts it once.
    served.say("/list", "a.example\n")
    assert (await ran(runner, feed(), dry_run=True)).result == "refused"
    assert (await ran(runner, feed(), force=True)).counts.removed == 2
    assert await keys(store) == ["a.example"]
    assert (await store.feeds.state("test")).record.failures == 0


@on_sqlite
async def test_a_source_that_is_too_slow(store: Store, runner: FeedRunner, served: Any, feed: Feed) -> None:
    served.say("/list", "a.example\n")
    served.gate = threading.Event()
    outcome = await ran(runner, feed(timeout=200))
    assert outcome.result == "failed"
    assert "timeout" in outcome.message
    assert await keys(store) == []


@on_sqlite
async def test_a_full_list_and_a_list_that_is_not_there(
    store: Store, runner: FeedRunner, served: Any, feed: Feed
) -> None:
    served.say("/list", "a.example\nb.example\n")
    await store.lists.create(None, make_custom_list("small", "url", "block", "", "", 1), CLI)
    full = await ran(runner, feed(list_name="small"))
    assert full.result == "refused"
    assert "0 of at most 1 entries" in full.message
    assert await keys(store, "small") == []
    assert "no list own-feed" in (await ran(runner, feed(list_name="own-feed"))).message
    assert "no tenant" in (await ran(runner, feed(tenant=new_id()))).message


@on_sqlite
async def test_a_dry_run_changes_nothing(store: Store, runner: FeedRunner, served: Any, feed: Feed) -> None:
    await deliver(store, "https://a.example/x")
    served.say("/list", "a.example\nb.example\n")
    outcome = await ran(runner, feed(), dry_run=True)
    assert (outcome.result, outcome.counts.added) == ("changed", 2)
    assert outcome.look_back is not None
    assert outcome.look_back.found == 1
    assert await keys(store) == []
    assert await store.feeds.states() == ()
    assert await store.look_backs.of_list(None, "blocked-urls") == ()


@pytest.mark.variant
async def test_more_entries_than_a_call_takes(store: Store, served: Any, feed: Feed) -> None:
    steps: list[tuple[int, int]] = []
    counting = FeedRunner(store, unchanged_policies(), lambda done, total: steps.append((done, total)))
    served.say("/list", "".join(f"h{number}.example\n" for number in range(1_200)))
    assert (await ran(counting, feed())).counts.added == 1_200
    assert steps == [(500, 1_200), (1_000, 1_200), (1_200, 1_200)]
    served.say("/list", "".join(f"h{number}.example\n" for number in range(600, 1_200)))
    assert (await ran(counting, feed())).counts.removed == 600
    assert [state.size for state in await store.lists.all(None) if state.definition is URLS] == [600]
    assert await counting.clear("test", None, "blocked-urls") == 600


async def test_one_process_runs_a_feed_at_a_time(
    store: Store, runner: FeedRunner, served: Any, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.say("/list", "a.example\n")
    other = await store.jobs.hold(FEED, "test", "other:1:x", now() + 60_000)
    assert other
    busy = await runner.run(feed())
    assert isinstance(busy, FeedBusy)
    assert busy.holder == "other:1:x"
    assert served.requests == []
    assert await store.jobs.renew(other, now() - 1)
    assert not await store.jobs.renew(replace(other, holder="me"), now() + 60_000)
    # The lock of a process that died has expired.
    assert (await ran(runner, feed())).result == "changed"
    assert not await store.jobs.renew(other, now() + 60_000)
    # It has just run, so it is not due, and whoever waits for that does not run it.
    assert isinstance(await runner.run(feed(), RunOptions(only_due=True)), FeedBusy)
    state = await store.feeds.state("test")
    assert 56 * 60_000 < state.next_run - state.record.finished < 64 * 60_000
    # Another process takes the feed over while it runs: the run ends at its next call, and remembers nothing.
    monkeypatch.setattr(feed_run, "LEASE_SECONDS", -1.0)
    served.gate = threading.Event()
    served.asked.clear()
    served.say("/list", "".join(f"h{number}.example\n" for number in range(800)) + "a.example\n")
    taken = asyncio.create_task(runner.run(feed()))
    assert await asyncio.to_thread(served.asked.wait, 60)
    assert await store.jobs.hold(FEED, "test", "thief", now() + 60_000)
    served.gate.set()
    lost = await taken
    assert not isinstance(lost, FeedBusy)
    assert "took the feed over" in lost.message
    assert (await store.jobs.find(FEED, "test")).holder == "thief"


@on_sqlite
async def test_a_feed_that_moves_to_another_list(store: Store, runner: FeedRunner, served: Any, feed: Feed) -> None:
    served.say("/list", "a.example\n", ETag='"1"')
    await ran(runner, feed())
    served.say("/other", "", 500)
    assert (await ran(runner, feed("/other", list_name="blocked-senders"))).result == "failed"
    assert await keys(store) == ["a.example"]
    outcome = await ran(runner, feed(list_name="blocked-senders"))
    assert (outcome.counts.added, outcome.counts.removed) == (1, 1)
    assert await keys(store) == []
    assert await keys(store, "blocked-senders") == ["a.example"]


@on_sqlite
async def test_files_and_streams(store: Store, runner: FeedRunner, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    stated = {"name": "f", "list_name": "blocked-urls", "file": str(path)}
    settings = FeedSettings.model_validate(stated, by_name=True)
    assert "cannot be read" in (await ran(runner, settings)).message
    path.write_text("a.example\n")
    assert (await ran(runner, settings)).counts.added == 1
    assert (await ran(runner, settings)).counts.read == 1
    assert (await ran(runner, settings)).result == "unchanged"
    by_hand = FeedSettings.model_validate({"name": "s", "list_name": "blocked-senders"}, by_name=True)
    assert "standard input" in (await ran(runner, by_hand)).message
    outcome = await runner.run(by_hand, stream=io.BytesIO(b"ann@evil.example\n"))
    assert not isinstance(outcome, FeedBusy)
    assert outcome.counts.added == 1
    assert await keys(store, "blocked-senders") == ["ann@evil.example"]


async def test_looking_back_for_new_entries(store: Store, runner: FeedRunner, served: Any, feed: Feed) -> None:
    caught = await deliver(store, "https://a.example/x", age=1)
    await deliver(store, "https://fine.example/")
    await deliver(store, "https://a.example/y", age=9)
    await deliver(store, "https://a.example/held", decision="quarantine")
    served.say("/list", "a.example\nb.example\n")
    outcome = await ran(runner, feed())
    found = outcome.look_back
    assert found is not None
    assert (found.found, found.considered, found.hits) == (1, 2, ((caught, "a.example"),))
    (kept,) = await store.look_backs.of_list(None, "blocked-urls")
    assert (kept.id, kept.actor, kept.hits) == (outcome.look_back_id, "feed:test", found.hits)
    assert await store.look_backs.find(None, "blocked-urls", kept.id) == kept
    assert await store.look_backs.find(None, "blocked-senders", kept.id) is None
    (line,) = await store.messages.lines([ggrid for ggrid, _ in kept.hits])
    assert (line.ggrid, line.recipients, line.subject) == (
        caught,
        ("bob@rcpt.example", "eve@rcpt.example"),
        "Invoice",
    )
    # Entries that were there before are not looked for again.
    served.say("/list", "a.example\nb.example\nc.example\n")
    assert (await ran(runner, feed())).look_back_id is None
    assert (await ran(runner, feed(), days=0)).look_back is None
    await store.messages.purge(now() + 1)
    assert await store.messages.lines([caught]) == ()
