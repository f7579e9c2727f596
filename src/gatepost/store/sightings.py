"""Sightings: how often senders and links were seen in mail that was delivered or held, by day.

Writes come in batches: the keys of one tenant and day that were seen equally often are one statement, in the order in
which the table has them. Several guards may add at the same time; their counts are added up. The row that counts all
messages of a scope comes first and is its lock, so that two writers never wait for each other in a circle.

A row is small and there is one index, whose columns change once a day: counting on is an update in place.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from gatepost.analysis.report import Report
from gatepost.mail.sender_history import ALL_MAIL, Facet, facet_key, scope_key
from gatepost.names import normal_address, org_domain
from gatepost.store.engine import Many, Operations, Read, Work, Write, change, now, query, write_rows

# As many keys as one message has; longer lists are asked for in several statements.
_KEYS_PER_STATEMENT = 500
_NO_LIMIT = 1 << 40
PURGE_BATCH = 2_000

_SELECT = "SELECT key, first, last, days, delivered, held FROM sightings WHERE scope = $1 AND key = ANY($2)"
_LOCK = "SELECT key FROM sightings WHERE scope = $1 AND key = $2 FOR UPDATE"
_ADD_DELIVERED = """INSERT INTO sightings (scope, key, first, last, days, delivered, held)
SELECT $1::bigint, value, $2::bigint, $2::bigint, 1, $3::bigint, 0 FROM unnest($4::bigint[]) AS value WHERE true
ON CONFLICT (scope, key) DO UPDATE SET
days = sightings.days + CASE WHEN sightings.last < excluded.last THEN 1 ELSE 0 END,
first = CASE WHEN sightings.first < excluded.first THEN sightings.first ELSE excluded.first END,
last = GREATEST(sightings.last, excluded.last),
delivered = sightings.delivered + excluded.delivered"""
_ADD_HELD = "UPDATE sightings SET held = held + $2::bigint WHERE scope = $1 AND key = ANY($3)"
_TAKE_HELD = "UPDATE sightings SET held = held - 1 WHERE scope = $1 AND key = ANY($2) AND held > 0"
_SIZES = "SELECT scope, count(*) FROM sightings GROUP BY scope"
_SIZE = "SELECT count(*) FROM sightings WHERE scope = $1"
_DELETE_OLD = """DELETE FROM sightings WHERE scope = $1 AND key IN
(SELECT key FROM sightings WHERE scope = $1 AND last < $2 ORDER BY last LIMIT $3)"""
# The row of the scope itself, whose kind is 0, says how old its memory is.
_DELETE_RARE = """DELETE FROM sightings WHERE scope = $1 AND key IN
(SELECT key FROM sightings WHERE scope = $1 AND days <= $2 AND (key & 15) <> 0 ORDER BY last LIMIT $3)"""


class Sighting(msgspec.Struct, frozen=True):
    """What is stored of one key: the first and the last day (since 1970), on how many days, in how many delivered
    messages, and in how many that were held since."""

    first: int
    last: int
    days: int
    delivered: int
    held: int


class SightingBatch(msgspec.Struct, frozen=True):
    """What was seen of one tenant's mail on one day: keys, each with in how many messages."""

    tenant: str | None
    day: int
    delivered: Mapping[int, int] = {}
    held: Mapping[int, int] = {}


