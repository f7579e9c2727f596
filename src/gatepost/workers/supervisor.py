"""Having as many workers as were asked for: starting, replacing and retiring them."""

import asyncio
import itertools
import os
import socket
from collections.abc import Callable

from gatepost.process.logs import Logger
from gatepost.workers import protocol
from gatepost.workers.loader_client import LoaderClient, LoaderError, WorkerFiles
from gatepost.workers.process import WorkerProcess
from gatepost.workers.protocol import Frame, FrameError
from gatepost.workers.slot_counts import Turns
from gatepost.workers.status_page import StatusPage, new_status_page

_START_SECONDS = 30.0
_PAUSE_SECONDS = (0.05, 5.0)
_MAX_FAILED_STARTS = 5
# Workers beyond those of the settings: so many slow messages hold up no others. A service has as many as it has slots,
# since no more messages are analysed at once, up to the second number: each takes some ten megabytes.
MAX_RELIEVED, MOST_RELIEVED = 12, 40

_log = Logger("gatepost.workers")


class SealError(RuntimeError):
    """Workers cannot be started, or cannot be shut in; the text is one sentence for the operator."""


class Supervisor:
    """The worker processes. `workers` holds each from its order to its end; `leaks` is what a sealed worker could
    nevertheless do; `replaced`, `retired` and `relieved` count. With `must_be_sealed`, which the pool sets once the
    first workers have proven their seal, a worker that is not sealed is ended and replaced.

    The pool is told of every frame about a job (`on_frame`, whose `FrameError` ends the worker), of a worker that has
    ended with the jobs inside (`on_lost`), which is replaced in any case, and of one more that takes jobs (`on_ready`).
    """

    def __init__(
        self,
        memory: int,
        files: WorkerFiles,
        *,
        on_frame: Callable[[WorkerProcess, Frame, int, bytes], None],
        on_lost: Callable[[WorkerProcess], None],
        on_ready: Callable[[], None],
        slots: int = 0,
        turns: Turns | None = None,
    ) -> None:
        self.must_be_sealed = False
        self.workers: dict[int, WorkerProcess] = {}
        self.leaks: tuple[str, ...] = ()
        self.replaced = 0
        self.retired = 0
        self.relieved = 0
        self._tell_frame, self._tell_lost, self._tell_ready = on_frame, on_lost, on_ready
        self._memory = memory
        self._files = files
        self._turns = turns or Turns()
        self._max_relieved = max(MAX_RELIEVED, min(slots, MOST_RELIEVED))
        self._loop = asyncio.get_running_loop()
        self._loader = LoaderClient(self._on_started, self._on_loader_lost, files)
        self._numbers = itertools.count(1)
        self._pause = _PAUSE_SECONDS[0]
        self._changed = asyncio.Event()
        self._stopped = False
        self._reloading: asyncio.Task[None] | None = None

    @property
    def ready(self) -> int:
        """How many workers can take jobs."""
        return sum(worker.ready for worker in self.workers.values())

    async def start(self, processes: int) -> None:
        """Start so many workers; returns when each has reported how well it is sealed."""
        try:
            await self._loader.start()
            for _ in range(processes):
                self._spawn()
            async with asyncio.timeout(_START_SECONDS):
                while self.ready < processes:
                    self._changed.clear()
                    await self._changed.wait()
                    if self.replaced >= _MAX_FAILED_STARTS:
                        raise TimeoutError
        except LoaderError as fault:
            raise SealError(str(fault)) from None
        except TimeoutError:
            raise SealError("The analysis workers do not start; the log says why.") from None

    async def stop(self) -> None:
        """End all workers; returns when every process has ended."""
        self._stopped = True
        for worker in self.workers.values():
            worker.close()
        self.workers.clear()
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait([self._reloading])
        await self._loader.stop()

    def retire(self, worker: WorkerProcess) -> None:
        """Start the worker's successor at once; the worker itself ends when the jobs inside are done."""
        if not worker.retiring and not self._stopped:
            worker.retiring = True
            self.retired += 1
            self._spawn()

    def relieve(self, worker: WorkerProcess) -> bool:
        """Start another worker beside one that computes for long, which goes on at a lower priority and ends when the
        jobs inside are done. Return False where there are too many of those."""
        if self._stopped or sum(each.retiring for each in self.workers.values()) >= self._max_relieved:
            return False
        worker.retiring = True
        worker.be_nice()
        self.relieved += 1
        self._spawn()
        return True

    def end_if_retired(self, worker: WorkerProcess) -> None:
        """End a retiring worker if no job is left inside. One that was killed is noticed when its socket closes."""
        if worker.retiring and not worker.jobs and worker.kill_reason is None and worker.number in self.workers:
            del self.workers[worker.number]
            worker.close()

    def _spawn(self) -> None:
        if self._stopped:
            return
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        page = new_status_page()
        self.workers[number] = WorkerProcess(
            number, self._loop, ours, StatusPage(page), self._on_frame, self._on_end, self._turns
        )
        self._loader.spawn(protocol.Spawn(number, self._memory), theirs, page)
        theirs.close()
        os.close(page)

    def _on_started(self, number: int, pid: int, pidfd: int) -> None:
        worker = self.workers.get(number)
        if worker is None:
            os.close(pidfd)
            return
        worker.set_process(pid, pidfd, self._loader.stages)
        self._announce_if_ready(worker)

    def _on_frame(self, worker: WorkerProcess, kind: Frame, number: int, body: bytes) -> None:
        if kind is Frame.READY:
            self._on_report(worker, protocol.read_ready(body))
        else:
            self._tell_frame(worker, kind, number, body)

    def _on_report(self, worker: WorkerProcess, report: protocol.Ready) -> None:
        if worker.reported:
            raise FrameError("ready twice")
        if report.leaks:
            if not self.must_be_sealed:
                self.leaks = report.leaks
            _log.warning("worker not sealed", possible=report.leaks, layers=report.layers)
            if self.must_be_sealed:
                raise FrameError("not sealed")
        worker.reported = True
        self._announce_if_ready(worker)

    def _announce_if_ready(self, worker: WorkerProcess) -> None:
        if worker.ready:
            worker.measure_growth()
            self._pause = _PAUSE_SECONDS[0]
            self._changed.set()
            self._tell_ready()

    def _on_end(self, worker: WorkerProcess) -> None:
        del self.workers[worker.number]
        self._tell_lost(worker)
        worker.close()
        self.replaced += 1
        if worker.retiring:
            return
        if worker.served or worker.jobs:
            self._spawn()
        else:  # it may never come up: something is wrong then that trying harder does not mend
            self._changed.set()
            self._loop.call_later(self._pause, self._spawn)
            self._pause = min(self._pause * 2, _PAUSE_SECONDS[1])

    def _on_loader_lost(self) -> None:
        """The workers die with their loader, each noticed by itself; what they need is another loader."""
        _log.error("loader lost")
        self._reloading = self._loop.create_task(self._reload())

    async def _reload(self) -> None:
        while True:
            await self._loader.stop()
            self._loader = LoaderClient(self._on_started, self._on_loader_lost, self._files)
            try:
                await self._loader.start()
            except LoaderError:
                await asyncio.sleep(_PAUSE_SECONDS[1])
            else:
                return


def describe_leaks(leaks: tuple[str, ...]) -> str:
    """Return the sentence for an operator whose system cannot seal workers."""
    return (
        f"The analysis workers cannot be sealed on this system ({', '.join(leaks)} still possible); "
        "`unsealed: true` in guard.yml starts them all the same."
    )
