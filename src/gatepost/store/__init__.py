"""Everything that is kept: results and ledgers, tenants, lists, keys and the audit trail.

Callers use `open_store` and the `Store` interface.
"""

from pathlib import Path

from gatepost.store.interface import CountingStore, StorageError, Store

__all__ = ["StorageError", "Store", "open_store"]


def open_store(url: str, data_folder: Path) -> CountingStore:
    """The storage behind a `storage.url`; a relative SQLite file lies in the data folder."""
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite" and rest.strip("/"):
        from gatepost.store.sqlite import SqliteStore

        return SqliteStore(data_folder / rest.removeprefix("//"))
    if scheme in {"postgresql", "postgres"}:
        from gatepost.store.postgres import PostgresStore

        return PostgresStore(url)
    raise StorageError(f"The storage address starts with {scheme!r}; it must be sqlite:FILE or postgresql://….")
