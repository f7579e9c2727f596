"""The engine on one SQLite file: a writer thread that commits in groups, and reader threads beside it.

The event loop only ever waits, except for single rows that are always in memory (`glance`). Several processes may have
the same file open. A stream has a connection of its own, because it is one statement from its first batch to its last.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import apsw

from gatepost.background_work import background
from gatepost.store.engine import Engine, Read, Rollback, Row, StoreCounters, Work, cancel_read, in_sqlite
from gatepost.store.errors import StorageError
from gatepost.store.sqlite_file import bind, explain_errors, open_file, open_reader, run_work
from gatepost.store.sqlite_writer import Writer, WritesChanges

A = TypeVar("A")
T = TypeVar("T")

READERS = 2
STREAMERS = 2
SEARCHERS = 2
# Look-ups jump about in a file that may be large: pages that are in memory anyway are not copied for them. That takes
# address space, not memory, so all of a list of ten million entries can be mapped.
MAPPED = 1 << 36
# Each open stream holds a connection with a small cache, for as long as its client takes to read.
MAX_STREAMS = 64


class SqliteEngine(Engine):
    """Does work on a SQLite file; opening it raises `StorageError` where the file cannot be used.

    `writer` is set where another process writes, which has opened the file already.
    """

    def __init__(self, path: Path, writer: WritesChanges | None = None) -> None:
        self._path = path
        self._writer = writer or Writer(open_file(path))
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._streamers = ThreadPoolExecutor(STREAMERS, thread_name_prefix="store-stream")
        self._searchers = ThreadPoolExecutor(SEARCHERS, thread_name_prefix="store-search")
        self._streams = 0
        self._connections: list[apsw.Connection] = []
        self._of_thread = threading.local()
        self._of_event_loop: apsw.Connection | None = None
        self._closed = False

    async def close(self) -> None:
        """Finish what is under way and close the file."""
        self._closed = True
        await self._writer.close()
        for threads in (self._readers, self._streamers, self._searchers):
            await asyncio.to_thread(threads.shutdown)
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def counters(self) -> StoreCounters:
        """How many changes were written, in how many commits."""
        return self._writer.counters()

    async def _apply(self, work: Callable[[], Work[T]]) -> T:
        """Do work in the writer thread; returns after the commit that holds it."""
        try:
            return await self._writer.apply(run_all, work)
        except Rollback as outcome:
            result: T = outcome.result
            return result

    def change_together(
        self,
        all_at_once: Callable[[apsw.Connection, Sequence[A]], Sequence[T]],
        one: Callable[[A], Work[T]],  # noqa: ARG002  for engines that change one at a time
        argument: A,
    ) -> Coroutine[Any, Any, T]:
        """Change what many callers ask for at the same time in one statement."""
        return self._writer.apply(all_at_once, argument, light=True)

    async def query(self, work: Callable[[], Work[T]]) -> T:
        """Do work in a reader thread."""
        return await self._read(lambda connection: run_work(connection, work()))

    async def glance(self, work: Callable[[], Work[T]]) -> T:
        """Read in the event loop: a row that every message asks for is in memory, and waking a thread costs more.

        Where the file is locked for a moment, which readers of a WAL hardly ever see, a reader thread waits instead.
        """
        self._check_open()
        try:
            if self._of_event_loop is None:
                self._of_event_loop = open_reader(self._path)
                self._of_event_loop.set_busy_timeout(0)
                self._connections.append(self._of_event_loop)
            return run_work(self._of_event_loop, work())
        except (apsw.Error, StorageError):
            return await self.query(work)

    async def query_once(self, work: Callable[[], Work[T]]) -> T:
        """Do work in a reader thread, in one transaction."""
        return await self._read(lambda connection: _run_in_transaction(connection, work()))

    async def search(self, work: Callable[[], Work[T]]) -> T:
        """Do work in a thread for searches, in one transaction."""
        return await self._read(
            lambda connection: background.run(_run_in_transaction, connection, work()), self._searchers
        )

    async def stream(
        self, read: Read, convert: Callable[[Sequence[Row]], T], first: int, batch: int
    ) -> AsyncGenerator[T, None]:
        """The rows of one statement in batches, read and converted in a thread."""
        self._check_open()
        if self._streams >= MAX_STREAMS:
            raise StorageError(f"{MAX_STREAMS} lists are being read already; try again when some are finished.")
        self._streams += 1
        run = asyncio.get_running_loop().run_in_executor
        rows = _StreamedRows(self._path, read)
        ahead = run(self._streamers, background.run, rows.next, convert, first)
        try:
            while found := await ahead:
                ahead = run(self._streamers, background.run, rows.next, convert, batch)
                yield found
        finally:
            self._streams -= 1
            cancel_read(ahead)
            # Not here: a thread may still be reading the batch that was given up.
            self._close_later(rows.close)

    def _close_later(self, close: Callable[[], None]) -> None:
        if self._closed:
            close()
        else:
            self._streamers.submit(close)

    async def _read(self, read: Callable[[apsw.Connection], T], threads: ThreadPoolExecutor | None = None) -> T:
        self._check_open()
        run = asyncio.get_running_loop().run_in_executor
        return await run(threads or self._readers, self._read_in_thread, read)

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("The storage is closed.")

    def _read_in_thread(self, read: Callable[[apsw.Connection], T]) -> T:
        with explain_errors(self._path):
            connection = getattr(self._of_thread, "connection", None)
            if connection is None:
                connection = self._of_thread.connection = open_reader(self._path, MAPPED)
                self._connections.append(connection)
            return read(connection)


class _StreamedRows:
    """The rows of one statement, on a connection of their own, which is opened for the first of them."""

    def __init__(self, path: Path, read: Read) -> None:
        self._path, self._read = path, read
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._rows: Iterator[Row] | None = None

    def next(self, convert: Callable[[Sequence[Row]], T], count: int) -> T | None:
        """The next `count` rows, as `convert` returns them; None at the end."""
        with self._lock, explain_errors(self._path):
            if self._rows is None:
                self._connection = open_reader(self._path)
                self._rows = self._connection.execute(in_sqlite(self._read.statement), bind(self._read.parameters))
            rows = list(islice(self._rows, count))
        return convert(rows) if rows else None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._rows = iter(())
            if self._connection:
                self._connection.close(True)


def run_all(connection: apsw.Connection, works: Sequence[Callable[[], Work[Any]]]) -> Sequence[Any]:
    """Do several pieces of work; the change that `SqliteEngine.change` asks the writer for."""
    return [run_work(connection, work()) for work in works]


def _run_in_transaction(connection: apsw.Connection, work: Work[T]) -> T:
    connection.execute("BEGIN")
    try:
        return run_work(connection, work)
    finally:
        connection.execute("COMMIT")
