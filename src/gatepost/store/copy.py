"""Copies and backups of a storage, whichever engine it has: SQLite to PostgreSQL, or back into a file.

The source is read as of one moment while its service goes on. The target changes in one transaction: a copy that fails
leaves it as it was. Only the engines that the two addresses name are loaded. Which tables and
columns there are is read from the schema.

A backup is one SQLite file, made while the service runs. A backup of SQLite is its pages; one of PostgreSQL is a copy
of its rows. Either can be restored into either engine, also by a later version, which first brings a copy of the file
to its own schema.

A page copy reads through one open transaction, so it sees one moment and does not start over when others write
meanwhile. Written into a file that a service has open, it is one big transaction to that service.
"""

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import msgspec

from gatepost.store import check_postgres, name_storage, sqlite_file_of
from gatepost.store.engine import storable
from gatepost.store.errors import StorageError
from gatepost.store.message_days import day_of
from gatepost.store.sql import Row, tables
from gatepost.store.sqlite import APPLICATION_ID, explain_errors, open_file, open_reader
from gatepost.store.upgrading import Progress

BATCH = 2_000
# How many pages are copied before progress is reported.
PAGES = 2_000

# The head of an SQLite file, and where its application id stands in it.
_MAGIC, _HEADER_SIZE, _OWNER = b"SQLite format 3\0", 100, slice(68, 72)

# A server tests conditions in the order that it likes, and the function raises for a table without that column.
_NUMBERED = """SELECT table_name FROM information_schema.columns WHERE CASE WHEN table_schema = current_schema()
AND column_name = 'id' THEN pg_get_serial_sequence(quote_ident(table_name), 'id') END IS NOT NULL"""
_SET_SEQUENCE = "SELECT setval(pg_get_serial_sequence('{0}', 'id'), COALESCE(max(id), 0) + 1, false) FROM {0}"


@cache
def list_tables() -> dict[str, tuple[str, ...]]:
    """Every table with its columns, which are the same on both engines, but `meta`, which says which schema this is."""
    return {table: tuple(columns) for table, columns in tables().items() if table != "meta"}


async def copy(source_url: str, target_url: str, data: Path, progress: Progress, *, force: bool = False) -> int:
    """Copy everything; returns how many rows. A target that is not empty is refused, or replaced with `force`."""
    async with _open_source(source_url, data) as source, _open_target(target_url, data) as target:
        if await _is_filled(target):
            if not force:
                where = name_storage(target_url, data)
                raise StorageError(f"{where} is not empty; empty it, or say --force to replace what is in it.")
            await target.clear()
        total = sum([await source.count(table) for table in list_tables()])
        done = 0
        for table in list_tables():
            async for rows in source.rows(table):
                await target.load(table, rows)
                done += len(rows)
                progress(done, total)
        return done


class _SqliteTables:
    """The tables of a file, in a transaction of the caller."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def count(self, table: str) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {table}").get)  # noqa: S608

    async def rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        cursor = self._connection.execute(f"SELECT {', '.join(list_tables()[table])} FROM {table}")  # noqa: S608
        while rows := list(islice(cursor, BATCH)):
            yield rows

    async def has_rows(self, table: str) -> bool:
        return bool(self._connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").get)  # noqa: S608

    async def clear(self) -> None:
        # Triggers refuse to delete audit records.
        triggers = self._connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            self._connection.execute(f"DROP TRIGGER {name}")
        for table in list_tables():
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608
        for _, statement in triggers:
            self._connection.execute(str(statement))

    async def load(self, table: str, rows: Sequence[Row]) -> None:
        columns = list_tables()[table]
        placeholders = ", ".join("?" * len(columns))
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders})", rows)  # noqa: S608


class _PostgresTables:
    """The tables of a database, in a transaction of the caller."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._days: set[int] = set()

    async def count(self, table: str) -> int:
        return int(await self._connection.fetchval(f"SELECT count(*) FROM {table}"))  # noqa: S608

    async def rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        cursor = await self._connection.cursor(f"SELECT {', '.join(list_tables()[table])} FROM {table}")  # noqa: S608
        while rows := await cursor.fetch(BATCH):
            yield [tuple(row) for row in rows]

    async def has_rows(self, table: str) -> bool:
        return bool(await self._connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table})"))  # noqa: S608

    async def clear(self) -> None:
        await self._connection.execute(f"TRUNCATE {', '.join(list_tables())}")

    async def load(self, table: str, rows: Sequence[Row]) -> None:
        from gatepost.store import postgres_days

        if table in postgres_days.TABLES:
            at = list_tables()[table].index("completed")
            days = {day_of(row[at]) for row in rows} - self._days
            self._days |= days
            await postgres_days.make_days(self._connection, days)
        # Columns for searching may have a NUL from a message, which PostgreSQL cannot hold.
        clean = (tuple(storable(value) if isinstance(value, str) else value for value in row) for row in rows)
        await self._connection.copy_records_to_table(table, records=clean, columns=list_tables()[table])


