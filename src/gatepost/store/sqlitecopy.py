"""SQLite as the source or the target of a copy, and whole files copied page by page.

A page copy reads through one open transaction, so it sees one moment and is not started over by those who write
meanwhile. Written into a file that a service has open, it is one big transaction to that service.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import apsw

from gatepost.store import database
from gatepost.store.copying import BATCH, TABLES, Progress
from gatepost.store.interface import StorageError
from gatepost.store.work import Row

PAGES = 2_000


class _FileSource:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def count(self, table: str) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {table}").get)  # noqa: S608

    async def rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        cursor = self._connection.execute(f"SELECT {', '.join(TABLES[table])} FROM {table}")  # noqa: S608
        while rows := list(islice(cursor, BATCH)):
            yield rows


class _FileTarget:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def has_rows(self, table: str) -> bool:
        return bool(self._connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").get)  # noqa: S608

    async def clear(self) -> None:
        # The audit trail refuses to be deleted as long as its triggers stand.
        triggers = self._connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            self._connection.execute(f"DROP TRIGGER {name}")
        for table in TABLES:
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608
        for _, statement in triggers:
            self._connection.execute(str(statement))

    async def load(self, table: str, rows: Sequence[Row]) -> None:
        columns = TABLES[table]
        places = ", ".join("?" * len(columns))
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)  # noqa: S608


@asynccontextmanager
async def file_source(path: Path) -> AsyncIterator[_FileSource]:
    """A file as of now, brought to the schema of this program first."""
    connection = _standing(path)
    try:
        with database.described(path):
            connection.execute("BEGIN")
            yield _FileSource(connection)
    finally:
        connection.close(True)


def _standing(path: Path) -> apsw.Connection:
    if not path.is_file():
        raise StorageError(f"{path} does not exist.")
    database.create(path).close()
    return database.connect_reader(path)


@asynccontextmanager
async def file_target(path: Path) -> AsyncIterator[_FileTarget]:
    """A file in one transaction, which is kept if all goes well."""
    connection = database.create(path)
    try:
        with database.described(path):
            connection.execute("BEGIN IMMEDIATE")
            yield _FileTarget(connection)
            connection.execute("COMMIT")
    finally:
        connection.close(True)


def copy_pages(source: apsw.Connection, target: apsw.Connection, progress: Progress) -> None:
    """Make `target` the same as `source` is now."""
    source.execute("BEGIN")
    # The transaction begins with the first thing read.
    source.pragma("schema_version")
    try:
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(PAGES)
                progress(backup.page_count - backup.remaining, backup.page_count)
    finally:
        source.execute("COMMIT")


def sealed(path: Path) -> None:
    """Make a file complete by itself, without a write-ahead log beside it, and durable."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "delete")
    connection.close()
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
