"""A loader that outlives its pool.

To start a loader takes more than a second of CPU: it imports every parser and analyses one specimen of each format. A
hundred tests want a pool of workers with settings of their own, and none of them is about that start. So the process is
kept when a pool stops, and the next pool of this test process forks its workers from it. Workers are never kept: when
`stop` returns, every one of them has ended, as with `LoaderClient`.

A test that is about the loader itself takes the fixture `own_loader`.
"""

import asyncio
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable

from gatepost.process.sandbox import INHERITED
from gatepost.workers.loading import WorkerFiles
from gatepost.workers.protocol import Spawn, StageNames
from gatepost.workers.supervisor import LoaderClient

_WAIT_SECONDS = 60.0

Key = tuple[WorkerFiles, tuple[str | None, ...]]
Kept = tuple[subprocess.Popen[bytes], socket.socket, StageNames]
_kept: dict[Key, Kept] = {}


class LastingLoader(LoaderClient):
    """A loader that takes over the process of a pool that has stopped, and leaves its own to the next one."""

    def __init__(
        self, on_started: Callable[[int, int, int], None], on_lost: Callable[[], None], files: WorkerFiles
    ) -> None:
        self._ordered = 0
        self._pidfds: list[int] = []
        self._arrived = asyncio.Event()
        super().__init__(self._note_worker, on_lost, files)
        self._tell = on_started

    async def start(self) -> None:
        """Take over a process that is warm, or start one."""
        process, control, stages = _kept.pop(self._key, (None, None, None))
        if process is None or control is None or stages is None:
            await super().start()
            return
        if process.poll() is not None:
            control.close()
            await super().start()
            return
        self._process, self._control, self.stages = process, control, stages
        self._loaded.set_result(stages)
        self._loop.add_reader(control.fileno(), self._read)

    def spawn(self, order: Spawn, sock: socket.socket, page: int) -> None:
        """Order a worker."""
        self._ordered += self._control is not None
        super().spawn(order, sock, page)

    async def stop(self) -> None:
        """End every worker, and keep the process if it can serve another pool."""
        lasting = self._can_last() and await self._have_all_arrived()
        if lasting:
            await self._end_workers()
        for pidfd in self._pidfds:
            os.close(pidfd)
        self._pidfds.clear()
        if not lasting or self._control is None or self._process is None:
            await super().stop()
            return
        self._loop.remove_reader(self._control.fileno())
        _kept[self._key] = self._process, self._control, self.stages
        self._control = self._process = None

    @property
    def _key(self) -> Key:
        return self._files, tuple(map(os.environ.get, INHERITED))

    def _can_last(self) -> bool:
        """A loader ends with the thread that started it, and folders of rules and models change from test to test."""
        return (
            threading.current_thread() is threading.main_thread()
            and not (self._files.rules or self._files.models)
            and self._control is not None
            and self._process is not None
            and self._loaded.done()
            and self._key not in _kept
        )

    def _note_worker(self, number: int, pid: int, pidfd: int) -> None:
        self._pidfds.append(os.dup(pidfd))
        self._arrived.set()
        self._tell(number, pid, pidfd)

    async def _have_all_arrived(self) -> bool:
        """Wait for workers that were ordered a moment ago: the next pool must not take them for its own."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while len(self._pidfds) < self._ordered and self._control is not None:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return False
        return self._control is not None

    async def _end_workers(self) -> None:
        for pidfd in self._pidfds:
            try:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            except ProcessLookupError:
                continue
            ended = asyncio.Event()
            self._loop.add_reader(pidfd, ended.set)
            await ended.wait()
            self._loop.remove_reader(pidfd)


def end_loaders() -> None:
    """End the processes that were kept."""
    for process, control, _ in _kept.values():
        control.close()
        process.wait()
    _kept.clear()
