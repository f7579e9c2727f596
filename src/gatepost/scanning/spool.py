"""The bytes of a message until it is answered: in memory while small, on disk when large.

Files on disk have no name (`O_TMPFILE`, or unlinked right after creation where the file system has none), so the
system frees them when the process ends, however it ends: a kill leaves nothing to clean up. Only where
that is not supported can a kill between the two calls leave a named file; such ones are removed at the next start.

A thread writes them, since a disk that does not answer would stop the event loop, and with it everybody. What was
written is in the memory of the system, so it is read where it is needed.
"""

import asyncio
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self, cast

from gatepost.store.errors import StorageError

MEMORY_LIMIT = 1 << 20
PREFIX = "message-"
# A named file lives for microseconds; one that is older was left behind.
STALE_SECONDS = 60.0
_READ_SIZE = 1 << 20

# A disk that takes nothing for so long takes no more.
PATIENCE_SECONDS = 10.0

# One, so that a file is closed after what was still to be written to it.
_disk = ThreadPoolExecutor(1, "spool")


class MessageBody(Protocol):
    """The raw bytes of a message, in memory or on disk; read as often as needed, closed once by its maker."""

    @property
    def size(self) -> int: ...

    @property
    def sha256(self) -> str:
        """In lower-case hex."""
        ...

    def read(self) -> bytes:
        """All bytes at once."""
        ...

    def head(self, size: int) -> bytes:
        """The first bytes, at most so many."""
        ...

    def chunks(self, size: int) -> Iterator[bytes]:
        """All bytes, in pieces of at most `size`."""
        ...

    async def to_disk(self) -> None:
        """Free the memory, for a message that has to wait; raises `StorageError` where the disk takes no more."""
        ...


class BytesBody:
    """The raw bytes of a message that is in memory already, and stays there."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self._data).hexdigest()

    def read(self) -> bytes:
        return self._data

    def head(self, size: int) -> bytes:
        return self._data[:size]

    def chunks(self, size: int) -> Iterator[bytes]:
        return (self._data[start : start + size] for start in range(0, len(self._data), size))

    async def to_disk(self) -> None:
        """It has an owner, who holds it in memory in any case."""


class SpooledBody:
    """The raw bytes of one message: written once, read as often as needed, gone when closed. It may be a tenant's."""

    def __init__(self, folder: Path, memory_limit: int, whole: bytes | None = None, tenant: str | None = None) -> None:
        self.tenant = tenant
        self._folder = folder
        self._limit = memory_limit
        # The first piece as it came, which most messages consist of; a bytearray from the second one on. Of a body that
        # is on disk, what is still to be written.
        self._memory: bytes | bytearray = b""
        self._file: BinaryIO | None = None
        self._hash = hashlib.sha256(whole or b"")
        self.size = len(whole or b"")
        self._whole = whole
        self._is_spilled = self._closed = False

    @property
    def sha256(self) -> str:
        """Of what was written so far, in lower-case hex."""
        return self._hash.hexdigest()

    @property
    def on_disk(self) -> bool:
        return self._file is not None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes, to memory. `settle` is called in between and `finish` at the end; nothing is read before."""
        if not self._memory:
            self._memory = bytes(data)
        elif isinstance(self._memory, bytearray):
            self._memory += data
        else:
            self._memory = bytearray(self._memory)
            self._memory += data
        self._hash.update(data)
        self.size += len(data)

    async def settle(self) -> None:
        """Have that written which does not stay in memory. Raises `StorageError` where the disk takes no more; so do
        `finish` and `to_disk`."""
        if len(self._memory) > self._limit:
            await self._spill()

    async def finish(self) -> None:
        """End writing; from now on the body is only read."""
        if self._memory and (self._is_spilled or len(self._memory) > self._limit):
            await self._spill()
        elif not self._is_spilled:
            self._whole, self._memory = bytes(self._memory), b""

    async def to_disk(self) -> None:
        """Free the memory, for a message that has to wait."""
        if not self._is_spilled:
            await self._spill()

    async def _spill(self) -> None:
        self._is_spilled = True
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.get_running_loop().run_in_executor(_disk, self._write_out)
        except OSError as fault:
            reason = fault.strerror or "its disk does not answer"
            raise StorageError(f"The spool in {self._folder} cannot be written ({reason}).") from fault

    def _write_out(self) -> None:
        file = self._file
        if file is None:
            file = cast(BinaryIO, tempfile.TemporaryFile(prefix=PREFIX, dir=self._folder))  # noqa: SIM115  `close` ends it
        try:
            file.write(self._memory if self._whole is None else self._whole)
            file.flush()
        finally:
            self._file = file
        self._memory, self._whole = b"", None

    def read(self) -> bytes:
        """All bytes at once."""
        if self._closed:
            self._check_open()
        if self._file:
            whole = os.pread(self._file.fileno(), self.size, 0)
            # The system may give less than it was asked for; in pieces it takes twice the memory.
            return whole if len(whole) == self.size else b"".join(self.chunks(_READ_SIZE))
        return bytes(self._memory) if self._whole is None else self._whole

    def head(self, size: int) -> bytes:
        """The first bytes, at most so many."""
        if self._closed:
            self._check_open()
        if self._file:
            return os.pread(self._file.fileno(), min(size, self.size), 0)
        return bytes(self._memory[:size]) if self._whole is None else self._whole[:size]

    def chunks(self, size: int) -> Iterator[bytes]:
        """All bytes, in pieces of at most `size`. Readers do not disturb each other, nor a writer's place."""
        if self._file is None:
            whole = self.read()
            yield from (whole[start : start + size] for start in range(0, len(whole), size))
            return
        self._check_open()
        for start in range(0, self.size, size):
            yield os.pread(self._file.fileno(), min(size, self.size - start), start)

    def close(self) -> None:
        """Free memory and disk; twice does no harm. The system frees the pages of a file when it is closed, which takes
        milliseconds: that is not done on the event loop."""
        self._memory, self._whole = b"", None
        if self._is_spilled and not self._closed:
            self._closed = True
            _disk.submit(self._close_file)

    def _close_file(self) -> None:
        if self._file:
            self._file.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the body is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Spool:
    """A folder for bodies that do not stay in memory; several processes may share it."""

    def __init__(self, folder: Path, memory_limit: int = MEMORY_LIMIT) -> None:
        self._folder, self._limit = folder, memory_limit
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_stale(folder)

    def new(self, tenant: str | None = None) -> SpooledBody:
        """An empty body."""
        return SpooledBody(self._folder, self._limit, tenant=tenant)

    def hold(self, message: bytes) -> SpooledBody:
        """A body that is whole already."""
        return SpooledBody(self._folder, self._limit, message)


def _remove_stale(folder: Path) -> None:
    for path in folder.glob(f"{PREFIX}*"):
        try:
            if path.stat().st_mtime < time.time() - STALE_SECONDS:
                path.unlink()
        except FileNotFoundError:
            continue  # another process that starts was quicker
