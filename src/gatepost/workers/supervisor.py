"""guard's side of the loader: starting it, ordering workers from it, ending it.

The loader gets a bare environment, so that no secret of guard's reaches a process near hostile bytes, and a session of
its own, so that a terminal's Ctrl-C does not reach it: guard finishes its requests first.

Having as many workers as were asked for: starting, replacing and retiring them.
"""

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Protocol

import msgspec
import structlog

from gatepost.workers import protocol
from gatepost.workers.process import WorkerProcess
from gatepost.workers.protocol import Born, Frame, FrameError, Loaded, Spawn
from gatepost.workers.status_page import StatusPage, new_status_page

_KEPT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED")
_SET = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    # Pages of HTML come and go with every message: giving their memory back each time costs more than reading them.
    "MALLOC_TRIM_THRESHOLD_": "67108864",
    "MALLOC_MMAP_THRESHOLD_": "67108864",
    "PYTHONUTF8": "1",
    "TZ": "UTC0",  # a zone spelt out: one with a name is read from a file at each use
}
_LOAD_SECONDS = 120.0
_END_SECONDS = 5.0


class LoaderError(RuntimeError):
    """The loader did not start; its own words are on standard error."""


class WorkerFiles(msgspec.Struct, frozen=True):
    """Folders from which the loader takes what an operator gives to the workers: YARA rules, text models."""

    rules: str = ""
    models: str = ""


