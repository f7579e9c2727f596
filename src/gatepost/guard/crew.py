"""A worker as guard sees it: its socket, its page, the jobs inside, and the means to end it."""

import asyncio
import itertools
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from gatepost.guard.attempt import Attempt, Reason
from gatepost.guard.channel import Channel
from gatepost.guard.frames import Frame
from gatepost.guard.page import IDLE, RECEIVE, Page, Place
from gatepost.guard.recent import Recent


class Hand:
    """One worker process."""

    def __init__(
        self,
        number: int,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        page: Page,
        received: Callable[["Hand", Frame, int, bytes], None],
        ended: Callable[["Hand"], None],
    ) -> None:
        self.number = number
        self.channel = Channel(loop, sock, lambda kind, job, body: received(self, kind, job, body), lambda: ended(self))
        self.jobs: dict[int, Attempt] = {}
        self.turns: set[int] = set()
        self.versions: dict[str, int] = {}
        self.lists: Recent[str] = Recent()
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
    def place(self) -> Place:
        """What it says it does. Believed only of a job whose turn it is."""
        place = self._page.place
        return place if place.job in self.jobs and place.job in self.turns else Place(0, place.stage)

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
