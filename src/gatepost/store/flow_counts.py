"""What flow control knows of hosts, senders and recipients, shared by all nodes: counts of a window, and greylisting.

A key is a digest: without knowing an address nobody finds its row. A counter that has passed its limit also has a
`label`, so that people can see what is limited now; it is gone when its window is over. Nodes add up what they count
and write it once a second. Rows that are over are deleted in small steps.

A name that works once, such as the id of a token, is a counter too: `was_used` and `note_use` hold over all nodes.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from gatepost.store.engine import (
    Many,
    Operations,
    Read,
    Row,
    Work,
    Write,
    change,
    insert_many,
    large_query,
    query,
    storable,
    write_rows,
)

PURGE_BATCH = 2_000
# As many as a node writes or asks for at once.
MAX_KEYS = 5_000
MAX_LABEL = 300
# Rows that go with each new one, so that as many go as come where nobody purges.
USES_FORGOTTEN = 10
MAX_SHOWN = 1_000

_ADD = insert_many(
    "flow_counts",
    "key bigint, start bigint, count bigint, expires bigint, label text",
    """(key, start) DO UPDATE SET count = flow_counts.count + excluded.count,
    label = CASE WHEN excluded.label = '' THEN flow_counts.label ELSE excluded.label END""",
)
_COUNTS = "SELECT key, start, count FROM flow_counts WHERE key = ANY($1)"
_USED = "SELECT 1 FROM flow_counts WHERE key = $1 AND start = 0 AND expires > $2"
_LIMITED = """SELECT label, count, expires FROM flow_counts
WHERE label <> '' AND expires > $1 ORDER BY expires DESC, label LIMIT $2"""
_DELETE_COUNTS = """DELETE FROM flow_counts WHERE (key, start) IN
(SELECT key, start FROM flow_counts WHERE expires <= $1 ORDER BY expires LIMIT $2)"""
_GREYLIST = "SELECT key, first, passed, expires FROM greylist WHERE key = ANY($1) AND expires > $2"
_GREYLIST_COLUMNS = "key bigint, first bigint, passed bigint, expires bigint"
_WAIT = insert_many(
    "greylist",
    _GREYLIST_COLUMNS,
    """(key) DO UPDATE SET first = excluded.first, passed = 0, expires = excluded.expires
    WHERE greylist.expires <= excluded.first""",
)
_PASS = insert_many(
    "greylist",
    _GREYLIST_COLUMNS,
    """(key) DO UPDATE SET passed = greylist.passed + excluded.passed,
    expires = GREATEST(greylist.expires, excluded.expires)""",
)
_DELETE_GREYLIST = """DELETE FROM greylist WHERE key IN
(SELECT key FROM greylist WHERE expires <= $1 ORDER BY expires LIMIT $2)"""
_GREYLIST_SIZE = "SELECT count(*) FROM (SELECT 1 FROM greylist LIMIT $1) AS counted"


class FlowCount(msgspec.Struct, frozen=True):
    """What a node has counted of a key in the window that begins at `start`."""

    key: int
    start: int
    count: int
    expires: int
    label: str = ""


class LimitedNow(msgspec.Struct, frozen=True):
    """A limit that was reached: of what, how much was counted, and until when."""

    label: str
    count: int
    expires: int


class GreylistEntry(msgspec.Struct, frozen=True):
    """A sender or a network: when it was first seen, how often it has passed, and until when it is known."""

    first: int
    passed: int
    expires: int


class FlowCounts(Operations):
    """Counts and greylisting of flow control."""

    @change
    def add_counts(self, counts: Sequence[FlowCount], keys: Sequence[int]) -> Work[dict[tuple[int, int], int]]:
        """Add to counters; returns what all nodes have counted, of these keys too."""
        if counts:
            # One order for all writers.
            rows = sorted(
                (each.key, each.start, each.count, each.expires, storable(each.label[:MAX_LABEL])) for each in counts
            )
            yield _ADD.of(rows)
        return (yield from _read_counts([*(each.key for each in counts), *keys]))

    @query
    def counts(self, keys: Sequence[int]) -> Work[dict[tuple[int, int], int]]:
        """What all nodes have counted of these keys, by key and beginning of the window."""
        return (yield from _read_counts(keys))

    @query
    def was_used(self, name: str, now: int) -> Work[bool]:
        """Whether a name that works once was used, and its time is not over."""
        return bool((yield Read(_USED, (_name_key(name), now))))

    @change
    def note_use(self, name: str, now: int, expires: int) -> Work[None]:
        """Note that a name that works once was used, and forget a few whose time is over."""
        yield _ADD.of([(_name_key(name), 0, 1, expires, "")])
        yield Write(_DELETE_COUNTS, (now, USES_FORGOTTEN))

    @large_query
    def limited_now(self, now: int) -> Work[tuple[LimitedNow, ...]]:
        """Limits that were reached in a window that is not over."""
        rows = yield Read(_LIMITED, (now, MAX_SHOWN))
        return tuple(LimitedNow(*row) for row in rows)

    async def greylist_entries(self, keys: Sequence[int], now: int) -> dict[int, GreylistEntry]:
        """Those of the keys that are known."""
        return await self._engine.query_inline(partial(_find_entries, tuple(keys), now)) if keys else {}

    @change
    def record_greylist(
        self, waiting: Mapping[int, tuple[int, int]], passed: Mapping[int, tuple[int, int, int]]
    ) -> Work[None]:
        """Add keys that were seen first (when, and until when they are known), and keys that have passed (when, how
        often, and until when they are known)."""
        if waiting:
            rows: list[Row] = sorted((key, first, 0, expires) for key, (first, expires) in waiting.items())
            yield _WAIT.of(rows)
        if passed:
            rows = sorted((key, *each) for key, each in passed.items())
            yield _PASS.of(rows)

    @large_query
    def greylist_size(self, most: int) -> Work[int]:
        """How many keys greylisting has, counted up to a number."""
        return int((yield Read(_GREYLIST_SIZE, (most,)))[0][0])

    async def purge(self, now: int) -> int:
        """Delete what is over; returns how many rows."""
        counts = await self._repeat(partial(write_rows, _DELETE_COUNTS, now, PURGE_BATCH))
        return counts + await self._repeat(partial(write_rows, _DELETE_GREYLIST, now, PURGE_BATCH))


def _name_key(name: str) -> int:
    whole = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, person=b"used once")
    return int.from_bytes(whole.digest(), "little", signed=True)


def _read_counts(keys: Sequence[int]) -> Work[dict[tuple[int, int], int]]:
    found: dict[tuple[int, int], int] = {}
    wanted = tuple(dict.fromkeys(keys))
    if wanted:
        for key, start, count in (yield Read(_COUNTS, (Many(wanted),))):
            found[key, start] = int(count)
    return found


def _find_entries(keys: tuple[int, ...], now: int) -> Work[dict[int, GreylistEntry]]:
    rows = yield Read(_GREYLIST, (Many(keys), now))
    return {row[0]: GreylistEntry(*row[1:]) for row in rows}
