"""The analyses in the pool: one message over all its attempts.

When a worker dies, the job that was executing is to blame: it runs once more, alone, without the stage that broke the
worker, and the ledger names that stage. If that stage cannot be skipped, or the second attempt dies as well, the
message is undecided. Jobs that merely lay suspended in the same worker start again elsewhere; nothing is counted
against them, and the answers that they were given are kept.
"""

import asyncio
from typing import Literal, TypeAlias

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
LARGE = 1 << 20


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


class PoolCounters(msgspec.Struct, frozen=True):
    """Counts since the start, and how many workers and jobs there are now."""

    jobs: int
    kills: dict[Reason, int]
    restarts: int
    retired: int
    relieved: int
    recalled: int
    busy: int
    queued: int
    workers: int
    sealed: bool
