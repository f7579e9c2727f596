"""Which tenant's mail is in which PostgreSQL database: the one place that decides it.

The first database (`storage.url`) has everything that belongs to the deployment or stays small: tenants, users, keys,
lists, the audit trail, reports. The tables of mail (`MAIL_TABLES`) grow with every message. `storage.tenants` says for
some tenants in which other database (`storage.databases`) their rows of these tables are; those of all other tenants,
and of mail without a tenant, are in the first one.

Each database has all tables, and a number of its own. Ids of messages begin with that number, so that an id is found
once in all databases, a page of a search over all of them has one order, and rows keep their ids when a tenant moves.
Names and numbers are in `meta` of every database: one that is named twice, or under another name than before, is
refused, and so is a map that looks for a tenant's mail where it is not (`check_places`).

A database that does not answer is opened later: mail of its tenants is put off until then, and no other.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from gatepost.store.engine import Engine, StoreCounters
from gatepost.store.errors import StorageError, StorageUnreachableError
from gatepost.store.paired_engine import PairedEngine, PairLimits
from gatepost.store.postgres import LOCK, PostgresEngine, connect, run_apart
from gatepost.store.postgres_faults import public_url
from gatepost.store.tenant_map import TenantMap

O = TypeVar("O")  # noqa: E741
T = TypeVar("T")

FIRST = "first"
MAIL_TABLES = frozenset(
    {
        *("messages", "message_search", "message_recipients", "unsearched", "deliveries", "traffic"),
        *("held", "held_search", "held_recipients", "recipient_releases", "sightings"),
    }
)
# Ids of a database begin here, times its number: 2^48 messages each, and ids stay below 2^53, which JSON can hold.
ID_RANGE = 1 << 48
MAX_DATABASES = 30
RETRY_SECONDS = 2.0

_TABLE = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(?:ONLY\s+)?([a-z_]+)", re.IGNORECASE)
_META = "SELECT key, value FROM meta WHERE key = $1 OR key LIKE $1 || '.%'"
_SET_META = "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_KEY, _MOVE = "database", "move"
_SEQUENCE = "pg_get_serial_sequence('messages', 'id')"
_HIGHEST = "SELECT COALESCE(max(id), $1) FROM messages WHERE id >= $1 AND id < $2"
_PRESENT = """SELECT wanted FROM unnest($1::text[]) AS wanted
WHERE EXISTS (SELECT 1 FROM message_search WHERE tenant = wanted)
OR EXISTS (SELECT 1 FROM held WHERE tenant = wanted)"""
# Not only those that there are: the audit trail knows those that were.
_KNOWN = """SELECT wanted FROM unnest($1::text[]) AS wanted WHERE EXISTS (SELECT 1 FROM tenants WHERE uid = wanted)
OR EXISTS (SELECT 1 FROM audit WHERE scope = wanted AND action = 'tenant.delete')"""


class TenantMove(msgspec.Struct, frozen=True):
    """How far the mail of a tenant has moved out of a database: rows are being copied to database `to`, and with
    `is_copied` all are there, and this database takes no more mail of the tenant."""

    to: str
    is_copied: bool = False


@lru_cache(1024)
def is_of_mail(statement: str) -> bool:
    """Whether a statement is for tables of mail."""
    return any(name.lower() in MAIL_TABLES for name in _TABLE.findall(statement))


class TenantDatabase:
    """One database besides the first. It is opened when it is needed, and again after a while if that failed."""

    def __init__(self, name: str, url: str, first_url: str) -> None:
        self.name, self.url, self._first_url = name, url, first_url
        self._engine: PostgresEngine | None = None
        self._opening = asyncio.Lock()
        self._fault, self._again = StorageUnreachableError(""), 0.0

    def open_now(self) -> None:
        """Open it and give it its name and number; raises `StorageError`."""
        engine = PostgresEngine(self.url)
        run_apart(lambda: _claim(self._first_url, self.name, self.url))
        self._engine = engine

    async def engine(self) -> PostgresEngine:
        """Return its engine; raises `StorageError` while it cannot be opened."""
        if self._engine is None:
            async with self._opening:
                await self._try_to_open()
        if self._engine is None:
            raise self._fault
        return self._engine

    async def _try_to_open(self) -> None:
        if self._engine is not None or time.monotonic() < self._again:
            return
        try:
            await asyncio.to_thread(self.open_now)
        except StorageUnreachableError as fault:
            self._fault, self._again = fault, time.monotonic() + RETRY_SECONDS
        except StorageError as fault:
            self._fault, self._again = StorageUnreachableError(str(fault)), time.monotonic() + RETRY_SECONDS

    def counters(self) -> StoreCounters:
        """How much was written so far."""
        return self._engine.counters() if self._engine else StoreCounters(0, 0, 0)

    async def close(self) -> None:
        """Close it if it is open."""
        if self._engine is not None:
            await self._engine.close()


class TenantDatabases:
    """All databases of a deployment. Opening them raises `StorageError` where the map cannot be right."""

    def __init__(self, first_url: str, tenant_map: TenantMap) -> None:
        self.first = PostgresEngine(first_url)
        self.others = tuple(TenantDatabase(name, url, first_url) for name, url in tenant_map.databases.items())
        for database in self.others:
            try:
                database.open_now()
            except StorageUnreachableError:
                continue  # `engine` tries again; health names it
        run_apart(lambda: check_places(first_url, tenant_map))
        limits = PairLimits()
        paired = (PairedEngine(self.first, database, is_of_mail, limits) for database in self.others)
        self.engines: tuple[Engine, ...] = (self.first, *paired)
        self.names = (FIRST, *tenant_map.databases)
        numbers = {name: number for number, name in enumerate(self.names)}
        self._places = {uid.lower(): numbers[name] for uid, name in tenant_map.tenants.items()}

    def place_of(self, tenant: str | None) -> int:
        """Which of `engines` has the mail of a tenant; mail without a tenant is in the first."""
        return self._places.get(tenant.lower(), 0) if tenant else 0

    def each(self, kind: Callable[[Engine], O]) -> tuple[O, ...]:
        """The operations of a subject on each database, the first one first."""
        return tuple(kind(engine) for engine in self.engines)

    def counters(self) -> list[tuple[int, int, int]]:
        """How many changes, commits and failures there were, for each database and for work on two."""
        found = [engine.counters() for engine in self.engines]
        found += [database.counters() for database in self.others]
        return [(each.changes, each.commits, each.failures) for each in found]

    async def close(self) -> None:
        """Close all databases."""
        for database in self.others:
            await database.close()
        await self.first.close()


async def gather_all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all calls, one for each database; then raise what one of them raised. So a database that cannot be
    reached keeps nothing from being done in the others."""
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results


