"""Moving the mail of a tenant from one database to another, while the services run.

1. Rows are copied while mail goes on. What is in both databases already is left alone, so a move that was killed goes
   on where it was.
2. The old database is closed for the tenant: triggers refuse new results and every change of held mail, and SMTP and
   API put that mail off. What came meanwhile is copied, and what has changed. Then the old database says that all is
   copied.
3. The operator writes the new place into the map of every node. A node with the old map still cannot store anything,
   one with the new map stores in the new database: nothing is acknowledged that is not there.
4. With the new map, the same call deletes the rows in the old database, and opens it again for the tenant.

Ids stay as they are, since no two databases give the same one. Counts of traffic of all tenants stay where they were
counted, and are added up over all databases.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from gatepost.sender_history import scope_key
from gatepost.store import postgres_days
from gatepost.store.copy import list_tables
from gatepost.store.engine import DAY_MILLISECONDS, now
from gatepost.store.errors import StorageError
from gatepost.store.message_days import day_of
from gatepost.store.postgres import connect
from gatepost.store.tenant_databases import TenantMove, note_move, read_moves

BATCH = 500
# Replies of next hops can come for so long after a result.
DELIVERIES_MILLISECONDS = 7 * DAY_MILLISECONDS

# Called with how many rows are done, of those that were found so far.
Progress = Callable[[int, int], None]

_FUNCTION = """CREATE OR REPLACE FUNCTION mail_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'mail of this tenant moves to another database' USING ERRCODE = 'object_in_use'; END $$"""
_CLOSE = (
    """CREATE TRIGGER "{0}" BEFORE INSERT ON message_search FOR EACH ROW WHEN (NEW.tenant = '{1}')
    EXECUTE FUNCTION mail_is_elsewhere()""",
    """CREATE TRIGGER "{0}-new" BEFORE INSERT ON held FOR EACH ROW WHEN (NEW.tenant = '{1}')
    EXECUTE FUNCTION mail_is_elsewhere()""",
    """CREATE TRIGGER "{0}" BEFORE UPDATE OR DELETE ON held FOR EACH ROW WHEN (OLD.tenant = '{1}')
    EXECUTE FUNCTION mail_is_elsewhere()""",
)
_OPEN = (
    'DROP TRIGGER IF EXISTS "{0}" ON message_search',
    'DROP TRIGGER IF EXISTS "{0}-new" ON held',
    'DROP TRIGGER IF EXISTS "{0}" ON held',
)
_KEYS = "SELECT completed, id FROM message_search WHERE tenant = $1 ORDER BY completed, id"
_BY_KEY = """SELECT {1} FROM {0} WHERE (completed, id) IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))
AND completed >= $3 AND completed <= $4"""
_RECENT_DELIVERIES = """SELECT {} FROM deliveries WHERE completed >= $2 AND (completed, id) IN (
    SELECT completed, id FROM message_search WHERE tenant = $1 AND completed >= $2)"""
_INSERT = "INSERT INTO {0} ({1}) SELECT * FROM unnest({2}) ON CONFLICT DO NOTHING"
_MARKS = "SELECT {1}, md5(ROW({0}.*)::text) FROM {0} WHERE {2} ORDER BY {1}"
_ROWS = "SELECT {2} FROM {0} WHERE {1} = ANY($1)"
_DELETE = "DELETE FROM {0} WHERE {1} = ANY($1)"
# What changes after it was written: its key as one text, and which rows are the tenant's.
_CHANGING = {
    "held": ("ggrid", "tenant = $1"),
    "held_bytes": ("ggrid", "ggrid IN (SELECT ggrid FROM held WHERE tenant = $1)"),
    "held_search": ("ggrid", "ggrid IN (SELECT ggrid FROM held WHERE tenant = $1)"),
    "held_recipients": ("ggrid || ' ' || address", "ggrid IN (SELECT ggrid FROM held WHERE tenant = $1)"),
    "recipient_releases": ("ggrid || ' ' || address", "ggrid IN (SELECT ggrid FROM held WHERE tenant = $1)"),
    "traffic": ("concat_ws(' ', bucket, verdict, decision, part)", "tenant = $1"),
    "sightings": ("key::text", "scope = $1::text::bigint"),
}
_OF_MESSAGES = ("messages", "message_search", "message_recipients", "deliveries")
_COLUMN_TYPES = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped"""
_DELETE_HELD = (
    "DELETE FROM held_recipients WHERE ggrid IN (SELECT ggrid FROM held WHERE tenant = $1)",
    "DELETE FROM recipient_releases WHERE ggrid IN (SELECT ggrid FROM held WHERE tenant = $1)",
    "DELETE FROM held WHERE tenant = $1",
)
_DELETE_REST = ("DELETE FROM traffic WHERE tenant = $1", "DELETE FROM sightings WHERE scope = $1::text::bigint")


class MoveOutcome(msgspec.Struct, frozen=True):
    """How far a move is. `is_copied` says that everything is in the new database, and the map has to name it now;
    `is_done` that the old one has nothing of the tenant any more."""

    rows: int
    is_copied: bool = False
    is_done: bool = False


