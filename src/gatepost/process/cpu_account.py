"""One account of CPU time for everything that is done about a message: all of its readings, pages, pictures, files and
checks draw on it, and what disposable children do for it, so that costs which are each within their bounds do not add
up.

What takes too long is interrupted: a timer of the kernel (setitimer(2), ITIMER_PROF) counts the CPU time of the
process, and its signal raises `CpuSpentError` in the midst of whatever Python does within `run`, regular expressions
among it. Native code sees no signal; guard, which keeps the same account, ends the process that does not return. Each
step may draw the account down to a share of it, so that those which come later are left something.
"""

import signal
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from gatepost.process.children import count_cpu_seconds

P = ParamSpec("P")
T = TypeVar("T")

UNLIMITED = 1e9
# CPU seconds between two signals.
_TICK = 0.02
# What of an account is spent when parts are read in no further way; when the reading of a message ends, that of its
# files, and that of its checks; and all of it.
REREADING, READING, FILES, MOST_CHECKS, ALL = 0.3, 0.6, 0.85, 0.95, 1.0
SPENT = "the CPU time of the message was spent"


def read_clock() -> float:
    """Return the CPU seconds of this process and of the children that worked for it."""
    return time.process_time() + count_cpu_seconds()


class CpuSpentError(BaseException):
    """The account is spent. It is no `Exception`: who takes any fault for one of the input must not take this."""


class CpuAccount:
    """The CPU seconds that one message may take. Time counts between `resume` and `pause`, since the process has other
    messages to look after. `missed` is set when an attempt came to nothing; what runs is interrupted at `stop`."""

    __slots__ = ("_end", "_left", "_seconds", "missed", "stop")

    def __init__(self, seconds: float = UNLIMITED) -> None:
        self._seconds = self._left = seconds
        self._end = read_clock() + seconds
        self.stop = UNLIMITED
        self.missed = False

    def resume(self) -> None:
        """From here on the CPU time of this process is the message's."""
        global _running  # noqa: PLW0603  there is one thread
        self._end = read_clock() + self._left
        _running = self

    def pause(self) -> None:
        """The process turns to something else."""
        self._left = self.left()

    def left(self, share: float = ALL) -> float:
        """Return how many seconds are left of this share of the account; less than nothing where more is spent."""
        return self._end - (1 - share) * self._seconds - read_clock()

    def run(self, share: float, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `work` returns; raise `CpuSpentError` as soon as this share of the account is spent."""
        if self.left(share) <= 0:
            raise CpuSpentError(SPENT)
        stop = self.stop
        try:
            self.stop = min(stop, self._end - (1 - share) * self._seconds)
            return work(*args, **kwargs)
        finally:
            self.stop = stop  # nothing may be called before: a signal would raise where nobody expects it

    def attempt(self, share: float, otherwise: T, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `work` returns, or `otherwise` where there is not the time."""
        try:
            return self.run(share, work, *args, **kwargs)
        except CpuSpentError:
            self.missed = True
            return otherwise


# For what is read by itself and not for the analysis of a message.
NO_ACCOUNT = CpuAccount()
_running = NO_ACCOUNT


def _look(_signal: int, _frame: object) -> None:
    if read_clock() >= _running.stop:
        raise CpuSpentError(SPENT)


def start_timer() -> None:
    """Interrupt, in this process and for good, what spends more than its account."""
    signal.signal(signal.SIGPROF, _look)
    signal.setitimer(signal.ITIMER_PROF, _TICK, _TICK)
