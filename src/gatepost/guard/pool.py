"""The analysis workers, as guard's event loop drives them.

Each message is analysed in a sealed process (see `seal`) that can ask and answer and nothing else. guard hands out jobs
(`queueing`), answers questions, watches every worker's page (`page`), and ends a worker that stands still, grows or
outlives a message's deadline. Only this timer kills: a limit inside the process could be swallowed by a library or
hang with it in native code. What follows for the messages inside is in `attempt`.
"""

import asyncio
import itertools
import os
import socket
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from gatepost.analysis import Report, undecided
from gatepost.asking import Answers, Questions
from gatepost.findings import Outcome
from gatepost.guard import frames
from gatepost.guard.attempt import AnalysisJob, Attempt, Reason, State
from gatepost.guard.crew import Hand
from gatepost.guard.frames import Frame, FrameError, Snapshot
from gatepost.guard.nursery import LoaderError, Nursery
from gatepost.guard.page import Page, new_page
from gatepost.guard.queueing import LARGE, Queue
from gatepost.policy import Policy

__all__ = ["AnalysisJob", "PoolCounters", "PoolSettings", "SealError", "WorkerPool"]

RETIRE_AFTER = 10_000
_LOOK_AT_MEMORY_EVERY = 200
_MOST_GROWTH = 256 << 20
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_PAUSE_SECONDS = (0.05, 5.0)

_log = structlog.get_logger("gatepost.workers")


class SealError(RuntimeError):
    """Workers cannot be started, or cannot be shut in; the text is one sentence for the operator."""


