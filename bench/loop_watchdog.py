"""A watchdog over the event loop: it says which callback made everything else wait.

`python -m bench.loop_watchdog` is the command `gatepost`, with services whose event loop is watched: their log names
callbacks that held it, and their `/metrics` have how many and the worst.
"""

import asyncio
import ctypes
import gc
import platform
import signal
import struct
import sys
import time
from collections.abc import Iterator
from resource import RUSAGE_THREAD, getrusage
from types import FrameType
from unittest.mock import patch

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost import cli
from gatepost.process.logs import Logger
from gatepost.process.metrics import counter, gauge
from gatepost.process.sandbox import syscall
from gatepost.service import running
from gatepost.service.metrics import build_registry

LIMIT_SECONDS = 0.005
_LOG_SECONDS = 60.0
_MAX_NAMES = 200
_MAX_DEPTH = 100

_SIGNAL = signal.SIGRTMIN + 5
_CLOCK_THREAD_CPUTIME_ID = 3
_SIGEV_THREAD_ID = 4
# timer_create, timer_settime, timer_delete, gettid
_CALLS = {"x86_64": (222, 223, 226, 186), "aarch64": (107, 110, 111, 178)}

# asyncio calls a callback from a frame of this code; uvloop from the frame that runs the loop.
_RUN_HANDLE = asyncio.Handle._run.__code__  # noqa: SLF001

log = Logger("gatepost")


class LoopWatchdog(Collector):
    """Finds callbacks of the main thread's loop that used the processor for so long that everything else waited.
    `blocked` counts those over the limit, `worst` is the longest in seconds of CPU, `worst_name` says which that was.

    Neither asyncio nor uvloop measures callbacks without the cost of debug mode, and the clock on the wall says little
    on a busy machine. So the kernel counts: a timer on the CPU clock of the loop's thread (timer_create(2)) sends a
    signal for every 5 ms that the thread has computed, and none while it waits. Python runs the handler between two
    instructions of whatever executes, and hands it that frame. If the callback at the root of the frames is the one of
    the last signal, it has used all of the CPU in between.

    The same coroutine can be resumed many times, always with the same frame. Therefore each signal also has the loop
    call `_pass_boundary` as soon as it can. A coroutine is never resumed twice before that call: the call stands before
    whatever the loop was asked for later.

    The kernel looks at CPU timers at its ticks (4 ms on most systems), so the figures are lower bounds, and callbacks
    that compute for 20 ms are always noticed. Python runs no handler inside a native function: one that takes long is
    noticed if its callback computes before and after it, and not if it is all that the callback does.
    """

    def __init__(self) -> None:
        self.blocked = 0
        self.worst = 0.0
        self.worst_name = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: int | None = None
        self._base: FrameType | None = None
        self._root: FrameType | None = None
        self._since = self._used = 0.0
        self._seen = ""
        self._kernel = self._kernel_before = 0.0
        self._collections = 0
        self._logged: dict[str, float] = {}

    def start(self) -> bool:
        """Watch the loop that runs in this thread; return False where the system offers no such timer."""
        self._loop = asyncio.get_running_loop()
        try:
            self._timer = _start_timer(LIMIT_SECONDS)
        except (OSError, KeyError) as fault:
            log.warning("the event loop is not watched", reason=str(fault))
            return False
        self._loop.call_soon(self._pass_boundary)
        signal.signal(_SIGNAL, self._on_signal)
        signal.siginterrupt(_SIGNAL, False)
        return True

    def stop(self) -> None:
        """Stop watching. The handler stays, since a signal may still be on its way."""
        if self._timer is not None:
            syscall(_CALLS[platform.machine()][2], self._timer)
        self._timer = self._loop = self._base = self._root = None

    def collect(self) -> Iterator[Metric]:
        yield counter("gatepost_loop_blocked", "Callbacks that held the event loop for over 5 ms of CPU", self.blocked)
        yield gauge("gatepost_loop_blocked_worst_seconds", "CPU seconds of the longest of them", self.worst)

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        now, loop = time.thread_time(), self._loop
        if loop is None or frame is None:
            return
        root = self._find_root(frame)
        if root is not None and root is self._root:
            self._note(now - self._since, root, frame)
        else:
            self._root, self._since = root, now
        loop.call_soon(self._pass_boundary)

    def _find_root(self, frame: FrameType) -> FrameType | None:
        """The outermost frame of the callback that executes; None between callbacks."""
        root, outer = None, frame
        for _ in range(_MAX_DEPTH):
            if outer is self._base or outer.f_code is _RUN_HANDLE:
                return root
            root = outer
            if outer.f_back is None:
                break
            outer = outer.f_back
        return None

    def _note(self, used: float, root: FrameType, frame: FrameType) -> None:
        self._used = max(self._used, used)
        self._kernel = getrusage(RUSAGE_THREAD).ru_stime - self._kernel_before
        self._seen = f"{root.f_code.co_qualname}, {_describe(frame)}"

    def _pass_boundary(self) -> None:
        """The callback of the last signal has ended: say how long it took."""
        self._base = sys._getframe().f_back  # noqa: SLF001
        self._root = None
        used, self._used = self._used, 0.0
        if used >= LIMIT_SECONDS:
            self._report(used)
        self._kernel_before = getrusage(RUSAGE_THREAD).ru_stime

    def _report(self, used: float) -> None:
        self.blocked += 1
        if used > self.worst:
            self.worst, self.worst_name = used, self._seen
        collections = gc.get_stats()[2]["collections"]
        collected, self._collections = collections != self._collections, collections
        now = time.monotonic()
        if now - self._logged.get(self._seen, -_LOG_SECONDS) >= _LOG_SECONDS:
            if len(self._logged) >= _MAX_NAMES:
                self._logged.clear()
            self._logged[self._seen] = now
            log.warning(
                "event loop blocked",
                callback=self._seen,
                milliseconds=round(used * 1000, 1),
                in_kernel=round(self._kernel * 1000, 1),
                collector=collected,
            )


