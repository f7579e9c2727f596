"""Storage in one SQLite file: a writer thread that commits in groups, and readers beside it.

The event loop only ever waits; nothing here blocks it. Several processes may have the same file open.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw

from gatepost.store import database, messages
from gatepost.store.ids import uuid7
from gatepost.store.interface import MessageRecord, StorageError, Tenant
from gatepost.store.writer import Writer, WriterCounters

T = TypeVar("T")

READERS = 2
# Small enough that a result which arrives meanwhile waits for milliseconds, not seconds.
PURGE_BATCH = 500


class SqliteStore:
    """The `Store` on SQLite; opening it raises `StorageError` where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = Writer(database.create(path))
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._connections: list[apsw.Connection] = []
        self._mine = threading.local()
        self._closed = False

    async def close(self) -> None:
        """Finish what is under way and let go of the file."""
        self._closed = True
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def counters(self) -> WriterCounters:
        """How many changes were kept, in how many commits."""
        return self._writer.counters()

    async def record_message(self, record: MessageRecord) -> MessageRecord:
        return await self._writer.apply(messages.insert, record)

    async def message(self, ggrid: str) -> MessageRecord | None:
        return await self._read(lambda connection: messages.fetch(connection, ggrid))

    async def purge_messages(self, before: int) -> int:
        total = 0
        while deleted := await self._writer.apply(messages.purge, (before, PURGE_BATCH)):
            total += deleted
        return total

    async def create_tenant(self, name: str) -> Tenant:
        return await self._writer.apply(_insert_tenants, Tenant(uuid7(), name, time.time_ns() // 1_000_000))

    async def tenants(self) -> tuple[Tenant, ...]:
        return await self._read(_all_tenants)

    async def tenant(self, uid: str) -> Tenant | None:
        return await self._read(lambda connection: _one_tenant(connection, uid))

    async def _read(self, query: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise StorageError("The storage is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._queried, query)

    def _queried(self, query: Callable[[apsw.Connection], T]) -> T:
        with database.described(self._path):
            connection = getattr(self._mine, "connection", None)
            if connection is None:
                connection = self._mine.connection = database.connect_reader(self._path)
                self._connections.append(connection)
            return query(connection)


def _insert_tenants(connection: apsw.Connection, tenants: Sequence[Tenant]) -> Sequence[Tenant]:
    rows = [(tenant.uid, tenant.name, tenant.created) for tenant in tenants]
    connection.executemany("INSERT INTO tenants (uid, name, created) VALUES (?, ?, ?)", rows)
    return tenants


def _all_tenants(connection: apsw.Connection) -> tuple[Tenant, ...]:
    return tuple(
        Tenant(*row) for row in connection.execute("SELECT uid, name, created FROM tenants ORDER BY name, uid")
    )


def _one_tenant(connection: apsw.Connection, uid: str) -> Tenant | None:
    found = connection.execute("SELECT uid, name, created FROM tenants WHERE uid = ?", (uid.lower(),)).fetchone()
    return Tenant(*found) if found else None
