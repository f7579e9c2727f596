"""From one storage to another, whichever engines: a deployment moves from SQLite to PostgreSQL, or back into a file.

The source is read as of one moment while its service goes on. The target changes in one transaction: a copy that fails
leaves it as it was.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeAlias

from gatepost.store import findable, heldmail, messages, traffic
from gatepost.store.interface import StorageError
from gatepost.store.work import Row

BATCH = 2_000

# Every table but `meta`, which says which schema this is.
TABLES: dict[str, tuple[str, ...]] = {
    "tenants": ("uid", "name", "created"),
    "tenant_domains": ("domain", "tenant"),
    "departed": ("tenant",),
    "scopes": ("scope", "directory", "unkeyed"),
    "lists": (
        *("id", "scope", "name", "kind", "category"),
        *("display_name", "description", "max_size", "custom", "size"),
    ),
    "list_prefixes": ("list_id", "prefix", "entries"),
    "entries": (
        *("list_id", "key", "shown", "comment", "created", "modified", "modified_by", "expires"),
        *("hits", "last_hit"),
    ),
    "api_keys": ("id", "hash", "name", "tenant", "read_only", "created", "expires", "revoked", "last_used"),
    "audit": (
        *("id", "time", "actor_kind", "actor_name", "actor_id"),
        *("action", "scope", "list", "count", "sample"),
    ),
    "messages": ("id", *messages.COLUMNS),
    "held": heldmail.COLUMNS,
    "held_recipients": ("ggrid", "address", "domain"),
    "undecided": ("id", "digest", "time"),
    "users": (
        *("uid", "name", "folded", "role", "tenant", "created", "disabled", "password"),
        *("totp_secret", "totp_step", "failures", "locked_until", "last_sign_in"),
    ),
    "sessions": (
        *("digest", "id", "user_uid", "created", "seen", "expires"),
        *("address", "agent", "csrf", "strong"),
    ),
    "message_search": findable.COLUMNS,
    "message_recipients": findable.RECIPIENT_COLUMNS,
    "unsearched": ("upto",),
    "traffic": traffic.COLUMNS,
    "sightings": ("scope", "key", "first", "last", "days", "delivered", "held"),
}

# Told how many rows (or pages) are done, of how many.
Progress: TypeAlias = Callable[[int, int], None]


class Source(Protocol):
    """A storage as of one moment."""

    async def count(self, table: str) -> int: ...

    def rows(self, table: str) -> AsyncIterator[Sequence[Row]]: ...


class Target(Protocol):
    """A storage that is being filled, in one transaction."""

    async def has_rows(self, table: str) -> bool: ...

    async def clear(self) -> None: ...

    async def load(self, table: str, rows: Sequence[Row]) -> None: ...


async def copy(source_url: str, target_url: str, data: Path, progress: Progress, *, force: bool = False) -> int:
    """Copy everything; returns how many rows. A target that is not empty is refused, or replaced by `force`."""
    async with _source(source_url, data) as source, _target(target_url, data) as target:
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


async def is_filled(target: Target) -> bool:
    """Is there anything in it?"""
    for table in TABLES:
        if await target.has_rows(table):
            return True
    return False


def sqlite_path(url: str, data: Path) -> Path | None:
    """The file of a `sqlite:` address; None for any other."""
    scheme, _, rest = url.partition(":")
    return data / rest.removeprefix("//") if scheme == "sqlite" and rest.strip("/") else None


def _source(url: str, data: Path) -> AbstractAsyncContextManager[Source]:
    if path := sqlite_path(url, data):
        from gatepost.store.sqlitecopy import file_source

        return file_source(path)
    from gatepost.store.postgrescopy import database_source

    return database_source(_postgres(url))


def _target(url: str, data: Path) -> AbstractAsyncContextManager[Target]:
    if path := sqlite_path(url, data):
        from gatepost.store.sqlitecopy import file_target

        return file_target(path)
    from gatepost.store.postgrescopy import database_target

    return database_target(_postgres(url))


def _postgres(url: str) -> str:
    scheme = url.partition(":")[0]
    if scheme not in {"postgresql", "postgres"}:
        raise StorageError(f"The storage address starts with {scheme!r}; it must be sqlite:FILE or postgresql://….")
    return url