class StoredSightings(Operations):
    """What is known of senders and links. A key is a digest; a tenant never sees another's."""

    async def find(self, tenant: str | None, keys: Sequence[int]) -> dict[int, Sighting]:
        """Those of the keys that are known to a tenant (None: to the global scope)."""
        return await self._engine.query_inline(partial(_find, tenant, keys)) if keys else {}

    @change
    def record(self, batches: Sequence[SightingBatch]) -> Work[None]:
        """Add what was seen, scope by scope in one order. Held mail counts only for keys that are known."""
        for batch in sorted(batches, key=lambda batch: (scope_key(batch.tenant), batch.day)):
            scope = scope_key(batch.tenant)
            yield Read(_LOCK, (scope, ALL_MAIL))
            for count, keys in _group_by_count(batch.delivered):
                yield Write(_ADD_DELIVERED, (scope, batch.day, count, Many(keys)))
            for count, keys in _group_by_count(batch.held):
                yield Write(_ADD_HELD, (scope, count, Many(keys)))

    async def purge(self, before: int, most: int) -> int:
        """Delete keys last seen before that day; of a scope with more than `most`, first those seen on one day."""
        return sum([await self._purge_scope(scope, size - most, before) for scope, size in await self._scope_sizes()])

    @query
    def count(self, tenant: str | None) -> Work[int]:
        """How many keys a tenant has."""
        rows = yield Read(_SIZE, (scope_key(tenant),))
        return int(rows[0][0])

    @query
    def _scope_sizes(self) -> Work[tuple[tuple[int, int], ...]]:
        """Every scope, with how many keys it has."""
        rows = yield Read(_SIZES)
        return tuple((row[0], row[1]) for row in rows)

    async def _purge_scope(self, scope: int, excess: int, before: int) -> int:
        total = await self._repeat(partial(write_rows, _DELETE_OLD, scope, before, PURGE_BATCH))
        while (left := excess - total) > 0 and (deleted := await self._delete_rare(scope, min(PURGE_BATCH, left))):
            total += deleted
        return total

    @change
    def _delete_rare(self, scope: int, limit: int) -> Work[int]:
        """Delete some keys of a scope that has too many: those seen on one day only, then those not seen longest."""
        deleted = yield from write_rows(_DELETE_RARE, scope, 1, limit)
        return deleted or (yield from write_rows(_DELETE_RARE, scope, _NO_LIMIT, limit))


def note_release(tenant: str | None, report: Report) -> Work[None]:
    """Count the sender of a message that a person released as if the message had been delivered today, so that the
    sender is known from tomorrow on: what was known before today holds for a day (see `guard.answers.sender_history`).

    Address and domain count as proven or as claimed, as the message did.
    """
    sender = report.senders[0] if report.senders else ""
    domain = org_domain(sender.rpartition("@")[2])
    if not domain:
        return
    proven = report.authentication.aligned
    keys = (
        facet_key(Facet.PROVEN_ADDRESS if proven else Facet.CLAIMED_ADDRESS, normal_address(sender)),
        facet_key(Facet.PROVEN_DOMAIN if proven else Facet.CLAIMED_DOMAIN, domain),
    )
    scope, day = scope_key(tenant), now() // 86_400_000
    yield Read(_LOCK, (scope, ALL_MAIL))
    yield Write(_ADD_DELIVERED, (scope, day, 1, Many(tuple(sorted(keys)))))
    yield Write(_TAKE_HELD, (scope, Many(tuple(sorted(keys)))))


def delete_tenant_sightings(tenant: str, limit: int) -> Work[int]:
    """Delete some of what a deleted tenant knew."""
    return (yield from write_rows(_DELETE_OLD, scope_key(tenant), _NO_LIMIT, limit))


def _find(tenant: str | None, keys: Sequence[int]) -> Work[dict[int, Sighting]]:
    found: dict[int, Sighting] = {}
    for start in range(0, len(keys), _KEYS_PER_STATEMENT):
        rows = yield Read(_SELECT, (scope_key(tenant), Many(tuple(keys[start : start + _KEYS_PER_STATEMENT]))))
        found.update((row[0], Sighting(*row[1:])) for row in rows)
    return found


def _group_by_count(counts: Mapping[int, int]) -> list[tuple[int, tuple[int, ...]]]:
    """The keys that were seen equally often, in order, after the one that is the lock."""
    groups: dict[int, list[int]] = {}
    for key in sorted(counts):
        if key != ALL_MAIL:
            groups.setdefault(counts[key], []).append(key)
    lock = [(counts[ALL_MAIL], (ALL_MAIL,))] if ALL_MAIL in counts else []
    return [*lock, *((count, tuple(keys)) for count, keys in groups.items())]
