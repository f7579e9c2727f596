"""Memory that the processes of one node share, so that limits hold for the node and not for each process.

A node that runs several processes (see `service.processes`) maps one file in memory before it forks them. Every process
is a member and has cells of its own. A process that is killed held exactly what its cells say, so setting them to zero
gives all of it back.

What depends on the cells of others is decided under a lock, `with memory:`. It is a record lock (fcntl(2)), which the
kernel frees when its holder ends. A member changes cells of its own, numbers that only grow, and keys without a count;
a kill between two changes therefore leaves nothing that another member could misread. Each member takes the lock in
one thread, the one of its event loop, and never inside another `with`.

Members trust each other: they are one program. A member that writes nonsense all the same can hold the others up, by
counts that say that everything is full, until it is ended and its cells are set to zero; it cannot make them fail.
Numbers that are computed from cells are brought into the bounds of a cell (`fit_cell`).
"""

import errno
import fcntl
import hashlib
import mmap
import os
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self

_WORD = 8
# struct flock (fcntl(2)) on 64-bit systems: kind, whence, start, length, process.
_FLOCK = struct.Struct("hhqqi4x")
# Keys that share a place in a table; more of them than that at once are turned away.
_WAYS = 8
# Address space, not memory: pages take memory when they are first written.
_SIZE = 1 << 30
# Far from the bounds of a cell, so that sums of a few of them stay within.
_MOST = 1 << 60


def fit_cell(value: int) -> int:
    """Return a number that a cell can hold."""
    return max(-_MOST, min(value, _MOST))