async def copy_tenant(source_url: str, target_url: str, target: str, uid: str, progress: Progress) -> MoveOutcome:
    """Copy everything of a tenant's mail, and close the old database for it. What is copied already stays."""
    async with connect(source_url) as source, connect(target_url) as goal:
        move = (await read_moves(source)).get(uid)
        if move and move.to != target:
            raise StorageError(f"The mail of this tenant is being moved to {move.to}: finish that first.")
        if move and move.is_copied:
            return MoveOutcome(0, is_copied=True)
        await note_move(source, uid, TenantMove(target))
        mover = _Mover(source, goal, uid, progress)
        await mover.copy_messages()
        async with source.transaction():
            statements = (_FUNCTION, *_OPEN, *_CLOSE)
            await _execute_all(source, [each.replace("{0}", _name(uid)).replace("{1}", uid) for each in statements])
        await mover.copy_messages()
        await mover.copy_deliveries()
        for table in _CHANGING:
            await mover.copy_changes(table)
        await note_move(source, uid, TenantMove(target, is_copied=True))
        return MoveOutcome(mover.rows, is_copied=True)


async def delete_moved(source_url: str, target: str, uid: str, progress: Progress) -> MoveOutcome:
    """Delete what a tenant has left in the old database, and open it again for the tenant. This is for a map that names
    the new database already."""
    async with connect(source_url) as source:
        move = (await read_moves(source)).get(uid)
        if move is None or not move.is_copied or move.to != target:
            raise StorageError(f"The mail of this tenant has not been copied to {target}.")
        deleted, total = 0, int(await source.fetchval("SELECT count(*) FROM message_search WHERE tenant = $1", uid))
        while keys := await source.fetch(f"{_KEYS} LIMIT {BATCH}", uid):
            async with source.transaction():
                for table in reversed(_OF_MESSAGES):
                    await source.execute(_BY_KEY.replace("SELECT {1}", "DELETE", 1).format(table), *_bounds(keys))
            deleted += len(keys)
            progress(deleted, total)
        async with source.transaction():
            await _execute_all(source, [each.format(_name(uid)) for each in _OPEN])
            for statement in _DELETE_HELD:
                await source.execute(statement, uid)
            await source.execute(_DELETE_REST[0], uid)
            await source.execute(_DELETE_REST[1], str(scope_key(uid)))
            await note_move(source, uid, None)
        return MoveOutcome(deleted, is_copied=True, is_done=True)


class _Mover:
    """Copies the rows of one tenant."""

    def __init__(self, source: Any, goal: Any, uid: str, progress: Progress) -> None:
        self._source, self._goal, self._uid, self._progress = source, goal, uid, progress
        self._types: dict[str, str] = {}
        self.rows = self._total = 0

    async def copy_messages(self) -> None:
        """Copy the results that are not in the new database, each with its index rows and deliveries, in the order of
        their times."""
        there = {tuple(row) for row in await self._goal.fetch(_KEYS, self._uid)}
        missing = [tuple(row) for row in await self._source.fetch(_KEYS, self._uid) if tuple(row) not in there]
        self._total += len(missing)
        for start in range(0, len(missing), BATCH):
            keys = missing[start : start + BATCH]
            await postgres_days.make_days(self._goal, {day_of(completed) for completed, _ in keys})
            async with self._goal.transaction():
                for table in _OF_MESSAGES:
                    statement = _BY_KEY.format(table, ", ".join(list_tables()[table]))
                    await self._insert(table, await self._source.fetch(statement, *_bounds(keys)))
            self._count(len(keys))

    async def copy_deliveries(self) -> None:
        """Copy what next hops answered since the results were copied."""
        statement = _RECENT_DELIVERIES.format(", ".join(list_tables()["deliveries"]))
        await self._insert(
            "deliveries", await self._source.fetch(statement, self._uid, now() - DELIVERIES_MILLISECONDS)
        )

    async def copy_changes(self, table: str) -> None:
        """Make the rows of a table the same as in the old database."""
        key, condition = _CHANGING[table]
        whose = str(scope_key(self._uid)) if table == "sightings" else self._uid
        statement = _MARKS.format(table, key, condition)
        old, new = [dict(await each.fetch(statement, whose)) for each in (self._source, self._goal)]
        wanted = [each for each, mark in old.items() if new.get(each) != mark]
        gone = [each for each in new if old.get(each) != new[each]]
        columns = ", ".join(list_tables()[table])
        if gone:
            await self._goal.execute(f"{_DELETE.format(table, key)} AND {condition.replace('$1', '$2')}", gone, whose)
        self._total += len(wanted)
        for start in range(0, len(wanted), BATCH):
            some = wanted[start : start + BATCH]
            read = f"{_ROWS.format(table, key, columns)} AND {condition.replace('$1', '$2')}"
            await self._insert(table, await self._source.fetch(read, some, whose))
            self._count(len(some))

    async def _insert(self, table: str, rows: Sequence[Any]) -> None:
        if not rows:
            return
        if table not in self._types:
            types = dict(await self._goal.fetch(_COLUMN_TYPES, table))
            arrays = (f"${number}::{types[name]}[]" for number, name in enumerate(list_tables()[table], 1))
            self._types[table] = ", ".join(arrays)
        statement = _INSERT.format(table, ", ".join(list_tables()[table]), self._types[table])
        await self._goal.execute(statement, *map(list, zip(*rows, strict=True)))

    def _count(self, rows: int) -> None:
        self.rows += rows
        self._progress(self.rows, self._total)


def _bounds(keys: Sequence[Any]) -> tuple[list[int], list[int], int, int]:
    times = [key[0] for key in keys]
    return times, [key[1] for key in keys], min(times), max(times)


def _name(uid: str) -> str:
    return f"elsewhere-{uid}"


async def _execute_all(connection: Any, statements: Sequence[str]) -> None:
    for statement in statements:
        await connection.execute(statement)
