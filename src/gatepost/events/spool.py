"""Events on disk that wait for a webhook: a folder of segments, each a file of JSON lines.

A writer appends to a segment of its own, `ID.open`, whose lock it holds; a complete segment is `ID.jsonl`. Segments
that a killed process left open have no lock any more and are taken over. So any number of processes may write into one
spool, and a command that ends at once leaves its events to the service. One process sends: the one that has the lock
of the folder. A segment is deleted when all of it was delivered; a kill in between lets it be delivered again.

Beyond `limit` bytes the oldest segments are deleted, and their events counted as dropped. Segments are not synced to
the disk one by one: a kill of the process loses nothing that was written, a power cut may lose the last seconds.
"""

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from gatepost.events.schema import EncodedEvent
from gatepost.ids import new_id

FILE_MODE, FOLDER_MODE = 0o600, 0o700
SEGMENT_BYTES = 256 << 10
OPEN, COMPLETE = ".open", ".jsonl"


class EventSpool:
    """A spool in one folder. `append` is for one thread, the other methods for the thread that sends."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._segment_bytes = min(SEGMENT_BYTES, limit // 8)
        self._lock = threading.Lock()
        self._writing: tuple[Path, int] | None = None
        self._sender: int | None = None
        self.bytes = 0
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        self.bytes = sum(size for _, size in self._segments())

    def append(self, events: Sequence[EncodedEvent]) -> int:
        """Write events; return how many older ones were dropped for them. Raises `OSError`."""
        dropped = 0
        with self._lock:
            done, has_completed = 0, False
            while done < len(events):
                path, file = self._writing or self._start_segment()
                room = self._segment_bytes - os.fstat(file).st_size
                data, count = _join(events[done:], room)
                _write_whole(file, data)
                done += count
                self.bytes += len(data)
                if done < len(events) or len(data) >= room:
                    self._complete(path, file)
                    has_completed = True
            if has_completed:
                # Other processes write here too.
                self.bytes = sum(size for _, size in self._segments())
            if self.bytes > self._limit:
                dropped = self._drop_oldest()
        return dropped

    def take_over(self) -> bool:
        """Return whether this process is the one that sends. Raises `OSError`."""
        if self._sender is not None:
            return True
        lock = os.open(self._folder / "sender.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        if not _try_lock(lock):
            os.close(lock)
            return False
        self._sender = lock
        return True

    def next_segment(self) -> Path | None:
        """Return the oldest segment; None if there is none. The one that is being written is completed for it."""
        self.complete_segment()
        for path, _ in self._segments():
            if path.suffix == COMPLETE:
                return path
            if complete := self._adopt(path):
                return complete
        return None

    def complete_segment(self) -> None:
        """Complete the segment that is being written, so that any process can send it."""
        with self._lock:
            if self._writing and os.fstat(self._writing[1]).st_size:
                self._complete(*self._writing)

    def delete(self, segment: Path) -> None:
        """Delete a segment that was delivered."""
        with self._lock, contextlib.suppress(FileNotFoundError):
            size = segment.stat().st_size
            segment.unlink()
            self.bytes = max(0, self.bytes - size)

    def close(self) -> None:
        """Complete what is being written, for the next sender."""
        with self._lock:
            if self._writing:
                self._complete(*self._writing)
        if self._sender is not None:
            os.close(self._sender)
        self._sender = None

    def _start_segment(self) -> tuple[Path, int]:
        self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        path = self._folder / f"{new_id()}{OPEN}"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        fcntl.flock(file, fcntl.LOCK_EX)
        self._writing = path, file
        return self._writing

    def _complete(self, path: Path, file: int) -> None:
        self._writing = None
        with contextlib.suppress(FileNotFoundError):
            path.rename(path.with_suffix(COMPLETE))
        os.close(file)

    def _adopt(self, path: Path) -> Path | None:
        """Complete a segment whose writer is gone; None while somebody writes it."""
        if self._writing and path == self._writing[0]:
            return None
        complete = path.with_suffix(COMPLETE)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                if not _try_lock(file):
                    return None
                path.rename(complete)
            finally:
                os.close(file)
        except FileNotFoundError:
            return None
        return complete

    def _drop_oldest(self) -> int:
        """Delete the oldest segments until the rest is within the limit; return how many events they had."""
        segments, dropped = list(self._segments()), 0
        self.bytes = sum(size for _, size in segments)
        for path, size in segments:
            if self.bytes <= self._limit:
                break
            if self._writing and path == self._writing[0]:
                continue
            with contextlib.suppress(FileNotFoundError):
                dropped += path.read_bytes().count(b"\n")
                path.unlink()
            self.bytes -= size
        return dropped

    def _segments(self) -> Iterator[tuple[Path, int]]:
        """Yield every segment with its size, the oldest first: their names are ordered by time."""
        with os.scandir(self._folder) as found:
            names = sorted(entry.name for entry in found if entry.name.endswith((OPEN, COMPLETE)))
        for name in names:
            path = self._folder / name
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat().st_size


def read_segment(path: Path) -> list[bytes]:
    """Return the lines of a segment. A kill may have cut the last one; such a line is left out."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    return [line for line in lines[:-1] if line]


def _join(events: Sequence[EncodedEvent], room: int) -> tuple[bytes, int]:
    """Return as many lines as there is room for, at least one, and their number."""
    lines: list[bytes] = []
    size = 0
    for event in events:
        size += len(event.line) + 1
        if lines and size > room:
            break
        lines.append(event.line + b"\n")
    return b"".join(lines), len(lines)


def _write_whole(file: int, data: bytes) -> None:
    before = os.fstat(file).st_size
    written = os.write(file, data)
    if written < len(data):
        os.ftruncate(file, before)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