def main() -> None:
    """Run the command with services that are watched."""
    watchdog, prepare = LoopWatchdog(), running.prepare_interpreter

    def build_and_register(node: str) -> CollectorRegistry:
        registry = build_registry(node)
        registry.register(watchdog)
        return registry

    def prepare_and_watch() -> None:
        prepare()
        watchdog.start()

    running.prepare_interpreter = prepare_and_watch
    with patch.object(running, "build_registry", build_and_register):
        cli.main()


def _describe(frame: FrameType) -> str:
    """Where that is: the innermost frame, and the innermost of ours if that is another."""
    own: FrameType | None = frame
    while own is not None and not own.f_globals.get("__name__", "").startswith("gatepost."):
        own = own.f_back
    places = dict.fromkeys(each for each in (frame, own) if each is not None)
    return ", ".join(f"{each.f_globals.get('__name__')}:{each.f_lineno} {each.f_code.co_name}" for each in places)


def _start_timer(seconds: float) -> int:
    """Have `_SIGNAL` sent to this thread for each so many seconds of its CPU; return the timer."""
    create, settime, _delete, gettid = _CALLS[platform.machine()]
    signal.signal(_SIGNAL, signal.SIG_IGN)
    event = struct.pack("=QiiiI40x", 0, _SIGNAL, _SIGEV_THREAD_ID, syscall(gettid), 0)
    made = ctypes.create_string_buffer(4)
    syscall(create, _CLOCK_THREAD_CPUTIME_ID, ctypes.create_string_buffer(event, len(event)), made)
    (timer,) = struct.unpack("=i", made.raw)
    nanoseconds = round(seconds * 1e9)
    times = struct.pack("=qqqq", 0, nanoseconds, 0, nanoseconds)
    syscall(settime, timer, 0, ctypes.create_string_buffer(times, len(times)), None)
    return int(timer)


if __name__ == "__main__":
    main()
