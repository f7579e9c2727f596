"""The partitions of days on PostgreSQL: made ahead or when a message needs one, and dropped as a whole.

`make_message_day` in the schema makes the partitions of a day, whoever asks first. A day is dropped once nobody keeps
anything of it; until then, what some tenants keep for a shorter time is deleted row by row.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import asyncpg

from gatepost.store.engine import DAY_MILLISECONDS, now
from gatepost.store.message_days import day_of

# Partitions that are made ahead, besides that of today.
DAYS_AHEAD = 7
# How long PostgreSQL may wait for those who still read a partition that is to go; what is left is done the next time.
DROP_SECONDS = 60
# The last one says that a day is still to be dropped.
TABLES = ("deliveries", "message_recipients", "messages", "message_search")
_MAKE = "SELECT make_message_day(day) FROM unnest($1::bigint[]) AS day"
# Partitions, and tables that were some and are to be dropped: `ends` is NULL for these.
_PARTITIONS = r"""SELECT parent, leaf.relname AS leaf, coalesce(inhdetachpending, false) AS is_leaving,
substring(pg_get_expr(leaf.relpartbound, leaf.oid) FROM 'TO \(''?(-?\d+)')::bigint AS ends
FROM unnest($1::text[]) AS parent
JOIN pg_class AS leaf ON leaf.relnamespace = current_schema()::regnamespace AND leaf.relkind = 'r'
    AND leaf.relname ~ ('^' || parent || '_(before|d-?\d+)$')
LEFT JOIN pg_inherits ON inhrelid = leaf.oid"""
_IS_NEEDED = """SELECT EXISTS (SELECT FROM "{}" AS s LEFT JOIN unnest($1::text[], $2::bigint[]) AS own (tenant, since)
ON own.tenant = s.tenant WHERE completed >= coalesce(own.since, $3::bigint))"""
# "Partition key of the failing row contains (completed) = (1763337600000).", in the language of the server.
_REFUSED_TIME = re.compile(r"\(completed\)\D{0,40}\((-?\d{1,20})\)")
# What another process that drops the same day leads to, and a reader that keeps a day for too long.
_BUSY = (
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedObjectError,
    asyncpg.WrongObjectTypeError,
    asyncpg.DeadlockDetectedError,
    asyncpg.QueryCanceledError,
    TimeoutError,
)


async def make_days(connection: Any, days: Iterable[int]) -> None:
    """Have partitions for these days; those that are there stay as they are."""
    await connection.execute(_MAKE, sorted(days))


async def make_coming_days(connection: Any) -> None:
    """Have partitions for today and the days that come."""
    today = day_of(now())
    await make_days(connection, range(today, today + DAYS_AHEAD + 1))


def missing_day(fault: asyncpg.CheckViolationError) -> int | None:
    """The day whose partition a row was refused for, None where it was refused for something else."""
    found = _REFUSED_TIME.search(fault.detail or "")
    return day_of(int(found[1])) if found and fault.constraint_name is None else None


async def drop_days(connection: Any, before: int, tenants: Mapping[str, int]) -> tuple[int, int]:
    """Drop the days of which nothing is kept any more: results are kept from `before` on, those of some tenants from
    their own times on. Returns how many results went, and before which time the others have to go one by one: the
    beginning of the day of `before`, so that a day that is nearly past is not deleted row by row and dropped empty. The
    first partition has what was stored before there were days, and no such reason.

    A partition is taken out of its table without a lock that mail would wait for, and dropped then. A kill between
    leaves a part of a day; the next call goes on with it.
    """
    found = await connection.fetch(_PARTITIONS, list(TABLES))
    await _finish(connection, [row for row in found if row["ends"] is None or row["is_leaving"]])
    ends = {row["leaf"].rpartition("_")[2]: row["ends"] for row in found if row["ends"] is not None}
    since = before if before < ends.get("before", before) else day_of(before) * DAY_MILLISECONDS
    leaves = {row["leaf"] for row in found if row["ends"] is not None and not row["is_leaving"]}
    newest = max((since, *tenants.values()))
    dropped = 0
    for day, end in sorted(ends.items(), key=lambda item: item[1]):
        leaf = f"{TABLES[-1]}_{day}"
        if end > newest or leaf not in leaves or await _is_needed(connection, leaf, since, tenants):
            continue
        count = await connection.fetchval(f'SELECT count(*) FROM "{leaf}"')  # noqa: S608
        if not await _drop(connection, [table for table in TABLES if f"{table}_{day}" in leaves], day):
            break
        dropped += int(count)
    return dropped, since


async def _is_needed(connection: Any, leaf: str, since: int, tenants: Mapping[str, int]) -> bool:
    """Whether somebody keeps something of a partition."""
    found = await connection.fetchval(_IS_NEEDED.format(leaf), list(tenants), list(tenants.values()), since)
    return bool(found)


async def _finish(connection: Any, rows: Sequence[Any]) -> None:
    """Drop what an earlier call has begun to drop."""
    for row in rows:
        try:
            if row["is_leaving"]:
                await _execute(connection, f'ALTER TABLE {row["parent"]} DETACH PARTITION "{row["leaf"]}" FINALIZE')
            await _execute(connection, f'DROP TABLE IF EXISTS "{row["leaf"]}"')
        except _BUSY:
            continue


async def _drop(connection: Any, tables: Sequence[str], day: str) -> bool:
    """Drop the partitions of a day; returns whether they are gone."""
    try:
        for table in tables:
            await _execute(connection, f'ALTER TABLE {table} DETACH PARTITION "{table}_{day}" CONCURRENTLY')
            await _execute(connection, f'DROP TABLE IF EXISTS "{table}_{day}"')
    except _BUSY:
        return False
    return True


async def _execute(connection: Any, statement: str) -> None:
    await connection.execute(statement, timeout=DROP_SECONDS)
