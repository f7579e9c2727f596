"""Admission: one counter over all sources of a core decides who may come in, and how soon.

With n messages in processing, the new one not counted: at `maximum` it is refused; from `threshold` on it is taken but
waits, longer the closer to the maximum, holding its slot meanwhile. That slows senders down before anything is refused.

    delay = max_delay x (n - threshold + 1) / (maximum - threshold + 1)

Where a core runs as several processes, n is the number over all of them: `SharedAdmission` counts in the memory of the
node.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

import msgspec

from gatepost.node_memory import NodeMemory
from gatepost.scanning.request import Load


class AdmissionCounters(msgspec.Struct, frozen=True):
    """How many messages were admitted, throttled (these were admitted too) and refused since the start."""

    admitted: int
    throttled: int
    refused: int


class Slot:
    """One message in processing, until `leave` is called or the `with` block ends. `delay` is in seconds."""

    def __init__(self, admission: "Admission", delay: float) -> None:
        self.delay = delay
        self._admission: Admission | None = admission

    def leave(self) -> None:
        """Give the slot back; a second call does nothing."""
        admission, self._admission = self._admission, None
        if admission:
            admission._leave()  # noqa: SLF001  a slot is part of the admission

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


class Admission:
    """The slots of one core. It belongs to one event loop; only `wait_for_slot` waits."""

    def __init__(self, maximum: int, threshold: int, max_delay: float) -> None:
        self._maximum, self._threshold, self._max_delay = maximum, threshold, max_delay
        self._present = 0
        self._admitted = self._throttled = self._refused = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def change_delay(self, max_delay: float) -> None:
        """Set another upper bound of the delay, for messages that come from now on."""
        self._max_delay = max_delay

    def enter(self) -> Slot | None:
        """Take a slot; None where none is free."""
        before = self._take()
        if before is None:
            self._refused += 1
            return None
        delay = self._delay(before)
        self._admitted += 1
        self._throttled += delay > 0
        return Slot(self, delay)

    def has_slot(self) -> bool:
        """Whether a slot is free now. It is not taken; a no counts as a refusal."""
        free = self._in_processing() < self._maximum
        self._refused += not free
        return free

    def load(self) -> Load:
        """How busy it is."""
        return Load(self._in_processing(), self._threshold, self._maximum)

    def counters(self) -> AdmissionCounters:
        """Counts since the start, for metrics."""
        return AdmissionCounters(self._admitted, self._throttled, self._refused)

    async def wait_for_slot(self) -> None:
        """Return once a slot is free, first come first served. It is not reserved: `enter` at once, or ask again."""
        enqueue = self._waiting.append
        while self._in_processing() >= self._maximum:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            enqueue(turn)
            self._note_waiting()
            try:
                await turn
            except asyncio.CancelledError:
                self._give_up(turn)
                raise
            enqueue = self._waiting.appendleft  # another message was quicker: the turn is kept
        # A caller that was woken may not take the slot: so the next one is woken, too.
        self._wake_next()

    def _in_processing(self) -> int:
        return self._present

    def _take(self) -> int | None:
        """Take a slot and return how many were taken before; None where none is free."""
        before = self._present
        if before >= self._maximum:
            return None
        self._present += 1
        return before

    def _note_waiting(self) -> None:
        """Somebody waits, or nobody does any more."""

    def _delay(self, before: int) -> float:
        over = before - self._threshold + 1
        if over <= 0 or self._threshold >= self._maximum:
            return 0.0
        return self._max_delay * over / (self._maximum - self._threshold + 1)

    def _leave(self) -> None:
        self._present -= 1
        self._wake_next()

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
            self._note_waiting()
        else:
            self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting and self._in_processing() < self._maximum:
            turn = self._waiting.popleft()
            self._note_waiting()
            if not turn.done():
                turn.set_result(None)
                return


class AdmissionCells:
    """Where the processes of a node count the slots of their core: how many each holds, and whether it waits."""

    def __init__(self, memory: NodeMemory) -> None:
        self.memory = memory
        self.columns = memory.allocate_columns(2)


class SharedAdmission(Admission):
    """The slots of a core that runs as several processes: the count and the delay are those of all of them.

    A process that is killed gives its slots back when its column is set to zero.
    """

    def __init__(self, maximum: int, threshold: int, max_delay: float, cells: AdmissionCells) -> None:
        super().__init__(maximum, threshold, max_delay)
        self._memory, self._columns = cells.memory, cells.columns
        self._own = cells.columns[cells.memory.member]
        self._memory.listen(self._wake_next)

    def _in_processing(self) -> int:
        return sum(column[0] for column in self._columns)

    def _take(self) -> int | None:
        with self._memory:
            before = self._in_processing()
            if before >= self._maximum:
                return None
            self._own[0] += 1
        return before

    def _note_waiting(self) -> None:
        waiting = len(self._waiting)
        if waiting == self._own[1]:
            return
        with self._memory:
            self._own[1] = waiting
            free = self._in_processing() < self._maximum
        if free and waiting:
            # The slot became free after it was looked at, and before others could know that somebody waits here.
            self._memory.ring(self._memory.member)

    def _leave(self) -> None:
        with self._memory:
            self._own[0] -= 1
            waiting = [number for number, column in enumerate(self._columns) if column[1]]
        self._wake_next()
        for number in waiting:
            if number != self._memory.member:
                self._memory.ring(number)
