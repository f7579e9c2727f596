"""How far a storage is from the schema of this program, found without changing anything.

Opening a storage upgrades it (`open_store`). Whoever wants to know beforehand what an upgrade will do asks here.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from gatepost.store.errors import StorageError


class SchemaState(msgspec.Struct, frozen=True):
    """The schema number that a storage has (0: there is no data yet), the newest that this program knows, the size of
    the data in bytes, and whether list entries have to be brought to the current normal forms. A program has to know
    the schema `needed` to use the storage as it is, and the schema `needed_after` once this program has upgraded it."""

    present: int
    newest: int
    size: int
    has_old_entries: bool = False
    needed: int = 0
    needed_after: int = 0

    @property
    def is_newer(self) -> bool:
        """Whether the storage was written by a newer program, which this one cannot use."""
        return self.present > self.newest and self.needed > self.newest

    @property
    def is_additive(self) -> bool:
        """Whether the upgrade only adds, so that programs which use the storage now can go on during and after it."""
        return not self.has_old_entries and 0 < self.needed_after <= self.present

    @property
    def needs_upgrade(self) -> bool:
        """Whether the next start changes the storage."""
        return 0 < self.present < self.newest or self.has_old_entries


def read_schema_state(url: str, data_folder: Path) -> SchemaState:
    """Read the state of the storage at a `storage.url`; raises `StorageError` where it cannot be read."""
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite" and rest.strip("/"):
        return _read_sqlite(data_folder / rest.removeprefix("//"))
    if scheme in {"postgresql", "postgres"}:
        return asyncio.run(_read_postgres(url))
    raise StorageError(f"The storage address starts with {scheme!r}; it must be sqlite:FILE or postgresql://….")


def _read_sqlite(path: Path) -> SchemaState:
    from gatepost.store.normal_forms import has_current_forms
    from gatepost.store.sqlite_file import (
        APPLICATION_ID,
        explain_errors,
        open_reader,
        read_usable_from,
        run_work,
        schema_files,
        schema_version,
        usable_from,
    )

    newest, after = schema_files()[-1][0], usable_from(schema_files())
    if not path.exists():
        return SchemaState(0, newest, 0)
    with explain_errors(path):
        connection = open_reader(path)
        try:
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
            if tables and connection.pragma("application_id") != APPLICATION_ID:
                raise StorageError(f"{path} is a database of another program; name another file in storage.url.")
            present = schema_version(connection)
            needed = read_usable_from(connection) if present else 0
            size = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
            has_old = 0 < present <= newest and not run_work(connection, has_current_forms())
        finally:
            connection.close()
    return SchemaState(present, newest, size, has_old, needed, after)


async def _read_postgres(url: str) -> SchemaState:
    from gatepost.store.postgres import connect, has_current_entries, read_schema_version, read_usable_from
    from gatepost.store.sqlite_file import schema_files, usable_from

    newest, after = schema_files("postgres")[-1][0], usable_from(schema_files("postgres"))
    async with connect(url) as connection:
        present = await read_schema_version(connection, url)
        needed = await read_usable_from(connection, present) if present else 0
        size: Any = await connection.fetchval("SELECT pg_database_size(current_database())")
        has_old = 0 < present <= newest and not await has_current_entries(connection)
    return SchemaState(present, newest, int(size), has_old, needed, after)
