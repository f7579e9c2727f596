"""Work beside mail: exports, searches, trials, pages and changes of lists have a share of the interpreter while mail
comes.

Python code of one process runs on one core at a time, so a thread that converts the rows of an export, and a call that
changes a list, take from the event loop what they take for themselves, and the scans of every tenant wait. While more
than `MAIL_RATE` messages a second come, everything beside mail has the part `SHARE` of the interpreter, however many
exports, searches and trials one tenant has started, and its threads take turns. People do not notice that: `BURST` CPU
seconds are saved up and can be used at once. While less mail comes, such work runs freely. A piece that can take long,
such as a search that unpacks hundreds of records, rests between its steps, too (`rest_between_steps`).

What is used is measured, as CPU time of a thread (`run`) or of the steps of a coroutine (`call`), so that waiting for
the disk, for storage or for the interpreter counts for nothing; but commits that are not records of mail count whole,
since records wait for them. The account is that of the generic cell rate algorithm
(ITU-T I.371): `_due` is the moment at which all that was used is paid for, at `SHARE` seconds in a second.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")

# Messages a second, as a mean over about one second.
MAIL_RATE = 5.0
SHARE = 0.1
BURST = 1.0
# Nothing waits longer than that, whoever has used how much.
MAX_REST_SECONDS = 1.0
# Of a piece that takes a second: how long nothing else begins after it.
REST = 1 / SHARE - 1
# What a piece of work in a thread takes at most, as a rule.
PIECE_SECONDS = 0.05
# A step of a piece after which it may rest: shorter ones are counted together.
_STEP_SECONDS = 0.01
# What is taken for a call before it begins: of calls that wait at once, not all begin at once.
_CALL_SECONDS = 0.003


class _Piece(threading.local):
    """The piece that a thread is at: its CPU time when the piece began or last rested; None where it is at none."""

    begun: float | None = None


class BackgroundWork:
    """The account of one process. Threads and the event loop use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turn, self._lock = threading.Lock(), threading.Lock()
        self._piece = _Piece()
        self._mail, self._mail_at, self._due = 0.0, -math.inf, -math.inf
        self._running, self._begun_at = 0, 0.0
        self.rests = 0

    @property
    def is_running(self) -> bool:
        """Whether a thread has just begun a piece. One that takes long keeps no mail waiting."""
        return self._running > 0 and self._clock() - self._begun_at < PIECE_SECONDS

    def note_mail(self) -> None:
        """Count a message that has come."""
        now = self._clock()
        self._mail = self._mail * math.exp(self._mail_at - now) + 1
        self._mail_at = now

    @property
    def must_rest(self) -> bool:
        """Whether so much mail comes that other work keeps to its share."""
        return self._mail > MAIL_RATE and self._mail * math.exp(self._mail_at - self._clock()) > MAIL_RATE

    def run(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do a piece of work, of some milliseconds, in the thread that calls this."""
        if self.must_rest:
            with self._turn:
                if seconds := self._find_rest():
                    time.sleep(seconds)
                return self.measure(work, *arguments, **named)
        self._piece.begun, outer = time.thread_time(), self._piece.begun
        try:
            return work(*arguments, **named)
        finally:
            self._piece.begun = outer

    def rest_between_steps(self) -> None:
        """Rest in the middle of a piece of `run`, where mail comes and its steps have used their share."""
        begun = self._piece.begun
        if begun is None or (used := time.thread_time() - begun) < _STEP_SECONDS or not self.must_rest:
            return
        self.use(used)
        self._piece.begun = begun + used
        if seconds := self._find_rest():
            time.sleep(seconds)

    async def map(self, work: Callable[[A], T], items: Sequence[A], piece: int) -> list[T]:
        """Do work for each item in a thread, for so many at a time; a cancellation ends it between two pieces."""
        done: list[T] = []
        for start in range(0, len(items), piece):
            part = items[start : start + piece]
            done += await asyncio.to_thread(self.run, lambda part=part: [work(item) for item in part])
        return done

    def measure(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do a piece of work that mail waits for, and that others pay for."""
        before = time.thread_time()
        self._piece.begun, outer = before, self._piece.begun
        self._begin(1)
        try:
            return work(*arguments, **named)
        finally:
            self._begin(-1)
            self.use(time.thread_time() - (self._piece.begun or before))
            self._piece.begun = outer

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Answer a call that is not mail."""
        if not self.must_rest:
            return await work
        seconds = self._find_rest()
        self.use(_CALL_SECONDS)
        if seconds:
            try:
                await asyncio.sleep(seconds)
            except BaseException:
                work.close()
                raise
        steps = _MeasuredSteps(work)
        try:
            return await steps
        finally:
            self.use(steps.used - _CALL_SECONDS)

    def _find_rest(self) -> float:
        """Return for how many seconds the next piece has to wait."""
        seconds = min(self._due - self._clock() - BURST / SHARE, MAX_REST_SECONDS)
        if seconds <= 0:
            return 0.0
        self.rests += 1
        return seconds

    def _begin(self, change: int) -> None:
        with self._lock:
            self._running += change
            self._begun_at = self._clock() if change > 0 else self._begun_at

    def use(self, seconds: float) -> None:
        """Count so many seconds that were used."""
        with self._lock:
            now = self._clock()
            self._due = min(max(self._due, now) + seconds / SHARE, now + BURST / SHARE + MAX_REST_SECONDS)


class _MeasuredSteps(Generic[T]):
    """A coroutine whose steps are measured: `used` is the CPU time of the event loop that it has taken."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self.used = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        send, value = self._work.send, None
        while True:
            before = time.thread_time()
            try:
                awaited = send(value)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.used += time.thread_time() - before
            try:
                value = yield awaited
            except BaseException as fault:  # noqa: BLE001  it is the coroutine's, a cancellation too
                send, value = self._work.throw, fault
            else:
                send = self._work.send


# One for the process, as there is one interpreter.
background = BackgroundWork()
