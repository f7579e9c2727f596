"""guard's side of the loader: starting it, ordering workers from it, ending it.

The loader gets a bare environment, so that no secret of guard's reaches a process near hostile bytes, and a process
group of its own, so that a terminal's Ctrl-C does not reach it: guard finishes its requests first. Its session is that
of the service: the scheduler gives each session the same share, and priorities count within one only (sched(7), "The
autogroup feature"), so workers in another would share processors equally with the imports and trials of users.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import msgspec

from gatepost.process.sandbox import bare_environment
from gatepost.workers.protocol import MAX_LOADED, Loaded, NotLoaded, Spawn, WorkerStarted
from gatepost.workers.status_page import NO_STAGES, StageNames

_ENVIRONMENT = {
    # Pages of HTML come and go with every message: giving their memory back each time costs more than reading them.
    "MALLOC_TRIM_THRESHOLD_": "67108864",
    "MALLOC_MMAP_THRESHOLD_": "67108864",
}
_LOAD_SECONDS = 120.0
_END_SECONDS = 5.0


class LoaderError(RuntimeError):
    """The loader did not start; its own words are on standard error."""


class WorkerFiles(msgspec.Struct, frozen=True):
    """What the loader reads for the workers: folders of YARA rules and of text models, in tests the Python file that
    injects faults, and the plug-ins whose checks it imports."""

    rules: str = ""
    models: str = ""
    fault_injection: str = ""
    plugins: tuple[str, ...] = ()


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
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", "-m", "gatepost.workers.loader", str(theirs.fileno()), str(os.getpid())]
            command += [self._files.rules, self._files.models, self._files.fault_injection, *self._files.plugins]
            # In this thread, not another: the loader ends with the thread that started it.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=bare_environment() | _ENVIRONMENT,
                process_group=0,
            )
        ours.setblocking(False)
        self._control = ours
        self._loop.add_reader(ours.fileno(), self._read)
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
