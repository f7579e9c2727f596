"""The analysis workers, as guard's event loop drives them.

Each message is analysed in a sealed process (see `seal`) that can ask and answer and nothing else. guard hands out jobs
(`queueing`), answers questions, watches every worker's page (`page`), and ends a worker that stands still, grows or
outlives a message's deadline. Only this timer kills: a limit inside the process could be swallowed by a library or
hang with it in native code. What follows for the messages inside is in `attempt`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType

import msgspec
import structlog

from gatepost.policy.rules import Policy
from gatepost.questions import Answers, Questions
from gatepost.report import Outcome, Report, undecided
from gatepost.view.values import NotShown
from gatepost.workers import protocol
from gatepost.workers.jobs import LARGE, AnalysisJob, Attempt, JobQueue, Reason
from gatepost.workers.process import WorkerProcess
from gatepost.workers.protocol import Frame, FrameError, Looked, Purpose, Snapshot
from gatepost.workers.supervisor import SealError, Supervisor, WorkerFiles, describe_leaks

RETIRE_AFTER = 10_000
MAX_LOOKS = 2
_LOOK_AT_MEMORY_EVERY = 200
_MOST_GROWTH = 256 << 20
_STOP_SECONDS = 5.0

_log = structlog.get_logger("gatepost.workers")


class PoolSettings(msgspec.Struct, frozen=True):
    """Times in seconds, memory in bytes over what an idle worker holds. `trial` is for tests only;
    `rules` is a folder of YARA rules, `models` one of text models, `antivirus` whether there is one to ask."""

    processes: int
    analysis_timeout: float
    stage_limit: float
    memory: int
    unsealed: bool = False
    trial: bool = False
    rules: str | None = None
    models: str = ""
    antivirus: bool = False

    @property
    def stage_seconds(self) -> float:
        """Never more than a third of the whole, so that a second attempt still fits."""
        return min(self.stage_limit, self.analysis_timeout / 3)


class PoolCounters(msgspec.Struct, frozen=True):
    """What has happened so far, and what is going on."""

    jobs: int
    kills: dict[Reason, int]
    restarts: int
    retired: int
    busy: int
    queued: int
    workers: int
    sealed: bool


class WorkerPool:
    """Analyses messages in sealed processes; `answer` is asked for whatever an analysis cannot know by itself."""

    def __init__(
        self,
        settings: PoolSettings,
        answer: Callable[[AnalysisJob, Questions], Awaitable[Answers]],
        policy: Policy,
        tenants: Mapping[str, Policy] = MappingProxyType({}),
    ) -> None:
        self._settings = settings
        self._answer = answer
        self._policies: dict[str, Snapshot] = {}
        for tenant, each in ((None, policy), *tenants.items()):
            self.publish(tenant, each)
        self._tick = max(0.01, min(0.1, settings.stage_seconds / 5))
        self._queue: JobQueue[Attempt] = JobQueue()
        self._attempts: dict[Attempt, WorkerProcess | None] = {}
        # Somebody who looks never has the last worker, where there are several.
        self._looks = asyncio.Semaphore(max(1, min(MAX_LOOKS, settings.processes - 1)))
        self._staff: Supervisor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._jobs = 0
        self._kills: dict[Reason, int] = {"stall": 0, "deadline": 0, "crash": 0, "memory": 0}

    async def start(self) -> None:
        """Start the workers and wait until each has been sealed and has failed to break out."""
        self._loop = asyncio.get_running_loop()
        equipment = WorkerFiles(self._settings.rules or "", self._settings.models)
        self._staff = Supervisor(self, self._settings.memory, equipment, trial=self._settings.trial)
        try:
            await self._staff.start(self._settings.processes)
            if self._staff.leaks and not self._settings.unsealed:
                raise SealError(describe_leaks(self._staff.leaks))
        except SealError:
            await self.stop()
            raise

    async def analyse(self, job: AnalysisJob) -> Report:
        """The report on one message. Whatever the message does to its worker, there is one."""
        result = await self._result(job)
        return result if isinstance(result, Report) else undecided("it was shown instead of judged")

    async def look(self, job: AnalysisJob) -> Looked:
        """What a person may see of a message, or a picture in it: few at a time, and mail goes first."""
        try:
            async with asyncio.timeout(self._settings.analysis_timeout), self._looks:
                result = await self._result(job, patient=True)
        except TimeoutError:
            return NotShown("every worker is busy")
        return NotShown(result.reason) if isinstance(result, Report) else result

    async def _result(self, job: AnalysisJob, *, patient: bool = False) -> Report | Looked:
        if self._stopping:
            return undecided("the service is stopping")
        self._jobs += 1
        attempt = Attempt(job, self._loop)
        self._attempts[attempt] = None
        self._queue.put(attempt, patient=patient)
        self._dispatch()
        self._watch_soon()
        try:
            return await attempt.result
        finally:
            self._drop(attempt)

    def publish(self, tenant: str | None, policy: Policy) -> None:
        """Judge every message of a tenant by this policy from now on; without a tenant, all that have none."""
        key = _policy_key(tenant)
        before = self._policies.get(key)
        data = msgspec.msgpack.encode(policy)
        self._policies[key] = Snapshot(key, before.version + 1 if before else 1, data)

    async def stop(self) -> None:
        """Let analyses finish for a few seconds, leave the rest undecided, and end every process."""
        self._stopping = True
        if self._attempts:
            await asyncio.wait([attempt.result for attempt in self._attempts], timeout=_STOP_SECONDS)
        for attempt in list(self._attempts):
            self._settle(attempt, undecided("the service is stopping"))
        if self._timer is not None:
            self._timer.cancel()
        if self._staff is not None:
            await self._staff.stop()

    def counters(self) -> PoolCounters:
        """Figures for metrics and for the operator."""
        staff = self._staff
        return PoolCounters(
            jobs=self._jobs,
            kills=dict(self._kills),
            restarts=staff.replaced if staff else 0,
            retired=staff.retired if staff else 0,
            busy=sum(hand.busy for hand in self._hands),
            queued=len(self._queue),
            workers=staff.ready if staff else 0,
            sealed=staff is not None and not staff.leaks,
        )

    @property
    def _hands(self) -> Collection[WorkerProcess]:
        return self._staff.hands.values() if self._staff else ()

    @property
    def _staffed(self) -> Supervisor:
        assert self._staff is not None
        return self._staff

    def joined(self) -> None:
        """A new worker may take what waits."""
        self._dispatch()

    def _dispatch(self) -> None:
        while found := self._queue.next(self._hands):
            self._begin(*found)

    def _begin(self, attempt: Attempt, hand: WorkerProcess) -> None:
        attempt.deadline = attempt.deadline or self._loop.time() + self._settings.analysis_timeout
        self._attempts[attempt] = hand
        hand.take(attempt)
        if attempt.size > LARGE:
            attempt.helper = self._loop.create_task(self._load(attempt, hand))
            return
        try:
            raw = attempt.job.body.read()
        except (OSError, ValueError):
            self._unreadable(attempt)
        else:
            self._hand_over(attempt, hand, raw)

    async def _load(self, attempt: Attempt, hand: WorkerProcess) -> None:
        """A large message is read from disk beside the event loop, and only once a worker waits for it."""
        try:
            raw = await asyncio.to_thread(attempt.job.body.read)
        except (OSError, ValueError):
            self._unreadable(attempt)
            return
        attempt.helper = None
        self._hand_over(attempt, hand, raw)

    def _unreadable(self, attempt: Attempt) -> None:
        _log.error("message unreadable", ggrid=attempt.job.ggrid)
        self._settle(attempt, undecided("the message could not be read from disk"))

    def _hand_over(self, attempt: Attempt, hand: WorkerProcess, raw: bytes) -> None:
        news = []
        policy = self._policies.get(_policy_key(attempt.job.envelope.tenant)) or self._policies[_policy_key(None)]
        if hand.versions.get(policy.key) != policy.version:
            hand.versions[policy.key] = policy.version
            news.append(policy)
        lists = attempt.job.lists
        if lists.data and hand.lists.get(lists.key) != lists.version:
            hand.lists.put(lists.key, lists.version)
            news.append(Snapshot(lists.key, 0, lists.data))
        name = lists.key if lists.data else ""
        known = tuple(attempt.known.items())
        job = protocol.Job(
            attempt.job.envelope,
            attempt.job.now,
            name,
            attempt.skip,
            known,
            self._settings.antivirus,
            policy.key,
            attempt.job.purpose,
            attempt.job.index,
        )
        hand.channel.send(
            *(protocol.packed(Frame.SNAPSHOT, 0, snapshot) for snapshot in news),
            protocol.packed(Frame.JOB, attempt.number, job),
            protocol.raw_header(attempt.number, len(raw)),
            raw,
        )
        hand.turn(attempt, self._loop.time())

    def received(self, hand: WorkerProcess, kind: Frame, number: int, body: bytes) -> None:
        """One frame of a worker; `FrameError` ends it."""
        if number not in hand.turns:
            raise FrameError("not this job's turn")
        hand.turns.discard(number)
        attempt = hand.jobs.get(number)
        if attempt is not None and kind is Frame.ASK:
            self._asked(attempt, hand, protocol.ask(body))
        elif attempt is not None:
            self._finished(attempt, hand, _concluded(attempt.job, kind, body))
        self._dispatch()

    def _asked(self, attempt: Attempt, hand: WorkerProcess, ask: protocol.Ask) -> None:
        if ask.step != attempt.step + 1 or attempt.job.purpose != "judge":
            raise FrameError("a step out of order")
        attempt.step = ask.step
        attempt.helper = self._loop.create_task(self._answered(attempt, hand, ask))

    async def _answered(self, attempt: Attempt, hand: WorkerProcess, ask: protocol.Ask) -> None:
        try:
            answers = await self._answer(attempt.job, ask.questions)
            attempt.learn(ask.questions, answers)
        except Exception:  # noqa: BLE001  whatever it was, it is told, and the message is not lost
            _log.exception("questions unanswered", ggrid=attempt.job.ggrid)
            self._settle(attempt, undecided("what it asked for could not be looked up"))
            return
        attempt.helper = None
        hand.turn(attempt, self._loop.time())
        hand.channel.send(protocol.packed(Frame.ANSWERS, attempt.number, protocol.Given(ask.step, answers)))

    def _finished(self, attempt: Attempt, hand: WorkerProcess, report: Report | Looked) -> None:
        hand.leave(attempt)
        del self._attempts[attempt]
        self._settle(attempt, report)
        if hand.served >= RETIRE_AFTER or self._grown(attempt, hand):
            self._staffed.retire(hand)
        self._staffed.excuse(hand)

    def _grown(self, attempt: Attempt, hand: WorkerProcess) -> bool:
        if hand.jobs or (attempt.size <= LARGE and hand.served % _LOOK_AT_MEMORY_EVERY):
            return False
        return hand.growth() > min(_MOST_GROWTH, self._settings.memory // 2)

    def _settle(self, attempt: Attempt, report: Report | Looked) -> None:
        if not attempt.result.done():
            attempt.result.set_result(report)
        self._drop(attempt)

    def _drop(self, attempt: Attempt) -> None:
        """Forget an attempt, wherever it is: it has its report, or its caller no longer waits."""
        if attempt not in self._attempts:
            return
        hand = self._attempts.pop(attempt)
        if hand is None:
            self._queue.remove(attempt)
            return
        attempt.rest()
        hand.leave(attempt)
        hand.channel.send(protocol.frame(Frame.CANCEL, attempt.number, b""))
        self._staffed.excuse(hand)
        self._dispatch()

    def _watch_soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick, self._watch)

    def _watch(self) -> None:
        """Look at every deadline and at every page; sleep while there is nothing to watch."""
        self._timer = None
        now = self._loop.time()
        for attempt, hand in list(self._attempts.items()):
            if now >= (attempt.deadline or attempt.arrived + self._patience()):
                self._expire(attempt, hand)
        for hand in self._hands:
            if hand.stalled(now, self._settings.stage_seconds):
                hand.kill("stall")
        if self._attempts or any(hand.busy for hand in self._hands):
            self._watch_soon()

    def _patience(self) -> float:
        """How long a message may wait for its first worker: as long as it takes, if there is any worker at all."""
        return float("inf") if self._staffed.ready else self._settings.analysis_timeout

    def _expire(self, attempt: Attempt, hand: WorkerProcess | None) -> None:
        stage = None
        if hand is not None and attempt.number in hand.turns and (hand.place.job == attempt.number or attempt.alone):
            stage = hand.place.stage
            hand.kill("deadline")
        self._settle(attempt, attempt.late(stage))

    def lost(self, hand: WorkerProcess) -> None:
        """A worker is gone: the job that executed answers for it, the others start again."""
        reason: Reason = hand.doom or ("memory" if hand.out_of_memory else "crash")
        place = hand.place
        blamed = hand.jobs.get(place.job)
        for attempt in list(hand.jobs.values()):
            self._attempts[attempt] = None
            attempt.rest()
            end = attempt.struck(place.stage, reason) if attempt is blamed else attempt.displaced()
            if end is None:
                self._queue.put(attempt, again=True)
            else:
                self._settle(attempt, end)
        self._kills[reason] += 1
        ggrid = blamed.job.ggrid if blamed else None
        _log.warning("worker lost", reason=reason, stage=place.stage, ggrid=ggrid, served=hand.served)
        self._dispatch()


def _policy_key(tenant: str | None) -> str:
    """What the policy of a tenant is called between guard and its workers; each worker gets it with its first job."""
    return f"policy:{tenant}" if tenant else "policy"


_READERS: dict[Purpose, Callable[[bytes], Report | Looked]] = {
    "judge": protocol.report,
    "view": protocol.view,
    "picture": protocol.picture,
}


def _concluded(job: AnalysisJob, kind: Frame, body: bytes) -> Report | Looked:
    if kind is Frame.DONE:
        return _READERS[job.purpose](body)
    failed = protocol.failed(body)
    if job.purpose != "judge":
        return NotShown(failed.reason)
    outcome = Outcome(failed.stage, "failed", failed.reason)
    return undecided(f"{failed.stage} broke the analysis: {failed.reason}", [outcome])
