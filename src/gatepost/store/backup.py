"""Backups: one SQLite file, whichever engine it comes from, made while the service runs.

A backup of SQLite is its pages; one of PostgreSQL is a copy of its rows. Either can be restored into either engine,
also by a later version, which first brings a copy of the file to its own schema.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

import apsw

from gatepost.store import database
from gatepost.store.copying import Progress, copy, is_filled, sqlite_path
from gatepost.store.interface import StorageError
from gatepost.store.sqlitecopy import copy_pages, file_target, sealed


def backup(url: str, data: Path, file: Path, progress: Progress, *, force: bool = False) -> None:
    """Write everything that is kept to a new file."""
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
        sealed(partial)
        partial.replace(file)


def restore(url: str, data: Path, file: Path, progress: Progress, *, force: bool = False) -> None:
    """Put the content of a backup in the place of everything that is kept."""
    if not file.is_file():
        raise StorageError(f"{file} does not exist.")
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=data) as folder:
        taken = Path(folder) / "backup.db"
        shutil.copyfile(file, taken)
        if not is_ours(taken):
            raise StorageError(f"{file} is not a backup of Gatepost.")
        database.create(taken).close()
        path = sqlite_path(url, data)
        if path is None:
            asyncio.run(copy(f"sqlite:{taken}", url, data, progress, force=force))
        else:
            _restore_file(taken, path, progress, force=force)


def is_ours(path: Path) -> bool:
    """Is this file a database of Gatepost?"""
    with database.described(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return bool(connection.pragma("application_id") == database.APPLICATION_ID)
        finally:
            connection.close()


def _restore_file(taken: Path, path: Path, progress: Progress, *, force: bool) -> None:
    if not force and asyncio.run(_has_content(path)):
        raise StorageError(f"{path} is not empty; say --force to replace what is in it.")
    with database.described(path):
        source, goal = database.connect_reader(taken), database.create(path)
        try:
            copy_pages(source, goal, progress)
        finally:
            source.close()
            goal.close()


async def _has_content(path: Path) -> bool:
    async with file_target(path) as target:
        return await is_filled(target)


def _copy_file(path: Path, partial: Path, progress: Progress) -> None:
    if not path.is_file():
        raise StorageError(f"{path} does not exist: there is nothing to back up.")
    partial.touch(0o600)
    source, goal = database.connect_reader(path), apsw.Connection(str(partial))
    with database.described(path):
        try:
            copy_pages(source, goal, progress)
        finally:
            source.close()
            goal.close()


def _check_folder(file: Path) -> None:
    if not file.parent.is_dir():
        raise StorageError(f"The folder {file.parent} does not exist.")
