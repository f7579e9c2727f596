"""Counts that all nodes share: what senders of outbound mail have sent, and which names that work once were used.

A key is a digest: without knowing an address nobody finds its row. Nodes add up what they count and write it once a
second. Rows that are over are deleted in small steps.

A name that works once, such as the id of a token, is a counter too: `was_used` and `note_use` hold over all nodes.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from gatepost.store.engine import Many, Operations, Read, Work, Write, change, query
from gatepost.store.sql import insert_many, sql

PURGE_BATCH = 2_000
# As many as a node writes or asks for at once.
MAX_KEYS = 5_000
# Rows that go with each new one, so that as many go as come where nobody purges.
USES_FORGOTTEN = 10

_ADD = insert_many(
    "flow_counts", "key, start, count, expires", "(key, start) DO UPDATE SET count = flow_counts.count + excluded.count"
)
_COUNTS = sql("SELECT key, start, count FROM flow_counts WHERE @one_of(key, $1)")
_USED = sql("SELECT 1 FROM flow_counts WHERE key = $1 AND start = 0 AND expires > $2")
_DELETE = sql("""DELETE FROM flow_counts WHERE (key, start) IN
(SELECT key, start FROM flow_counts WHERE expires <= $1 ORDER BY expires LIMIT $2)""")


class FlowCount(msgspec.Struct, frozen=True):
    """What a node has counted of a key in the window that begins at `start`."""

    key: int
    start: int
    count: int
    expires: int


class FlowCounts(Operations):
    """Counts of all nodes."""

    @change
    def add_counts(self, counts: Sequence[FlowCount], keys: Sequence[int]) -> Work[dict[tuple[int, int], int]]:
        """Add to counters; returns what all nodes have counted, of these keys too."""
        if counts:
            # One order for all writers.
            yield _ADD.of(sorted((each.key, each.start, each.count, each.expires) for each in counts))
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
        yield _ADD.of([(_name_key(name), 0, 1, expires)])
        yield Write(_DELETE, (now, USES_FORGOTTEN))

    async def purge(self, now: int) -> int:
        """Delete what is over; returns how many rows."""
        return await self._repeat_write(_DELETE, now, PURGE_BATCH)


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
