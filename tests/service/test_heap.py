"""The heap of a service: bodies that were freed leave nothing behind. Each in a process of its own, since what is set
holds for the whole process."""

import ctypes
import mmap
import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from gatepost.service import heap

# Bodies of 200 KB to 2 MB in four threads, each followed by something small that stays; then all bodies are freed.
MAIL = """
import os, threading
for name in [name for name in os.environ if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES"]:
    del os.environ[name]
from gatepost.service.heap import count_free_bytes, limit_heap, trim_heap
{before}
bytes(4 << 20)  # freed at once: the allocator now takes bodies of this size from the heap, unless it may not
kept = []
def receive():
    bodies = []
    for number in range(60):
        bodies.append(bytes((200 << 10) + number * 30_000))
        kept.append(bytes(600))
threads = [threading.Thread(target=receive) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(count_free_bytes() >> 20)
"""

glibc = pytest.mark.skipif(not hasattr(heap._libc, "mallinfo2"), reason="not run: this C library does not tell")


def free_after_mail(before: str) -> int:
    """MiB that are free in the heap of a process that has read some mail."""
    code = MAIL.format(before=before)
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


@glibc
def test_bodies_that_are_freed_leave_no_free_memory_behind() -> None:
    assert free_after_mail("assert limit_heap()") <= 4
    assert free_after_mail("") > 4, "without the limits it is as it was, and the test would prove nothing"


PIECES_OF_TLS = """
import ctypes, os
for name in [name for name in os.environ if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES"]:
    del os.environ[name]
from gatepost.service import heap
assert heap.limit_heap()
def count_mapped():
    heap._libc.mallinfo2.restype = heap._Heap
    return heap._libc.mallinfo2().hblks
before = count_mapped()
pieces = [bytes(256 << 10) for _ in range(8)]
print(count_mapped() - before)
large = [bytes((256 << 10) + (8 << 10)) for _ in range(8)]
print(count_mapped() - before)
"""


@glibc
def test_what_is_read_from_tls_is_not_mapped_by_itself_and_large_bodies_are() -> None:
    done = subprocess.run([sys.executable, "-c", PIECES_OF_TLS], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["0", "8"]


@glibc
def test_the_settings_of_an_operator_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "8")
    assert not heap.limit_heap()


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "_libc", object())
    assert not heap.limit_heap()
    assert heap.count_free_bytes() == 0
    heap.trim_heap()


@glibc
def test_free_pages_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[None] = []
    monkeypatch.setattr(heap, "give_back_memory", lambda: given.append(None))
    for free, count in ((heap.KEPT_BYTES, 0), (heap.KEPT_BYTES + 1, 1)):
        monkeypatch.setattr(heap, "count_free_bytes", lambda free=free: free)
        heap.trim_heap()
        assert len(given) == count


LARGE = 2 << 20
SMALL = os.sysconf("SC_PAGESIZE")
OWN, SHARED, ABSENT = (bits.to_bytes(8, sys.byteorder) for bits in (heap._PRESENT | heap._EXCLUSIVE, heap._PRESENT, 0))


@pytest.mark.parametrize(
    ("other", "share", "is_own"), [(ABSENT, 0.05, True), (ABSENT, 0.2, False), (SHARED, 0.2, False)]
)
def test_only_memory_of_ones_own_that_is_in_use_goes_into_large_pages(other: bytes, share: float, is_own: bool) -> None:
    count = LARGE // SMALL
    missing = int(share * count)
    pages = BytesIO(ABSENT * 2 * count + OWN * (count - missing) + other * missing + ABSENT * count)
    assert heap.is_own(pages, 2 * LARGE, LARGE) is is_own
    assert not heap.is_own(pages, 100 * LARGE, LARGE), "what the system does not tell"


def test_places_of_large_pages() -> None:
    mappings = (
        "00400000-00a00000 r-xp 00000000 08:01 77 /usr/bin/python3\n"
        "00afe000-01001000 rw-p 00000000 00:00 0          [heap]\n"
        "7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \n"
        "7f1000000000-7f1000400000 rw-s 00000000 00:01 5 /memfd:counters\n"
        "7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0  [stack]\n"
    )
    assert list(heap._list_places(mappings, LARGE)) == [0xC00000, 0xE00000, 0x7F0000000000]


def tells_of_large_pages() -> bool:
    try:
        with Path("/proc/self/pagemap").open("rb") as pages:
            return len(pages.read(8)) == 8 and int(heap._LARGE_SIZE.read_text()) == LARGE
    except OSError:
        return False


def test_memory_in_large_pages_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    system = heap._libc

    class Library:
        @staticmethod
        def madvise(place: int, size: int, advice: int) -> int:
            asked.append(place)
            return int(system.madvise(place, size, advice))

    monkeypatch.setattr(heap, "_libc", Library)
    with mmap.mmap(-1, 4 * LARGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.write(bytes(range(256)) * (len(memory) // 256))
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        taken = heap.use_large_pages()
        assert memory[:] == bytes(range(256)) * (len(memory) // 256)
    assert 0 <= taken <= len(asked) * LARGE
    if not tells_of_large_pages():
        pytest.skip("not run: this kernel has no pages of 2 MiB, or does not tell which memory is whose")
    assert [place for place in asked if start <= place < start + 4 * LARGE], "memory that is full and nobody else's"
    monkeypatch.setattr(heap, "_LARGE_SIZE", Path("/nonexistent"))
    assert heap.use_large_pages() == 0
