"""The jobs of the pool: one message over all its attempts, and what is remembered of those that broke workers.

When a worker dies, the job that was executing is to blame: it runs once more, alone, without the stage that broke the
worker, and the ledger names that stage. If that stage cannot be skipped, or the second attempt dies as well, the
message is undecided. Jobs that merely lay suspended in the same worker start again elsewhere; nothing is counted
against them, and the answers that they were given are kept.

A message that breaks a worker comes again: a sender that is told "later" sends it again, and an attacker sends copies.
So `PoisonMemory` keeps what it did for a while. If it ended undecided, its copies get the same report without an
attempt; if it could be judged without the stage that broke the worker, its copies are analysed without that stage from
the start. A worker can also die while it loads the lists or the policy of a tenant. That is nobody's message: the
snapshot is blamed. One death may be an accident. After the second one no worker gets this version for a minute, and the
messages that need it are undecided. Both memories are bounded in number; the oldest are forgotten first.
"""

import asyncio
import math
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from gatepost.analysis.report import Outcome
from gatepost.mail.message import Envelope
from gatepost.policy.rules import RULE_STAGE
from gatepost.questions import Answer, Answers, Question, Questions
from gatepost.scanning.spool import MessageBody
from gatepost.workers.protocol import IDLE, JUDGE, LARGE, Purpose

T = TypeVar("T")
Reason = Literal["stall", "deadline", "crash", "memory", "cpu"]

WHAT_HAPPENED: dict[Reason, str] = {
    "stall": "it ran out of its time",
    "deadline": "it ran out of its time",
    "crash": "it crashed the worker",
    "memory": "it used more memory than a worker may",
    "cpu": "its worker computed without a job",
}
MAX_RESTARTS = 5
# Of its account, what another attempt has in any case; and the seconds, and the part of it besides, after which guard
# ends a worker that does not end by itself what has spent its account.
LEAST_ACCOUNT, GRACE = 0.25, 0.25
_RULES = RULE_STAGE.removesuffix(":")

# Key and version of a snapshot.
SnapshotName: TypeAlias = tuple[str, str]


def is_rule(stage: str) -> bool:
    """Whether a rule is evaluated in this stage, or all of them."""
    return stage.startswith(RULE_STAGE) or stage == _RULES


class Snapshot(msgspec.Struct, frozen=True):
    """What workers need of one tenant, packed: unkeyed lists or learnt models. Empty `data` stands for none."""

    key: str = ""
    version: str = ""
    data: bytes = b""


EMPTY = Snapshot()


class Job(Generic[T]):
    """One message for the workers, over all its attempts.

    `now` is the time that signatures and dates are judged by. With another `purpose` than `JUDGE` the message, or the
    picture with that `index` in it, is only to be shown, or its `parts` are to be found. A trial leaves nothing behind
    that the analysis of mail would find. `for_mailboxes` says that every recipient takes reports. A job runs once.

    The pool keeps here how far it is: `number` names the job within its worker; `result` is what the caller waits for;
    `asked_at` is when it asked what it has no answer to yet; `sent` are the snapshots that went to the worker with it,
    by the stage in which the worker loads them; `answers` is the frame that waits for its turn in the worker; `cpu` is
    what its attempts have used, `most_cpu` where guard ends this one, which is `allowed` so much.
    """

    def __init__(
        self,
        purpose: Purpose[T],
        ggrid: str,
        envelope: Envelope,
        body: MessageBody,
        now: float,
        *,
        lists: Snapshot = EMPTY,
        learnt: Snapshot = EMPTY,
        index: int = 0,
        parts: tuple[str, ...] = (),
        is_trial: bool = False,
        for_mailboxes: bool = False,
    ) -> None:
        self.purpose, self.ggrid, self.envelope, self.body, self.now = purpose, ggrid, envelope, body, now
        self.lists, self.learnt, self.index, self.parts, self.is_trial = lists, learnt, index, parts, is_trial
        self.size, self.tenant, self.for_mailboxes = body.size, envelope.tenant, for_mailboxes
        self.alone = self.size > LARGE
        self.result: asyncio.Future[T]
        self.order = 0
        self.arrived = 0.0
        self.deadline: float | None = None
        self.number = 0
        self.step = 0
        self.skip: dict[str, str] = {}
        self._given: list[tuple[Questions, Answers]] = []
        self.sent: dict[str, SnapshotName] = {}
        self.task: asyncio.Future[Any] | None = None
        self.answers = b""
        self.asked_at: float | None = None
        self.cpu, self.most_cpu, self.allowed = 0.0, math.inf, math.inf
        self._restarts = 0

    def arrive(self, order: int, loop: asyncio.AbstractEventLoop) -> None:
        """Note that the job has come to the pool, as the one with this number."""
        self.order, self.arrived, self.result = order, loop.time(), loop.create_future()

    def learn(self, questions: Questions, answers: Answers) -> None:
        """Keep answers, for any later attempt."""
        if len(questions) != len(answers):
            raise ValueError("each question has one answer")
        self._given.append((questions, answers))

    @property
    def known(self) -> tuple[tuple[Question, Answer], ...]:
        """The answers that attempts before were given."""
        if not self._given:
            return ()
        # The later one counts of a question that was asked again.
        return tuple({question: answer for each in self._given for question, answer in zip(*each, strict=True)}.items())

    def reset(self) -> None:
        """Go back to waiting; what was answering its questions or loading its bytes stops."""
        self.step, self.asked_at = 0, None
        if self.task is not None:
            self.task.cancel()
            self.task = None

    def draw(self, seconds: float) -> float:
        """Return what a new attempt may take of an account of so many seconds: what is left of it, or as much as most
        mail needs."""
        left = max(seconds - self.cpu, LEAST_ACCOUNT * seconds)
        self.allowed = left + GRACE * (1 + left)
        self.most_cpu = self.cpu + self.allowed
        return left

    def end(self, reason: str) -> T:
        """Return the result of a job that comes to no end."""
        return self.purpose.fail(reason, [Outcome(stage, "failed", why) for stage, why in self.skip.items()])

    def blame(self, stage: str, reason: Reason, *, can_skip: bool) -> T | None:
        """The job killed its worker in this stage: return the result if that ends it, else None for another attempt."""
        died_before = any(not is_rule(each) for each in self.skip)
        self.alone = True
        if is_rule(stage) and self.purpose is JUDGE:
            # Whoever wrote the rule has no say about the message: it is judged without that rule, and after a second
            # one without any. Both are in its ledger.
            self.skip[_RULES if any(map(is_rule, self.skip)) else stage] = WHAT_HAPPENED[reason]
            return None if can_skip else self.end(WHAT_HAPPENED[reason])
        self.skip[stage] = WHAT_HAPPENED[reason]
        if self.purpose is not JUDGE:
            return self.end(WHAT_HAPPENED[reason])
        if died_before or not can_skip:
            return self.end(f"{stage} broke the analysis: {WHAT_HAPPENED[reason]}")
        return None

    def restart(self) -> T | None:
        """Another message killed the worker, or holds it up: return None for another attempt, with an account anew, or
        the result after too many. From the second restart on it has a worker to itself, so that messages that never end
        cannot displace it at each of its questions."""
        self._restarts += 1
        self.cpu = 0.0
        self.alone = self.alone or self._restarts > 1
        return self.end("its workers were lost again and again") if self._restarts > MAX_RESTARTS else None

    def expire(self, stage: str | None) -> T:
        """Return the result of a job whose time is up, in this stage if one was executing."""
        if stage is not None and stage != IDLE:
            self.skip[stage] = WHAT_HAPPENED["deadline"]
        return self.end("the analysis ran out of its time")


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


