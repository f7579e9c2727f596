"""What is known of senders and links, as it lies in the database.

Writes come in batches: the keys of one tenant and day that were seen equally often are one statement, in the order in
which the table has them. Several guards may add at the same time; what they add is added up. The row that counts all
messages of a scope comes first and is its lock, so that they never wait for each other in a circle.

A row is small and there is one index, whose columns change once a day: counting on is an update in place.
"""

from collections.abc import Mapping, Sequence

from gatepost.acquaintance import EVERYTHING, scope_key
from gatepost.store.sightingstore import Sighting, SightingBatch
from gatepost.store.work import Many, Read, Work, Write

# As much as a look at one message's keys needs; longer lists are asked for in several statements.
_ASKED = 500
_NO_LIMIT = 1 << 40

_LOOK = "SELECT key, first, last, days, delivered, held FROM sightings WHERE scope = $1 AND key = ANY($2)"
_LOCK = "SELECT key FROM sightings WHERE scope = $1 AND key = $2 FOR UPDATE"
_DELIVERED = """INSERT INTO sightings (scope, key, first, last, days, delivered, held)
SELECT $1::bigint, value, $2::bigint, $2::bigint, 1, $3::bigint, 0 FROM unnest($4::bigint[]) AS value WHERE true
ON CONFLICT (scope, key) DO UPDATE SET
days = sightings.days + CASE WHEN sightings.last < excluded.last THEN 1 ELSE 0 END,
first = CASE WHEN sightings.first < excluded.first THEN sightings.first ELSE excluded.first END,
last = GREATEST(sightings.last, excluded.last),
delivered = sightings.delivered + excluded.delivered"""
_HELD = "UPDATE sightings SET held = held + $2::bigint WHERE scope = $1 AND key = ANY($3)"
_SIZES = "SELECT scope, count(*) FROM sightings GROUP BY scope"
_SIZE = "SELECT count(*) FROM sightings WHERE scope = $1"
_EXPIRE = """DELETE FROM sightings WHERE scope = $1 AND key IN
(SELECT key FROM sightings WHERE scope = $1 AND last < $2 ORDER BY last LIMIT $3)"""
# The row of the scope itself, whose kind is 0, says how old its memory is.
_EVICT = """DELETE FROM sightings WHERE scope = $1 AND key IN
(SELECT key FROM sightings WHERE scope = $1 AND days <= $2 AND (key & 15) <> 0 ORDER BY last LIMIT $3)"""


def look(tenant: str | None, keys: Sequence[int]) -> Work[dict[int, Sighting]]:
    """Those of the keys that are known."""
    found: dict[int, Sighting] = {}
    for start in range(0, len(keys), _ASKED):
        rows = yield Read(_LOOK, (scope_key(tenant), Many(tuple(keys[start : start + _ASKED]))))
        found.update((row[0], Sighting(*row[1:])) for row in rows)
    return found


def record(batches: Sequence[SightingBatch]) -> Work[None]:
    """Add what was seen, scope by scope in one order."""
    for batch in sorted(batches, key=lambda batch: (scope_key(batch.tenant), batch.day)):
        scope = scope_key(batch.tenant)
        yield Read(_LOCK, (scope, EVERYTHING))
        for count, keys in _by_count(batch.delivered):
            yield Write(_DELIVERED, (scope, batch.day, count, Many(keys)))
        for count, keys in _by_count(batch.held):
            yield Write(_HELD, (scope, count, Many(keys)))


def sizes() -> Work[tuple[tuple[int, int], ...]]:
    """Every scope, with how many keys it has."""
    rows = yield Read(_SIZES)
    return tuple((row[0], row[1]) for row in rows)


def size(tenant: str | None) -> Work[int]:
    """How many keys a tenant has."""
    rows = yield Read(_SIZE, (scope_key(tenant),))
    return int(rows[0][0])


def expire(scope: int, before: int, limit: int) -> Work[int]:
    """Forget some keys that were last seen before a day."""
    deleted: int = yield Write(_EXPIRE, (scope, before, limit))
    return deleted


def evict(scope: int, limit: int) -> Work[int]:
    """Forget some keys of a scope that has too many: what came on one day only, then whatever was not seen longest."""
    once: int = yield Write(_EVICT, (scope, 1, limit))
    return once or (yield Write(_EVICT, (scope, _NO_LIMIT, limit)))


def forget(tenant: str, limit: int) -> Work[int]:
    """Forget some of what a departed tenant knew."""
    return (yield from expire(scope_key(tenant), _NO_LIMIT, limit))


def _by_count(counts: Mapping[int, int]) -> list[tuple[int, tuple[int, ...]]]:
    """The keys that were seen equally often, in order, after the one that is the lock."""
    groups: dict[int, list[int]] = {}
    for key in sorted(counts):
        if key != EVERYTHING:
            groups.setdefault(counts[key], []).append(key)
    lock = [(counts[EVERYTHING], (EVERYTHING,))] if EVERYTHING in counts else []
    return [*lock, *((count, tuple(keys)) for count, keys in groups.items())]
