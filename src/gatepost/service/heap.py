"""The heap of a process that serves for months: what is free in it goes back to the system.

Mail comes in bodies of all sizes, several at once and in several threads. The allocator of glibc keeps what is freed:
an arena for each thread, and after the first large body that is freed it takes such bodies from the heap, too, where
small objects behind them hold the pages (mallopt(3), M_MMAP_THRESHOLD). Fronts under a mixed load held 60 MB for 24 MB
that were in use. So large bodies are always mapped by themselves, there are two arenas, and free pages are given back
three times a minute, which takes a millisecond. An operator who has set `MALLOC_…` or `GLIBC_TUNABLES` knows better,
and other C libraries have none of it.
"""

import asyncio
import ctypes
import os
from functools import partial

from gatepost.logs import Logger
from gatepost.periodic import PeriodicWork
from gatepost.sandbox import give_back_memory

ARENAS = 2
MAPPED_BYTES = 256 << 10
TRIM_BYTES = 1 << 20
# Less than this is what the next second needs again.
KEPT_BYTES = 4 << 20
EVERY_SECONDS = 20.0

log = Logger("gatepost")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_libc = ctypes.CDLL(None)


class _Heap(ctypes.Structure):
    """`struct mallinfo2`: sums over all arenas, in bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]
    fordblks: int


def limit_heap() -> bool:
    """Set the limits for this process and its children; to be called before there are threads. Returns whether they
    are in force."""
    has_own = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    mallopt = getattr(_libc, "mallopt", None)
    if has_own or mallopt is None:
        return False
    wanted = ((_M_ARENA_MAX, ARENAS), (_M_MMAP_THRESHOLD, MAPPED_BYTES), (_M_TRIM_THRESHOLD, TRIM_BYTES))
    return all(mallopt(parameter, value) == 1 for parameter, value in wanted)


def count_free_bytes() -> int:
    """Return how much of the heap is free, given back or not; 0 where the C library does not tell."""
    mallinfo2 = getattr(_libc, "mallinfo2", None)
    if mallinfo2 is None:
        return 0
    mallinfo2.restype = _Heap
    return int(mallinfo2().fordblks)


def trim_heap() -> None:
    """Give free pages back, if there are many."""
    if count_free_bytes() > KEPT_BYTES:
        give_back_memory()


def build_trimming() -> PeriodicWork:
    """Return what gives free pages back three times a minute, in a thread."""
    work = partial(asyncio.to_thread, trim_heap)
    return PeriodicWork(work, EVERY_SECONDS, "free memory could not be given back", log, waits_first=True)
