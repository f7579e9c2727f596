"""A worker as guard sees it: its socket, its page, the jobs inside, and the means to end it."""

import asyncio
import itertools
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from gatepost.guard.attempt import Attempt, Reason, State
from gatepost.guard.channel import Channel
from gatepost.guard.frames import Frame
from gatepost.guard.page import Page, Place


class Hand:
    """One worker process."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        page: Page,
        received: Callable[["Hand", Frame, int, bytes], None],
        ended: Callable[["Hand"], None],
    ) -> None:
        self.channel = Channel(loop, sock, lambda kind, job, body: received(self, kind, job, body), lambda: ended(self))
        self.jobs: dict[int, Attempt] = {}
        self.dropped: set[int] = set()
        self.versions: dict[str, int] = {}
        self.sealed: bool | None = None
        self.doom: Reason | None = None
        self.retiring = False
        self.served = 0
        self._page = page
        self._pid = 0
        self._pidfd = -1
        self._numbers = itertools.count(1)
        self._resident = 0
        self._seen = -1
        self._since = 0.0

    @property
    def ready(self) -> bool:
        """Sealed or not, it has reported, and guard can end it."""
        return self.sealed is not None and self._pidfd >= 0

    @property
    def free(self) -> bool:
        """May a new job come in?"""
        return self.ready and self.doom is None and not self.retiring and not self.busy

    @property
    def busy(self) -> bool:
        return any(attempt.executing for attempt in self.jobs.values())

    @property
    def suspended(self) -> int:
        return len(self.jobs)

    @property
    def suspended_bytes(self) -> int:
        return sum(attempt.size for attempt in self.jobs.values())

    @property
    def taken_alone(self) -> bool:
        return any(attempt.alone for attempt in self.jobs.values())

    @property
    def place(self) -> Place:
        """What it says it does. Believed only of a job whose turn it is."""
        place = self._page.place
        attempt = self.jobs.get(place.job)
        return place if attempt is not None and attempt.executing else Place(0, place.stage)

    @property
    def out_of_memory(self) -> bool:
        return self._page.out_of_memory

    def born(self, pid: int, pidfd: int) -> None:
        """It runs: from now on it can be ended."""
        self._pid, self._pidfd = pid, pidfd

    def take(self, attempt: Attempt, state: State, now: float) -> None:
        """Let a job in."""
        attempt.number = next(self._numbers)
        attempt.state = state
        self.jobs[attempt.number] = attempt
        self.touch(now)

    def release(self, attempt: Attempt) -> None:
        """Let a job go that is not done; what the worker still says about it is ignored."""
        if self.jobs.pop(attempt.number, None) is not None:
            self.dropped.add(attempt.number)

    def touch(self, now: float) -> None:
        """It was given something to do: its time starts now."""
        self._seen, self._since = -1, now

    def stalled(self, now: float, limit: float) -> bool:
        """Has it been in the same stage for too long?"""
        for attempt in self.jobs.values():
            if attempt.state is State.LOADING and self.channel.flushed and attempt.helper is None:
                attempt.state = State.RUNNING
                self.touch(now)
        word = self._page.word
        if word != self._seen:
            self._seen, self._since = word, now
        running = any(attempt.state is State.RUNNING for attempt in self.jobs.values())
        return running and self.doom is None and now - self._since >= limit

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
