"""Storage in PostgreSQL: any number of guards and abbys share it.

A change is one transaction on a connection of the pool; PostgreSQL itself lets those that commit together share the
wait for the disk. Where two changes do get in each other's way (a deadlock, a serialisation failure), the one that was
sent back is done again from its beginning. A stream has a connection of its own, for as long as its client reads.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from gatepost.store import cluster
from gatepost.store.engine import Engine, given_up
from gatepost.store.interface import StorageError, StoreCounters
from gatepost.store.work import Bulk, Many, Read, Row, Step, Undone, Work

T = TypeVar("T")

POOL = 10
MAX_STREAMS = 16
ATTEMPTS = 5


class PostgresStore(Engine):
    """The `Store` on PostgreSQL; opening it raises `StorageError` where the database cannot be used.

    Its methods belong to one event loop: that of the first call.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        cluster.prepare(url)
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()
        self._streams = 0
        self._closed = False
        self._changes = self._failures = 0

    async def close(self) -> None:
        """Finish what is under way and let go of the server."""
        await self._finish_noting()
        self._closed = True
        if self._pool:
            try:
                await self._pool.close()
            except (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError):
                self._pool.terminate()  # the server has gone already; there is nobody to say goodbye to

    def counters(self) -> StoreCounters:
        """How many changes were kept, each in its own commit."""
        return StoreCounters(self._changes, self._changes, self._failures)

    async def _change(self, work: Callable[[], Work[T]]) -> T:
        try:
            result = await self._retried(work)
        except Undone as outcome:
            result = outcome.result
        except Exception:
            self._failures += 1
            raise
        self._changes += 1
        return result

    async def _query(self, work: Callable[[], Work[T]]) -> T:
        async with self._connection() as connection:
            return await _done(connection, work())

    async def _query_once(self, work: Callable[[], Work[T]]) -> T:
        async with self._connection() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            return await _done(connection, work())

    async def _stream(
        self, read: Read, made: Callable[[Sequence[Row]], T], first: int, batch: int
    ) -> AsyncGenerator[T, None]:
        self._check_open()
        if self._streams >= MAX_STREAMS:
            raise StorageError(f"{MAX_STREAMS} lists are being read already; try again when some are finished.")
        self._streams += 1
        try:
            async with cluster.connection(self._url) as connection:
                # It ends with its connection: there is nothing to commit.
                await connection.transaction().start()
                cursor = await connection.cursor(read.statement, *_bound(read.parameters))
                ahead = asyncio.ensure_future(cursor.fetch(first))
                try:
                    while rows := await ahead:
                        ahead = asyncio.ensure_future(cursor.fetch(batch))
                        yield made(rows)
                finally:
                    given_up(ahead)
        finally:
            self._streams -= 1

    async def _retried(self, work: Callable[[], Work[T]]) -> T:
        for attempt in range(ATTEMPTS):
            async with self._connection() as connection:
                try:
                    async with connection.transaction():
                        return await _done(connection, work())
                except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
                    if attempt == ATTEMPTS - 1:
                        raise
            await asyncio.sleep(0.01 * 2**attempt)
        raise AssertionError("not reached")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        self._check_open()
        with cluster.described(self._url):
            async with self._opening:
                if self._pool is None:
                    self._pool = await cluster.pool(self._url, POOL)
            async with self._pool.acquire() as connection:
                yield connection

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("The storage is closed.")


async def _done(connection: Any, work: Work[T]) -> T:
    """Do a piece of work on a connection."""
    try:
        step = next(work)
        while True:
            step = work.send(await _step(connection, step))
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _step(connection: Any, step: Step) -> Any:
    if isinstance(step, Read):
        return await connection.fetch(step.statement, *_bound(step.parameters))
    if isinstance(step, Bulk):
        status = await connection.execute(step.postgres, *map(list, zip(*step.rows, strict=True)))
    else:
        status = await connection.execute(step.statement, *_bound(step.parameters))
    # "INSERT 0 500", "UPDATE 3": the last word is the number of rows.
    return int(status.rsplit(" ", 1)[1])


def _bound(parameters: Row) -> list[Any]:
    return [list(each.values) if isinstance(each, Many) else each for each in parameters]
