"""Flow control on both engines: two nodes share counts and greylisting through storage, and what is over goes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.process.node_memory import LocalRecords
from gatepost.settings.scan_sources import FlowControlSettings
from gatepost.smtp.client import SmtpClient
from gatepost.smtp.flow_control import DeliveryAttempt, FlowControl
from gatepost.smtp.outbound import CountsOfAllNodes, HourlyLimits, LimitedSender, SenderLimits
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.flow_counts import FlowCount, LimitedNow
from gatepost.store.lists import NewEntry
from gatepost.store.store import Store

HOUR, DAY = 3_600.0, 86_400.0
Nodes = Callable[..., None]
Use = Callable[[Callable[[Store], Awaitable[None]]], None]


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Node:
    """One node with a store of its own."""

    def __init__(self, store: Store, settings: FlowControlSettings, clock: Clock) -> None:
        self.store, self.flow = store, FlowControl(settings, store.flow_counts, store.list_lookup, clock=clock)

    async def ask(self, host: str = "192.0.2.1", sender: str = "a@x.example", to: str = "b@y.example") -> str:
        said = await self.flow.check_recipient(DeliveryAttempt(SmtpClient(host), sender, to))
        return "" if said is None else f"{said.code} {said.lines[0].decode()}"

    async def flush(self) -> None:
        await self.flow.counters.flush()
        await self.flow.greylist.flush()


@pytest.fixture
def two_nodes(storage_url: str, tmp_path: Path) -> Nodes:
    def used(settings: object, scenario: Callable[[Node, Node, Clock], Awaitable[None]]) -> None:
        async def run() -> None:
            clock, read = Clock(), FlowControlSettings.model_validate(settings)
            stores = [open_store(storage_url, tmp_path) for _ in range(2)]
            try:
                one, two = (Node(store, read, clock) for store in stores)
                await scenario(one, two, clock)
            finally:
                for store in stores:
                    await store.close()

        asyncio.run(run())

    return used


def test_nodes_share_what_they_count(two_nodes: Nodes) -> None:
    async def scenario(one: Node, two: Node, clock: Clock) -> None:
        for _ in range(4):
            assert await one.ask() == ""
        await one.flush()
        assert await two.ask() == ""  # it knows only its own count, and asks for that of the others
        await two.flush()
        await two.flush()
        assert await two.ask() == "450 4.7.1 Too much mail from your host, try again later"
        assert await two.ask("192.0.2.2") == ""
        await two.flush()
        (limited,) = await one.store.flow_counts.limited_now(int(clock.now * 1_000))
        assert limited.label == "host 192.0.2.1: 5 messages in 60 minutes"
        assert two.flow.refused == {"host": 1}
        clock.now += HOUR  # the window is over
        assert await two.ask() == await one.ask() == ""
        assert await one.store.flow_counts.limited_now(int(clock.now * 1_000)) == ()
        assert await one.store.flow_counts.purge(int(clock.now * 1_000)) == 1

    two_nodes({"rateLimits": {"host": {"messages": 5}}}, scenario)


def test_a_key_that_was_seen_once_is_not_written(two_nodes: Nodes) -> None:
    async def scenario(one: Node, two: Node, _clock: Clock) -> None:
        for number in range(20):
            assert await one.ask(sender=f"made-up-{number}@x.example") == ""
        changes = one.store.counters().changes
        await one.flush()
        assert one.store.counters().changes == changes
        assert await one.ask(sender="made-up-3@x.example") == ""
        await one.flush()
        assert one.store.counters().changes == changes + 1

    two_nodes({"rateLimits": {"sender": {"messages": 5}}}, scenario)


def test_nodes_share_greylisting(two_nodes: Nodes) -> None:
    async def scenario(one: Node, two: Node, clock: Clock) -> None:
        assert await one.ask() == "450 4.7.1 Greylisted, try again in 300 seconds"
        await one.flush()
        clock.now += 60
        assert await two.ask("192.0.2.200") == "450 4.7.1 Greylisted, try again in 240 seconds"  # the same /24
        assert (await two.ask("192.0.3.1")).startswith("450")
        clock.now += 300
        assert await two.ask() == ""
        await two.flush()
        asked = one.flow.greylist.looked_up
        assert (
            await one.ask(sender="a+verp-17@x.example", to="B@y.example")
            == "450 4.7.1 Greylisted, try again in 300 seconds"
        )
        assert await two.ask() == await two.ask() == ""
        assert two.flow.greylist.looked_up == 2  # one for each triplet
        assert one.flow.greylist.looked_up == asked + 1
        clock.now += 37 * DAY  # nobody has come for longer than passDays
        assert (await two.ask()).startswith("450")

    two_nodes({"greylisting": {}}, scenario)


def test_a_network_passes_once_enough_of_its_senders_have(two_nodes: Nodes) -> None:
    async def scenario(one: Node, two: Node, clock: Clock) -> None:
        for sender in ("a@x.example", "b@x.example"):
            assert (await one.ask(sender=sender)).startswith("450")
        await one.flush()
        clock.now += 301
        for sender in ("a@x.example", "b@x.example"):
            assert await one.ask(sender=sender) == ""
        await one.flush()
        assert await two.ask("192.0.2.77", "new@z.example") == ""
        assert (await two.ask("198.51.100.1", "new@z.example")).startswith("450")

    two_nodes({"greylisting": {"passAfter": 2}}, scenario)


def test_a_retry_that_comes_too_late_is_a_first_attempt(two_nodes: Nodes) -> None:
    async def scenario(one: Node, two: Node, clock: Clock) -> None:
        assert (await one.ask()).startswith("450")
        await one.flush()
        clock.now += 3 * HOUR
        for node in (one, two):
            assert await node.ask() == "450 4.7.1 Greylisted, try again in 300 seconds"
            await node.flush()
        clock.now += 301
        assert await two.ask() == ""

    two_nodes({"greylisting": {"retryHours": 2}}, scenario)


def test_lists_exempt_hosts_and_senders(two_nodes: Nodes) -> None:
    async def scenario(one: Node, _two: Node, _clock: Clock) -> None:
        for name, entry in (("allowed-ips", "192.0.2.0/24"), ("allowed-senders", "friend.example")):
            await one.store.lists.add(None, BY_NAME[name], [NewEntry(entry, entry)], CLI)
        assert await one.ask() == ""
        assert (await one.ask("198.51.100.1")).startswith("450")
        assert await one.ask("198.51.100.1", "joe@friend.example") == ""

    two_nodes({"greylisting": {}}, scenario)


def test_counts_add_up_and_labels_stay(use: Callable[[Callable[[Store], Awaitable[None]]], None]) -> None:
    async def scenario(store: Store) -> None:
        counts = [FlowCount(2, 0, 3, 100), FlowCount(-1, 0, 1, 100, "host x")]
        assert await store.flow_counts.add_counts(counts, [7]) == {(2, 0): 3, (-1, 0): 1}
        assert await store.flow_counts.add_counts([FlowCount(-1, 0, 4, 100)], [2]) == {(2, 0): 3, (-1, 0): 5}
        assert await store.flow_counts.add_counts([], [2]) == await store.flow_counts.counts([2]) == {(2, 0): 3}
        assert await store.flow_counts.limited_now(50) == (LimitedNow("host x", 5, 100),)
        assert await store.flow_counts.counts([]) == {}
        await store.flow_counts.record_greylist({1: (10, 200)}, {2: (10, 1, 300)})
        await store.flow_counts.record_greylist({1: (20, 900)}, {2: (20, 1, 250)})
        entries = await store.flow_counts.greylist_entries([1, 2, 3], 100)
        assert (entries[1].first, entries[1].expires) == (10, 200)  # the first time counts
        assert (entries[2].passed, entries[2].expires) == (2, 300)
        assert await store.flow_counts.greylist_size(10) == 2
        assert await store.flow_counts.greylist_size(1) == 1
        assert await store.flow_counts.greylist_entries([1, 2], 250) == {2: entries[2]}
        await store.flow_counts.record_greylist({1: (260, 900)}, {})
        assert (await store.flow_counts.greylist_entries([1], 300))[1].first == 260  # what was over begins anew
        assert await store.flow_counts.purge(500) == 3
        assert await store.flow_counts.greylist_size(10) == 1

    use(scenario)


def test_a_tenant_has_its_own_limits(storage_url: str, tmp_path: Path) -> None:
    tenant, other = new_id(), new_id()
    settings = FlowControlSettings.model_validate(
        {"rateLimits": {"sender": {"messages": 1}}, "tenants": {tenant: {"rateLimits": {"sender": {"messages": 2}}}}}
    )

    async def run() -> None:
        store = open_store(storage_url, tmp_path)
        flow = FlowControl(settings, store.flow_counts, store.list_lookup, clock=Clock())

        async def taken(uid: str | None) -> int:
            asked = DeliveryAttempt(SmtpClient("192.0.2.1"), "a@x.example", "b@y.example", uid)
            return [await flow.check_recipient(asked) for _ in range(4)].count(None)

        try:
            assert [await taken(uid) for uid in (tenant, other, None, tenant)] == [2, 1, 1, 0]
        finally:
            await store.close()

    asyncio.run(run())


def test_senders_of_outbound_mail_are_counted_over_all_nodes(use: Use) -> None:
    """Two nodes with one storage: what one counts, the other one knows after a second; the hour before counts too."""

    async def test(store: Store) -> None:
        clock, told = Clock(), list[LimitedSender]()
        nodes = [CountsOfAllNodes(store.flow_counts, clock=clock) for _ in range(2)]
        most = HourlyLimits(messages=10, recipients=50, refused=5)
        first, second = (
            SenderLimits(most, LocalRecords(9), all_nodes=each, tell=told.append, clock=clock) for each in nodes
        )
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
        third = SenderLimits(most, LocalRecords(9), all_nodes=again, clock=clock)
        third.check("a@x.example")
        await nodes[0].exchange()
        await again.exchange()
        third.count("a@x.example", messages=1)
        assert third.check("a@x.example")

    use(test)
