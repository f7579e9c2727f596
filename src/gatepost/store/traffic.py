"""Traffic in buckets of five minutes, counted with the messages themselves, so that a chart never looks at those.

A group of messages that is kept together changes few rows: one for each tenant, verdict and decision in it, and one for
everybody. In PostgreSQL many write at the same time, and whoever changes a row keeps it until its commit; so every
connection has a `part` of its own, and parts that nobody writes any more are added up later.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import apsw

from gatepost.store.inserting import insert_rows
from gatepost.store.trafficstore import BINS, BUCKET_MILLISECONDS, MAX_STEPS, Bucket
from gatepost.store.work import Bulk, Read, Row, Work, Write, in_sqlite

EVERYBODY = ""
PARTS = 16
# Parts are left alone for so long: somebody may still write them.
SETTLED_MILLISECONDS = 3_600_000

KEY = ("tenant", "bucket", "verdict", "decision", "part")
_LONGEST = 3
COUNTS = ("messages", "bytes", "duration", "longest", *(f"l{n}" for n in range(BINS)))
COLUMNS = (*KEY, *COUNTS)

ADDED = f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET " + ", ".join(
    "longest = GREATEST(traffic.longest, excluded.longest)"
    if name == "longest"
    else f"{name} = traffic.{name} + excluded.{name}"
    for name in COUNTS
)
INTO = f"INSERT INTO traffic ({', '.join(COLUMNS)})"
_ADDED_SQLITE = in_sqlite(ADDED)
_ADD = f"{INTO} VALUES ({', '.join('?' * len(COLUMNS))}) {_ADDED_SQLITE}"
_ARRAYS = ", ".join(
    f"${place}::{'text' if name in ('tenant', 'verdict', 'decision') else 'bigint'}[]"
    for place, name in enumerate(COLUMNS, 1)
)
_ADD_ALL = f"{INTO} SELECT * FROM unnest({_ARRAYS}) {ADDED}"  # noqa: S608
_SUMS = ", ".join(f"CAST({'max' if name == 'longest' else 'sum'}({name}) AS BIGINT)" for name in COUNTS)
_READ = f"""SELECT bucket / $4::bigint * $4::bigint, verdict, decision, {_SUMS} FROM traffic
WHERE tenant = $1 AND bucket >= $2 AND bucket < $3 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""  # noqa: S608
_PURGE = "DELETE FROM traffic WHERE bucket IN (SELECT bucket FROM traffic WHERE bucket < $1 ORDER BY bucket LIMIT $2)"
_TAKE = f"""DELETE FROM traffic WHERE part <> 0
AND bucket = (SELECT min(bucket) FROM traffic WHERE part <> 0 AND bucket < $1) RETURNING {", ".join(COLUMNS)}"""  # noqa: S608
_FORGET = """DELETE FROM traffic
WHERE tenant = $1 AND bucket IN (SELECT bucket FROM traffic WHERE tenant = $1 LIMIT $2)"""


# Tenant, verdict, decision, created, completed and size of a message.
Seen: TypeAlias = tuple[str | None, str, str, int, int, int]


def rows(seen: Iterable[Seen]) -> list[Row]:
    """What messages add to the buckets."""
    added: dict[tuple[str, int, str, str], list[int]] = {}
    for tenant, verdict, decision, created, completed, size in seen:
        bucket, milliseconds = bucket_of(completed), max(0, completed - created)
        place = 4 + bin_of(milliseconds)
        for whose in (EVERYBODY, tenant) if tenant else (EVERYBODY,):
            key = (whose, bucket, verdict, decision)
            counts = added.get(key) or added.setdefault(key, [0] * len(COUNTS))
            counts[0] += 1
            counts[1] += size
            counts[2] += milliseconds
            counts[_LONGEST] = max(counts[_LONGEST], milliseconds)
            counts[place] += 1
    return [(*key, 0, *counts) for key, counts in sorted(added.items())]


def count(connection: apsw.Connection, seen: Iterable[Seen]) -> None:
    """Count messages that are being kept."""
    insert_rows(connection, "traffic", COLUMNS, rows(seen), _ADDED_SQLITE)


def add(seen: Iterable[Seen]) -> Work[None]:
    """Count messages as a piece of work."""
    if new := rows(seen):
        yield Bulk(_ADD, _ADD_ALL, new)


def read(tenant: str | None, since: int, until: int, step: int) -> Work[tuple[Bucket, ...]]:
    """Every step of a time; a step is a whole number of buckets, and there are not more than `MAX_STEPS`."""
    width = max(1, -(-step // BUCKET_MILLISECONDS)) * BUCKET_MILLISECONDS
    last = max(0, -(-until // width)) * width
    first = max(max(0, since) // width * width, last - MAX_STEPS * width)
    found: dict[int, list[Row]] = {}
    for start, *row in (yield Read(_READ, (tenant or EVERYBODY, first, last, width))):
        found.setdefault(start, []).append(tuple(row))
    return tuple(_bucket(start, found.get(start, ())) for start in range(first, last, width))


def purge(before: int, limit: int) -> Work[int]:
    """Forget some of what was counted before a time."""
    gone: int = yield Write(_PURGE, (before - BUCKET_MILLISECONDS + 1, limit))
    return gone


def settle(now: int) -> Work[int]:
    """Add up the parts of one bucket; 0 when there are none."""
    loose = yield Read(_TAKE, (now - SETTLED_MILLISECONDS,))
    added: dict[Row, list[int]] = {}
    for row in loose:
        key, counts = tuple(row[:4]), row[5:]
        total = added.setdefault(key, [0] * len(COUNTS))
        longest = max(total[_LONGEST], counts[_LONGEST])
        total[:] = [one + other for one, other in zip(total, counts, strict=True)]
        total[_LONGEST] = longest
    if added:
        yield Bulk(_ADD, _ADD_ALL, [(*key, 0, *counts) for key, counts in sorted(added.items())])
    return len(loose)


def forget(tenant: str, limit: int) -> Work[int]:
    """Forget some of a tenant's traffic; it stays in that of everybody."""
    gone: int = yield Write(_FORGET, (tenant, limit))
    return gone


def bucket_of(completed: int) -> int:
    """The beginning of its bucket."""
    return completed // BUCKET_MILLISECONDS * BUCKET_MILLISECONDS


def bin_of(milliseconds: int) -> int:
    """The bin of a latency."""
    return min(milliseconds.bit_length(), BINS - 1)


def _bucket(start: int, rows: Sequence[Row]) -> Bucket:
    verdicts: dict[str, int] = {}
    decisions: dict[str, int] = {}
    for verdict, decision, messages, *_ in rows:
        verdicts[verdict] = verdicts.get(verdict, 0) + messages
        decisions[decision] = decisions.get(decision, 0) + messages
    if not rows:
        return Bucket(start)
    columns = list(zip(*(row[2:] for row in rows), strict=True))
    messages, size, duration, *latency = (sum(column) for place, column in enumerate(columns) if place != _LONGEST)
    return Bucket(start, messages, size, duration, max(columns[_LONGEST]), tuple(latency), verdicts, decisions)
