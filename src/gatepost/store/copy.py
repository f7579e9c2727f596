"""Copies and backups of a storage, whichever engine it has: SQLite to PostgreSQL, or back into a file.

The source is read as of one moment while its service goes on. The target changes in one transaction: a copy that fails
leaves it as it was. Only the engines that the two addresses name are loaded.

A backup is one SQLite file, made while the service runs. A backup of SQLite is its pages; one of PostgreSQL is a copy
of its rows. Either can be restored into either engine, also by a later version, which first brings a copy of the file
to its own schema.

A page copy reads through one open transaction, so it sees one moment and does not start over when others write
meanwhile. Written into a file that a service has open, it is one big transaction to that service.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import apsw

from gatepost.store.engine import Row, storable
from gatepost.store.errors import StorageError
from gatepost.store.sqlite_file import APPLICATION_ID, explain_errors, open_file, open_reader
from gatepost.store.tables import NUMBERED, TABLES

BATCH = 2_000

_SET_SEQUENCE = "SELECT setval(pg_get_serial_sequence('{0}', 'id'), COALESCE(max(id), 0) + 1, false) FROM {0}"

# Called with how many rows (or pages) are done, of how many.
Progress: TypeAlias = Callable[[int, int], None]


class CopySource(Protocol):
    """A storage as of one moment."""

    async def count(self, table: str) -> int:
        """How many rows a table has."""
        ...

    def rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        """The rows of a table in batches, with the columns of `TABLES`."""
        ...


class CopyTarget(Protocol):
    """A storage that is being filled, in one transaction."""

    async def has_rows(self, table: str) -> bool:
        """Whether a table has any rows."""
        ...

    async def clear(self) -> None:
        """Delete the rows of all tables."""
        ...

    async def load(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows."""
        ...


async def copy(source_url: str, target_url: str, data: Path, progress: Progress, *, force: bool = False) -> int:
    """Copy everything; returns how many rows. A target that is not empty is refused, or replaced with `force`."""
    async with _open_source(source_url, data) as source, _open_target(target_url, data) as target:
        if await is_filled(target):
            if not force:
                raise StorageError("The target is not empty; empty it, or say --force to replace what is in it.")
            await target.clear()
        total = sum([await source.count(table) for table in TABLES])
        done = 0
        for table in TABLES:
            async for rows in source.rows(table):
                await target.load(table, rows)
                done += len(rows)
                progress(done, total)
        return done


async def is_filled(target: CopyTarget) -> bool:
    """Whether any table has rows."""
    for table in TABLES:
        if await target.has_rows(table):
            return True
    return False


def sqlite_path(url: str, data: Path) -> Path | None:
    """The file of a `sqlite:` address; None for any other."""
    scheme, _, rest = url.partition(":")
    return data / rest.removeprefix("//") if scheme == "sqlite" and rest.strip("/") else None


@asynccontextmanager
async def open_sqlite_target(path: Path) -> AsyncIterator[CopyTarget]:
    """A file in one transaction, which is committed if all goes well."""
    connection = open_file(path)
    try:
        with explain_errors(path):
            connection.execute("BEGIN IMMEDIATE")
            yield _SqliteTarget(connection)
            connection.execute("COMMIT")
    finally:
        connection.close(True)


def _open_source(url: str, data: Path) -> AbstractAsyncContextManager[CopySource]:
    path = sqlite_path(url, data)
    return _open_sqlite_source(path) if path else _open_postgres_source(_check_postgres(url))


def _open_target(url: str, data: Path) -> AbstractAsyncContextManager[CopyTarget]:
    path = sqlite_path(url, data)
    return open_sqlite_target(path) if path else _open_postgres_target(_check_postgres(url))


def _check_postgres(url: str) -> str:
    scheme = url.partition(":")[0]
    if scheme not in {"postgresql", "postgres"}:
        raise StorageError(f"The storage address starts with {scheme!r}; it must be sqlite:FILE or postgresql://….")
    return url


class _SqliteSource:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def count(self, table: str) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {table}").get)  # noqa: S608

    async def rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        cursor = self._connection.execute(f"SELECT {', '.join(TABLES[table])} FROM {table}")  # noqa: S608
        while rows := list(islice(cursor, BATCH)):
            yield rows


class _SqliteTarget:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def has_rows(self, table: str) -> bool:
        return bool(self._connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").get)  # noqa: S608

    async def clear(self) -> None:
        # Triggers refuse to delete audit records.
        triggers = self._connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            self._connection.execute(f"DROP TRIGGER {name}")
        for table in TABLES:
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608
        for _, statement in triggers:
            self._connection.execute(str(statement))

    async def load(self, table: str, rows: Sequence[Row]) -> None:
        columns = TABLES[table]
        placeholders = ", ".join("?" * len(columns))
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders})", rows)  # noqa: S608


