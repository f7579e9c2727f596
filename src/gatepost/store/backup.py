"""Backups: one SQLite file, whichever engine it comes from, made while the service runs.

A backup of SQLite is its pages; one of PostgreSQL is a copy of its rows. Either can be restored into either engine,
also by a later version, which first brings a copy of the file to its own schema.

A page copy reads through one open transaction, so it sees one moment and does not start over when others write
meanwhile. Written into a file that a service has open, it is one big transaction to that service.
"""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import apsw

from gatepost.store.copy import Progress, copy, is_filled, open_sqlite_target, sqlite_path
from gatepost.store.errors import StorageError
from gatepost.store.sqlite_file import APPLICATION_ID, explain_errors, open_file, open_reader

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
