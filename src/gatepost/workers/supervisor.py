"""Having as many workers as were asked for: starting, replacing and retiring them, and guard's side of their loader."""

import asyncio
import itertools
import os
import signal
import socket
import subprocess
from collections.abc import Callable

import msgspec

from gatepost.process.logs import Logger
from gatepost.workers import protocol
from gatepost.workers.fair_queue import Turns
from gatepost.workers.loading import WorkerFiles, take_loader
from gatepost.workers.process import WorkerProcess
from gatepost.workers.protocol import (
    MAX_LOADED,
    NO_STAGES,
    Frame,
    FrameError,
    Loaded,
    NotLoaded,
    Spawn,
    StageNames,
    StatusPage,
    WorkerStarted,
    new_status_page,
)

_LOAD_SECONDS = 120.0
_END_SECONDS = 5.0


class LoaderError(RuntimeError):
    """The loader did not start; its own words are on standard error."""


class LoaderClient:
    """One loader process. `on_started` is called with number, pid and pidfd of a worker that runs; `on_lost` once, if
    the loader ends by itself. `stages` is known once the loader has started."""

    def __init__(
        self, on_started: Callable[[int, int, int], None], on_lost: Callable[[], None], files: WorkerFiles
    ) -> None:
        self.stages = NO_STAGES
        self._loop = asyncio.get_running_loop()
        self._on_started = on_started
        self._on_lost = on_lost
        self._files = files
        self._loaded: asyncio.Future[StageNames] = self._loop.create_future()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the loader and wait until it is warm."""
        loader = take_loader(self._files)
        self._process, self._control = loader.process, loader.control
        self._loop.add_reader(loader.control.fileno(), self._read)
        try:
            await asyncio.wait_for(asyncio.shield(self._loaded), _LOAD_SECONDS)
        except TimeoutError:
            await self.stop()
            raise LoaderError(f"The analysis was not loaded within {_LOAD_SECONDS:g} seconds.") from None
        except LoaderError:
            await self.stop()
            raise

    def spawn(self, order: Spawn, sock: socket.socket, page: int) -> None:
        """Order a worker with this socket and status page. If none comes, the other end of the socket closes."""
        if self._control is None:
            return
        try:
            socket.send_fds(self._control, [msgspec.msgpack.encode(order)], [sock.fileno(), page])
        except OSError:
            pass

    async def stop(self) -> None:
        """End the loader and, through it, every worker; returns when all have ended."""
        self._close()
        if self._process is not None:
            await self._wait_for_end(self._process)
            self._process = None

    def _close(self) -> None:
        if self._control is not None:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None

    async def _wait_for_end(self, process: subprocess.Popen[bytes]) -> None:
        ended = asyncio.Event()
        pidfd = os.pidfd_open(process.pid)
        self._loop.add_reader(pidfd, ended.set)
        try:
            await asyncio.wait_for(ended.wait(), _END_SECONDS)
        except TimeoutError:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            await ended.wait()
        finally:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        process.wait()

    def _read(self) -> None:
        assert self._control is not None
        try:
            data, descriptors, _flags, _address = socket.recv_fds(self._control, MAX_LOADED, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._handle_end()
            return
        message = msgspec.msgpack.decode(data, type=Loaded | NotLoaded | WorkerStarted)
        if isinstance(message, WorkerStarted):
            self._on_started(message.number, message.pid, descriptors[0])
        elif isinstance(message, NotLoaded):
            self._refuse(message.reason)
        elif not self._loaded.done():
            self.stages = message.stages
            self._loaded.set_result(message.stages)

    def _handle_end(self) -> None:
        self._close()
        self._refuse("The analysis could not be loaded; the log says why.")
        if self._loaded.exception() is None:
            self._on_lost()

    def _refuse(self, reason: str) -> None:
        """Let `start` fail, if it still waits."""
        if not self._loaded.done():
            self._loaded.set_exception(LoaderError(reason))


_START_SECONDS = 30.0
_PAUSE_SECONDS = (0.05, 5.0)
_MAX_FAILED_STARTS = 5
# Workers beyond those of the settings: so many slow messages hold up no others. Each takes some ten megabytes, for as
# long as the account of a message lasts.
MAX_RELIEVED = 20

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
        if self._stopped or sum(each.retiring for each in self.workers.values()) >= MAX_RELIEVED:
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