class NodeMemory:
    """The shared cells of a node with so many members. `member` is the number of this process among them."""

    def __init__(self, members: int) -> None:
        self.members, self.member = members, 0
        self._file = os.memfd_create("gatepost-node", os.MFD_CLOEXEC)
        os.ftruncate(self._file, _SIZE)
        self._cells = memoryview(mmap.mmap(self._file, _SIZE)).cast("q")
        self._used = 0
        self._columns: list[tuple[memoryview, ...]] = []
        self._key = os.urandom(16)
        self.bells = tuple(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(members))
        self._listeners: list[Callable[[], None]] = []

    def allocate(self, count: int) -> memoryview:
        """Return so many cells that all members share; to be called before the node forks, as all that allocates."""
        start, self._used = self._used, self._used + count
        if self._used * _WORD > _SIZE:
            raise MemoryError("the memory of the node is too small for its limits")
        return self._cells[start : self._used]

    def allocate_columns(self, count: int) -> tuple[memoryview, ...]:
        """Return so many cells for each member; they are set to zero when their member ends."""
        columns = tuple(self.allocate(count) for _ in range(self.members))
        self._columns.append(columns)
        return columns

    def digest(self, name: str) -> int:
        """Return a number for a name that nobody outside of the node can foresee; never 0."""
        raw = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key).digest()
        return int.from_bytes(raw, "little", signed=True) or 1

    def forget(self, member: int) -> None:
        """Give back all that a member held; it has ended."""
        for columns in self._columns:
            column = columns[member]
            column[:] = memoryview(bytes(column.nbytes)).cast("q")

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this whenever another member has rung for this one."""
        self._listeners.append(listener)

    def ring(self, member: int) -> None:
        """Wake a member: something that it waits for may have come."""
        os.eventfd_write(self.bells[member], 1)

    def answer_bell(self) -> None:
        """Call the listeners of this member; for its event loop, when the bell is readable."""
        try:
            os.eventfd_read(self.bells[self.member])
        except BlockingIOError:
            return
        for listener in self._listeners:
            listener()

    def lock_holder(self) -> int:
        """Return the id of the process that has the lock now, 0 if no other process has it."""
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(self._file, fcntl.F_GETLK, asked))
        return 0 if kind == fcntl.F_UNLCK else int(pid)

    def try_lock(self) -> bool:
        """Take the lock if it is free; `with memory:` waits for it, and so for a process that hangs with it."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        except OSError as fault:
            if fault.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            return False
        return True

    def unlock(self) -> None:
        """Give the lock back."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1)

    def __enter__(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1)

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1)


class Tally:
    """Counts by name, of one process. `with tally:` makes a look and a change one step."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, name: str) -> int:
        """Return how many there are of this name."""
        return self._counts[name]

    def add(self, name: str) -> bool:
        """Count one more; False where there is no room for another name."""
        self._counts[name] += 1
        return True

    def remove(self, name: str) -> None:
        """Count one less. Names without a count are not kept."""
        self._counts[name] -= 1
        if self._counts[name] <= 0:
            del self._counts[name]

    @property
    def names(self) -> int:
        """How many names have a count."""
        return len(self._counts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class SharedTally(Tally):
    """Counts by name over all processes of a node, with room for some `capacity` names at once.

    `values` has one more number for each name, which is lost with the last count.
    """

    def __init__(self, memory: NodeMemory, capacity: int) -> None:
        super().__init__()
        self._memory = memory
        self._places = 1 << max(4, (capacity - 1).bit_length() - 1)
        size = self._places * _WAYS
        self._keys = memory.allocate(size)
        # One more than there are keys: names for which there is no room can share the last entry.
        self.values = memory.allocate(size + 1)
        self._columns = memory.allocate_columns(size + 1)

    def count(self, name: str) -> int:
        found = self.find(name)
        return 0 if found is None else self.total(found)

    def add(self, name: str) -> bool:
        found = self.find_or_make(name)
        if found is None:
            return False
        self.add_at(found, 1)
        return True

    def remove(self, name: str) -> None:
        found = self.find(name)
        if found is not None:
            self.add_at(found, -1)

    def add_at(self, number: int, change: int) -> None:
        """Change the count that this member has of an entry."""
        column = self._columns[self._memory.member]
        column[number] = fit_cell(column[number] + change)

    @property
    def names(self) -> int:
        return sum(self.total(number) > 0 for number in range(len(self._keys)))

    def __enter__(self) -> Self:
        self._memory.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.__exit__(kind, fault, trace)

    def total(self, number: int) -> int:
        """Return the count of an entry over all members."""
        return sum(column[number] for column in self._columns)

    def find(self, name: str) -> int | None:
        """Return the number of the entry that a name has; None if it has none."""
        digest = self._memory.digest(name)
        start = digest % self._places * _WAYS
        keys = self._keys[start : start + _WAYS].tolist()
        return start + keys.index(digest) if digest in keys else None

    def find_or_make(self, name: str) -> int | None:
        """Return the number of the entry of a name, a new one if need be; None where there is no room."""
        found = self.find(name)
        if found is not None:
            return found
        digest = self._memory.digest(name)
        start = digest % self._places * _WAYS
        for number in range(start, start + _WAYS):
            if not self.total(number):
                self._keys[number], self.values[number] = digest, 0
                return number
        return None

    def find_or_share(self, name: str) -> int:
        """Return the number of the entry of a name; where there is no room, that of the entry which names share."""
        found = self.find_or_make(name)
        return len(self._keys) if found is None else found


class LocalRecords:
    """A few numbers for each name, of one process; what was touched longest ago is forgotten first."""

    def __init__(self, capacity: int) -> None:
        self.memory: AbstractContextManager[None] = nullcontext()
        self._capacity = capacity
        self._values: dict[str, list[int]] = {}

    def get(self, name: str) -> list[int] | None:
        """Return the numbers of a name; None if there are none."""
        found = self._values.get(name)
        return None if found is None else list(found)

    def put(self, name: str, values: Sequence[int]) -> None:
        """Keep the numbers of a name."""
        self._values.pop(name, None)
        self._values[name] = list(values)
        if len(self._values) > self._capacity:
            del self._values[next(iter(self._values))]


class SharedRecords:
    """A few numbers for each name, over all processes of a node; what was touched longest ago is forgotten first."""

    def __init__(self, memory: NodeMemory, width: int, capacity: int) -> None:
        self.memory = memory
        self._width = width
        self._places = 1 << max(4, (capacity - 1).bit_length() - 2)
        size = self._places * _WAYS
        self._keys, self._touched = memory.allocate(size), memory.allocate(size)
        self._values = memory.allocate(size * width)

    def get(self, name: str) -> list[int] | None:
        """Return the numbers of a name; None if there are none."""
        digest = self.memory.digest(name)
        start = digest % self._places * _WAYS
        keys = self._keys[start : start + _WAYS].tolist()
        if digest not in keys:
            return None
        first = (start + keys.index(digest)) * self._width
        return self._values[first : first + self._width].tolist()

    def put(self, name: str, values: Sequence[int]) -> None:
        """Keep the numbers of a name."""
        digest = self.memory.digest(name)
        start = digest % self._places * _WAYS
        keys, touched = self._keys[start : start + _WAYS].tolist(), self._touched[start : start + _WAYS].tolist()
        place = start + (keys.index(digest) if digest in keys else touched.index(min(touched)))
        if self._keys[place] != digest:
            # Without its key an entry is nobody's: a kill in between leaves no numbers to the wrong name.
            self._keys[place] = 0
        for number, value in enumerate(values):
            self._values[place * self._width + number] = fit_cell(value)
        self._touched[place], self._keys[place] = time.monotonic_ns(), digest
