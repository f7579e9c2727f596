"""Sightings: how often senders and links were seen in mail that was delivered or held, by day.

Writes come in batches: the keys of one tenant and day are one statement, in the order in which the table has them.
Several guards may add at the same time; their counts are added up. The row that counts all messages of a scope comes
first and is its lock, so that two writers never wait for each other in a circle.

A row is small and there is one index, whose columns change once a day: counting on is an update in place.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from gatepost.analysis.report import Report
from gatepost.mail.sender_history import ALL_MAIL, Facet, facet_key, scope_key
from gatepost.names import normal_address, org_domain
from gatepost.store.engine import Many, Operations, Read, Work, Write, change, now, query, write_rows
from gatepost.store.sql import Bulk, insert_many, sql, update_many

# As many keys as one message has; longer lists are asked for in several statements.
_KEYS_PER_STATEMENT = 500
_NO_LIMIT = 1 << 40
PURGE_BATCH = 2_000

_SELECT = sql("SELECT key, first, last, days, delivered, held FROM sightings WHERE scope = $1 AND @one_of(key, $2)")
_LOCK = sql("SELECT key FROM sightings WHERE scope = $1 AND key = $2 @lock(UPDATE)")
_ADD_DELIVERED = insert_many(
    "sightings",
    "scope, key, first, last, days, delivered, held",
    """(scope, key) DO UPDATE SET
    days = sightings.days + CASE WHEN sightings.last < excluded.last THEN 1 ELSE 0 END,
    first = CASE WHEN sightings.first < excluded.first THEN sightings.first ELSE excluded.first END,
    last = @larger(sightings.last, excluded.last),
    delivered = sightings.delivered + excluded.delivered""",
)
_ADD_HELD = update_many("sightings", "scope, key", "held", "held = sightings.held + new.held")
_TAKE_HELD = sql("UPDATE sightings SET held = held - 1 WHERE scope = $1 AND @one_of(key, $2) AND held > 0")
_SIZES = sql("SELECT scope, count(*) FROM sightings GROUP BY scope")
_SIZE = sql("SELECT count(*) FROM sightings WHERE scope = $1")
_DELETE_OLD = sql("""DELETE FROM sightings WHERE scope = $1 AND key IN
(SELECT key FROM sightings WHERE scope = $1 AND last < $2 ORDER BY last LIMIT $3)""")
# The row of the scope itself, whose kind is 0, says how old its memory is.
_DELETE_RARE = sql("""DELETE FROM sightings WHERE scope = $1 AND key IN
(SELECT key FROM sightings WHERE scope = $1 AND days <= $2 AND (key & 15) <> 0 ORDER BY last LIMIT $3)""")


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
        return await self._engine.query(partial(_find, tenant, keys)) if keys else {}

    @change
    def record(self, batches: Sequence[SightingBatch]) -> Work[None]:
        """Add what was seen, scope by scope in one order. Held mail counts only for keys that are known."""
        for batch in sorted(batches, key=lambda batch: (scope_key(batch.tenant), batch.day)):
            scope = scope_key(batch.tenant)
            yield Read(_LOCK, (scope, ALL_MAIL))
            if batch.delivered:
                yield _add_delivered(scope, batch.day, batch.delivered)
            if batch.held:
                yield _ADD_HELD.of([(scope, key, batch.held[key]) for key in sorted(batch.held)])

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
        total = await self._repeat_write(_DELETE_OLD, scope, before, PURGE_BATCH)
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
    yield _add_delivered(scope, day, dict.fromkeys(keys, 1))
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


def _add_delivered(scope: int, day: int, counts: Mapping[int, int]) -> Bulk:
    """Count keys as delivered, after the one that is the lock."""
    keys = sorted(counts, key=lambda key: (key != ALL_MAIL, key))
    return _ADD_DELIVERED.of([(scope, key, day, day, 1, counts[key], 0) for key in keys])
