"""Counts over nodes, on both engines: two nodes share them through storage, and what is over goes."""

import pytest

from gatepost.smtp import outbound
from gatepost.smtp.outbound import CountsOfAllNodes, HourlyLimits, LimitedSender, SenderLimits
from gatepost.store.errors import StorageError
from gatepost.store.flow_counts import FlowCount
from gatepost.store.store import Store

HOUR = 3_600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_counts_add_up_until_they_are_over(store: Store) -> None:
    counts = [FlowCount(2, 0, 3, 100), FlowCount(-1, 0, 1, 100)]
    assert await store.flow_counts.add_counts(counts, [7]) == {(2, 0): 3, (-1, 0): 1}
    assert await store.flow_counts.add_counts([FlowCount(-1, 0, 4, 100)], [2]) == {(2, 0): 3, (-1, 0): 5}
    assert await store.flow_counts.add_counts([], [2]) == await store.flow_counts.counts([2]) == {(2, 0): 3}
    assert await store.flow_counts.counts([]) == {}
    await store.flow_counts.add_counts([FlowCount(2, 50, 1, 900)], [])
    assert await store.flow_counts.purge(500) == 2
    assert await store.flow_counts.counts([2, -1]) == {(2, 50): 1}


async def test_a_sender_that_was_seen_once_is_not_written(store: Store) -> None:
    counts = CountsOfAllNodes(store.flow_counts, clock=Clock())
    for number in range(20):
        counts.add(f"made-up-{number}@x.example", "messages", 1)
    changes = store.counters().changes
    await counts.exchange()
    assert store.counters().changes == changes
    counts.add("made-up-3@x.example", "messages", 1)
    await counts.exchange()
    assert store.counters().changes == changes + 1
    assert counts.read("made-up-3@x.example", "messages") == (2, 0)


async def test_strangers_cannot_fill_the_memory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "MAX_CELLS", 100)

    clock = Clock()
    counts = CountsOfAllNodes(store.flow_counts, clock=clock)
    for number in range(500):
        counts.add(f"made-up-{number}@x.example", "messages", 2)
    assert counts.size <= 100
    assert counts.read("made-up-499@x.example", "messages") == (2, 0)
    clock.now += 2 * HOUR
    await counts.exchange()
    assert counts.size == 0


async def test_while_storage_is_away_each_process_goes_by_its_own_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    counts = CountsOfAllNodes(store.flow_counts, clock=clock)

    async def fail(*_: object) -> None:
        raise StorageError("away")

    counts.add("a@x.example", "messages", 3)
    with monkeypatch.context() as away:
        away.setattr(store.flow_counts, "add_counts", fail)
        away.setattr(store.flow_counts, "counts", fail)
        await counts.exchange()
        assert counts.read("a@x.example", "messages") == (3, 0)
    counts.add("a@x.example", "messages", 1)
    await counts.exchange()
    other = CountsOfAllNodes(store.flow_counts, clock=clock)
    other.read("a@x.example", "messages")
    await other.exchange()
    assert other.read("a@x.example", "messages") == (4, 0), "what was counted meanwhile is not lost"


async def test_senders_of_outbound_mail_are_counted_over_all_nodes(store: Store) -> None:
    """Two nodes with one storage: what one counts, the other one knows after a second; the hour before counts too."""
    clock, told = Clock(), list[LimitedSender]()
    nodes = [CountsOfAllNodes(store.flow_counts, clock=clock) for _ in range(2)]
    most = HourlyLimits(messages=10, recipients=50, refused=5)
    first, second = (SenderLimits(most, each, tell=told.append) for each in nodes)
    for _ in range(6):
        first.count("a@x.example", messages=1, recipients=2)
        second.count("a@x.example", messages=1, recipients=1)
    assert (first.check("a@x.example"), second.check("a@x.example")) == (None, None)
    for _ in range(2):
        for each in nodes:
            await each.exchange()
        # What was learned is believed for some seconds, and asked for again by the next message.
        clock.now += 6
        for node in (first, second):
            node.check("a@x.example")
    for node in (first, second):
        found = node.check("a@x.example")
        assert found is not None
        assert (found.limit, found.count) == ("messages", 12)
        assert node.check("b@x.example") is None
    clock.now += HOUR * 1.2  # about nine of the twelve lie within the last sixty minutes
    first.check("a@x.example")
    await nodes[0].exchange()
    assert first.check("a@x.example") is None
    first.count("a@x.example", messages=1)
    assert first.check("a@x.example")
    # A restart of a node forgets nothing that was written.
    again = CountsOfAllNodes(store.flow_counts, clock=clock)
    third = SenderLimits(most, again)
    third.check("a@x.example")
    await nodes[0].exchange()
    await again.exchange()
    third.count("a@x.example", messages=1)
    assert third.check("a@x.example")
