"""One analysis over all its attempts, and what follows when a worker dies under it.

The job that was executing is to blame: it runs once more, alone, without the stage that broke the worker, and the
ledger names that stage. If that cannot be skipped, or the second attempt dies as well, the message is undecided. Jobs
that merely lay suspended in the same worker start again elsewhere; nothing is counted against them, and the answers
that they were given are kept.

Which waiting analysis goes to which worker.

A worker takes a new job only while nothing executes in it, and keeps few others suspended. Two queues: most jobs share
a worker with suspended ones; a large message, or one that has broken a worker, has its worker alone. For the first of
those a worker is reserved, which gets nothing new until it is empty, so that a stream of small mail cannot starve it;
and large messages never hold all workers, so that they cannot starve small mail either. A third queue is for those who
only look at a message: they wait until no small mail does, or until so much of it has gone before them.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from gatepost.mail.message import Envelope
from gatepost.questions import Answer, Answers, Question, Questions
from gatepost.report import Outcome, Report, undecided
from gatepost.scanning.request import Body
from gatepost.workers.protocol import Looked, Purpose
from gatepost.workers.status_page import IDLE, UNSKIPPABLE

Reason = Literal["stall", "deadline", "crash", "memory"]

WHAT_HAPPENED: dict[Reason, str] = {
    "stall": "it ran out of its time",
    "deadline": "it ran out of its time",
    "crash": "it crashed the worker",
    "memory": "it used more memory than a worker may",
}
MAX_RESTARTS = 5


class ListSnapshot(msgspec.Struct, frozen=True):
    """The lists of one tenant that no key finds, packed for a worker; empty `data` stands for lists that are empty."""

    key: str = ""
    version: str = ""
    data: bytes = b""


class AnalysisJob(msgspec.Struct, frozen=True):
    """One message to analyse: `now` is the time that signatures and dates are judged by. With another `purpose` it is
    only to be shown, or the picture with that `index` in it."""

    ggrid: str
    envelope: Envelope
    body: Body
    now: float
    lists: ListSnapshot = ListSnapshot()
    purpose: Purpose = "judge"
    index: int = 0


class Attempt:
    """An analysis in the pool. `number` names it within its worker; `result` is what its caller waits for."""

    def __init__(self, job: AnalysisJob, loop: asyncio.AbstractEventLoop) -> None:
        self.job = job
        self.size = job.body.size
        self.alone = self.size > LARGE
        self.result: asyncio.Future[Report | Looked] = loop.create_future()
        self.arrived = loop.time()
        self.deadline: float | None = None
        self.number = 0
        self.step = 0
        self.skip: dict[str, str] = {}
        self.known: dict[Question, Answer] = {}
        self.helper: asyncio.Task[None] | None = None
        self._restarts = 0

    def learn(self, questions: Questions, answers: Answers) -> None:
        """Keep answers, for this attempt and any later one."""
        self.known.update(zip(questions, answers, strict=True))

    def rest(self) -> None:
        """Back to waiting; whoever was answering or loading for it stops."""
        self.step = 0
        if self.helper is not None:
            self.helper.cancel()
            self.helper = None

    def struck(self, stage: str, reason: Reason) -> Report | None:
        """It killed its worker in this stage: the report if that ends it, else None for another attempt."""
        died_before = bool(self.skip)
        self.skip[stage] = WHAT_HAPPENED[reason]
        self.alone = True
        if self.job.purpose != "judge":
            return undecided(WHAT_HAPPENED[reason])
        if died_before or stage in UNSKIPPABLE:
            return undecided(f"{stage} broke the analysis: {WHAT_HAPPENED[reason]}", self._outcomes())
        return None

    def displaced(self) -> Report | None:
        """Its worker died of another message: None for another attempt, unless that happens for ever."""
        self._restarts += 1
        return undecided("its workers were lost again and again") if self._restarts > MAX_RESTARTS else None

    def late(self, stage: str | None) -> Report:
        """Its time is up, in this stage if one was executing."""
        if stage is not None and stage != IDLE:
            self.skip[stage] = WHAT_HAPPENED["deadline"]
        return undecided("the analysis ran out of its time", self._outcomes())

    def _outcomes(self) -> list[Outcome]:
        return [Outcome(stage, "failed", reason) for stage, reason in self.skip.items()]


MAX_SUSPENDED = 8
MAX_SUSPENDED_BYTES = 16 << 20
LARGE = 1 << 20
PATIENCE = 50


class WaitingJob(Protocol):
    """A job as far as its place in a queue goes."""

    @property
    def size(self) -> int: ...

    @property
    def alone(self) -> bool: ...


class WorkerSeat(Protocol):
    """A worker as far as its room for jobs goes."""

    @property
    def free(self) -> bool:
        """It is ready, nothing executes in it, and it is not about to go."""
        ...

    @property
    def suspended(self) -> int: ...

    @property
    def suspended_bytes(self) -> int: ...

    @property
    def taken_alone(self) -> bool: ...


J = TypeVar("J", bound=WaitingJob)
S = TypeVar("S", bound=WorkerSeat)


class JobQueue(Generic[J]):
    """The jobs that wait for a worker, first come first served but for `again`, which go first."""

    def __init__(self) -> None:
        self._alone: deque[J] = deque()
        self._shared: deque[J] = deque()
        self._patient: deque[J] = deque()
        self._passed = 0

    def __len__(self) -> int:
        return len(self._alone) + len(self._shared) + len(self._patient)

    def put(self, job: J, *, again: bool = False, patient: bool = False) -> None:
        """Wait at the end, or at the front if it has been waiting before; `patient` jobs let others go first."""
        queue = self._alone if job.alone else self._patient if patient else self._shared
        if again:
            queue.appendleft(job)
        else:
            queue.append(job)

    def remove(self, job: J) -> None:
        """Wait no longer."""
        for queue in (self._alone, self._shared, self._patient):
            if job in queue:
                queue.remove(job)

    def next(self, seats: Collection[S]) -> tuple[J, S] | None:
        """The next job that can start now, and where; it leaves the queue."""
        reserved = None
        if self._alone and _may_be_alone(seats, self._alone[0]):
            reserved = min((seat for seat in seats if not seat.taken_alone), key=_load, default=None)
            if reserved is not None and reserved.free and not reserved.suspended:
                return self._alone.popleft(), reserved
        if self._patient and (not self._shared or self._passed >= PATIENCE):
            seat = _emptiest(seats, self._patient[0].size, reserved)
            if seat is not None:
                self._passed = 0
                return self._patient.popleft(), seat
        if not self._shared:
            return None
        seat = _emptiest(seats, self._shared[0].size, reserved)
        if seat is None:
            return None
        self._passed += bool(self._patient)
        return self._shared.popleft(), seat


def _may_be_alone(seats: Collection[WorkerSeat], job: WaitingJob) -> bool:
    """All workers but one may hold a large message; a second attempt, which is short or killed, may take any."""
    taken = sum(seat.taken_alone for seat in seats)
    return taken < (len(seats) if job.size <= LARGE else max(1, len(seats) - 1))


def _load(seat: WorkerSeat) -> tuple[bool, int]:
    return not seat.free, seat.suspended


def _emptiest(seats: Collection[S], size: int, reserved: S | None) -> S | None:
    """The worker with room for so many bytes that holds the fewest others."""
    best, fewest = None, MAX_SUSPENDED
    for seat in seats:
        room = seat.suspended < fewest and seat.suspended_bytes + size <= MAX_SUSPENDED_BYTES
        if room and seat.free and seat is not reserved and not seat.taken_alone:
            best, fewest = seat, seat.suspended
    return best
