"""Storage: results and ledgers, held mail, tenants, lists, keys, users and the audit trail.

`open_store` opens it; `store.Store` has all operations, and each subject's module has its operations and values.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatepost.store.store import Store

__all__ = ["open_store"]


def open_store(url: str, data_folder: Path) -> "Store":
    """The storage at a `storage.url`; a relative SQLite file lies in the data folder.

    Only the engine that the address names is loaded. Raises `StorageError` where it cannot be used.
    """
    from gatepost.store.errors import StorageError
    from gatepost.store.store import Store

    scheme, _, rest = url.partition(":")
    if scheme == "sqlite" and rest.strip("/"):
        from gatepost.store.sqlite import SqliteEngine

        return Store(SqliteEngine(data_folder / rest.removeprefix("//")), data_folder)
    if scheme in {"postgresql", "postgres"}:
        from gatepost.store.postgres import PostgresEngine

        return Store(PostgresEngine(url), data_folder)
    raise StorageError(f"The storage address starts with {scheme!r}; it must be sqlite:FILE or postgresql://….")
