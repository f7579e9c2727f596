"""Admission: one counter over all sources of a core decides who may come in, and how soon.

With n messages in processing, the new one not counted: at `maximum` it is refused; from `threshold` on it is taken but
waits, longer the closer to the maximum, holding its slot meanwhile. That slows senders down before anything is refused.

    delay = max_delay x (n - threshold + 1) / (maximum - threshold + 1)
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

import msgspec

from gatepost.scanning.request import Load


class AdmissionCounters(msgspec.Struct, frozen=True):
    """What happened at the door so far; throttled ones were admitted too."""

    admitted: int
    throttled: int
    refused: int


class Slot:
    """A place in processing, until `leave` is called or the `with` block ends. `delay` is in seconds."""

    def __init__(self, admission: "Admission", delay: float) -> None:
        self.delay = delay
        self._admission: Admission | None = admission

    def leave(self) -> None:
        """Give the place back; once is enough, twice does no harm."""
        admission, self._admission = self._admission, None
        if admission:
            admission._leave()  # noqa: SLF001  a slot is the door's own other half

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


class Admission:
    """The door of one core. It belongs to one event loop; only `room` waits, all else answers at once."""

    def __init__(self, maximum: int, threshold: int, max_delay: float) -> None:
        self._maximum, self._threshold, self._max_delay = maximum, threshold, max_delay
        self._present = 0
        self._admitted = self._throttled = self._refused = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def enter(self) -> Slot | None:
        """A slot, or None where there is none."""
        if self._present >= self._maximum:
            self._refused += 1
            return None
        delay = self._delay()
        self._present += 1
        self._admitted += 1
        self._throttled += delay > 0
        return Slot(self, delay)

    def would_enter(self) -> bool:
        """Is there a slot now? None is taken; a no counts as a refusal."""
        free = self._present < self._maximum
        self._refused += not free
        return free

    def load(self) -> Load:
        """How busy it is."""
        return Load(self._present, self._threshold, self._maximum)

    def counters(self) -> AdmissionCounters:
        """What happened so far."""
        return AdmissionCounters(self._admitted, self._throttled, self._refused)

    async def room(self) -> None:
        """Return once a slot is free, first come first served. It is not reserved: `enter` at once, or ask again."""
        place = self._waiting.append
        while self._present >= self._maximum:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            place(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._give_up(turn)
                raise
            place = self._waiting.appendleft  # somebody was quicker: the turn is kept
        # Whoever was told and does not come in must not leave the others waiting: the next one looks, too.
        self._tell_next()

    def _delay(self) -> float:
        over = self._present - self._threshold + 1
        if over <= 0 or self._threshold >= self._maximum:
            return 0.0
        return self._max_delay * over / (self._maximum - self._threshold + 1)

    def _leave(self) -> None:
        self._present -= 1
        self._tell_next()

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
        else:
            self._tell_next()

    def _tell_next(self) -> None:
        while self._waiting and self._present < self._maximum:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
