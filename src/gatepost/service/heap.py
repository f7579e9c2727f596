"""The heap of a process that serves for months: what is free in it goes back to the system.

Mail comes in bodies of all sizes, several at once and in several threads. The allocator of glibc keeps what is freed:
an arena for each thread, and after the first large body that is freed it takes such bodies from the heap, too, where
small objects behind them hold the pages (mallopt(3), M_MMAP_THRESHOLD). Fronts under a mixed load held 60 MB for 24 MB
that were in use. So large bodies are always mapped by themselves, there are two arenas, and free pages are given back
three times a minute, which takes a millisecond. An operator who has set `MALLOC_…` or `GLIBC_TUNABLES` knows better,
and other C libraries have none of it. The buffers of 256 KiB into which uvloop has each piece of TLS decrypted are no
large bodies: mapped by itself, each took three system calls and as many fresh pages as it had data.

What stays is put into large pages. A processor remembers where some 1,500 pages are: with pages of 4 KiB that is 6 MB,
and a process that serves works in tens of them. Linux 6.1 and later put memory into pages of 2 MiB when a process asks
for it (madvise(2), MADV_COLLAPSE). Only memory that the process has to itself is asked for, and only where nearly every
page is in use, so that this takes next to no further memory. Where the system refuses, memory stays as it is.
"""

import asyncio
import ctypes
import os
import re
from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.process.sandbox import give_back_memory

ARENAS = 2
# More than what uvloop reads from TLS at once (SSL_READ_MAX_SIZE) with the head of an object.
MAPPED_BYTES = (256 << 10) + (4 << 10)
TRIM_BYTES = 1 << 20
# Less than this is what the next second needs again.
KEPT_BYTES = 4 << 20
EVERY_SECONDS = 20.0

log = Logger("gatepost")

LARGE_PAGES_SECONDS = 600.0
# The part of the pages that must be in use, and nobody else's.
OWN_SHARE = 0.9

_LARGE_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
# Private memory that can be written and is no file's: its inode is 0 (proc_pid_maps(5)).
_MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\]|\[anon:.*\])?$", re.MULTILINE)
_MADV_COLLAPSE = 25
# Bits of an entry in /proc/PID/pagemap (proc_pid_pagemap(5)): in memory, and mapped by one process alone.
_PRESENT, _EXCLUSIVE = 1 << 63, 1 << 56

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_libc = ctypes.CDLL(None)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


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


def use_large_pages() -> int:
    """Put the memory of this process into large pages, as far as it is its own and in use; return how many bytes are in
    them now."""
    try:
        size, mappings = int(_LARGE_SIZE.read_text()), Path("/proc/self/maps").read_text()
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
            places = [place for place in _list_places(mappings, size) if is_own(pages, place, size)]
    except (OSError, ValueError):
        return 0
    taken = [place for place in places if _libc.madvise(place, size, _MADV_COLLAPSE) == 0]
    return size * len(taken)


def _list_places(mappings: str, size: int) -> Iterator[int]:
    """Yield where large pages of this size fit into the memory that is written to."""
    for start, end in _MAPPING.findall(mappings):
        yield from range(-(-int(start, 16) // size) * size, int(end, 16) - size + 1, size)


def is_own(pages: BinaryIO, place: int, size: int) -> bool:
    """Return whether nearly all memory at a place is in use, and by this process alone; `pages` is its `pagemap`."""
    small = os.sysconf("SC_PAGESIZE")
    pages.seek(place // small * 8)
    entries = array("Q", pages.read(size // small * 8))
    own = _PRESENT | _EXCLUSIVE
    return sum(entry & own == own for entry in entries) >= OWN_SHARE * size / small


def build_heap_care() -> tuple[PeriodicWork, PeriodicWork]:
    """Return what gives free pages back three times a minute, and what puts memory into large pages at the start and
    every ten minutes; both in threads."""
    trim, enlarge = partial(asyncio.to_thread, trim_heap), partial(asyncio.to_thread, use_large_pages)
    return (
        PeriodicWork(trim, EVERY_SECONDS, "free memory could not be given back", log, waits_first=True),
        PeriodicWork(enlarge, LARGE_PAGES_SECONDS, "memory could not be put into large pages", log),
    )
