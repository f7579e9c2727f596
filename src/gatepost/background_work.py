"""Work beside mail: threads that read many rows or judge many stored messages rest while the event loop is late.

Python code of one process runs on one core at a time, so a thread that converts the rows of an export takes from the
event loop what it takes for itself, and the scans of every tenant wait. While the loop is on time such threads run
freely. While it is late, they take turns, one for the whole process, and each rests three times as long as it has
computed before the next begins: all of them together then have a quarter of the interpreter, however many exports,
searches and trials one tenant has started. The rest is measured in CPU time of the thread, so that waiting for the disk
or for the interpreter counts for nothing.

Calls that are not mail cost the loop itself time as well, and a program that changes lists or searches as fast as it is
answered can fill it. So while the loop is late, such calls wait before they begin (`wait_for_mail`), the longer the
later it is, and one connection makes only a few of them in a second.

The watchdog of the event loop measures how late the loop is.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# A timer of an event loop that has time is late by a fraction of a millisecond. A message is handled in many passes of
# the loop, and the lateness of each adds up.
LATE_SECONDS = 0.002
REST = 3.0
MAX_REST_SECONDS = 1.0
# Times the lateness: how long a call that is not mail waits before it begins.
_WAIT_FACTOR = 25.0
# The weight of the last measurement in the mean.
_LAST = 0.3


class BackgroundWork:
    """Runs pieces of such work; each should take some milliseconds."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._lateness = self._rested_at = 0.0
        self.rests = 0

    @property
    def must_rest(self) -> bool:
        """Whether the event loop is late."""
        return self._lateness > LATE_SECONDS

    def note_lateness(self, seconds: float) -> None:
        """Take over how late the event loop was just now."""
        self._lateness += _LAST * (seconds - self._lateness)

    def run(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do a piece of work in the thread that calls this."""
        if not self.must_rest:
            return work(*arguments, **named)
        with self._turn:
            self._rest()
            before = time.thread_time()
            try:
                return work(*arguments, **named)
            finally:
                used = time.thread_time() - before
                self._rested_at = time.monotonic() + min(used * REST, MAX_REST_SECONDS)

    async def wait_for_mail(self) -> None:
        """Wait before a call that is not mail, if the loop is late."""
        if self.must_rest:
            self.rests += 1
            await asyncio.sleep(min(self._lateness * _WAIT_FACTOR, MAX_REST_SECONDS))

    def _rest(self) -> None:
        """Wait as long as the piece before this one has to be made up for; its result was not kept back for that."""
        seconds = self._rested_at - time.monotonic()
        if seconds > 0:
            self.rests += 1
            time.sleep(seconds)


# One for the process, as there is one interpreter.
background = BackgroundWork()