# Rows of a table come in batches, with the columns of `list_tables`.
_Tables: TypeAlias = _SqliteTables | _PostgresTables


async def _is_filled(tables: _Tables) -> bool:
    return any([await tables.has_rows(table) for table in list_tables()])


@asynccontextmanager
async def _open_source(url: str, data: Path) -> AsyncIterator[_Tables]:
    """A storage as of now, brought to the schema of this program first."""
    if path := sqlite_file_of(url, data):
        if not path.is_file():
            raise StorageError(f"{path} does not exist.")
        open_file(path).close()
        with _opened(path, open_reader) as connection:
            connection.execute("BEGIN")
            yield _SqliteTables(connection)
        return
    from gatepost.store.postgres import connect, upgrade_schema

    upgrade_schema(check_postgres(url))
    async with connect(url) as database, database.transaction(isolation="repeatable_read", readonly=True):
        yield _PostgresTables(database)


@asynccontextmanager
async def _open_target(url: str, data: Path) -> AsyncIterator[_Tables]:
    """A storage in one transaction, which is committed if all goes well."""
    if path := sqlite_file_of(url, data):
        with _opened(path, open_file) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield _SqliteTables(connection)
            connection.execute("COMMIT")
        return
    from gatepost.store.postgres import connect, upgrade_schema

    upgrade_schema(check_postgres(url))
    async with connect(url) as database, database.transaction():
        yield _PostgresTables(database)
        for (table,) in await database.fetch(_NUMBERED):
            await database.execute(_SET_SEQUENCE.format(table))


@contextmanager
def _opened(path: Path, opening: Callable[[Path], apsw.Connection]) -> Iterator[apsw.Connection]:
    connection = opening(path)
    try:
        with explain_errors(path):
            yield connection
    finally:
        connection.close(True)


def backup(url: str, data: Path, file: Path, progress: Progress, *, force: bool = False) -> None:
    """Write everything that is stored to a new file."""
    if file.exists() and not force:
        raise StorageError(f"{file} exists; name another file, or say --force to replace it.")
    if not file.parent.is_dir():
        raise StorageError(f"The folder {file.parent} does not exist.")
    with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
        partial = Path(folder) / file.name
        path = sqlite_file_of(url, data)
        if path is None:
            asyncio.run(copy(url, f"sqlite:{partial}", data, progress))
        else:
            _copy_file(path, partial, progress)
        _seal(partial)
        partial.replace(file)


