"""PostgreSQL as the source or the target of a copy."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gatepost.store import cluster
from gatepost.store.copying import BATCH, TABLES
from gatepost.store.work import Row, storable

_NUMBERED = tuple(table for table, columns in TABLES.items() if columns[0] == "id" and table != "api_keys")
_NEXT = "SELECT setval(pg_get_serial_sequence('{0}', 'id'), COALESCE(max(id), 0) + 1, false) FROM {0}"


class _DatabaseSource:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def count(self, table: str) -> int:
        return int(await self._connection.fetchval(f"SELECT count(*) FROM {table}"))  # noqa: S608

    async def rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        cursor = await self._connection.cursor(f"SELECT {', '.join(TABLES[table])} FROM {table}")  # noqa: S608
        while rows := await cursor.fetch(BATCH):
            yield [tuple(row) for row in rows]


class _DatabaseTarget:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def has_rows(self, table: str) -> bool:
        return bool(await self._connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table})"))  # noqa: S608

    async def clear(self) -> None:
        await self._connection.execute(f"TRUNCATE {', '.join(TABLES)}")

    async def load(self, table: str, rows: Sequence[Row]) -> None:
        await self._connection.copy_records_to_table(table, records=map(_plain, rows), columns=TABLES[table])


@asynccontextmanager
async def database_source(url: str) -> AsyncIterator[_DatabaseSource]:
    """A database as of now, brought to the schema of this program first."""
    cluster.prepare(url)
    async with (
        cluster.connection(url) as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        yield _DatabaseSource(connection)


@asynccontextmanager
async def database_target(url: str) -> AsyncIterator[_DatabaseTarget]:
    """A database in one transaction, which is kept if all goes well."""
    cluster.prepare(url)
    async with cluster.connection(url) as connection, connection.transaction():
        yield _DatabaseTarget(connection)
        for table in _NUMBERED:
            await connection.execute(_NEXT.format(table))


def _plain(row: Row) -> Row:
    """SQLite has text that PostgreSQL cannot hold: the columns for searching may have a NUL from a message."""
    return tuple(storable(value) if isinstance(value, str) else value for value in row)
