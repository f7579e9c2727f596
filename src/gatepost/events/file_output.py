"""Events as JSON lines in a file, which only its owner can read.

Several processes may write one file (guard, abby, a command): each batch is one `write` to a file that was
opened for appending.
A process whose file was moved away or deleted, by another one or by logrotate, opens the path again before the next
batch. At `maxSize` a file is renamed to `NAME.1`, that to `NAME.2`, and so on. A lock lets one process write at a time.

Nothing waits for the disk (no fsync): a kill of the process loses nothing that was written, a power cut may lose the
last seconds. While the file cannot be written, events wait in memory; beyond eight MiB the oldest are dropped.
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from gatepost.events.output import DeliveryLog, OutputCounters, WaitingEvents, of_kinds, time_left, until
from gatepost.events.schema import EncodedEvent

FILE_MODE, FOLDER_MODE = 0o600, 0o700
BATCH = 10_000
LOCK_SECONDS, LOCK_PAUSE = 1.0, 0.005


class FileOutput:
    """A file of JSON lines."""

    name = "file"

    def __init__(self, path: Path, max_size: int, keep: int, kinds: Collection[str] = ()) -> None:
        self._path, self._max_size, self._keep = path, max_size, keep
        self.address = str(path)
        self._kinds = frozenset(kinds)
        self._waiting = WaitingEvents()
        self._deliveries = DeliveryLog(self.name)
        self._file: int | None = None
        self._size = 0

    def write(self, events: Sequence[EncodedEvent]) -> None:
        """Append a batch, and what waits from before."""
        wanted = of_kinds(events, self._kinds)
        dropped = self._waiting.add(wanted)
        if dropped:
            self._deliveries.drop(dropped)
        while batch := self._waiting.take(BATCH):
            try:
                self._append(b"".join([event.line + b"\n" for event in batch]))
            except OSError as fault:
                self._deliveries.fail(f"cannot be written: {describe_error(fault)}")
                self._forget_file()
                self._waiting.put_back(batch)
                return
            self._deliveries.succeed(len(batch))

    def close(self, _seconds: float) -> None:
        """Try once more to write what waits, and close the file."""
        self.write(())
        self._forget_file()

    def test(self, event: EncodedEvent) -> str:
        """Append one event."""
        try:
            self._append(event.line + b"\n")
        except OSError as fault:
            return f"cannot be written: {describe_error(fault)}"
        finally:
            self._forget_file()
        return ""

    def counters(self) -> OutputCounters:
        return self._deliveries.counters(self._waiting.bytes)

    def _append(self, data: bytes) -> None:
        self._path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        with lock_file(self._numbered("lock"), LOCK_SECONDS):
            file = self._open_current()
            if self._size and self._size + len(data) > self._max_size:
                self._rotate()
                file = self._open_current()
            written = os.write(file, data)
            if written < len(data):
                # A full disk takes a part; that is taken back, so that no line is cut.
                os.ftruncate(file, self._size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open_current(self) -> int:
        """Return the file that has the path now."""
        if self._file is not None:
            try:
                there, ours = self._path.stat(), os.fstat(self._file)
            except FileNotFoundError:
                self._forget_file()
            else:
                if (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev):
                    self._size = there.st_size
                    return self._file
                self._forget_file()
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self._size = os.fstat(self._file).st_size
        return self._file

    def _rotate(self) -> None:
        for number in range(self._keep - 1, 0, -1):
            if self._numbered(number).exists():
                self._numbered(number).replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        self._forget_file()

    def _numbered(self, number: int | str) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _forget_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None


@contextlib.contextmanager
def lock_file(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a file, which ends with the process; `OSError` if another process has it for so long."""
    lock = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    end = until(seconds)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not time_left(end):
                    raise OSError(errno.EAGAIN, "another process does not let go of it") from None
                time.sleep(LOCK_PAUSE)
        yield
    finally:
        os.close(lock)


def describe_error(fault: OSError) -> str:
    """Return what the system says of an error, without the path."""
    return (fault.strerror or str(fault) or type(fault).__name__).lower()
