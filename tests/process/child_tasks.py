"""What a disposable child does in tests of it: everything that it should not."""

import ctypes
import os
import signal
import time
from collections.abc import Callable

from gatepost.process.sandbox import find_leaks


def load() -> Callable[[bytes, Callable[[bytes], None]], None]:
    return _work


def _work(order: bytes, answer: Callable[[bytes], None]) -> None:
    answer(b"begun ")
    word = order.decode()
    if word == "echo":
        answer(order)
    elif word == "leaks":
        answer(" ".join(find_leaks()).encode())
    elif word == "refuse to end":
        for attempt in _REFUSALS:
            answer(b"refused " if _is_refused(attempt) else b"taken ")
    held = []
    while word in _ENDLESS:
        held.append(_ENDLESS[word]())
        if word == "flood":
            answer(bytes(1 << 16))
    if word == "fall":
        ctypes.string_at(1)
    elif word == "raise":
        raise ValueError(word)


_ENDLESS: dict[str, Callable[[], object]] = {
    "spin": lambda: None,
    "refuse to end": lambda: None,
    "flood": lambda: None,
    "sleep": lambda: time.sleep(60),
    "hoard": lambda: b"x" * (1 << 20),
}
# What would put off the timers of a child.
_REFUSALS: tuple[Callable[[], object], ...] = (
    lambda: signal.signal(signal.SIGPROF, signal.SIG_IGN),
    lambda: signal.setitimer(signal.ITIMER_PROF, 0),
    lambda: signal.setitimer(signal.ITIMER_REAL, 0),
    lambda: signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGPROF, signal.SIGALRM)),
    os.fork,
)


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return True
    return False