def check_backup(file: Path) -> None:
    """Raise `StorageError` where a file is no backup, by what it is and by its first bytes
    (https://www.sqlite.org/fileformat.html section 1.3)."""
    if file.is_dir():
        raise StorageError(f"{file} is a folder; name the file that gatepost backup wrote.")
    if not file.is_file():
        raise StorageError(f"{file} does not exist." if not file.exists() else f"{file} is not a file.")
    try:
        with file.open("rb") as stream:
            head = stream.read(_HEADER_SIZE)
    except OSError as fault:
        raise StorageError(f"{file} cannot be read: {fault.strerror}.") from None
    is_owned = int.from_bytes(head[_OWNER]) == APPLICATION_ID
    if len(head) < _HEADER_SIZE or not head.startswith(_MAGIC) or not is_owned:
        raise StorageError(f"{file} is not a backup of Gatepost; name a file that gatepost backup wrote.")


def restore(url: str, data: Path, file: Path, progress: Progress, *, force: bool = False) -> None:
    """Replace everything that is stored with the content of a backup."""
    check_backup(file)
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=data) as folder:
        copied = Path(folder) / "backup.db"
        shutil.copyfile(file, copied)
        try:
            open_file(copied).close()
        except StorageError as fault:
            # The copy is gone when somebody reads this.
            raise StorageError(str(fault).replace(str(copied), str(file))) from fault
        path = sqlite_file_of(url, data)
        if path is None:
            asyncio.run(copy(f"sqlite:{copied}", url, data, progress, force=force))
        else:
            _restore_file(copied, path, progress, force=force)


class BackupProof(msgspec.Struct, frozen=True):
    """What the restoring of a backup has shown: how much is in it, and how many secrets the keys here cannot read."""

    tables: int
    rows: int
    lost_secrets: int


def prove(file: Path, data: Path, progress: Progress) -> BackupProof:
    """Restore a backup into a database of its own, beside it, and compare every row of every table with the file.
    `data` has the key of its secrets. Raises `StorageError` where it cannot be restored or is not the same."""
    check_backup(file)
    with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as name:
        folder = Path(name)
        restore("sqlite:proof.db", folder, file, progress)
        copied = folder / "file.db"
        # One of an older version is compared in the schema that it was restored with.
        shutil.copyfile(file, copied)
        open_file(copied).close()
        counts = []
        with _opened(copied, open_reader) as taken, _opened(folder / "proof.db", open_reader) as restored:
            for connection in (taken, restored):
                found = connection.execute("PRAGMA integrity_check(1)").get
                if found != "ok":
                    raise StorageError(f"{file} is damaged: {found}.")
            for table in list_tables():
                digests = [_digest_table(connection, table) for connection in (taken, restored)]
                if digests[0] != digests[1]:
                    raise StorageError(f"{file}: table {table} is not the same after restoring it.")
                counts.append(digests[0][0])
        return BackupProof(len(counts), sum(counts), asyncio.run(_count_lost_secrets(folder / "proof.db", data)))


def _digest_table(connection: apsw.Connection, table: str) -> tuple[int, str]:
    """How many rows a table has, and a digest of all of them in their order."""
    count, digest = 0, hashlib.sha256()
    for row in connection.execute(f"SELECT {', '.join(list_tables()[table])} FROM {table}"):  # noqa: S608
        count += 1
        digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return count, digest.hexdigest()


async def _count_lost_secrets(file: Path, data: Path) -> int:
    from gatepost.store import open_store

    store = open_store(f"sqlite:{file}", data)
    try:
        return (await store.secrets.count()).lost
    finally:
        await store.close()


def _restore_file(backup_file: Path, path: Path, progress: Progress, *, force: bool) -> None:
    with _opened(path, open_file) as target:
        if not force and asyncio.run(_is_filled(_SqliteTables(target))):
            raise StorageError(f"{path} is not empty; say --force to replace what is in it.")
        with closing(open_reader(backup_file)) as source:
            _copy_pages(source, target, progress)


def _copy_file(path: Path, partial: Path, progress: Progress) -> None:
    if not path.is_file():
        raise StorageError(f"{path} does not exist: there is nothing to back up.")
    partial.touch(0o600)
    with _opened(path, open_reader) as source, closing(apsw.Connection(str(partial))) as target:
        _copy_pages(source, target, progress)


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
