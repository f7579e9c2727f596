"""Storage: results and ledgers, held mail, tenants, lists, keys, users and the audit trail.

`open_store` opens it; `store.Store` has all operations, and each subject's module has its operations and values.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatepost.store.store import Store
    from gatepost.store.upgrading import SchemaState

__all__ = ["check_postgres", "open_store", "read_schema_state", "sqlite_file_of", "upgrade_storage"]


def sqlite_file_of(url: str, data_folder: Path) -> Path | None:
    """The file of a `storage.url`; None where it is no SQLite file."""
    scheme, _, rest = url.partition(":")
    return data_folder / rest.removeprefix("//") if scheme == "sqlite" and rest.strip("/") else None


def name_storage(url: str, data_folder: Path) -> str:
    """What people are told of where a storage is: the path of its file, or its address without passwords."""
    if path := sqlite_file_of(url, data_folder):
        return str(path)
    from urllib.parse import parse_qsl, urlencode, urlsplit

    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return "the database of storage.url"
    user, at, host = parts.netloc.rpartition("@")
    kept = urlencode([(name, value) for name, value in options if "password" not in name.lower()], safe="/")
    # Not `geturl`, which drops the slashes before an empty host.
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{host}{parts.path}{'?' if kept else ''}{kept}"


def check_postgres(url: str) -> str:
    """Return an address that is no SQLite file; raises `StorageError` where it is none of PostgreSQL either."""
    scheme = url.partition(":")[0]
    if scheme not in {"postgresql", "postgres"}:
        from gatepost.store.errors import StorageError

        raise StorageError(f"The storage address starts with {scheme!r}; it must be sqlite:FILE or postgresql://….")
    return url


def open_store(url: str, data_folder: Path, *, at_once: bool = True) -> "Store":
    """The storage at a `storage.url`; a relative SQLite file lies in the data folder.

    Only the engine that the address names is loaded. Raises `StorageError` where it cannot be used. `at_once` as in
    `Store`.
    """
    from gatepost.store.store import Store

    if (file := sqlite_file_of(url, data_folder)) is None:
        from gatepost.store.postgres import PostgresEngine

        return Store(PostgresEngine(check_postgres(url)), data_folder, at_once=at_once)
    from gatepost.store.sqlite import SqliteEngine

    return Store(SqliteEngine(file), data_folder, at_once=at_once)


def read_schema_state(url: str, data_folder: Path) -> "SchemaState":
    """How far the storage at a `storage.url` is from the schema of this program, found without changing anything;
    raises `StorageError` where it cannot be read."""
    if file := sqlite_file_of(url, data_folder):
        from gatepost.store import sqlite

        return sqlite.read_schema_state(file)
    import asyncio

    from gatepost.store import postgres

    return asyncio.run(postgres.read_schema_state(check_postgres(url)))


def upgrade_storage(url: str, data_folder: Path) -> None:
    """Bring the storage at a `storage.url` to the schema of this program, as opening it does; raises `StorageError`
    where that cannot be done."""
    if file := sqlite_file_of(url, data_folder):
        from gatepost.store import sqlite

        sqlite.open_file(file).close()
        return
    from gatepost.store import postgres

    postgres.upgrade_schema(check_postgres(url))
