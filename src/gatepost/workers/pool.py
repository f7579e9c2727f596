"""The analysis workers, as guard's event loop drives them.

Each message is analysed in a sealed process (see `sandbox`) that can ask and answer and nothing else. guard hands out
jobs (`jobs`), answers questions, watches every worker's status page (`status_page`), and ends a worker that stands
still, grows, outlives a message's deadline or computes without a job. Only this timer kills: a limit inside the process
could be swallowed by a library or hang with it in native code, and deadlines are guard's own, whatever a page says.
`jobs.Attempt` decides what follows for the messages inside.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType

import msgspec
import structlog

from gatepost.policy.rules import Policy, collect_titles
from gatepost.questions import Answers, Questions
from gatepost.report import Report, undecided
from gatepost.scanning.edits import Cuts
from gatepost.view.values import NotShown
from gatepost.workers import protocol
from gatepost.workers.job_frames import JobFrames
from gatepost.workers.job_queue import JobQueue, TenantShares
from gatepost.workers.jobs import LARGE, WHAT_HAPPENED, AnalysisJob, Attempt, PoolCounters, Reason
from gatepost.workers.loader_client import WorkerFiles
from gatepost.workers.poison import PoisonMemory
from gatepost.workers.process import WorkerProcess
from gatepost.workers.protocol import AttachedMessages, Extracted, Frame, FrameError, JobResult, ViewResult
from gatepost.workers.supervisor import SealError, Supervisor, describe_leaks

RETIRE_AFTER, MAX_VIEWS = 10_000, 2
_MEASURE_EVERY, _MAX_GROWTH = 200, 256 << 20
_STOP_SECONDS = 5.0
# CPU seconds without a frame after which a worker gets a stand-in; starting one costs a hundredth of a second of CPU.
_SLOW_CPU = 0.25
# How often guard looks at the CPU that workers use without a job, and how many seconds of it are too much. A sound
# worker tidies up after a large message, which takes a fraction of a second.
_LOOK_SECONDS, _MAX_IDLE_CPU = 5.0, 1.5
_log = structlog.get_logger("gatepost.workers")


class PoolSettings(msgspec.Struct, frozen=True):
    """Times in seconds, memory in bytes over what an idle worker holds. `rules` is a folder of YARA rules, `models` one
    of text models, `antivirus` whether there is one to ask, `reputation` what zones are asked about, `slots` how many
    messages are analysed at once, `plugins` whose checks run besides. `fault_injection` is for tests only: a Python
    file that makes workers misbehave."""

    processes: int
    analysis_timeout: float
    stage_limit: float
    memory: int
    unsealed: bool = False
    fault_injection: str = ""
    rules: str | None = None
    models: str = ""
    antivirus: bool = False
    reputation: tuple[str, ...] = ()
    slots: int = 0
    plugins: tuple[str, ...] = ()

    @property
    def stage_seconds(self) -> float:
        """Never more than a third of the whole, so that a second attempt still fits."""
        return min(self.stage_limit, self.analysis_timeout / 3)


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
        self._titles = collect_titles(policy)
        self._frames = JobFrames(policy, tenants, antivirus=settings.antivirus, reputation=settings.reputation)
        self._poison = PoisonMemory()
        self._tick = max(0.01, min(0.1, settings.stage_seconds / 5))
        self._shares = TenantShares()
        self._queue: JobQueue[Attempt] = JobQueue(self._shares)
        self._attempts: dict[Attempt, WorkerProcess | None] = {}
        # Showing messages to people never takes the last worker, where there are several.
        self._views = asyncio.Semaphore(max(1, min(MAX_VIEWS, settings.processes - 1)))
        self._supervisor: Supervisor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._look_timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._jobs = 0
        self._kills: dict[Reason, int] = dict.fromkeys(WHAT_HAPPENED, 0)

    async def start(self) -> None:
        """Start the workers and wait until each has been sealed and has failed to break out."""
        self._loop, settings = asyncio.get_running_loop(), self._settings
        files = WorkerFiles(settings.rules or "", settings.models, settings.fault_injection, settings.plugins)
        self._supervisor = supervisor = Supervisor(self, settings.memory, files, settings.slots, self._shares)
        try:
            await supervisor.start(settings.processes)
            if supervisor.leaks and not settings.unsealed:
                raise SealError(describe_leaks(supervisor.leaks))
            supervisor.must_be_sealed = not settings.unsealed
            self._look_at_idle()
        except SealError:
            await self.stop()
            raise

    async def analyse(self, job: AnalysisJob) -> Report:
        """Return the report on one message. Whatever the message does to its worker, there is one."""
        result = await self._run(job)
        return result if isinstance(result, Report) else undecided("it was shown instead of judged")

    async def show(self, job: AnalysisJob) -> ViewResult:
        """Return what a person may see of a message, or a picture in it: few at a time, and mail goes first."""
        try:
            async with asyncio.timeout(self._settings.analysis_timeout), self._views:
                result = await self._run(job, patient=True)
        except TimeoutError:
            return NotShown("every worker is busy")
        if isinstance(result, Report | Extracted | AttachedMessages | Cuts):
            return NotShown(result.reason if isinstance(result, Report) else "it was read for training")
        return result

    async def extract(self, job: AnalysisJob) -> Extracted | AttachedMessages | Cuts | None:
        """Return what models learn from a message, or where its parts are; None if it cannot be read."""
        result = await self._run(job)
        return result if isinstance(result, Extracted | AttachedMessages | Cuts) else None

    async def _run(self, job: AnalysisJob, *, patient: bool = False) -> JobResult:
        if self._stopping:
            return undecided("the service is stopping")
        self._jobs += 1
        attempt = Attempt(job, self._loop)
        if (known := self._recall(attempt)) is not None:
            return known
        self._attempts[attempt] = None
        self._queue.put(attempt, patient=patient)
        self._dispatch()
        self._watch_soon()
        try:
            return await attempt.result
        finally:
            self._drop(attempt)

    def _recall(self, attempt: Attempt) -> Report | None:
        """Return the report on a message whose copy, or whose snapshots, broke workers; None if it is tried."""
        broken = self._poison.recall(attempt.job)
        if broken is not None:
            attempt.skip.update(broken.skip)
            if broken.report is not None:
                return broken.report
        return self._refuse_snapshots(attempt)

    def _refuse_snapshots(self, attempt: Attempt) -> Report | None:
        return self._poison.refuse_snapshots(self._frames.snapshots_of(attempt)) if self._poison.has_snapshots else None

    def publish(self, tenant: str | None, policy: Policy) -> None:
        """Judge every message of a tenant by this policy from now on; without a tenant, all that have none."""
        self._frames.publish(tenant, policy)

    async def stop(self) -> None:
        """Let analyses finish for a few seconds, leave the rest undecided, and end every process."""
        self._stopping = True
        if self._attempts:
            await asyncio.wait([attempt.result for attempt in self._attempts], timeout=_STOP_SECONDS)
        for attempt in list(self._attempts):
            self._settle(attempt, undecided("the service is stopping"))
        for timer in filter(None, (self._timer, self._look_timer)):
            timer.cancel()
        if self._supervisor is not None:
            await self._supervisor.stop()

    def counters(self) -> PoolCounters:
        """Figures for metrics and for the operator."""
        supervisor = self._supervisor
        return PoolCounters(
            jobs=self._jobs,
            kills=dict(self._kills),
            restarts=supervisor.replaced if supervisor else 0,
            retired=supervisor.retired if supervisor else 0,
            relieved=supervisor.relieved if supervisor else 0,
            recalled=self._poison.recalled,
            busy=sum(worker.busy for worker in self._workers),
            queued=len(self._queue),
            workers=supervisor.ready if supervisor else 0,
            sealed=supervisor is not None and not supervisor.leaks,
        )

    @property
    def _workers(self) -> Collection[WorkerProcess]:
        return self._supervisor.workers.values() if self._supervisor else ()

    @property
    def _running(self) -> Supervisor:
        assert self._supervisor
        return self._supervisor

    def on_worker_ready(self) -> None:
        """Give waiting jobs to a new worker."""
        self._dispatch()

    def _dispatch(self) -> None:
        while found := self._queue.next(self._workers):
            attempt, worker = found
            # What it would break may have broken while it waited.
            if not attempt.skip and (known := self._recall(attempt)) is not None:
                del self._attempts[attempt]
                self._settle(attempt, known)
            else:
                self._begin(attempt, worker)

    def _begin(self, attempt: Attempt, worker: WorkerProcess) -> None:
        attempt.deadline = attempt.deadline or self._loop.time() + self._settings.analysis_timeout
        self._attempts[attempt] = worker
        worker.take(attempt)
        if attempt.size > LARGE:
            attempt.task = self._loop.create_task(self._load(attempt, worker))
            return
        try:
            raw = attempt.job.body.read()
        except (OSError, ValueError):
            self._fail_unreadable(attempt)
        else:
            self._send_job(attempt, worker, raw)

    async def _load(self, attempt: Attempt, worker: WorkerProcess) -> None:
        """A large message is read from disk beside the event loop, and only once a worker waits for it."""
        try:
            raw = await asyncio.to_thread(attempt.job.body.read)
        except (OSError, ValueError):
            self._fail_unreadable(attempt)
            return
        attempt.task = None
        self._send_job(attempt, worker, raw)

    def _fail_unreadable(self, attempt: Attempt) -> None:
        _log.error("message unreadable", ggrid=attempt.job.ggrid)
        self._settle(attempt, undecided("the message could not be read from disk"))

    def _send_job(self, attempt: Attempt, worker: WorkerProcess, raw: bytes) -> None:
        worker.channel.send(*self._frames.build(attempt, worker, raw))
        worker.begin_turn(attempt, self._loop.time())

    def on_frame(self, worker: WorkerProcess, kind: Frame, number: int, body: bytes) -> None:
        """Handle one frame of a worker; `FrameError` ends the worker."""
        if number not in worker.turns:
            raise FrameError("not this job's turn")
        worker.end_turn(number)
        attempt = worker.jobs.get(number)
        if attempt is not None and kind is Frame.ASK:
            self._handle_ask(attempt, worker, protocol.read_ask(body))
        elif attempt is not None:
            self._finish(attempt, worker, protocol.read_result(attempt.job.purpose, kind, body, self._titles))
        self._give_turns(worker)

    def _give_turns(self, worker: WorkerProcess) -> None:
        """Resume suspended jobs that have their answers, unless a new job of another tenant has its turn before them:
        that gets the worker as soon as nothing executes in it."""
        answered = worker.next_answered
        if answered is None or not self._queue.goes_before(answered.tenant):
            worker.resume(self._loop.time())
        self._dispatch()
        if answered is not None and not worker.turns:
            worker.resume(self._loop.time())

    def _handle_ask(self, attempt: Attempt, worker: WorkerProcess, ask: protocol.Ask) -> None:
        if ask.step != attempt.step + 1 or attempt.job.purpose != "judge":
            raise FrameError("a step out of order")
        attempt.step = ask.step
        attempt.task = self._loop.create_task(self._answer_questions(attempt, worker, ask))

    async def _answer_questions(self, attempt: Attempt, worker: WorkerProcess, ask: protocol.Ask) -> None:
        try:
            answers = await self._answer(attempt.job, ask.questions)
            attempt.learn(ask.questions, answers)
        except Exception:  # noqa: BLE001  whatever it was, it is logged, and the message is not lost
            _log.exception("questions unanswered", ggrid=attempt.job.ggrid)
            self._settle(attempt, undecided("what it asked for could not be looked up"))
            return
        attempt.task = None
        frame = protocol.pack_frame(Frame.ANSWERS, attempt.number, protocol.StepAnswers(ask.step, answers))
        worker.keep_answers(attempt, frame)
        self._give_turns(worker)

    def _finish(self, attempt: Attempt, worker: WorkerProcess, report: JobResult) -> None:
        worker.release(attempt)
        del self._attempts[attempt]
        self._settle(attempt, report)
        if worker.served >= RETIRE_AFTER or self._has_grown(attempt, worker):
            self._running.retire(worker)
        self._running.end_if_retired(worker)

    def _has_grown(self, attempt: Attempt, worker: WorkerProcess) -> bool:
        if worker.jobs or (attempt.size <= LARGE and worker.served % _MEASURE_EVERY):
            return False
        return worker.measure_growth() > min(_MAX_GROWTH, self._settings.memory // 2)

    def _settle(self, attempt: Attempt, report: JobResult) -> None:
        if not attempt.result.done():
            attempt.result.set_result(report)
        self._drop(attempt)

    def _drop(self, attempt: Attempt) -> None:
        """Forget an attempt, wherever it is: it has its report, or its caller no longer waits."""
        if attempt not in self._attempts:
            return
        worker = self._attempts.pop(attempt)
        if worker is None:
            self._queue.remove(attempt)
            return
        self._take_out(attempt, worker)
        self._running.end_if_retired(worker)
        self._dispatch()

    def _take_out(self, attempt: Attempt, worker: WorkerProcess) -> None:
        attempt.reset()
        worker.release(attempt)
        worker.channel.send(protocol.raw_frame(Frame.CANCEL, attempt.number, b""))

    def _watch_soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick, self._watch)

    def _watch(self) -> None:
        """Look at every deadline and at every status page; sleep while there is nothing to watch."""
        self._timer = None
        now = self._loop.time()
        # A message waits for its first worker for as long as it takes, if there is any worker at all.
        patience = float("inf") if self._running.ready else self._settings.analysis_timeout
        for attempt, worker in list(self._attempts.items()):
            if now >= (attempt.deadline or attempt.arrived + patience):
                self._expire(attempt, worker)
        for worker in list(self._workers):
            if worker.is_overdue(now):
                worker.kill("deadline")
            elif worker.is_stalled(now, self._settings.stage_seconds):
                worker.kill("stall")
            elif worker.is_slow(_SLOW_CPU):
                self._relieve(worker)
        if self._attempts or any(worker.busy for worker in self._workers):
            self._watch_soon()

    def _relieve(self, worker: WorkerProcess) -> None:
        """Start another worker in place of one that computes for long, so that mail does not wait for it. The slow one
        goes on at a lower priority, and what else lies in it starts again elsewhere."""
        if not self._running.relieve(worker):
            return
        executing = worker.state.job
        for attempt in list(worker.jobs.values()):
            if executing and attempt.number != executing and attempt.restart() is None:
                self._take_out(attempt, worker)
                self._attempts[attempt] = None
                self._queue.put(attempt, again=True)
        self._running.end_if_retired(worker)

    def _look_at_idle(self) -> None:
        """End workers that compute although it is no job's turn in them: no sound worker does."""
        self._look_timer = self._loop.call_later(_LOOK_SECONDS, self._look_at_idle)
        for worker in self._workers:
            if worker.idle_cpu() > _MAX_IDLE_CPU:
                worker.kill("cpu")

    def _expire(self, attempt: Attempt, worker: WorkerProcess | None) -> None:
        """End a job whose time is up, and the worker if it was its turn; the page only says which stage to name."""
        state = worker.state if worker and attempt.number in worker.turns else None
        named = state is not None and state.job == attempt.number
        report = attempt.expire(state.stage if state and named else None)
        if named:
            self._poison.remember(attempt.job, attempt.skip, report)
        if worker and state:
            worker.kill("deadline")
        self._settle(attempt, report)

    def on_worker_lost(self, worker: WorkerProcess) -> None:
        """Blame the job that executed in a worker that has ended; the others start again."""
        reason: Reason = worker.kill_reason or ("memory" if worker.out_of_memory else "crash")
        state = worker.state
        # At a deadline the late job has its report already; the one that executes is not late itself.
        blamed = None if reason in ("deadline", "cpu") else worker.jobs.get(state.job)
        for attempt in list(worker.jobs.values()):
            self._attempts[attempt] = None
            attempt.reset()
            if attempt is blamed and state.stage in attempt.sent:
                self._poison.blame_snapshot(attempt.sent[state.stage])
                end = self._refuse_snapshots(attempt) or attempt.restart()
            elif attempt is blamed:
                end = attempt.blame(state.stage, reason, can_skip=worker.can_skip(state.stage))
                self._poison.remember(attempt.job, attempt.skip, end)
            else:
                end = attempt.restart()
            if end is None:
                self._queue.put(attempt, again=True)
            else:
                self._settle(attempt, end)
        self._kills[reason] += 1
        ggrid = blamed.job.ggrid if blamed else None
        _log.warning("worker lost", reason=reason, stage=state.stage, ggrid=ggrid, served=worker.served)
        self._dispatch()