async def _claim(first_url: str, name: str, url: str) -> None:
    """Give a database its name and number, or check those that it has, and keep its ids in its own range."""
    async with connect(first_url) as first, connect(url) as own, first.transaction(), own.transaction():
        await first.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await first.execute(_SET_META, _KEY, f"{FIRST} 0")
        known, stated = dict(await first.fetch(_META, _KEY)), dict(await own.fetch(_META, _KEY)).get(_KEY, "")
        told, _, number = stated.partition(" ")
        if told == FIRST:
            raise StorageError(f"storage.databases: {name} ({public_url(url)}) is the first database itself.")
        if told and told != name:
            raise StorageError(
                f"storage.databases: {name} ({public_url(url)}) is the database that is called {told}: a database has"
                " one name, and keeps it."
            )
        if await own.fetchval("SELECT EXISTS (SELECT 1 FROM tenants)"):
            raise StorageError(
                f"storage.databases: {name} ({public_url(url)}) has tenants of its own: name a database that no other"
                " deployment uses."
            )
        numbers = {int(value) for key, value in known.items() if key != _KEY}
        number = number or known.get(f"{_KEY}.{name}") or str(max(numbers, default=0) + 1)
        await first.execute(_SET_META, f"{_KEY}.{name}", number)
        await own.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await own.execute(_SET_META, _KEY, f"{name} {number}")
        await _keep_range(own, int(number) * ID_RANGE)