class LoaderClient:
    """One loader process. `born` is called with number, pid and pidfd; `lost` once, if it ends by itself."""

    def __init__(self, born: Callable[[int, int, int], None], lost: Callable[[], None], equipment: WorkerFiles) -> None:
        self._loop = asyncio.get_running_loop()
        self._born = born
        self._lost = lost
        self._equipment = equipment
        self._loaded: asyncio.Future[None] = self._loop.create_future()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the loader and wait until it is warm."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", "-m", "gatepost.workers.loader", str(theirs.fileno()), str(os.getpid())]
            command += [self._equipment.rules, self._equipment.models]
            # In this thread, not another: the loader ends with the thread that started it.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={name: os.environ[name] for name in _KEPT if name in os.environ} | _SET,
                start_new_session=True,
            )
        ours.setblocking(False)
        self._control = ours
        self._loop.add_reader(ours.fileno(), self._readable)
        try:
            await asyncio.wait_for(asyncio.shield(self._loaded), _LOAD_SECONDS)
        except (TimeoutError, LoaderError):
            await self.stop()
            raise LoaderError("The analysis could not be loaded; the log says why.") from None

    def spawn(self, order: Spawn, sock: socket.socket, page: int) -> None:
        """Order a worker with this socket and page. If none comes, the other end of the socket closes."""
        if self._control is None:
            return
        try:
            socket.send_fds(self._control, [msgspec.msgpack.encode(order)], [sock.fileno(), page])
        except OSError:
            pass

    async def stop(self) -> None:
        """End the loader and, through it, every worker; returns when all have ended."""
        self._let_go()
        if self._process is not None:
            await self._ended(self._process)
            self._process = None

    def _let_go(self) -> None:
        if self._control is not None:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None

    async def _ended(self, process: subprocess.Popen[bytes]) -> None:
        gone = asyncio.Event()
        pidfd = os.pidfd_open(process.pid)
        self._loop.add_reader(pidfd, gone.set)
        try:
            await asyncio.wait_for(gone.wait(), _END_SECONDS)
        except TimeoutError:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            await gone.wait()
        finally:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        process.wait()

    def _readable(self) -> None:
        assert self._control is not None
        try:
            data, descriptors, _flags, _address = socket.recv_fds(self._control, 4096, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._gone()
            return
        news = msgspec.msgpack.decode(data, type=Loaded | Born)
        if isinstance(news, Born):
            self._born(news.number, news.pid, descriptors[0])
        elif not self._loaded.done():
            self._loaded.set_result(None)

    def _gone(self) -> None:
        self._let_go()
        if self._loaded.done():
            self._lost()
        else:
            self._loaded.set_exception(LoaderError("the loader ended"))


_START_SECONDS = 30.0
_PAUSE_SECONDS = (0.05, 5.0)
_STILLBORN = 5

_log = structlog.get_logger("gatepost.workers")


class SealError(RuntimeError):
    """Workers cannot be started, or cannot be shut in; the text is one sentence for the operator."""


class PoolCallbacks(Protocol):
    """Who the workers work for."""

    def received(self, hand: WorkerProcess, kind: Frame, number: int, body: bytes) -> None:
        """A frame about a job; `FrameError` ends the worker."""
        ...

    def lost(self, hand: WorkerProcess) -> None:
        """A worker is gone with the jobs inside; it is replaced in any case."""
        ...

    def joined(self) -> None:
        """There is a new worker."""
        ...


class Supervisor:
    """The workers that there are. `hands` holds them from birth to end."""

    def __init__(self, employer: PoolCallbacks, memory: int, equipment: WorkerFiles, *, trial: bool) -> None:
        self.hands: dict[int, WorkerProcess] = {}
        self.leaks: tuple[str, ...] = ()
        self.replaced = 0
        self.retired = 0
        self._employer = employer
        self._memory = memory
        self._trial = trial
        self._equipment = equipment
        self._loop = asyncio.get_running_loop()
        self._nursery = LoaderClient(self._born, self._loader_lost, equipment)
        self._numbers = itertools.count(1)
        self._pause = _PAUSE_SECONDS[0]
        self._news = asyncio.Event()
        self._stopped = False
        self._reloading: asyncio.Task[None] | None = None

    @property
    def ready(self) -> int:
        """How many can work."""
        return sum(hand.ready for hand in self.hands.values())

    async def start(self, processes: int) -> None:
        """Start so many workers; returns when each has reported how well it is sealed."""
        try:
            await self._nursery.start()
            for _ in range(processes):
                self._spawn()
            async with asyncio.timeout(_START_SECONDS):
                while self.ready < processes:
                    self._news.clear()
                    await self._news.wait()
                    if self.replaced >= _STILLBORN:
                        raise TimeoutError
        except LoaderError as fault:
            raise SealError(str(fault)) from None
        except TimeoutError:
            raise SealError("The analysis workers do not start; the log says why.") from None

    async def stop(self) -> None:
        """End them all; returns when every process has ended."""
        self._stopped = True
        for hand in self.hands.values():
            hand.close()
        self.hands.clear()
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait([self._reloading])
        await self._nursery.stop()

    def retire(self, hand: WorkerProcess) -> None:
        """Its successor starts at once; itself goes when the jobs inside are done."""
        if not hand.retiring and not self._stopped:
            hand.retiring = True
            self.retired += 1
            self._spawn()

    def excuse(self, hand: WorkerProcess) -> None:
        """Let a retiring worker go if nothing is left inside."""
        if hand.retiring and not hand.jobs and hand.number in self.hands:
            del self.hands[hand.number]
            hand.close()

    def _spawn(self) -> None:
        if self._stopped:
            return
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        page = new_status_page()
        self.hands[number] = WorkerProcess(number, self._loop, ours, StatusPage(page), self._received, self._ended)
        self._nursery.spawn(protocol.Spawn(number, self._memory, self._trial), theirs, page)
        theirs.close()
        os.close(page)

    def _born(self, number: int, pid: int, pidfd: int) -> None:
        hand = self.hands.get(number)
        if hand is None:
            os.close(pidfd)
            return
        hand.born(pid, pidfd)
        self._joined(hand)

    def _received(self, hand: WorkerProcess, kind: Frame, number: int, body: bytes) -> None:
        if kind is Frame.READY:
            self._reported(hand, protocol.ready(body))
        else:
            self._employer.received(hand, kind, number, body)

    def _reported(self, hand: WorkerProcess, report: protocol.Ready) -> None:
        if hand.reported:
            raise FrameError("ready twice")
        hand.reported = True
        if report.leaks:
            self.leaks = report.leaks
            _log.warning("worker not sealed", possible=report.leaks, layers=report.layers)
        self._joined(hand)

    def _joined(self, hand: WorkerProcess) -> None:
        if hand.ready:
            hand.growth()
            self._pause = _PAUSE_SECONDS[0]
            self._news.set()
            self._employer.joined()

    def _ended(self, hand: WorkerProcess) -> None:
        del self.hands[hand.number]
        self._employer.lost(hand)
        hand.close()
        if hand.retiring:
            return
        self.replaced += 1
        if hand.served or hand.jobs:
            self._spawn()
        else:  # it may never come up: something is wrong then that trying harder does not mend
            self._news.set()
            self._loop.call_later(self._pause, self._spawn)
            self._pause = min(self._pause * 2, _PAUSE_SECONDS[1])

    def _loader_lost(self) -> None:
        """Its workers die with it, each noticed by itself; what they need is another loader."""
        _log.error("loader lost")
        self._reloading = self._loop.create_task(self._reload())

    async def _reload(self) -> None:
        while True:
            await self._nursery.stop()
            self._nursery = LoaderClient(self._born, self._loader_lost, self._equipment)
            try:
                await self._nursery.start()
            except LoaderError:
                await asyncio.sleep(_PAUSE_SECONDS[1])
            else:
                return


def describe_leaks(leaks: tuple[str, ...]) -> str:
    """The sentence for an operator whose system cannot seal workers."""
    return (
        f"The analysis workers cannot be sealed on this system ({', '.join(leaks)} still possible); "
        "`unsealed: true` in guard.yml starts them all the same."
    )
