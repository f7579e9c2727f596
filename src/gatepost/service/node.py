"""What the processes of one node share, made once by their parent before it forks them; and what one process has
instead, where it is alone.

Each limit of the node is exact over all of its processes: slots, throttle delay, turns of tenants, connections of a
port, costly calls, guesses of tokens and secrets. `docs/internals/architecture.md` lists all state and how it is
shared.
"""

import asyncio
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry

from gatepost.abby.authenticator import GuessMemories, GuessMemory, SharedGuessMemory
from gatepost.api.connections import AcceptBalance, ConnectionCells
from gatepost.process.metrics import exposition
from gatepost.process.node_memory import LocalRecords, NodeMemory, SharedRecords, SharedTally, Tally
from gatepost.service.metrics import MetricBoards, NodeMetrics
from gatepost.service.watchdogs import Heartbeats
from gatepost.smtp.hop_answers import HopCells
from gatepost.smtp.outbound import WIDTH, SenderRecords
from gatepost.workers.fair_queue import FairQueue
from gatepost.workers.slot_counts import NodeCounts, SharedCounts, SlotCounts

MAX_CALLERS = 4_096
# Senders of outbound mail whose counts are kept at once.
MAX_SENDERS = 16_384


class SingleProcess:
    """A node of one process: nothing is shared, and every limit is counted where it is used.

    `calls` counts costly calls, if not who is called does. `guesses` are those at the API and the pages,
    `secret_guesses` those at the cores' secret. `senders` counts what senders of outbound mail have sent, `hops` what
    next hops answer, if not their routes do.
    """

    number = 0
    is_first = True

    def __init__(self) -> None:
        self.calls: Tally | None = None
        self.guesses, self.secret_guesses = GuessMemories(), GuessMemory()
        self.senders: SenderRecords = LocalRecords(MAX_SENDERS)
        self.hops: HopCells | None = None
        self._queue: FairQueue | None = None

    def connections(self, _port: str) -> Tally | None:
        """What counts the connections of a port, if not the port itself."""
        return None

    def balance(self, _port: str) -> AcceptBalance | None:
        """How connections are spread over the processes."""
        return None

    def queue(self, maximum: int, threshold: int, max_delay: float) -> FairQueue:
        """The slots of the core and what waits for one: the same for every generation of settings, of which only the
        delay can change."""
        self._queue = self._queue or FairQueue(maximum, threshold, max_delay, self._new_counts())
        self._queue.change_delay(max_delay)
        return self._queue

    def _new_counts(self) -> SlotCounts:
        return SlotCounts()

    def metrics(self, registry: CollectorRegistry) -> Callable[[], bytes]:
        """Return a function that renders what `/metrics` answers."""
        return lambda: exposition(registry)

    def start(self) -> list[Callable[[], None]]:
        """Start what runs beside the servers; what is returned ends it."""
        return []


class NodeCells:
    """What the processes of a node share. Ports are known by their names; `most` is the largest number of connections
    that any of them takes."""

    def __init__(self, members: int, ports: Sequence[str], most: int) -> None:
        self.memory = NodeMemory(members)
        self.queue = NodeCounts(self.memory)
        self.connections = {port: SharedTally(self.memory, most + 1) for port in ports}
        self.open = {port: ConnectionCells(self.memory) for port in ports}
        self.calls = SharedTally(self.memory, MAX_CALLERS)
        self.guesses = GuessMemories(*(SharedGuessMemory(self.memory) for _ in range(3)))
        self.secret_guesses = SharedGuessMemory(self.memory)
        self.senders = SharedRecords(self.memory, WIDTH, MAX_SENDERS)
        self.hops = HopCells(self.memory)
        self.boards = MetricBoards(self.memory)
        self.heartbeats = Heartbeats(self.memory)

    def forget(self, member: int) -> bool:
        """Give back what a process held that has ended, and wake the others: there may be slots now. False if another
        process has the lock; it may hang with it, so it is not waited for."""
        if not self.memory.try_lock():
            return False
        try:
            self.memory.forget(member)
        finally:
            self.memory.unlock()
        self.boards.retire(member)
        for number in range(self.memory.members):
            self.memory.ring(number)
        return True


class NodeProcess(SingleProcess):
    """One of several processes of a node, after the fork."""

    def __init__(self, cells: NodeCells, number: int) -> None:
        super().__init__()
        cells.memory.member = number
        self._cells = cells
        self.calls, self.senders, self.hops = cells.calls, cells.senders, cells.hops
        self.guesses, self.secret_guesses = cells.guesses, cells.secret_guesses
        self.number, self.is_first = number, number == 0
        self.members = cells.memory.members
        self._metrics: NodeMetrics | None = None

    def connections(self, port: str) -> Tally | None:
        return self._cells.connections[port]

    def balance(self, port: str) -> AcceptBalance | None:
        return AcceptBalance(self._cells.open[port])

    def _new_counts(self) -> SlotCounts:
        return SharedCounts(self._cells.queue)

    def metrics(self, registry: CollectorRegistry) -> Callable[[], bytes]:
        if self._metrics is None:
            self._metrics = NodeMetrics(registry, self._cells.boards)
        return self._metrics.render

    def start(self) -> list[Callable[[], None]]:
        loop, memory = asyncio.get_running_loop(), self._cells.memory
        loop.add_reader(memory.bells[self.number], memory.answer_bell)
        self._cells.heartbeats.start()
        if self._metrics is None:
            return [self._cells.heartbeats.end]
        self._metrics.start()
        return [self._cells.heartbeats.end, self._metrics.end]