async def _keep_range(own: Any, start: int) -> None:
    """Have the ids of new messages begin with the number of their database."""
    sequence = await own.fetchval(f"SELECT {_SEQUENCE}")
    last = await own.fetchval(f"SELECT last_value FROM {sequence}")  # noqa: S608  a name from the catalogue
    if not start <= last < start + ID_RANGE:
        highest = await own.fetchval(_HIGHEST, start, start + ID_RANGE)
        await own.execute("SELECT setval($1::text::regclass, $2)", sequence, highest + 1)


async def check_places(first_url: str, tenant_map: TenantMap) -> None:
    """Raise `StorageError` where the map names a tenant that never was, or one whose mail is in another database.
    A database that cannot be reached is not asked."""
    uids = [uid.lower() for uid in tenant_map.tenants]
    urls = {FIRST: first_url, **tenant_map.databases}
    async with connect(first_url) as first:
        known = {row[0] for row in await first.fetch(_KNOWN, uids)}
        if unknown := sorted(set(uids) - known):
            raise StorageError(
                f"storage.tenants names {unknown[0]}, which is no tenant: correct the uid, or delete the line"
                " (`gatepost tenant list` has the uids)."
            )
        every = [row[0] for row in await first.fetch("SELECT uid FROM tenants")]
    wanted = {uid: tenant_map.tenants.get(uid, FIRST) for uid in {*uids, *every}}
    found: dict[str, tuple[set[str], dict[str, TenantMove]]] = {}
    for name, url in urls.items():
        try:
            found[name] = await _read_places(url, list(wanted))
        except StorageUnreachableError:
            continue
    for name, (present, moves) in found.items():
        for uid in sorted(present):
            place, leaving = wanted[uid], moves.get(uid)
            coming = found[place][1].get(uid) if place in found else TenantMove(name)
            is_copied = leaving is not None and leaving.is_copied and leaving.to == place
            is_copy = coming is not None and coming.to == name
            if place != name and not is_copied and not is_copy:
                raise StorageError(_explain_place(uid, name, place, leaving))


def _explain_place(uid: str, name: str, wanted: str, move: TenantMove | None) -> str:
    if move and move.to == wanted:
        return (
            f"storage.tenants: mail of tenant {uid} is still being copied from database {name} to {wanted}: let"
            f" `gatepost tenant move {uid} {wanted}` come to its end first."
        )
    return (
        f"storage.tenants: mail of tenant {uid} is in database {name}, and the map says {wanted}: set the map back, and"
        f" move it with `gatepost tenant move {uid} {wanted}`."
    )


async def _read_places(url: str, uids: list[str]) -> tuple[set[str], dict[str, TenantMove]]:
    """Which of the tenants have mail in a database, and which are moving out of it."""
    async with connect(url) as connection:
        present = {row[0] for row in await connection.fetch(_PRESENT, uids)}
        return present, await read_moves(connection)


async def read_moves(connection: Any) -> dict[str, TenantMove]:
    """The tenants that are moving out of a database, by uid."""
    rows = await connection.fetch(_META, _MOVE)
    return {key.partition(".")[2]: msgspec.json.decode(value, type=TenantMove) for key, value in rows}


async def note_move(connection: Any, uid: str, move: TenantMove | None) -> None:
    """Write down how far a tenant has moved out of a database; None deletes the note."""
    if move is None:
        await connection.execute("DELETE FROM meta WHERE key = $1", f"{_MOVE}.{uid}")
    else:
        await connection.execute(_SET_META, f"{_MOVE}.{uid}", msgspec.json.encode(move).decode())


async def find_moved_from(urls: Mapping[str, str], to: str, uid: str) -> str | None:
    """The database that still has what a tenant left there when it moved to another one."""
    for name, url in urls.items():
        async with connect(url) as connection:
            move = (await read_moves(connection)).get(uid)
            if move and move.to == to and move.is_copied:
                return name
    return None