@asynccontextmanager
async def _open_sqlite_source(path: Path) -> AsyncIterator[CopySource]:
    """A file as of now, brought to the schema of this program first."""
    connection = _open_existing(path)
    try:
        with explain_errors(path):
            connection.execute("BEGIN")
            yield _SqliteSource(connection)
    finally:
        connection.close(True)


def _open_existing(path: Path) -> apsw.Connection:
    if not path.is_file():
        raise StorageError(f"{path} does not exist.")
    open_file(path).close()
    return open_reader(path)


class _PostgresSource:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def count(self, table: str) -> int:
        return int(await self._connection.fetchval(f"SELECT count(*) FROM {table}"))  # noqa: S608

    async def rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        cursor = await self._connection.cursor(f"SELECT {', '.join(TABLES[table])} FROM {table}")  # noqa: S608
        while rows := await cursor.fetch(BATCH):
            yield [tuple(row) for row in rows]


class _PostgresTarget:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def has_rows(self, table: str) -> bool:
        return bool(await self._connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table})"))  # noqa: S608

    async def clear(self) -> None:
        await self._connection.execute(f"TRUNCATE {', '.join(TABLES)}")

    async def load(self, table: str, rows: Sequence[Row]) -> None:
        await self._connection.copy_records_to_table(table, records=map(_storable_row, rows), columns=TABLES[table])


@asynccontextmanager
async def _open_postgres_source(url: str) -> AsyncIterator[CopySource]:
    """A database as of now, brought to the schema of this program first."""
    from gatepost.store.postgres import connect, upgrade_schema

    upgrade_schema(url)
    async with connect(url) as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        yield _PostgresSource(connection)


@asynccontextmanager
async def _open_postgres_target(url: str) -> AsyncIterator[CopyTarget]:
    """A database in one transaction, which is committed if all goes well."""
    from gatepost.store.postgres import connect, upgrade_schema

    upgrade_schema(url)
    async with connect(url) as connection, connection.transaction():
        yield _PostgresTarget(connection)
        for table in NUMBERED:
            await connection.execute(_SET_SEQUENCE.format(table))


def _storable_row(row: Row) -> Row:
    """A row without text that PostgreSQL cannot hold: columns for searching may have a NUL from a message."""
    return tuple(storable(value) if isinstance(value, str) else value for value in row)


# How many pages are copied before progress is reported.
PAGES = 2_000


def backup(url: str, data: Path, file: Path, progress: Progress, *, force: bool = False) -> None:
    """Write everything that is stored to a new file."""
    if file.exists() and not force:
        raise StorageError(f"{file} exists; name another file, or say --force to replace it.")
    _check_folder(file)
    with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
        partial = Path(folder) / file.name
        path = sqlite_path(url, data)
        if path is None:
            asyncio.run(copy(url, f"sqlite:{partial}", data, progress))
        else:
            _copy_file(path, partial, progress)
        _seal(partial)
        partial.replace(file)


def restore(url: str, data: Path, file: Path, progress: Progress, *, force: bool = False) -> None:
    """Replace everything that is stored with the content of a backup."""
    if not file.is_file():
        raise StorageError(f"{file} does not exist.")
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=data) as folder:
        copied = Path(folder) / "backup.db"
        shutil.copyfile(file, copied)
        if not _is_gatepost_file(copied):
            raise StorageError(f"{file} is not a backup of Gatepost.")
        open_file(copied).close()
        path = sqlite_path(url, data)
        if path is None:
            asyncio.run(copy(f"sqlite:{copied}", url, data, progress, force=force))
        else:
            _restore_file(copied, path, progress, force=force)


def _is_gatepost_file(path: Path) -> bool:
    with explain_errors(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return bool(connection.pragma("application_id") == APPLICATION_ID)
        finally:
            connection.close()


def _restore_file(backup_file: Path, path: Path, progress: Progress, *, force: bool) -> None:
    if not force and asyncio.run(_has_content(path)):
        raise StorageError(f"{path} is not empty; say --force to replace what is in it.")
    with explain_errors(path):
        source, target = open_reader(backup_file), open_file(path)
        try:
            _copy_pages(source, target, progress)
        finally:
            source.close()
            target.close()


async def _has_content(path: Path) -> bool:
    async with open_sqlite_target(path) as target:
        return await is_filled(target)


def _copy_file(path: Path, partial: Path, progress: Progress) -> None:
    if not path.is_file():
        raise StorageError(f"{path} does not exist: there is nothing to back up.")
    partial.touch(0o600)
    source, target = open_reader(path), apsw.Connection(str(partial))
    with explain_errors(path):
        try:
            _copy_pages(source, target, progress)
        finally:
            source.close()
            target.close()


def _check_folder(file: Path) -> None:
    if not file.parent.is_dir():
        raise StorageError(f"The folder {file.parent} does not exist.")


def _copy_pages(source: apsw.Connection, target: apsw.Connection, progress: Progress) -> None:
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


def _seal(path: Path) -> None:
    """Make a file complete by itself, without a write-ahead log beside it, and durable."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "delete")
    connection.close()
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
