"""Storage: results and ledgers, held mail, tenants, lists, keys, users and the audit trail.

`open_store` opens it; `store.Store` has all operations, and each subject's module has its operations and values.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatepost.store.store import Store

__all__ = ["open_store", "sqlite_file_of"]


def sqlite_file_of(url: str, data_folder: Path) -> Path | None:
    """The file of a `storage.url`; None where it is no SQLite file."""
    scheme, _, rest = url.partition(":")
    return data_folder / rest.removeprefix("//") if scheme == "sqlite" and rest.strip("/") else None


def open_store(url: str, data_folder: Path, writer: str = "", *, at_once: bool = True) -> "Store":
    """The storage at a `storage.url`; a relative SQLite file lies in the data folder.

    Only the engine that the address names is loaded. Raises `StorageError` where it cannot be used. `writer` is the
    address of the process that writes a SQLite file, where another one does. `at_once` as in `Store`.
    """
    from gatepost.store.errors import StorageError
    from gatepost.store.store import Store

    scheme = url.partition(":")[0]
    if file := sqlite_file_of(url, data_folder):
        from gatepost.store.sqlite import SqliteEngine

        if not writer:
            return Store(SqliteEngine(file), data_folder, at_once=at_once)
        from gatepost.store.writer_process import RemoteWriter

        return Store(SqliteEngine(file, RemoteWriter(writer)), data_folder, at_once=at_once)
    if scheme in {"postgresql", "postgres"}:
        from gatepost.store.postgres import PostgresEngine

        return Store(PostgresEngine(url), data_folder, at_once=at_once)
    raise StorageError(f"The storage address starts with {scheme!r}; it must be sqlite:FILE or postgresql://….")
