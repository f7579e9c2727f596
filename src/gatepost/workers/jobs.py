"""The analyses in the pool: one message over all its attempts, and which waiting one goes to which worker.

When a worker dies, the job that was executing is to blame: it runs once more, alone, without the stage that broke the
worker, and the ledger names that stage. If that stage cannot be skipped, or the second attempt dies as well, the
message is undecided. Jobs that merely lay suspended in the same worker start again elsewhere; nothing is counted
against them, and the answers that they were given are kept.

A worker takes a new job only while nothing executes in it, and keeps few others suspended. There are three queues.
Most jobs share a worker with suspended ones. A large message, or one that has broken a worker, has its worker alone:
for the first of those a worker is reserved, which gets nothing new until it is empty, so that a stream of small mail
cannot starve it; and large messages never hold all workers, so that they cannot starve small mail either. Jobs that
only show a message to a person wait until no small mail does, or until `PATIENCE` jobs have gone before them.

In each queue tenants take turns, and within a tenant it is first come first served: however many jobs of one tenant
wait, the next free worker but one is for another's. The same holds inside of a worker, for suspended jobs whose answers
are there.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from gatepost.mail.message import Envelope
from gatepost.questions import Answer, Answers, Question, Questions
from gatepost.report import Outcome, Report, undecided
from gatepost.scanning.request import MessageBody
from gatepost.workers.protocol import JobResult, Purpose
from gatepost.workers.status_page import IDLE

Reason = Literal["stall", "deadline", "crash", "memory", "cpu"]

WHAT_HAPPENED: dict[Reason, str] = {
    "stall": "it ran out of its time",
    "deadline": "it ran out of its time",
    "crash": "it crashed the worker",
    "memory": "it used more memory than a worker may",
    "cpu": "its worker computed without a job",
}
MAX_RESTARTS = 5
MAX_SUSPENDED = 8
MAX_SUSPENDED_BYTES = 16 << 20
LARGE = 1 << 20
PATIENCE = 50


# Key and version of a snapshot.
SnapshotName: TypeAlias = tuple[str, str]


class ListSnapshot(msgspec.Struct, frozen=True):
    """The lists of one tenant that no key finds, packed for a worker; empty `data` stands for lists that are empty."""

    key: str = ""
    version: str = ""
    data: bytes = b""


class LearntSnapshot(msgspec.Struct, frozen=True):
    """The learnt models that speak about one tenant's mail, packed for a worker; empty `data` stands for none."""

    key: str = ""
    version: str = ""
    data: bytes = b""


class AnalysisJob(msgspec.Struct, frozen=True):
    """One message to analyse: `now` is the time that signatures and dates are judged by. With another `purpose` the
    message, or the picture with that `index` in it, is only to be shown, or its `parts` are to be found. A trial leaves
    nothing behind that the analysis of mail would find."""

    ggrid: str
    envelope: Envelope
    body: MessageBody
    now: float
    lists: ListSnapshot = ListSnapshot()
    purpose: Purpose = "judge"
    index: int = 0
    learnt: LearntSnapshot = LearntSnapshot()
    parts: tuple[str, ...] = ()
    is_trial: bool = False


class Attempt:
    """An analysis in the pool. `number` names it within its worker; `result` is what its caller waits for; `sent` are
    the snapshots that went to the worker with it, by the stage in which the worker loads them; `answers` is the frame
    that waits for its turn in the worker."""

    def __init__(self, job: AnalysisJob, loop: asyncio.AbstractEventLoop) -> None:
        self.job = job
        self.size = job.body.size
        self.alone = self.size > LARGE
        self.tenant = job.envelope.tenant
        self.result: asyncio.Future[JobResult] = loop.create_future()
        self.arrived = loop.time()
        self.deadline: float | None = None
        self.number = 0
        self.step = 0
        self.skip: dict[str, str] = {}
        self.known: dict[Question, Answer] = {}
        self.sent: dict[str, SnapshotName] = {}
        self.task: asyncio.Task[None] | None = None
        self.answers = b""
        self._restarts = 0

    def learn(self, questions: Questions, answers: Answers) -> None:
        """Keep answers, for this attempt and any later one."""
        self.known.update(zip(questions, answers, strict=True))

    def reset(self) -> None:
        """Go back to waiting; the task that was answering its questions or loading its bytes stops."""
        self.step = 0
        if self.task is not None:
            self.task.cancel()
            self.task = None

    def blame(self, stage: str, reason: Reason, *, can_skip: bool) -> Report | None:
        """The job killed its worker in this stage: return the report if that ends it, else None for another attempt."""
        died_before = bool(self.skip)
        self.skip[stage] = WHAT_HAPPENED[reason]
        self.alone = True
        if self.job.purpose != "judge":
            return undecided(WHAT_HAPPENED[reason])
        if died_before or not can_skip:
            return undecided(f"{stage} broke the analysis: {WHAT_HAPPENED[reason]}", self._outcomes())
        return None

    def restart(self) -> Report | None:
        """Another message killed the worker, or holds it up: return None for another attempt, or a report after too
        many. From the second restart on it has a worker to itself, so that messages that never end cannot displace it
        at each of its questions."""
        self._restarts += 1
        self.alone = self.alone or self._restarts > 1
        return undecided("its workers were lost again and again") if self._restarts > MAX_RESTARTS else None

    def expire(self, stage: str | None) -> Report:
        """Return the report of a job whose time is up, in this stage if one was executing."""
        if stage is not None and stage != IDLE:
            self.skip[stage] = WHAT_HAPPENED["deadline"]
        return undecided("the analysis ran out of its time", self._outcomes())

    def _outcomes(self) -> list[Outcome]:
        return [Outcome(stage, "failed", reason) for stage, reason in self.skip.items()]


