"""guard's side of the loader: starting it, ordering workers from it, ending it.

The loader gets a bare environment, so that no secret of guard's reaches a process near hostile bytes, and a session of
its own, so that a terminal's Ctrl-C does not reach it: guard finishes its requests first.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import msgspec

from gatepost.guard.frames import Born, Loaded, Spawn

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


class Equipment(msgspec.Struct, frozen=True):
    """Folders from which the loader takes what an operator gives to the workers: YARA rules, text models."""

    rules: str = ""
    models: str = ""


class Nursery:
    """One loader process. `born` is called with number, pid and pidfd; `lost` once, if it ends by itself."""

    def __init__(self, born: Callable[[int, int, int], None], lost: Callable[[], None], equipment: Equipment) -> None:
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
            command = [sys.executable, "-P", "-m", "gatepost.guard.loader", str(theirs.fileno()), str(os.getpid())]
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
