"""A worker as guard sees it: its process, its socket, its status page, and the jobs inside.

Reading and writing never block the event loop. What the socket does not take at once waits in `Channel`, uncopied, and
goes out as the worker reads; so a large message flows at the worker's pace. `Channel` works on any asyncio loop, uvloop
included: all it needs is to be told when a descriptor is ready.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from gatepost.workers.fair_queue import TenantQueue, Turns
from gatepost.workers.jobs import Job, Reason
from gatepost.workers.protocol import (
    Frame,
    FrameError,
    FrameReader,
    RecentSnapshots,
    StageNames,
    StatusPage,
    WorkerState,
)

# Turns that a worker is given at once: while it is at one, the next has arrived already, so that it need not wait.
MAX_TURNS = 2
_READ_SIZE = 64 << 10
_SCHEDULER_CLOCK = 2
# Of a worker that computes for long: a third of what others get. With less it would hardly end on a busy machine, since
# its priority counts beside all processes in the session of the service.
_NICE = 5
_MAX_JOINED = 64 << 10  # up to here one copy is cheaper than another system call


class WorkerProcess:
    """One worker process. `turns` are the jobs that it is the worker's turn in, in their order, by number; a job whose
    caller no longer waits is among them until the worker has answered."""

    def __init__(
        self,
        number: int,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        status_page: StatusPage,
        on_frame: Callable[["WorkerProcess", Frame, int, bytes], None],
        on_end: Callable[["WorkerProcess"], None],
        turns: Turns | None = None,
    ) -> None:
        self.number = number
        self.channel = Channel(loop, sock, partial(on_frame, self), partial(on_end, self))
        self.jobs: dict[int, Job[Any]] = {}
        self.turns: dict[int, Job[Any]] = {}
        self._answered: TenantQueue[Job[Any]] = TenantQueue(turns or Turns())
        self._of_tenants: Counter[str | None] = Counter()
        self.policies: RecentSnapshots[str] = RecentSnapshots()
        self.lists: RecentSnapshots[str] = RecentSnapshots()
        self.learnt: RecentSnapshots[str] = RecentSnapshots()
        self.reported = False
        self.kill_reason: Reason | None = None
        self.retiring = False
        self.served = 0
        self.status_page = status_page
        self._pid = 0
        self._pidfd = -1
        self._numbers = itertools.count(1)
        self.suspended_bytes = 0
        self._resident = 0
        self._seen = -1
        self._since = 0.0
        self._cpu = self._cpu_taken = 0.0

    @property
    def ready(self) -> bool:
        """Whether it has said how well it is sealed, and guard can end it."""
        return self.reported and self._pidfd >= 0

    @property
    def free(self) -> bool:
        """Whether a new job may come in."""
        return not (self.turns or self.retiring or self.kill_reason or self._pidfd < 0) and self.reported

    @property
    def busy(self) -> bool:
        """Whether it is the worker's turn in some job, also one whose caller no longer waits."""
        return bool(self.turns)

    @property
    def turn(self) -> Job[Any] | None:
        """The job that it executes, or that it executes next."""
        return next(iter(self.turns.values()), None)

    @property
    def suspended(self) -> int:
        return len(self.jobs)

    def count_of(self, tenant: str | None) -> int:
        """How many jobs of this tenant are in it."""
        return self._of_tenants[tenant]

    @property
    def taken_alone(self) -> bool:
        return len(self.jobs) == 1 and any(job.alone for job in self.jobs.values())

    @property
    def state(self) -> WorkerState:
        """What the worker says that it does; the job is believed only if it is that job's turn."""
        state = self.status_page.state
        return state if state.job in self.jobs and state.job in self.turns else WorkerState(0, state.stage)

    def set_process(self, pid: int, pidfd: int, stages: StageNames) -> None:
        """The process runs: from now on it can be ended, and its status page can be read."""
        self._pid, self._pidfd = pid, pidfd
        self.status_page.stages = stages

    def take(self, job: Job[Any]) -> None:
        """Give the job a number in this worker, and count it."""
        job.number = next(self._numbers)
        self.jobs[job.number] = job
        self.suspended_bytes += job.size
        self._of_tenants[job.tenant] = self._of_tenants.get(job.tenant, 0) + 1

    def begin_turn(self, job: Job[Any], now: float) -> None:
        """It is the worker's turn in this job; an idle worker's time starts now."""
        if not self.turns:
            self._seen, self._since = -1, now
            self.take_cpu()
        self.turns[job.number] = job

    def end_turn(self, number: int) -> Job[Any]:
        """The worker has sent a frame about this job; `KeyError` if it is not its turn there."""
        return self.turns.pop(number)

    def keep_answers(self, job: Job[Any], answers: bytes) -> None:
        """Keep the answers of a job until its tenant's turn, so that steps need not wait for a busier tenant."""
        job.answers = answers
        self._answered.add(job)

    @property
    def next_answered(self) -> Job[Any] | None:
        """The suspended job that is to be resumed next."""
        return self._answered.first() if self._answered.count else None

    def resume(self, now: float) -> None:
        """Send answers that wait, as long as there is room for another turn."""
        while self._answered.count and len(self.turns) < MAX_TURNS and (job := self._answered.first()) is not None:
            self._answered.take(job)
            self.begin_turn(job, now)
            self.channel.send(job.answers)
            job.answers = b""

    def is_slow(self, seconds: float) -> bool:
        """Whether it has used so much CPU without sending a frame."""
        return bool(self.turns) and not self.retiring and self._cpu_seconds() - self._cpu_taken >= seconds

    def be_nice(self) -> None:
        """Let other processes go first from now on."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._pid, _NICE)

    def release(self, job: Job[Any]) -> None:
        """Count a job out: it is done, or given up, and then what the worker still says about it is ignored."""
        if self._answered.count:
            self._answered.discard(job)
        if self.jobs.pop(job.number, None) is not None:
            self.suspended_bytes -= job.size
            self._of_tenants[job.tenant] -= 1
            if not self._of_tenants[job.tenant]:
                del self._of_tenants[job.tenant]
            self.served += 1

    def is_stalled(self, now: float, limit: float) -> bool:
        """Whether it has been in the same stage for too long, whatever else the machine does, or its job has used more
        CPU than it may."""
        word, job = self.status_page.word, self.turn
        if word != self._seen:
            self._seen, self._since = word, now
        if job is None or self.kill_reason is not None:
            return False
        used = job.cpu + self._cpu_seconds() - self._cpu_taken
        if self.status_page.state.stage in job.sent:
            job.most_cpu = used + job.allowed  # what it loads is not the message's
        return now - self._since >= limit or used >= job.most_cpu

    def is_overdue(self, now: float) -> bool:
        """Whether a deadline has passed in a job that it is the worker's turn in, whatever the status page says."""
        return self.kill_reason is None and any((job.deadline or now) <= now for job in self.turns.values())

    def take_cpu(self) -> float:
        """Return the seconds of CPU that it has used since the last call."""
        before, self._cpu_taken = self._cpu_taken, self._cpu_seconds()
        return max(0.0, self._cpu_taken - before)

    def idle_cpu(self) -> float:
        """Return the seconds of CPU that it has used since the last turn of a job in it ended, and 0 during one."""
        return 0.0 if self.turns else self._cpu_seconds() - self._cpu_taken

    def _cpu_seconds(self) -> float:
        """Return the seconds of CPU that it and its children have used; once it has ended, what was seen last."""
        with contextlib.suppress(OSError, ValueError):  # it has ended, or its page was closed
            # The kernel's name for the CPU clock of another process (linux/posix-timers.h, MAKE_PROCESS_CPUCLOCK).
            own = time.clock_gettime(~self._pid << 3 | _SCHEDULER_CLOCK) if self._pid else 0.0
            self._cpu = own + self.status_page.children_cpu
        return self._cpu

    def kill(self, reason: Reason | None = None) -> None:
        """End the process, whatever it is doing; it counts as lost once its socket closes."""
        self._cpu_seconds()
        self.kill_reason = self.kill_reason or reason
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def measure_growth(self) -> int:
        """Return by how many bytes its memory has grown since the first call."""
        try:
            pages = int(Path(f"/proc/{self._pid}/statm").read_bytes().split()[1])
        except (OSError, IndexError):
            return 0
        resident = pages * os.sysconf("SC_PAGESIZE")
        self._resident = self._resident or resident
        return resident - self._resident

    def close(self) -> None:
        """End the process, and close everything that guard holds of it."""
        self.kill()
        self.jobs.clear()
        self.channel.close()
        self.status_page.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class Channel:
    """Frames to and from one worker. `on_end` is called once, when the other end has closed or broken the rules."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        on_frame: Callable[[Frame, int, bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._on_frame = on_frame
        self._on_end = on_end
        self._reader = FrameReader()
        self._waiting: deque[bytes | memoryview] = deque()
        self._open = True
        sock.setblocking(False)
        loop.add_reader(sock.fileno(), self._read)

    def send(self, *buffers: bytes) -> None:
        """Send in order; never blocks, never raises: a socket that is gone is noticed by reading."""
        if not self._open:
            return
        if len(buffers) > 1 and sum(map(len, buffers)) <= _MAX_JOINED:
            buffers = (b"".join(buffers),)
        is_busy = bool(self._waiting)
        self._waiting += filter(None, buffers)
        if is_busy:
            return
        self._write()
        if self._waiting:
            self._loop.add_writer(self._sock.fileno(), self._continue_writing)

    def close(self) -> None:
        """Close the socket: the worker sees its end and stops."""
        if self._open:
            self._open = False
            self._waiting.clear()
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()
            # They hold the worker, which holds this channel: without them nothing waits for the collector of cycles.
            self._on_frame = self._on_end = _ignore

    def _continue_writing(self) -> None:
        self._write()
        if not self._waiting and self._open:
            self._loop.remove_writer(self._sock.fileno())

    def _write(self) -> None:
        try:
            while self._waiting:
                first = self._waiting[0]
                sent = self._sock.send(first)
                if sent < len(first):
                    self._waiting[0] = memoryview(first)[sent:]
                    return
                self._waiting.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()

    def _read(self) -> None:
        try:
            data = self._sock.recv(_READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        try:
            for kind, job, body in self._reader.feed(data):
                self._on_frame(kind, job, body)
                if not self._open:
                    return
        except FrameError:
            self._end()

    def _end(self) -> None:
        on_end = self._on_end
        self.close()
        on_end()


def _ignore(*_given: object) -> None: ...