class WaitingJob(Protocol):
    """What the queue needs to know of a job."""

    @property
    def size(self) -> int: ...

    @property
    def alone(self) -> bool: ...

    @property
    def tenant(self) -> str | None: ...


class WorkerCapacity(Protocol):
    """What the queue needs to know of a worker."""

    @property
    def free(self) -> bool:
        """Whether it is ready, nothing executes in it, and it is not about to end."""
        ...

    @property
    def suspended(self) -> int: ...

    @property
    def suspended_bytes(self) -> int: ...

    @property
    def taken_alone(self) -> bool: ...


J = TypeVar("J", bound=WaitingJob)
S = TypeVar("S", bound=WorkerCapacity)


class TenantTurns(Generic[J]):
    """Jobs of several tenants. `first` is the one whose turn it is; the tenant of a job that is taken goes last."""

    def __init__(self) -> None:
        self._jobs: dict[str | None, deque[J]] = {}
        self.count = 0

    def __len__(self) -> int:
        return self.count

    @property
    def first(self) -> J:
        return next(iter(self._jobs.values()))[0]

    def append(self, job: J) -> None:
        """Put a job behind those of its tenant."""
        self._jobs.setdefault(job.tenant, deque()).append(job)
        self.count += 1

    def appendleft(self, job: J) -> None:
        """Put a job, which has had its turn before, in front of all others."""
        mine = self._jobs.pop(job.tenant, None) or deque()
        mine.appendleft(job)
        self._jobs = {job.tenant: mine} | self._jobs
        self.count += 1

    def popleft(self) -> J:
        """Take out the first job."""
        tenant = next(iter(self._jobs))
        jobs = self._jobs.pop(tenant)
        job = jobs.popleft()
        if jobs:
            self._jobs[tenant] = jobs
        self.count -= 1
        return job

    def discard(self, job: J) -> None:
        """Take a job out, wherever it stands; one that is not here does no harm."""
        jobs = self._jobs.get(job.tenant, ())
        if job in jobs:
            self._jobs[job.tenant].remove(job)
            self.count -= 1
            if not jobs:
                del self._jobs[job.tenant]


class JobQueue(Generic[J]):
    """The jobs that wait for a worker, by turns of their tenants but for `again`, which go first."""

    def __init__(self) -> None:
        self._alone: TenantTurns[J] = TenantTurns()
        self._shared: TenantTurns[J] = TenantTurns()
        self._patient: TenantTurns[J] = TenantTurns()
        self._passed = 0

    def __len__(self) -> int:
        return len(self._alone) + len(self._shared) + len(self._patient)

    def put(self, job: J, *, again: bool = False, patient: bool = False) -> None:
        """Add a job at the end, or at the front if it has been waiting before; `patient` jobs let others go first."""
        queue = self._alone if job.alone else self._patient if patient else self._shared
        if again:
            queue.appendleft(job)
        else:
            queue.append(job)

    def remove(self, job: J) -> None:
        """Take a job out of its queue."""
        for queue in (self._alone, self._shared, self._patient):
            queue.discard(job)

    def next(self, workers: Collection[S]) -> tuple[J, S] | None:
        """Take out the next job that can start now; return it with its worker."""
        if not (self._shared.count or self._alone.count or self._patient.count):
            return None  # as after most frames
        reserved = None
        if self._alone.count and _may_be_alone(workers, self._alone.first):
            reserved = min((worker for worker in workers if not worker.taken_alone), key=_load, default=None)
            if reserved is not None and reserved.free and not reserved.suspended:
                return self._alone.popleft(), reserved
        if self._patient.count and (not self._shared.count or self._passed >= PATIENCE):
            worker = _find_room(workers, self._patient.first.size, reserved)
            if worker is not None:
                self._passed = 0
                return self._patient.popleft(), worker
        if not self._shared.count:
            return None
        worker = _find_room(workers, self._shared.first.size, reserved)
        if worker is None:
            return None
        self._passed += bool(self._patient.count)
        return self._shared.popleft(), worker


def _may_be_alone(workers: Collection[WorkerCapacity], job: WaitingJob) -> bool:
    """All workers but one may hold a large message; a second attempt, which is short or killed, may take any."""
    taken = sum(worker.taken_alone for worker in workers)
    return taken < (len(workers) if job.size <= LARGE else max(1, len(workers) - 1))


def _load(worker: WorkerCapacity) -> tuple[bool, int]:
    return not worker.free, worker.suspended


def _find_room(workers: Collection[S], size: int, reserved: S | None) -> S | None:
    """The worker with room for so many bytes that holds the fewest others."""
    best, fewest = None, MAX_SUSPENDED
    for worker in workers:
        room = worker.suspended < fewest and worker.suspended_bytes + size <= MAX_SUSPENDED_BYTES
        if room and worker.free and worker is not reserved and not worker.taken_alone:
            best, fewest = worker, worker.suspended
            if not fewest:
                break
    return best
