"""Turns between tenants among scans that wait, in one process and over several."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gatepost.abby.cores import Cores
from gatepost.abby.waiting_scans import WaitingScans
from gatepost.mail.message import Envelope
from gatepost.node_memory import NodeMemory
from gatepost.report import undecided
from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult
from gatepost.scanning.turns import STALE_SECONDS, SharedTurns, TurnCells, Turns

A, B = "0198c5a2-7c11-7d3e-9f00-00000000aa01", "0198c5a2-7c11-7d3e-9f00-00000000bb02"


class Scan:
    def __init__(self, tenant: str, ticket: int) -> None:
        self.tenant, self.ticket = tenant, ticket


def served(queue: WaitingScans[Scan]) -> list[tuple[str, int]]:
    order = []
    while (scan := queue.first()) is not None:
        queue.serve(scan)
        order.append((scan.tenant, scan.ticket))
    return order


def test_tenants_take_turns_and_each_is_served_in_order() -> None:
    queue: WaitingScans[Scan] = WaitingScans(Turns())
    for ticket in range(1, 6):
        queue.add(Scan("a", ticket))
    queue.add(Scan("b", 6))
    queue.add(Scan("b", 7))
    queue.add(Scan("", 8))
    assert served(queue) == [
        ("a", 1), ("b", 6), ("", 8), ("a", 2), ("b", 7), ("a", 3), ("a", 4), ("a", 5)
    ]  # fmt: skip
    assert not queue


def test_who_comes_during_a_flood_waits_for_one_scan_at_most() -> None:
    queue: WaitingScans[Scan] = WaitingScans(Turns())
    for ticket in range(1, 1_001):
        queue.add(Scan("a", ticket))
    for turn in range(100):
        first = queue.first()
        assert first
        queue.serve(first)
        late = Scan("b", 2_000 + turn)
        queue.add(late)
        order = []
        while late not in order:
            scan = queue.first()
            assert scan
            queue.serve(scan)
            order.append(scan)
        assert len(order) <= 2, "the next slot but one at the latest"


def test_a_scan_that_comes_back_is_first_among_its_own() -> None:
    queue: WaitingScans[Scan] = WaitingScans(Turns())
    first = Scan("a", 1)
    for scan in (first, Scan("a", 2), Scan("b", 3)):
        queue.add(scan)
    queue.serve(first)
    queue.add(first)
    assert served(queue) == [("b", 3), ("a", 1), ("a", 2)]


def test_those_who_left_are_not_served() -> None:
    queue: WaitingScans[Scan] = WaitingScans(Turns())
    scans = [Scan("a", 1), Scan("b", 2), Scan("a", 3), Scan("c", 4)]
    for scan in scans:
        queue.add(scan)
    for scan in (scans[0], scans[3], scans[3]):
        queue.discard(scan)
    assert {queue.pop(), queue.pop()} == {scans[1], scans[2]}
    assert queue.pop() is None
    assert not queue


def test_a_tenant_with_its_share_of_slots_is_passed_over() -> None:
    full = {"a"}
    queue: WaitingScans[Scan] = WaitingScans(Turns(), lambda tenant: tenant not in full)
    for scan in (Scan("a", 1), Scan("a", 2), Scan("b", 3), Scan("a", 4), Scan("b", 5)):
        queue.add(scan)
    assert served(queue) == [("b", 3), ("b", 5)]
    assert queue.first() is None
    assert queue, "its scans wait"
    full.clear()
    assert served(queue) == [("a", 1), ("a", 2), ("a", 4)]


def share(members: int) -> tuple[NodeMemory, list[SharedTurns]]:
    memory = NodeMemory(members)
    cells = TurnCells(memory)
    several = []
    for number in range(members):
        memory.member = number
        several.append(SharedTurns(cells))
    return memory, several


def test_the_turns_of_several_processes_are_those_of_one() -> None:
    memory, turns = share(3)
    queues: list[WaitingScans[Scan]] = [WaitingScans(each) for each in turns]
    alone: WaitingScans[Scan] = WaitingScans(Turns())
    comings = [("a", 0), ("a", 1), ("a", 2), ("a", 0), ("b", 1), ("c", 2), ("b", 0), ("a", 1), ("", 2)]
    for ticket, (tenant, number) in enumerate(comings, 1):
        memory.member = number
        queues[number].add(Scan(tenant, ticket))
        alone.add(Scan(tenant, ticket))
    order = []
    while any(queues):
        for number, queue in enumerate(queues):
            memory.member = number
            scan = queue.first()
            if scan and turns[number].is_next((turns[number].round_of(scan.tenant), scan.ticket)):
                queue.serve(scan)
                order.append((scan.tenant, scan.ticket))
    assert order == served(alone)


def test_bytes_that_wait_and_processes_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, (first, second) = share(2)
    memory.member = 0
    first.join("a")
    first.announce((first.round_of("a"), 5))
    first.hold(700)
    memory.member = 1
    second.hold(41)
    assert (second.held_bytes, second.others_wait, second.is_next((1, 9))) == (741, True, False)
    monkeypatch.setattr("gatepost.scanning.turns.STALE_SECONDS", -STALE_SECONDS)
    assert (second.others_wait, second.is_next((1, 9))) == (False, True), "a process that hangs is not waited for"
    monkeypatch.undo()
    memory.forget(0)
    assert (second.held_bytes, second.others_wait, second.is_next((1, 9))) == (41, False, True)


class Bytes:
    size = 10

    def read(self) -> bytes:
        return b"x" * self.size


class Client:
    def park(self) -> None:
        return None

    async def wait_until_gone(self) -> None:
        await asyncio.Event().wait()


class Core:
    """One slot, of which several abbys of a node know; a scan holds it until the test lets it go."""

    def __init__(self) -> None:
        self.name, self.enabled = "core", True
        self.inside: list[tuple[str, asyncio.Event]] = []
        self.order: list[str] = []

    async def scan(self, request: ScanRequest) -> ScanResult | Full:
        if self.inside:
            return Full(self.peek())
        done = asyncio.Event()
        self.inside.append((request.ggrid, done))
        self.order.append(request.ggrid)
        await done.wait()
        self.inside.clear()
        return ScanResult(request.ggrid, 0, 1, undecided(""))

    async def load(self, *, once_free: bool = False) -> Load:
        for _ in range(50 if once_free else 0):
            if not self.inside:
                break
            await asyncio.sleep(0.002)
        return self.peek()

    def peek(self) -> Load:
        return Load(len(self.inside), 1, 1)

    async def close(self) -> None:
        return None


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(180):
        while not condition():  # noqa: ASYNC110  what is waited for is no event
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_flood_of_one_tenant_costs_another_one_turn(processes: int) -> None:
    """Tenant A has 30 scans waiting, over all processes; a scan of B gets the next slot but one at the latest."""

    async def run() -> None:
        _memory, turns = share(processes)
        core = Core()
        abbys = [Cores([core], turns=each) for each in turns]
        for abby in abbys:
            await abby.start()

        def scan(abby: Cores, name: str, tenant: str) -> Awaitable[object]:
            request = ScanRequest(name, 0, Envelope("a@b.example", ("c@d.example",), None, None, tenant), Bytes())
            return asyncio.ensure_future(abby.scan(request, Client(), 60))

        running = [scan(abbys[number % processes], f"a{number}", A) for number in range(31)]
        await until(lambda: sum(abby.waiting for abby in abbys) == 30)
        running.append(scan(abbys[-1], "b", B))
        await until(lambda: sum(abby.waiting for abby in abbys) == 31)
        for number in range(32):
            await until(lambda number=number: len(core.order) > number and core.inside)  # type: ignore[misc]
            core.inside[0][1].set()
            await until(lambda number=number: number == 31 or len(core.order) > number + 1)  # type: ignore[misc]
        results = await asyncio.gather(*running)
        assert all(isinstance(result, ScanResult) for result in results)
        assert core.order.index("b") <= 2, "one was in processing, one of A's may go first"
        assert [name for name in core.order if name != "b"] == [f"a{number}" for number in range(31)]
        for abby in abbys:
            await abby.stop()

    asyncio.run(run())
