"""The one writer of a SQLite file: it commits changes in groups, in a thread of this process (`Writer`).

A commit costs a wait for the disk, whatever is in it. While one is under way new changes queue up, and the next commit
takes them all: the more there is to do, the cheaper each change becomes, with no timer and no delay when there is
little. A caller is answered after the commit that holds its change, never before.

Changes of the same kind are handed over together, so that a whole group can be one statement. Those that are light,
which are records of messages, have commits of their own: mail does not wait for the changes of lists beside it.

Where a service runs as several processes, a process of its own writes for all of them: see `writer_process`.
"""

import asyncio
import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

import apsw
import msgspec

from gatepost.store.engine import StoreCounters
from gatepost.store.errors import StorageError

A = TypeVar("A")
R = TypeVar("R")

# Takes the arguments of all callers that asked for it, returns one result for each, in their order.
Change: TypeAlias = Callable[[apsw.Connection, Sequence[A]], Sequence[R]]

MAX_GROUP = 256
# Changes that are not light have commits of so many while light ones come in between.
MAX_HEAVY_GROUP = 4
LINGER_SECONDS = 0.003


class PendingChange(msgspec.Struct, eq=False):
    """A change that somebody waits for, and what became of it. `light` are those that every message makes."""

    change: Change[Any, Any]
    argument: Any
    light: bool = False
    result: Any = None
    fault: Exception | None = None


class _Pending(PendingChange, eq=False, kw_only=True):
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class WritesChanges(ABC):
    """What applies changes, each in a commit that is on disk when the caller is answered."""

    @abstractmethod
    async def apply(self, change: Change[A, R], argument: A, *, light: bool = False) -> R:
        """Apply a change; returns when it is on disk. `light` is for changes that every message makes."""

    @abstractmethod
    async def close(self) -> None:
        """Finish the changes that are under way, then end."""

    @abstractmethod
    def counters(self) -> StoreCounters:
        """How many changes were written, in how many commits, and how many commits failed."""


class GroupCommits:
    """Commits groups of changes on one connection, and counts."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.changes = self.commits = self.failures = 0

    def commit(self, group: Sequence[PendingChange]) -> None:
        """Apply all changes in one commit. A change that fails fails alone: its neighbours are applied without it."""
        try:
            self._commit(group)
        except (apsw.BusyError, apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CorruptError) as fault:
            self.failures += 1
            error = StorageError(f"The storage could not be written ({type(fault).__name__}).")
            for pending in group:
                pending.fault = error
        except Exception as fault:  # noqa: BLE001  the fault of one change must not end the writer or fail its neighbours
            if len(group) > 1:
                for pending in group:
                    self.commit([pending])
            else:
                self.failures += 1
                group[0].fault = fault

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _commit(self, group: Sequence[PendingChange]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for same in _group_by_change(group):
                results = same[0].change(self._connection, [pending.argument for pending in same])
                for pending, result in zip(same, results, strict=True):
                    pending.result = result
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self.commits += 1
        self.changes += len(group)


P = TypeVar("P", bound=PendingChange)


class CommitTurns(Generic[P]):
    """Who shares the next commit. Light changes go first, all of them; then come some of the others, and so on."""

    def __init__(self) -> None:
        self._light: deque[P] = deque()
        self._heavy: deque[P] = deque()
        self._is_heavy_next = False

    def __bool__(self) -> bool:
        return bool(self._light or self._heavy)

    def add(self, pending: P) -> None:
        """Let a change wait for its commit."""
        (self._light if pending.light else self._heavy).append(pending)

    def next_group(self) -> list[P]:
        """Take out the changes of the next commit, in the order in which they were asked for."""
        self._is_heavy_next = bool(self._heavy) and (self._is_heavy_next or not self._light)
        most = MAX_HEAVY_GROUP if self._is_heavy_next and self._light else MAX_GROUP
        changes = self._heavy if self._is_heavy_next else self._light
        self._is_heavy_next = not self._is_heavy_next
        return [changes.popleft() for _ in range(min(most, len(changes)))]


class Writer(WritesChanges):
    """Applies changes to one connection, from any event loop. Of a kind (`CommitTurns`), what was asked for first is
    applied first."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._commits = GroupCommits(connection)
        self._queue: SimpleQueue[_Pending | None] = SimpleQueue()
        self._closed = False
        self._ended, self._was_group = 0.0, False
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def apply(self, change: Change[A, R], argument: A, *, light: bool = False) -> R:
        if self._closed:
            raise StorageError("The storage is closed.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._queue.put(_Pending(change, argument, light, loop=loop, future=future))
        return await future

    async def close(self) -> None:
        """Finish the changes that are queued, then end."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def counters(self) -> StoreCounters:
        """How many changes were written, in how many commits, and how many commits failed."""
        return StoreCounters(self._commits.changes, self._commits.commits, self._commits.failures)

    def _run(self) -> None:
        # What `top -H` and the benchmarks show; the kernel keeps 15 characters.
        with contextlib.suppress(OSError):
            Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("store-writer")
        is_open, waiting = True, CommitTurns[_Pending]()
        while is_open or waiting:
            is_open = self._gather(waiting) and is_open
            if waiting:
                group = waiting.next_group()
                self._commits.commit(group)
                self._ended, self._was_group = time.monotonic(), len(group) > 1
                _answer(group)
        self._commits.close()

    def _gather(self, waiting: CommitTurns[_Pending]) -> bool:
        """Take all changes that have queued up; wait for one if there is none. Return False after the last.

        When a change follows shortly after a commit with several changes, more of them are waited for a little: a
        commit costs far more than a change. A single caller never waits.
        """
        until = 0.0
        count = 0
        while count < MAX_GROUP:
            try:
                seconds = None if not (count or waiting) else max(0.0, until - time.monotonic())
                pending = self._queue.get(timeout=seconds)
            except Empty:
                break
            if pending is None:
                return False
            waiting.add(pending)
            count += 1
            if count == 1:
                now = time.monotonic()
                until = now + LINGER_SECONDS if self._was_group and now - self._ended < LINGER_SECONDS else now
        return True


def _group_by_change(group: Sequence[PendingChange]) -> list[list[PendingChange]]:
    """Neighbours that ask for the same change, together; the order of different changes stays."""
    together: list[list[PendingChange]] = []
    for pending in group:
        if together and together[-1][0].change == pending.change:
            together[-1].append(pending)
        else:
            together.append([pending])
    return together


def _answer(group: Sequence[_Pending]) -> None:
    """Wake the callers, with one call for each event loop."""
    for loop in {pending.loop for pending in group}:
        try:
            loop.call_soon_threadsafe(_resolve, [pending for pending in group if pending.loop is loop])
        except RuntimeError:
            continue  # the loop has ended, and its callers with it


def _resolve(group: Sequence[_Pending]) -> None:
    for pending in group:
        if pending.future.done():
            continue
        if pending.fault is None:
            pending.future.set_result(pending.result)
        else:
            pending.future.set_exception(pending.fault)
