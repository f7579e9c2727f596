"""One analysis over all its attempts, and what follows when a worker dies under it.

The job that was executing is to blame: it runs once more, alone, without the stage that broke the worker, and the
ledger names that stage. If that cannot be skipped, or the second attempt dies as well, the message is undecided. Jobs
that merely lay suspended in the same worker start again elsewhere; nothing is counted against them, and the answers
that they were given are kept.
"""

import asyncio
from typing import Literal

import msgspec

from gatepost.analysis import Report, undecided
from gatepost.findings import Outcome
from gatepost.guard.frames import Looked, Purpose
from gatepost.guard.page import IDLE, UNSKIPPABLE
from gatepost.guard.queueing import LARGE
from gatepost.guard.scan import Body
from gatepost.mail.message import Envelope
from gatepost.questions import Answer, Answers, Question, Questions

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
