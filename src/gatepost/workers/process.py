"""A worker as guard sees it: its socket, its page, the jobs inside, and the means to end it.

guard's end of a worker's socket: reading and writing that never blocks the event loop.

What the socket does not take at once waits here, uncopied, and goes out as the worker reads; so a large message flows
at the worker's pace. Works on any asyncio loop, uvloop included: all it needs is to be told when a descriptor is ready.
"""

import asyncio
import itertools
import os
import signal
import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path

from gatepost.workers.jobs import Attempt, Reason
from gatepost.workers.protocol import Frame, FrameError, FrameReader, RecentSnapshots
from gatepost.workers.status_page import IDLE, RECEIVE, StatusPage, WorkerState


class WorkerProcess:
    """One worker process."""

    def __init__(
        self,
        number: int,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        page: StatusPage,
        received: Callable[["WorkerProcess", Frame, int, bytes], None],
        ended: Callable[["WorkerProcess"], None],
    ) -> None:
        self.number = number
        self.channel = Channel(loop, sock, lambda kind, job, body: received(self, kind, job, body), lambda: ended(self))
        self.jobs: dict[int, Attempt] = {}
        self.turns: set[int] = set()
        self.versions: dict[str, int] = {}
        self.lists: RecentSnapshots[str] = RecentSnapshots()
        self.reported = False
        self.doom: Reason | None = None
        self.retiring = False
        self.served = 0
        self._page = page
        self._pid = 0
        self._pidfd = -1
        self._numbers = itertools.count(1)
        self._bytes = 0
        self._resident = 0
        self._seen = -1
        self._since = 0.0

    @property
    def ready(self) -> bool:
        """It has said how well it is sealed, and guard can end it."""
        return self.reported and self._pidfd >= 0

    @property
    def free(self) -> bool:
        """May a new job come in?"""
        return not self.turns and self.ready and self.doom is None and not self.retiring

    @property
    def busy(self) -> bool:
        """Is it the worker's turn in some job, one that nobody waits for any more included?"""
        return bool(self.turns)

    @property
    def suspended(self) -> int:
        return len(self.jobs)

    @property
    def suspended_bytes(self) -> int:
        return self._bytes

    @property
    def taken_alone(self) -> bool:
        return len(self.jobs) == 1 and any(attempt.alone for attempt in self.jobs.values())

    @property
    def place(self) -> WorkerState:
        """What it says it does. Believed only of a job whose turn it is."""
        place = self._page.place
        return place if place.job in self.jobs and place.job in self.turns else WorkerState(0, place.stage)

    @property
    def out_of_memory(self) -> bool:
        return self._page.out_of_memory

    def born(self, pid: int, pidfd: int) -> None:
        """It runs: from now on it can be ended."""
        self._pid, self._pidfd = pid, pidfd

    def take(self, attempt: Attempt) -> None:
        """Let a job in."""
        attempt.number = next(self._numbers)
        self.jobs[attempt.number] = attempt
        self._bytes += attempt.size

    def turn(self, attempt: Attempt, now: float) -> None:
        """It is the worker's turn in this job; an idle worker's time starts now."""
        if not self.turns:
            self._seen, self._since = -1, now
        self.turns.add(attempt.number)

    def leave(self, attempt: Attempt) -> None:
        """A job is out: done, or given up, and then what the worker still says about it is ignored."""
        if self.jobs.pop(attempt.number, None) is not None:
            self._bytes -= attempt.size
            self.served += 1

    def stalled(self, now: float, limit: float) -> bool:
        """Has it been in the same stage for too long? The way of a large message to the worker is not counted."""
        word = self._page.word
        receiving = not self.channel.flushed and self._page.place.stage in (IDLE, RECEIVE)
        if word != self._seen or receiving:
            self._seen, self._since = word, now
        return self.busy and self.doom is None and now - self._since >= limit

    def kill(self, reason: Reason | None = None) -> None:
        """End the process, whatever it is doing; its socket closes and that is when it counts as gone."""
        self.doom = self.doom or reason
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def growth(self) -> int:
        """Bytes that it has come to hold since this was asked first."""
        try:
            pages = int(Path(f"/proc/{self._pid}/statm").read_bytes().split()[1])
        except (OSError, IndexError):
            return 0
        resident = pages * os.sysconf("SC_PAGESIZE")
        self._resident = self._resident or resident
        return resident - self._resident

    def close(self) -> None:
        """Let go of everything that guard holds of it, the process first."""
        self.kill()
        self.channel.close()
        self._page.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


_READ = 64 << 10
_JOINED = 64 << 10  # up to here one copy is cheaper than another system call


class Channel:
    """Frames to and from one worker. `ended` is called once, when the other end has closed or broken the rules."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        received: Callable[[Frame, int, bytes], None],
        ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._received = received
        self._ended = ended
        self._reader = FrameReader()
        self._waiting: deque[memoryview] = deque()
        self._open = True
        sock.setblocking(False)
        loop.add_reader(sock.fileno(), self._readable)

    @property
    def flushed(self) -> bool:
        """Has everything been handed to the socket?"""
        return not self._waiting

    def send(self, *buffers: bytes) -> None:
        """Send in order; never blocks, never raises: a socket that is gone is noticed by reading."""
        if not self._open:
            return
        idle = not self._waiting
        if sum(map(len, buffers)) <= _JOINED:
            buffers = (b"".join(buffers),)
        self._waiting.extend(memoryview(buffer) for buffer in buffers if buffer)
        if idle:
            self._write()
            if self._waiting:
                self._loop.add_writer(self._sock.fileno(), self._writable)

    def close(self) -> None:
        """Let go of the socket: the worker sees its end and stops."""
        if self._open:
            self._open = False
            self._waiting.clear()
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()

    def _writable(self) -> None:
        self._write()
        if not self._waiting and self._open:
            self._loop.remove_writer(self._sock.fileno())

    def _write(self) -> None:
        try:
            while self._waiting:
                first = self._waiting[0]
                sent = self._sock.send(first)
                if sent < len(first):
                    self._waiting[0] = first[sent:]
                    return
                self._waiting.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        try:
            for kind, job, body in self._reader.feed(data):
                self._received(kind, job, body)
                if not self._open:
                    return
        except FrameError:
            self._end()

    def _end(self) -> None:
        self.close()
        self._ended()