K = TypeVar("K", bound=Hashable)

MESSAGE_SECONDS = 600.0
SNAPSHOT_SECONDS = 60.0
MAX_REMEMBERED = 10_000
MAX_SNAPSHOT_DEATHS = 2


class BrokenStages(msgspec.Struct, frozen=True):
    """The stages in which a message broke a worker, with what happened, and how it ended if that was the end."""

    skip: Mapping[str, str]
    result: Any


class _Expiring(Generic[K, T]):
    """Values by key for so many seconds, at most `MAX_REMEMBERED`."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock = seconds, clock
        self.values: dict[K, tuple[float, T]] = {}

    def get(self, key: K) -> T | None:
        found = self.values.get(key)
        if found is None:
            return None
        if found[0] <= self._clock():
            del self.values[key]
            return None
        return found[1]

    def put(self, key: K, value: T) -> None:
        self.values.pop(key, None)
        self.values[key] = (self._clock() + self._seconds, value)
        if len(self.values) > MAX_REMEMBERED:
            del self.values[next(iter(self.values))]


class PoisonMemory:
    """Messages and snapshots that broke workers. `recalled` counts the copies that were known."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._messages: _Expiring[tuple[str, int, str], BrokenStages] = _Expiring(MESSAGE_SECONDS, clock)
        self._deaths: _Expiring[SnapshotName, int] = _Expiring(SNAPSHOT_SECONDS, clock)
        self.recalled = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing has broken workers lately, as a rule."""
        return not (self._messages.values or self._deaths.values)

    def remember(self, job: Job[T], result: T | None) -> None:
        """A message broke a worker in the stages that it skips from now on; `result` is how it ended, if it has."""
        self._messages.put(_key(job), BrokenStages(dict(job.skip), result))

    def recall(self, job: Job[Any]) -> BrokenStages | None:
        """Return what a copy of this message did, if one broke a worker lately."""
        found = self._messages.get(_key(job))
        self.recalled += found is not None
        return found

    def blame_snapshot(self, name: SnapshotName) -> None:
        """A worker died while it loaded this snapshot."""
        self._deaths.put(name, (self._deaths.get(name) or 0) + 1)

    def refuses(self, names: tuple[SnapshotName, ...]) -> bool:
        """Whether one of these snapshots broke workers, so that no message that needs it is tried."""
        return any((self._deaths.get(name) or 0) >= MAX_SNAPSHOT_DEATHS for name in names)


def _key(job: Job[Any]) -> tuple[str, int, str]:
    return job.purpose.name, job.index, job.body.sha256
