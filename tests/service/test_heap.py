"""The heap of a service: bodies that were freed leave nothing behind. Each in a process of its own, since what is set
holds for the whole process."""

import subprocess
import sys

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
