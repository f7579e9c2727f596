"""Storage in one SQLite file: a writer thread that commits in groups, and readers beside it.

The event loop only ever waits, but for one row that is always in memory. Several processes may have the same file
open. A stream has a connection of its own, because what it reads is one statement from its first batch to its last.
"""

import asyncio
import threading
from array import array
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import apsw

from gatepost.store import database, messages
from gatepost.store.engine import Engine, given_up
from gatepost.store.interface import MessageRecord, StorageError, StoreCounters
from gatepost.store.work import Bulk, Many, Read, Row, Step, Undone, Work, in_sqlite
from gatepost.store.writer import Writer

T = TypeVar("T")

READERS = 2
STREAMERS = 2
# Look-ups jump about in a file that may be large: pages that are in memory anyway are not copied for them. That takes
# addresses, not memory, so all of a list of ten million entries can have them.
MAPPED = 1 << 36
# Each open stream holds a connection with a small cache, for as long as its client takes to read.
MAX_STREAMS = 64


class SqliteStore(Engine):
    """The `Store` on SQLite; opening it raises `StorageError` where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._writer = Writer(database.create(path))
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._streamers = ThreadPoolExecutor(STREAMERS, thread_name_prefix="store-stream")
        self._streams = 0
        self._connections: list[apsw.Connection] = []
        self._mine = threading.local()
        self._near: apsw.Connection | None = None
        self._closed = False

    async def close(self) -> None:
        """Finish what is under way and let go of the file."""
        await self._finish_noting()
        self._closed = True
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        await asyncio.to_thread(self._streamers.shutdown)
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def counters(self) -> StoreCounters:
        """How many changes were kept, in how many commits."""
        return self._writer.counters()

    async def record_message(self, record: MessageRecord) -> MessageRecord:
        return await self._writer.apply(messages.insert, record)

    async def _change(self, work: Callable[[], Work[T]]) -> T:
        try:
            return await self._writer.apply(_all_done, work)
        except Undone as outcome:
            result: T = outcome.result
            return result

    async def _query(self, work: Callable[[], Work[T]]) -> T:
        return await self._read(lambda connection: done(connection, work()))

    async def _glance(self, work: Callable[[], Work[T]]) -> T:
        """A row that every message asks for is in memory: reading it here is cheaper than waking a thread for it.

        Where the file is locked for a moment, which readers of a WAL hardly ever see, the thread waits instead.
        """
        self._check_open()
        try:
            if self._near is None:
                self._near = database.connect_reader(self._path)
                self._near.set_busy_timeout(0)
                self._connections.append(self._near)
            return done(self._near, work())
        except (apsw.Error, StorageError):
            return await self._query(work)

    async def _query_once(self, work: Callable[[], Work[T]]) -> T:
        return await self._read(lambda connection: _done_at_once(connection, work()))

    async def _stream(
        self, read: Read, made: Callable[[Sequence[Row]], T], first: int, batch: int
    ) -> AsyncGenerator[T, None]:
        self._check_open()
        if self._streams >= MAX_STREAMS:
            raise StorageError(f"{MAX_STREAMS} lists are being read already; try again when some are finished.")
        self._streams += 1
        run = asyncio.get_running_loop().run_in_executor
        rows = _Rows(self._path, read)
        ahead = run(self._streamers, rows.next, made, first)
        try:
            while found := await ahead:
                ahead = run(self._streamers, rows.next, made, batch)
                yield found
        finally:
            self._streams -= 1
            given_up(ahead)
            # Not here: a thread may still be reading for whoever gave up.
            self._later(rows.close)

    def _later(self, close: Callable[[], None]) -> None:
        if self._closed:
            close()
        else:
            self._streamers.submit(close)

    async def _read(self, query: Callable[[apsw.Connection], T]) -> T:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._queried, query)

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("The storage is closed.")

    def _queried(self, query: Callable[[apsw.Connection], T]) -> T:
        with database.described(self._path):
            connection = getattr(self._mine, "connection", None)
            if connection is None:
                connection = self._mine.connection = database.connect_reader(self._path, MAPPED)
                self._connections.append(connection)
            return query(connection)


class _Rows:
    """The rows of one statement, on a connection of their own, which is opened for the first of them."""

    def __init__(self, path: Path, read: Read) -> None:
        self._path, self._read = path, read
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._rows: Iterator[Row] | None = None

    def next(self, made: Callable[[Sequence[Row]], T], count: int) -> T | None:
        """The next `count` rows, as `made` gives them; None at the end."""
        with self._lock, database.described(self._path):
            if self._rows is None:
                self._connection = database.connect_reader(self._path)
                self._rows = self._connection.execute(in_sqlite(self._read.statement), _bound(self._read.parameters))
            rows = list(islice(self._rows, count))
        return made(rows) if rows else None

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._rows = iter(())
            if self._connection:
                self._connection.close(True)


def done(connection: apsw.Connection, work: Work[T]) -> T:
    """Do a piece of work on a connection."""
    try:
        step = next(work)
        while True:
            step = work.send(_step(connection, step))
    except StopIteration as stop:
        result: T = stop.value
        return result


def _all_done(connection: apsw.Connection, works: Sequence[Callable[[], Work[Any]]]) -> Sequence[Any]:
    return [done(connection, work()) for work in works]


def _done_at_once(connection: apsw.Connection, work: Work[T]) -> T:
    connection.execute("BEGIN")
    try:
        return done(connection, work)
    finally:
        connection.execute("COMMIT")


def _step(connection: apsw.Connection, step: Step) -> Any:
    if isinstance(step, Read):
        return connection.execute(in_sqlite(step.statement), _bound(step.parameters)).fetchall()
    before = connection.total_changes()
    if isinstance(step, Bulk):
        connection.executemany(step.sqlite, step.rows)
    else:
        connection.execute(in_sqlite(step.statement), _bound(step.parameters))
    return connection.total_changes() - before


def _bound(parameters: Row) -> list[Any]:
    return [_array(each) if isinstance(each, Many) else each for each in parameters]


def _array(many: Many) -> Any:
    return apsw.carray(many.values if isinstance(many.values[0], str) else array("q", many.values))