class PoolSettings(msgspec.Struct, frozen=True):
    """Times in seconds, memory in bytes over what an idle worker holds. `trial` is for tests only."""

    processes: int
    analysis_timeout: float
    stage_limit: float
    memory: int
    unsealed: bool = False
    trial: bool = False

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
    ) -> None:
        self._settings = settings
        self._answer = answer
        self._snapshots = {"policy": Snapshot("policy", 1, msgspec.msgpack.encode(policy))}
        self._tick = max(0.01, min(0.1, settings.stage_seconds / 5))
        self._queue: Queue[Attempt] = Queue()
        self._attempts: dict[Attempt, Hand | None] = {}
        self._hands: dict[int, Hand] = {}
        self._numbers = itertools.count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._changed = asyncio.Event()
        self._leaks: tuple[str, ...] = ()
        self._pause = _PAUSE_SECONDS[0]
        self._chores: set[asyncio.Task[None]] = set()
        self._jobs = self._restarts = self._retired = 0
        self._kills: dict[Reason, int] = {"stall": 0, "deadline": 0, "crash": 0, "memory": 0}

    async def start(self) -> None:
        """Start the workers and wait until each has been sealed and has failed to break out."""
        self._loop = asyncio.get_running_loop()
        self._nursery = Nursery(self._born, self._loader_lost)
        try:
            await self._nursery.start()
            for _ in range(self._settings.processes):
                self._spawn()
            async with asyncio.timeout(_START_SECONDS):
                await self._all_ready()
        except (LoaderError, TimeoutError) as fault:
            await self.stop()
            raise SealError(str(fault) or "The analysis workers do not start; the log says why.") from None
        if self._leaks and not self._settings.unsealed:
            await self.stop()
            raise SealError(
                f"The analysis workers cannot be sealed on this system ({', '.join(self._leaks)} still possible); "
                "`unsealed: true` in guard.yml starts them all the same."
            )

    async def analyse(self, job: AnalysisJob) -> Report:
        """The report on one message. Whatever the message does to its worker, there is one."""
        if self._stopping:
            return undecided("the service is stopping")
        self._jobs += 1
        attempt = Attempt(job, self._loop)
        self._attempts[attempt] = None
        self._queue.put(attempt)
        self._dispatch()
        self._watch_soon()
        try:
            return await attempt.result
        finally:
            self._drop(attempt)

    def publish(self, key: str, data: bytes) -> None:
        """Give every job from now on this version of a snapshot."""
        self._snapshots[key] = Snapshot(key, self._snapshots[key].version + 1, data)

    async def stop(self) -> None:
        """Let analyses finish for a few seconds, leave the rest undecided, and end every process."""
        self._stopping = True
        if self._attempts:
            await asyncio.wait([attempt.result for attempt in self._attempts], timeout=_STOP_SECONDS)
        for attempt in list(self._attempts):
            self._settle(attempt, undecided("the service is stopping"))
        if self._timer is not None:
            self._timer.cancel()
        for hand in self._hands.values():
            hand.close()
        self._hands.clear()
        for chore in self._chores:
            chore.cancel()
        await self._nursery.stop()

    def counters(self) -> PoolCounters:
        """Figures for metrics and for the operator."""
        return PoolCounters(
            jobs=self._jobs,
            kills=dict(self._kills),
            restarts=self._restarts,
            retired=self._retired,
            busy=sum(hand.busy for hand in self._hands.values()),
            queued=len(self._queue),
            workers=sum(hand.ready for hand in self._hands.values()),
            sealed=not self._leaks,
        )

    def _spawn(self) -> None:
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        page = new_page()
        self._hands[number] = Hand(self._loop, ours, Page(page), self._received, lambda _hand: self._lost(number))
        order = frames.Spawn(number, self._settings.memory, self._settings.trial)
        self._nursery.spawn(order, theirs, page)
        theirs.close()
        os.close(page)

    def _born(self, number: int, pid: int, pidfd: int) -> None:
        hand = self._hands.get(number)
        if hand is None:
            os.close(pidfd)
            return
        hand.born(pid, pidfd)
        self._joined(hand)

    def _joined(self, hand: Hand) -> None:
        if hand.ready:
            hand.growth()
            self._pause = _PAUSE_SECONDS[0]
            self._changed.set()
            self._dispatch()

    async def _all_ready(self) -> None:
        while self.counters().workers < self._settings.processes:
            self._changed.clear()
            await self._changed.wait()

    def _dispatch(self) -> None:
        while found := self._queue.next(self._hands.values()):
            self._begin(*found)

    def _begin(self, attempt: Attempt, hand: Hand) -> None:
        now = self._loop.time()
        attempt.deadline = attempt.deadline or now + self._settings.analysis_timeout
        self._attempts[attempt] = hand
        large = attempt.size > LARGE
        hand.take(attempt, State.LOADING if large else State.RUNNING, now)
        if large:
            attempt.helper = self._loop.create_task(self._load(attempt, hand))
            return
        try:
            raw = attempt.job.body.read()
        except OSError:
            self._unreadable(attempt)
        else:
            self._hand_over(attempt, hand, raw)

    async def _load(self, attempt: Attempt, hand: Hand) -> None:
        """A large message is read from disk beside the event loop, and only once a worker waits for it."""
        try:
            raw = await asyncio.to_thread(attempt.job.body.read)
        except OSError:
            self._unreadable(attempt)
            return
        attempt.helper = None
        self._hand_over(attempt, hand, raw)

    def _unreadable(self, attempt: Attempt) -> None:
        _log.error("message unreadable", ggrid=attempt.job.ggrid)
        self._settle(attempt, undecided("the message could not be read from disk"))

    def _hand_over(self, attempt: Attempt, hand: Hand, raw: bytes) -> None:
        news = [snapshot for key, snapshot in self._snapshots.items() if hand.versions.get(key) != snapshot.version]
        hand.versions.update((snapshot.key, snapshot.version) for snapshot in news)
        job = frames.Job(attempt.job.envelope, attempt.job.now, attempt.skip, tuple(attempt.known.items()))
        hand.channel.send(
            *(frames.packed(Frame.SNAPSHOT, 0, snapshot) for snapshot in news),
            frames.packed(Frame.JOB, attempt.number, job),
            frames.raw_header(attempt.number, len(raw)),
            raw,
        )

    def _received(self, hand: Hand, kind: Frame, number: int, body: bytes) -> None:
        """One frame of a worker; `FrameError` ends it."""
        if kind is Frame.READY:
            self._reported(hand, frames.ready(body))
            return
        if number in hand.dropped:
            return
        attempt = hand.jobs.get(number)
        if attempt is None or not attempt.executing:
            raise FrameError("not this job's turn")
        if kind is Frame.ASK:
            self._asked(attempt, hand, frames.ask(body))
        else:
            self._finished(attempt, hand, _concluded(kind, body))
        self._dispatch()

    def _reported(self, hand: Hand, ready: frames.Ready) -> None:
        if hand.sealed is not None:
            raise FrameError("ready twice")
        if ready.leaks:
            self._leaks = ready.leaks
            _log.warning("worker not sealed", possible=ready.leaks, layers=ready.layers)
        hand.sealed = not ready.leaks
        self._joined(hand)

    def _asked(self, attempt: Attempt, hand: Hand, ask: frames.Ask) -> None:
        if ask.step != attempt.step + 1:
            raise FrameError("a step out of order")
        attempt.step = ask.step
        attempt.state = State.ASKING
        attempt.helper = self._loop.create_task(self._answered(attempt, hand, ask))

    async def _answered(self, attempt: Attempt, hand: Hand, ask: frames.Ask) -> None:
        try:
            answers = await self._answer(attempt.job, ask.questions)
            attempt.learn(ask.questions, answers)
        except Exception:
            _log.exception("questions unanswered", ggrid=attempt.job.ggrid)
            self._settle(attempt, undecided("what it asked for could not be looked up"))
            return
        attempt.helper = None
        if not hand.busy:
            hand.touch(self._loop.time())
        attempt.state = State.RUNNING
        hand.channel.send(frames.packed(Frame.ANSWERS, attempt.number, frames.Given(ask.step, answers)))

    def _finished(self, attempt: Attempt, hand: Hand, report: Report) -> None:
        del hand.jobs[attempt.number]
        self._attempts[attempt] = None
        self._settle(attempt, report)
        hand.served += 1
        if hand.served >= RETIRE_AFTER or self._grown(attempt, hand):
            self._retire(hand)
        self._leave(hand)

    def _grown(self, attempt: Attempt, hand: Hand) -> bool:
        if hand.jobs or (attempt.size <= LARGE and hand.served % _LOOK_AT_MEMORY_EVERY):
            return False
        return hand.growth() > min(_MOST_GROWTH, self._settings.memory // 2)

    def _retire(self, hand: Hand) -> None:
        """Its successor starts at once; itself goes when the jobs inside are done."""
        if not hand.retiring and not self._stopping:
            hand.retiring = True
            self._retired += 1
            self._spawn()

    def _leave(self, hand: Hand) -> None:
        if hand.retiring and not hand.jobs:
            hand.close()
            self._hands = {number: other for number, other in self._hands.items() if other is not hand}

    def _settle(self, attempt: Attempt, report: Report) -> None:
        if not attempt.result.done():
            attempt.result.set_result(report)
        self._drop(attempt)

    def _drop(self, attempt: Attempt) -> None:
        """Forget an attempt, wherever it is: it has its report, or its caller no longer waits."""
        if attempt not in self._attempts:
            return
        hand = self._attempts.pop(attempt)
        attempt.rest()
        if hand is None:
            self._queue.remove(attempt)
            return
        hand.release(attempt)
        hand.channel.send(frames.frame(Frame.CANCEL, attempt.number, b""))
        self._leave(hand)
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
        for hand in self._hands.values():
            if hand.stalled(now, self._settings.stage_seconds):
                hand.kill("stall")
        if self._attempts:
            self._watch_soon()

    def _patience(self) -> float:
        """How long a message may wait for its first worker: as long as it takes, if there is any worker at all."""
        return float("inf") if any(hand.ready for hand in self._hands.values()) else self._settings.analysis_timeout

    def _expire(self, attempt: Attempt, hand: Hand | None) -> None:
        stage = None
        if hand is not None and attempt.executing and (hand.place.job == attempt.number or attempt.alone):
            stage = hand.place.stage
            hand.kill("deadline")
        self._settle(attempt, attempt.late(stage))

    def _lost(self, number: int) -> None:
        """A worker is gone: see who was to blame, start the others again, and have it replaced."""
        hand = self._hands.pop(number)
        reason: Reason = hand.doom or ("memory" if hand.out_of_memory else "crash")
        place = hand.place
        blamed = hand.jobs.get(place.job)
        for attempt in list(hand.jobs.values()):
            self._attempts[attempt] = None
            attempt.rest()
            end = attempt.struck(place.stage, reason) if attempt is blamed else attempt.displaced()
            if end is not None:
                self._settle(attempt, end)
            else:
                self._queue.put(attempt, again=True)
        hand.close()
        self._kills[reason] += 1
        ggrid = blamed.job.ggrid if blamed else None
        _log.warning("worker lost", reason=reason, stage=place.stage, ggrid=ggrid, served=hand.served)
        self._replace(hand)
        self._dispatch()

    def _replace(self, hand: Hand) -> None:
        if self._stopping or hand.retiring:
            return
        self._restarts += 1
        if hand.ready or hand.served:
            self._spawn()
        else:  # it never came up: something is wrong that trying harder does not mend
            self._loop.call_later(self._pause, self._spawn_again)
            self._pause = min(self._pause * 2, _PAUSE_SECONDS[1])

    def _spawn_again(self) -> None:
        if not self._stopping:
            self._spawn()

    def _loader_lost(self) -> None:
        """Its workers die with it, each noticed by itself; what they need is another loader."""
        _log.error("loader lost")
        chore = self._loop.create_task(self._reload())
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    async def _reload(self) -> None:
        while not self._stopping:
            await self._nursery.stop()
            self._nursery = Nursery(self._born, self._loader_lost)
            try:
                await self._nursery.start()
            except LoaderError:
                await asyncio.sleep(_PAUSE_SECONDS[1])
            else:
                return


def _concluded(kind: Frame, body: bytes) -> Report:
    if kind is Frame.DONE:
        return frames.report(body)
    failed = frames.failed(body)
    outcome = Outcome(failed.stage, "failed", failed.reason)
    return undecided(f"{failed.stage} broke the analysis: {failed.reason}", [outcome])
