"""One thread writes, and commits in groups.

A commit costs a wait for the disk, whatever is in it. While one is under way new changes queue up, and the next commit
takes them all: the more there is to do, the cheaper each becomes, with no timer and no delay when there is little.
A caller is answered after the commit that holds its change, never before.

Changes of the same kind are handed over together, so that an engine can put a whole group into one statement.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

import apsw
import msgspec

from gatepost.store.interface import StorageError, StoreCounters

A = TypeVar("A")
R = TypeVar("R")

# Takes the arguments of all callers that asked for it, returns one result for each, in their order.
Change: TypeAlias = Callable[[apsw.Connection, Sequence[A]], Sequence[R]]

MAX_GROUP = 256
LINGER_SECONDS = 0.003


class _Asked(msgspec.Struct, eq=False):
    change: Change[Any, Any]
    argument: Any
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    fault: Exception | None = None


class Writer:
    """Applies changes to one connection, from any event loop, in the order in which they were asked for."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._queue: SimpleQueue[_Asked | None] = SimpleQueue()
        self._closed = False
        self._ended, self._crowd = 0.0, False
        self._changes = self._commits = self._failures = 0
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def apply(self, change: Change[A, R], argument: A) -> R:
        """Apply a change; returns when it is on disk."""
        if self._closed:
            raise StorageError("The storage is closed.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._queue.put(_Asked(change, argument, loop, future))
        return await future

    async def close(self) -> None:
        """Finish what was asked for, then end."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def counters(self) -> StoreCounters:
        """How much was done, and in how many commits."""
        return StoreCounters(self._changes, self._commits, self._failures)

    def _run(self) -> None:
        more = True
        while more:
            group, more = self._next_group()
            if group:
                self._settle(group)
                self._ended, self._crowd = time.monotonic(), len(group) > 1
                _answer(group)
        self._connection.close()

    def _next_group(self) -> tuple[list[_Asked], bool]:
        """Wait for one change and take whatever has queued up behind it.

        In a rush, when one commit with several changes follows on another's heels, a little is waited for more: a
        commit costs far more than a change, and whoever is alone never waits.
        """
        group: list[_Asked] = []
        asked = self._queue.get()
        arrived = time.monotonic()
        until = arrived + LINGER_SECONDS if self._crowd and arrived - self._ended < LINGER_SECONDS else arrived
        while asked is not None:
            group.append(asked)
            if len(group) == MAX_GROUP:
                return group, True
            try:
                asked = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                return group, True
        return group, False

    def _settle(self, group: Sequence[_Asked]) -> None:
        try:
            self._commit(group)
        except (apsw.BusyError, apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CorruptError) as fault:
            self._failures += 1
            error = StorageError(f"The storage could not be written ({type(fault).__name__}).")
            for asked in group:
                asked.fault = error
        except Exception as fault:  # noqa: BLE001  one change's fault must not end the thread or its neighbours
            if len(group) > 1:
                for asked in group:
                    self._settle([asked])
            else:
                self._failures += 1
                group[0].fault = fault

    def _commit(self, group: Sequence[_Asked]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for same in _by_change(group):
                results = same[0].change(self._connection, [asked.argument for asked in same])
                for asked, result in zip(same, results, strict=True):
                    asked.result = result
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self._commits += 1
        self._changes += len(group)


def _by_change(group: Sequence[_Asked]) -> list[list[_Asked]]:
    """Neighbours that ask for the same change, together; the order between different changes stays."""
    together: list[list[_Asked]] = []
    for asked in group:
        if together and together[-1][0].change == asked.change:
            together[-1].append(asked)
        else:
            together.append([asked])
    return together


def _answer(group: Sequence[_Asked]) -> None:
    """Wake the callers, with one call for each event loop."""
    for loop in {asked.loop for asked in group}:
        try:
            loop.call_soon_threadsafe(_resolve, [asked for asked in group if asked.loop is loop])
        except RuntimeError:
            continue  # the loop has ended, and whoever waited in it with it


def _resolve(group: Sequence[_Asked]) -> None:
    for asked in group:
        if asked.future.done():
            continue
        if asked.fault is None:
            asked.future.set_result(asked.result)
        else:
            asked.future.set_exception(asked.fault)
