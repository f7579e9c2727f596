"""The analysis workers, as guard's event loop drives them.

Each message is analysed in a sealed process (see `sandbox`) that can ask and answer and nothing else. guard hands out
jobs (`jobs`), answers questions, watches every worker's status page (`status_page`), and ends a worker that stands
still, grows, outlives a message's deadline or computes without a job. Only this timer kills: a limit inside the process
could be swallowed by a library or hang with it in native code, and deadlines are guard's own, whatever a page says.
`jobs.Job` decides what follows for the messages inside.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from gatepost.policy.layers import OUTBOUND
from gatepost.policy.rules import Policy, collect_titles
from gatepost.process.logs import Logger
from gatepost.questions import Answers, Questions
from gatepost.workers import protocol
from gatepost.workers.fair_queue import IDLE_SECONDS, ReadyJobs, RecentTenants
from gatepost.workers.jobs import (
    WHAT_HAPPENED,
    Job,
    PoisonMemory,
    PoolCounters,
    Reason,
    Snapshot,
    SnapshotName,
    is_rule,
)
from gatepost.workers.loading import WorkerFiles
from gatepost.workers.process import WorkerProcess
from gatepost.workers.protocol import JUDGE, LARGE, LOAD_LISTS, LOAD_MODELS, LOAD_POLICY, Frame, FrameError
from gatepost.workers.supervisor import SealError, Supervisor, describe_leaks

T = TypeVar("T")

RETIRE_AFTER, MAX_VIEWS = 10_000, 2
_MEASURE_EVERY, _MAX_GROWTH = 200, 256 << 20
_STOP_SECONDS = 5.0
# CPU seconds without a frame after which a worker gets a stand-in; starting one costs a hundredth of a second of CPU.
_SLOW_CPU = 0.25
# How often guard looks at the CPU that workers use without a job, and how many seconds of it are too much. A sound
# worker tidies up after a large message, which takes a fraction of a second.
_LOOK_SECONDS, _MAX_IDLE_CPU = 5.0, 1.5
_log = Logger("gatepost.workers")


class PoolSettings(msgspec.Struct, frozen=True):
    """Times in seconds, memory in bytes over what an idle worker holds. A message has `message_cpu` seconds of CPU, a
    larger one for each MiB. `rules` is a folder of YARA rules, `models` one of text models, `antivirus` whether there
    is one to ask, `reputation` what zones are asked about, `plugins` whose checks run besides, `own_networks` those of
    tenants, and under `*` those of all."""

    processes: int
    analysis_timeout: float
    stage_limit: float
    memory: int
    unsealed: bool = False
    rules: str | None = None
    models: str = ""
    antivirus: bool = False
    reputation: tuple[str, ...] = ()
    own_networks: Mapping[str, tuple[str, ...]] = {}
    plugins: tuple[str, ...] = ()
    message_cpu: float = 1.0

    def cpu_for(self, size: int) -> float:
        """Return how many seconds of CPU a message of so many bytes may take."""
        return self.message_cpu * max(1.0, size / (1 << 20))

    def own_networks_of(self, tenant: str | None) -> tuple[str, ...]:
        """Return the networks from which own people send mail of a tenant."""
        own = self.own_networks
        return (*own.get("*", ()), *own.get(tenant or "", ())) if own else ()

    @property
    def stage_seconds(self) -> float:
        """Never more than a third of the whole, so that a second job still fits."""
        return min(self.stage_limit, self.analysis_timeout / 3)


class JobFrames:
    """Builds what travels to a worker with a job: policy, lists and learnt models that it does not have yet, then the
    message. All three are snapshots: packed once for each version, then sent to each worker as the same bytes,
    uncopied. guard notes which version each worker holds, within the bounds of `RecentSnapshots`.

    `settings` say what can be asked, and from where own people send."""

    def __init__(self, policy: Policy, tenants: Mapping[str, Policy], settings: PoolSettings) -> None:
        self._settings = settings
        self._policies: dict[str | None, Snapshot] = {}
        for tenant, each in ((None, policy), *tenants.items()):
            self.publish(tenant, each)

    def publish(self, tenant: str | None, policy: Policy) -> None:
        """Judge every message of a tenant by this policy from now on; without a tenant, all that have none."""
        scope = tenant or None
        before = self._policies.get(scope)
        version = str(int(before.version) + 1 if before else 1)
        # Each worker gets it with the first job that needs it.
        key = f"policy:{scope}" if scope else "policy"
        self._policies[scope] = Snapshot(key, version, msgspec.msgpack.encode(policy))

    def snapshots_of(self, job: Job[Any]) -> tuple[SnapshotName, ...]:
        """The names of the snapshots that a job needs."""
        policy, others = self._policy_of(job), (job.lists, job.learnt)
        return ((policy.key, policy.version), *((each.key, each.version) for each in others if each.data))

    def build(self, job: Job[Any], worker: WorkerProcess, raw: bytes) -> list[bytes]:
        """Return the frames of a job in that worker, and note which snapshots it holds from then on."""
        policy, lists, learnt = self._policy_of(job), job.lists, job.learnt
        frames: list[bytes] = []
        job.sent.clear()
        for stage, held, snapshot in (
            (LOAD_POLICY, worker.policies, policy),
            (LOAD_LISTS, worker.lists, lists),
            (LOAD_MODELS, worker.learnt, learnt),
        ):
            if snapshot.data and held.get(snapshot.key) != snapshot.version:
                held.put(snapshot.key, snapshot.version, len(snapshot.data))
                job.sent[stage] = (snapshot.key, snapshot.version)
                frames += (protocol.snapshot_header(job.number, snapshot.key, len(snapshot.data)), snapshot.data)
        header = protocol.JobHeader(
            envelope=job.envelope,
            now=job.now,
            lists=lists.key if lists.data else "",
            skip=job.skip,
            known=job.known,
            antivirus=self._settings.antivirus,
            policy=policy.key,
            purpose=job.purpose.name,
            index=job.index,
            reputation=self._settings.reputation,
            learnt=learnt.key if learnt.data else "",
            parts=job.parts,
            own_networks=self._settings.own_networks_of(job.tenant),
            for_mailboxes=job.for_mailboxes,
            cpu=job.draw(self._settings.cpu_for(job.size)),
        )
        frames += (protocol.pack_frame(Frame.JOB, job.number, header), protocol.raw_header(job.number, len(raw)), raw)
        return frames

    def _policy_of(self, job: Job[Any]) -> Snapshot:
        envelope = job.envelope
        scope = OUTBOUND if envelope.outbound else envelope.tenant
        return self._policies.get(scope) or self._policies[None]


class WorkerPool:
    """Analyses messages in sealed processes; `answer` is asked for whatever an analysis cannot know by itself, and may
    return at once what takes no waiting. `tenants` are the tenants with a policy of their own, `senders` those that
    have sent mail just now."""

    def __init__(
        self,
        settings: PoolSettings,
        answer: Callable[[Job[Any], Questions], Answers | Awaitable[Answers]],
        policy: Policy,
        tenants: Mapping[str, Policy] = MappingProxyType({}),
        *,
        senders: RecentTenants | None = None,
    ) -> None:
        self.note_cpu: Callable[[str | None, float], None] = lambda _tenant, _seconds: None
        self._settings = settings
        self._answer = answer
        self._judge = protocol.judge_with(collect_titles(policy))
        self._frames = JobFrames(policy, tenants, settings)
        self._poison = PoisonMemory()
        self._max_growth = min(_MAX_GROWTH, settings.memory // 2)
        self._tick = max(0.01, min(0.1, settings.stage_seconds / 5))
        self._queue: ReadyJobs[Job[Any]] = ReadyJobs(tenants=senders)
        self._jobs: dict[Job[Any], WorkerProcess | None] = {}
        # Showing messages to people never takes the last worker, where there are several.
        self._views = asyncio.Semaphore(max(1, min(MAX_VIEWS, settings.processes - 1)))
        self._supervisor: Supervisor | None = None
        self._workers: Collection[WorkerProcess] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._look_timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._count = 0
        self._kills: dict[Reason, int] = dict.fromkeys(WHAT_HAPPENED, 0)

    async def start(self) -> None:
        """Start the workers and wait until each has been sealed and has failed to break out."""
        self._loop, settings = asyncio.get_running_loop(), self._settings
        files = WorkerFiles(settings.rules or "", settings.models, settings.plugins)
        self._supervisor = supervisor = Supervisor(
            settings.memory,
            files,
            on_frame=self._on_frame,
            on_lost=self._on_worker_lost,
            on_ready=self._dispatch,
            turns=self._queue.turns,
        )
        self._workers = supervisor.workers.values()
        try:
            await supervisor.start(settings.processes)
            if supervisor.leaks and not settings.unsealed:
                raise SealError(describe_leaks(supervisor.leaks))
            supervisor.must_be_sealed = not settings.unsealed
            self._look_at_idle()
        except SealError:
            await self.stop()
            raise

    async def run(self, job: Job[T]) -> T:
        """Return the result of a job; there is one whatever the message does."""
        if self._stopping:
            return job.end("the service is stopping")
        self._count += 1
        job.arrive(self._count, self._loop)
        if not self._poison.is_empty and (known := self._recall(job)) is not None:
            return known
        self._jobs[job] = None
        self._queue.put(job)
        self._dispatch()
        self._watch_soon()
        try:
            return await job.result
        finally:
            if job in self._jobs:
                self._drop(job)

    async def show(self, job: Job[T]) -> T:
        """Return what a person may see of a message, or a picture in it: few at a time."""
        try:
            async with asyncio.timeout(self._settings.analysis_timeout), self._views:
                return await self.run(job)
        except TimeoutError:
            return job.end("every worker is busy")

    def _recall(self, job: Job[T]) -> T | None:
        """Return the report on a message whose copy, or whose snapshots, broke workers; None if it is tried."""
        broken = self._poison.recall(job)
        if broken is not None:
            job.skip.update(broken.skip)
            known: T | None = broken.result
            if known is not None:
                return known
        return self._refuse_snapshots(job)

    def _refuse_snapshots(self, job: Job[T]) -> T | None:
        if self._poison.refuses(self._frames.snapshots_of(job)):
            return job.end("the lists or the policy of its tenant broke the workers that loaded them")
        return None

    def publish(self, tenant: str | None, policy: Policy) -> None:
        """Judge every message of a tenant by this policy from now on; without a tenant, all that have none."""
        self._frames.publish(tenant, policy)

    async def stop(self) -> None:
        """Let analyses finish for a few seconds, leave the rest undecided, and end every process."""
        self._stopping = True
        if self._jobs:
            await asyncio.wait([job.result for job in self._jobs], timeout=_STOP_SECONDS)
        for job in list(self._jobs):
            self._settle(job, job.end("the service is stopping"))
        for timer in filter(None, (self._timer, self._look_timer)):
            timer.cancel()
        if self._supervisor is not None:
            await self._supervisor.stop()

    def count_idle(self, tenant: str | None) -> int:
        """How many messages of a tenant have been waiting for answers for a while, and use no processor."""
        before = asyncio.get_running_loop().time() - IDLE_SECONDS
        return sum(job.tenant == tenant and (job.asked_at or math.inf) < before for job in self._jobs)

    def counters(self) -> PoolCounters:
        """Figures for metrics and for the operator."""
        supervisor = self._supervisor
        return PoolCounters(
            jobs=self._count,
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
    def _running(self) -> Supervisor:
        assert self._supervisor
        return self._supervisor

    def _dispatch(self) -> None:
        while found := self._queue.next(self._workers):
            job, worker = found
            # What it would break may have broken while it waited.
            if not (job.skip or self._poison.is_empty) and (known := self._recall(job)) is not None:
                del self._jobs[job]
                self._settle(job, known)
            else:
                self._begin(job, worker)

    def _begin(self, job: Job[Any], worker: WorkerProcess) -> None:
        job.deadline = job.deadline or self._loop.time() + self._settings.analysis_timeout
        self._jobs[job] = worker
        worker.take(job)
        if job.size > LARGE:
            job.task = self._loop.create_task(self._load(job, worker))
            return
        try:
            raw = job.body.read()
        except (OSError, ValueError):
            self._fail_unreadable(job)
        else:
            self._send_job(job, worker, raw)

    async def _load(self, job: Job[Any], worker: WorkerProcess) -> None:
        """A large message is read from disk beside the event loop, and only once a worker waits for it."""
        try:
            raw = await asyncio.to_thread(job.body.read)
        except (OSError, ValueError):
            self._fail_unreadable(job)
            return
        job.task = None
        self._send_job(job, worker, raw)

    def _fail_unreadable(self, job: Job[Any]) -> None:
        _log.error("message unreadable", ggrid=job.ggrid)
        self._settle(job, job.end("the message could not be read from disk"))

    def _send_job(self, job: Job[Any], worker: WorkerProcess, raw: bytes) -> None:
        worker.channel.send(*self._frames.build(job, worker, raw))
        worker.begin_turn(job, self._loop.time())

    def _on_frame(self, worker: WorkerProcess, kind: Frame, number: int, body: bytes) -> None:
        """Handle one frame of a worker; `FrameError` ends the worker."""
        if number not in worker.turns:
            raise FrameError("not this job's turn")
        job = worker.end_turn(number)
        self._count_turn(worker, job)
        if worker.jobs.get(number) is not job:
            pass  # its caller no longer waits
        elif kind is Frame.ASK:
            self._handle_ask(job, worker, protocol.read_ask(body))
        else:
            purpose = self._judge if job.purpose is protocol.JUDGE else job.purpose
            self._finish(job, worker, purpose.read_result(kind, body))
        self._give_turns(worker)

    def _count_turn(self, worker: WorkerProcess, job: Job[Any]) -> None:
        """Count what a worker has used for a job, which may have been given up since."""
        used = worker.take_cpu()
        if self._jobs.get(job) is worker:
            job.cpu += used
        else:
            self._charge(job.tenant, used)

    def _charge(self, tenant: str | None, seconds: float) -> None:
        """What mail of a tenant has cost puts off its next turns."""
        self._queue.turns.charge(tenant, seconds)
        self.note_cpu(tenant, seconds)

    def _give_turns(self, worker: WorkerProcess) -> None:
        """Resume jobs that have their answers, unless a new job of another tenant has its turn before them."""
        answered = worker.next_answered
        if answered is not None and not self._queue.goes_before(answered.tenant):
            worker.resume(self._loop.time())
            answered = None
        self._dispatch()
        if answered is not None and not worker.turns:
            worker.resume(self._loop.time())

    def _handle_ask(self, job: Job[Any], worker: WorkerProcess, ask: protocol.Ask) -> None:
        if ask.step != job.step + 1 or job.purpose is not JUDGE:
            raise FrameError("a step out of order")
        job.step, job.asked_at = ask.step, self._loop.time()
        try:
            answers = self._answer(job, ask.questions)
            if isinstance(answers, tuple):
                # Whoever handles the frame gives the next turns.
                self._keep_answers(job, worker, ask, answers)
                return
        except Exception:  # noqa: BLE001  whatever it was, it is logged, and the message is not lost
            self._fail_unanswered(job)
            return
        job.task = asyncio.ensure_future(answers)
        job.task.add_done_callback(partial(self._on_answers, job, worker, ask))

    def _on_answers(
        self, job: Job[Any], worker: WorkerProcess, ask: protocol.Ask, answers: asyncio.Future[Answers]
    ) -> None:
        if answers.cancelled():
            return
        if job.task is not answers:
            answers.exception()  # they came for an attempt that has ended meanwhile
            return
        try:
            self._keep_answers(job, worker, ask, answers.result())
        except Exception:  # noqa: BLE001  as above
            self._fail_unanswered(job)
            return
        finally:
            # An exception refers to this frame: only the collector would free it if the frame referred to it.
            del answers
        self._give_turns(worker)

    def _keep_answers(self, job: Job[Any], worker: WorkerProcess, ask: protocol.Ask, answers: Answers) -> None:
        job.learn(ask.questions, answers)
        job.task = job.asked_at = None
        frame = protocol.pack_frame(Frame.ANSWERS, job.number, protocol.StepAnswers(ask.step, answers))
        worker.keep_answers(job, frame)

    def _fail_unanswered(self, job: Job[Any]) -> None:
        _log.exception("questions unanswered", ggrid=job.ggrid)
        self._settle(job, job.end("what it asked for could not be looked up"))

    def _finish(self, job: Job[T], worker: WorkerProcess, result: T) -> None:
        self._charge(job.tenant, job.cpu)
        worker.release(job)
        del self._jobs[job]
        if not job.result.done():
            job.result.set_result(result)
        is_measured = not worker.jobs and (job.size > LARGE or not worker.served % _MEASURE_EVERY)
        if worker.served >= RETIRE_AFTER or (is_measured and worker.measure_growth() > self._max_growth):
            self._running.retire(worker)
        if worker.retiring:
            self._running.end_if_retired(worker)

    def _settle(self, job: Job[T], result: T) -> None:
        if not job.result.done():
            job.result.set_result(result)
        if job in self._jobs:
            self._drop(job)

    def _drop(self, job: Job[Any]) -> None:
        """Forget a job, wherever it is: it has its report, or its caller no longer waits."""
        worker = self._jobs.pop(job)
        if worker and worker.turn is job:
            job.cpu += worker.take_cpu()
        self._charge(job.tenant, job.cpu)
        if worker is None:
            self._queue.remove(job)
            return
        self._take_out(job, worker)
        self._running.end_if_retired(worker)
        self._dispatch()

    def _take_out(self, job: Job[Any], worker: WorkerProcess) -> None:
        job.reset()
        worker.release(job)
        worker.channel.send(protocol.raw_frame(Frame.CANCEL, job.number, b""))

    def _watch_soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick, self._watch)

    def _watch(self) -> None:
        """Look at every deadline and at every status page; sleep while there is nothing to watch."""
        self._timer = None
        now = self._loop.time()
        # A message waits for its first worker for as long as it takes, if there is any worker at all.
        patience = float("inf") if self._running.ready else self._settings.analysis_timeout
        for job, worker in list(self._jobs.items()):
            if now >= (job.deadline or job.arrived + patience):
                self._expire(job, worker)
        for worker in list(self._workers):
            if worker.is_overdue(now):
                worker.kill("deadline")
            elif worker.is_stalled(now, self._settings.stage_seconds):
                worker.kill("stall")
            elif worker.is_slow(_SLOW_CPU):
                self._relieve(worker)
        if self._jobs or any(worker.busy for worker in self._workers):
            self._watch_soon()

    def _relieve(self, worker: WorkerProcess) -> None:
        """Start another worker in place of one that computes for long, so that mail does not wait for it. The slow one
        goes on at a lower priority, and what else lies in it starts again elsewhere."""
        if not self._running.relieve(worker):
            return
        executing = worker.state.job
        for job in list(worker.jobs.values()):
            if executing and job.number != executing and job.restart() is None:
                self._take_out(job, worker)
                self._jobs[job] = None
                self._queue.put(job, again=True)
        self._running.end_if_retired(worker)

    def _look_at_idle(self) -> None:
        """End workers that compute although it is no job's turn in them: no sound worker does."""
        self._look_timer = self._loop.call_later(_LOOK_SECONDS, self._look_at_idle)
        for worker in self._workers:
            if worker.idle_cpu() > _MAX_IDLE_CPU:
                worker.kill("cpu")

    def _expire(self, job: Job[Any], worker: WorkerProcess | None) -> None:
        """End a job whose time is up, and the worker if it was its turn; the page only says which stage to name."""
        state = worker.state if worker and job.number in worker.turns else None
        named = state is not None and state.job == job.number
        result = job.expire(state.stage if state and named else None)
        if named and state and not is_rule(state.stage):
            self._poison.remember(job, result)
        if worker and state:
            worker.kill("deadline")
        self._settle(job, result)

    def _on_worker_lost(self, worker: WorkerProcess) -> None:
        """Blame the job that executed in a worker that has ended; the others start again."""
        reason: Reason = worker.kill_reason or ("memory" if worker.status_page.out_of_memory else "crash")
        state = worker.state
        if turn := worker.turn:
            self._count_turn(worker, turn)
        # At a deadline the late job has its report already; the one that executes is not late itself. Of one that has
        # spent its account the page need not say so.
        executing = turn if turn and turn.cpu >= turn.most_cpu else worker.jobs.get(state.job)
        blamed = None if reason in ("deadline", "cpu") else executing
        for job in list(worker.jobs.values()):
            self._jobs[job] = None
            job.reset()
            if job is blamed and state.stage in job.sent:
                self._poison.blame_snapshot(job.sent[state.stage])
                end = self._refuse_snapshots(job) or job.restart()
            elif job is blamed:
                end = job.blame(state.stage, reason, can_skip=worker.status_page.stages.can_skip(state.stage))
                # Rules are of one tenant, and copies of the message may be for others. They cost the message nothing.
                if is_rule(state.stage):
                    self._charge(job.tenant, job.cpu)
                    job.cpu = 0.0
                else:
                    self._poison.remember(job, end)
            else:
                end = job.restart()
            if end is None:
                self._queue.put(job, again=True)
            else:
                self._settle(job, end)
        self._kills[reason] += 1
        ggrid = blamed.ggrid if blamed else None
        _log.warning("worker lost", reason=reason, stage=state.stage, ggrid=ggrid, served=worker.served)
        self._dispatch()
