"""Messages, traffic and sender history where tenants have their mail in several databases (`tenant_databases`).

What concerns one tenant is done in its database. What concerns all of them is done in every database, and the results
are merged: it fails as a whole where one cannot be reached, since a result with a part missing would pass for complete.
A message that only its id names is looked for in all of them. While a tenant moves, its messages are in two databases:
the one that the map names counts.
"""

import heapq
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import Any, TypeVar

import msgspec

from gatepost.ids import canonical, id_prefix
from gatepost.store.campaign_members import Campaign
from gatepost.store.change_groups import WritingState
from gatepost.store.engine import Many, Read, Work, storable
from gatepost.store.errors import StorageError
from gatepost.store.found_values import FoundValues, add_values
from gatepost.store.message_days import read_by_ggrids
from gatepost.store.message_index import parse_term
from gatepost.store.message_records import Delivery, MessageLine, MessageRecord
from gatepost.store.messages import STREAM_BATCH, Messages, MessageSummary, MessageTimeline, ShownHead
from gatepost.store.paging import MAX_COUNTED, MAX_PAGE, MessageCount, Page
from gatepost.store.search_conditions import MessageFilter, hoist
from gatepost.store.sightings import Sighting, SightingBatch, StoredSightings
from gatepost.store.tenant_databases import TenantDatabases, gather_all
from gatepost.store.tenants import delete_some_mail
from gatepost.store.traffic import TOP, DecidedStep, FindingCounts, Replies, TopValues, Traffic, TrafficBucket

T = TypeVar("T")
Position = tuple[Any, ...]

_POSITIONS = """SELECT ggrid, completed, id FROM messages
WHERE ggrid = ANY($1) AND completed::bigint >= $2 AND completed::bigint <= $3"""
_HOLDER = "SELECT id FROM messages WHERE completed::bigint = $1 AND id = $2"
# Each tenant costs one look into the index, however many messages it has.
_TENANTS = """WITH RECURSIVE found AS (
    (SELECT tenant FROM message_search WHERE tenant IS NOT NULL ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT m.tenant FROM message_search AS m WHERE m.tenant > found.tenant ORDER BY m.tenant LIMIT 1)
    FROM found WHERE found.tenant IS NOT NULL
) SELECT tenant FROM found WHERE tenant IS NOT NULL"""
# Mail can have a tenant that only the configuration knows: those who were deleted are in the audit trail.
_DELETED = """SELECT gone FROM unnest($1::text[]) AS gone
WHERE EXISTS (SELECT 1 FROM audit WHERE scope = gone AND action = 'tenant.delete')
AND NOT EXISTS (SELECT 1 FROM tenants WHERE uid = gone)"""


class ShardedMessages(Messages):
    """Results and ledgers in several databases."""

    def __init__(self, databases: TenantDatabases) -> None:
        self._databases, self._parts = databases, databases.each(Messages)
        self._engine = databases.first

    def record(self, record: MessageRecord, others: int = 0) -> Coroutine[Any, Any, MessageRecord]:
        """Store a result in the database of its tenant."""
        return self._of(record.envelope.tenant).record(record, others)

    @property
    def writing(self) -> WritingState:
        """How the storing of results goes in the first database; those of some tenants are told of apart."""
        return self._parts[0].writing

    async def finish_writing(self) -> None:
        """Wait for the results that are being stored."""
        await gather_all(part.finish_writing() for part in self._parts)

    async def find(self, ggrid: str) -> MessageRecord | None:
        """The record of one analysis, wherever it is."""
        calls = [part.find(ggrid) for part in self._parts]
        return await choose(self._databases, calls, lambda record: record.envelope.tenant)

    async def recent(self, tenant: str | None, limit: int) -> AsyncGenerator[Sequence[MessageRecord], None]:
        """The last `limit` results of a tenant, or of all tenants."""
        if tenant:
            async with aclosing(self._of(tenant).recent(tenant, limit)) as own:
                async for records in own:
                    yield records
            return
        batch: list[MessageRecord] = []
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(aclosing(part.recent(None, limit))) for part in self._parts]
            async for record in _merge_newest(streams, limit):
                batch.append(record)
                if len(batch) == STREAM_BATCH:
                    yield batch
                    batch = []
        if batch:
            yield batch

    async def purge(self, before: int, tenants: Mapping[str, int] | None = None) -> int:
        """Delete old results in every database, and in those besides the first what tenants left who were deleted."""
        counts = await gather_all(part.purge(before, tenants) for part in self._parts)
        await gather_all(self._delete_departed(part) for part in self._parts[1:])
        return sum(counts)

    async def header(self, ggrid: str) -> bytes | None:
        """The raw header section of a message."""
        return await choose(self._databases, [part.header(ggrid) for part in self._parts])

    async def search(self, wanted: MessageFilter, before: str | None = None, limit: int = 100) -> Page[MessageSummary]:
        """A page of results of one tenant, or of all in one order."""
        wanted = hoist(wanted)
        if wanted.tenant is not None:
            return await self._of(wanted.tenant).search(wanted, before, limit)
        if by_prefix := _as_prefix(wanted):
            found = await self._search_by_prefix(by_prefix, before, limit)
            if found.rows or found.next or wanted.ggrid is not None:
                return found
        pages = await gather_all(part.search(wanted, before, limit) for part in self._parts)
        rows = [(number, row) for number, page in enumerate(pages) for row in page.rows]
        chosen = _prefer(self._databases, rows, lambda row: (row.ggrid, row.tenant))
        positions = await self._positions([row.ggrid for row in chosen])
        placed = [(positions[row.ggrid], row) for row in chosen if row.ggrid in positions]
        return merge_pages(placed, [(_parse_position(page.next), page) for page in pages], limit)

    async def heads(self, ggrids: Sequence[str]) -> dict[str, ShownHead]:
        """What a list shows of these records, by ggrid."""
        found = await gather_all(part.heads(ggrids) for part in self._parts)
        return {ggrid: head for heads in reversed(found) for ggrid, head in heads.items()}

    async def count(self, wanted: MessageFilter) -> MessageCount:
        """How many results fit."""
        wanted = hoist(wanted)
        if wanted.tenant is not None:
            return await self._of(wanted.tenant).count(wanted)
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        if (term and term.ggrid) or canonical((wanted.ggrid or "").strip()):
            return MessageCount(1)
        return sum_counts(await gather_all(part.count(wanted) for part in self._parts))

    async def explore(self, wanted: MessageFilter) -> FoundValues:
        """What a search finds at a glance."""
        wanted = hoist(wanted)
        if wanted.tenant is not None:
            return await self._of(wanted.tenant).explore(wanted)
        return add_values(await gather_all(part.explore(wanted) for part in self._parts))

    async def campaign(self, seed: MessageRecord, tenant: str | None = None) -> Campaign:
        """The messages that something joins to this one, in all databases."""
        if tenant:
            return await self._of(tenant).campaign(seed, tenant)
        found = await gather_all(part.campaign(seed, None) for part in self._parts)
        members = {each.ggrid: each for campaign in found for each in campaign.members}
        newest = sorted(members.values(), key=lambda each: (-each.completed, each.ggrid))
        counts = {name: sum(name in each.joined_by for each in newest) for name in found[0].joints}
        since, until = max(each.since for each in found), min(each.until for each in found)
        return Campaign(counts, tuple(newest), since, until, any(each.more for each in found))

    async def lines(self, ggrids: Sequence[str]) -> tuple[MessageLine, ...]:
        """Those of these messages that are still on record, the newest first."""
        found = await gather_all(part.lines(ggrids) for part in self._parts)
        rows = [(number, line) for number, lines in enumerate(found) for line in lines]
        chosen = _prefer(self._databases, rows, lambda line: (line.ggrid, line.tenant))
        return tuple(sorted(chosen, key=lambda line: (-line.completed, line.ggrid)))

    async def trials(self, ggrids: Sequence[str]) -> frozenset[str]:
        """Those of these messages that came through the scan page."""
        return frozenset().union(*await gather_all(part.trials(ggrids) for part in self._parts))

    async def summaries(self, ggrids: Sequence[str]) -> tuple[MessageSummary, ...]:
        """The results of these messages that are still on record, the newest first."""
        found = await gather_all(part.summaries(ggrids) for part in self._parts)
        rows = [(number, row) for number, rows in enumerate(found) for row in rows]
        chosen = _prefer(self._databases, rows, lambda row: (row.ggrid, row.tenant))
        return tuple(sorted(chosen, key=lambda row: (-row.completed, row.ggrid)))

    async def timeline(self, ggrid: str, tenant: str | None = None) -> MessageTimeline | None:
        """What is on record of a message."""
        if tenant:
            return await self._of(tenant).timeline(ggrid, tenant)
        calls = [part.timeline(ggrid, None) for part in self._parts]
        return await choose(self._databases, calls, lambda found: found.record.envelope.tenant)

    async def record_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Add what next hops answered: each database takes those of its messages."""
        await gather_all(part.record_deliveries(deliveries) for part in self._parts)

    def _of(self, tenant: str | None) -> Messages:
        return self._parts[self._databases.place_of(tenant)]

    async def _positions(self, ggrids: Sequence[str]) -> dict[str, Position]:
        """Where messages stand in the order of all databases."""
        if not ggrids:
            return {}
        work = partial(_read_positions, tuple(ggrids))
        found = await gather_all(engine.query(work) for engine in self._databases.engines)
        return {ggrid: position for positions in found for ggrid, position in positions.items()}

    async def _search_by_prefix(self, wanted: MessageFilter, before: str | None, limit: int) -> Page[MessageSummary]:
        """The messages whose ids begin so, database by database: each orders its own by id."""
        number = 0 if before is None else await self._holder(before)
        rows: list[MessageSummary] = []
        while number < len(self._parts):
            page = await self._parts[number].search(wanted, before, limit - len(rows))
            rows += page.rows
            if page.next:
                return Page(tuple(rows), page.next, page.reached)
            number, before = number + 1, None
            if len(rows) >= limit and number < len(self._parts):
                last = (await self._positions([rows[-1].ggrid]))[rows[-1].ggrid]
                return Page(tuple(rows), ".".join(map(str, last)))
        return Page(tuple(rows))

    async def _holder(self, cursor: str) -> int:
        """Which database has the message that a page of ids ended with."""
        position = _parse_position(cursor)
        if position is None:
            return 0
        work = partial(_has_message, position)
        found = await gather_all(engine.query(work) for engine in self._databases.engines)
        return found.index(True) if True in found else len(self._parts)

    async def _delete_departed(self, part: Messages) -> None:
        """Delete what is left of tenants that were deleted: the first database says who there is."""
        found = await part._engine.query(partial(_read_tenants, _TENANTS))  # noqa: SLF001
        deleted = await self._engine.query(partial(_read_tenants, _DELETED, Many(found))) if found else ()
        for tenant in deleted:
            await part._repeat(partial(delete_some_mail, tenant))  # noqa: SLF001


class ShardedTraffic(Traffic):
    """Counts of traffic in several databases."""

    def __init__(self, databases: TenantDatabases) -> None:
        self._databases, self._parts = databases, databases.each(Traffic)
        self._engine = databases.first

    async def buckets(self, tenant: str | None, since: int, until: int, step: int) -> tuple[TrafficBucket, ...]:
        """Every step of a time span, of a tenant or of all of them."""
        if tenant:
            return await self._parts[self._databases.place_of(tenant)].buckets(tenant, since, until, step)
        found = await gather_all(part.buckets(None, since, until, step) for part in self._parts)
        return tuple(map(_add_buckets, zip(*found, strict=True)))

    async def decided(self, tenant: str | None, since: int, until: int, step: int) -> tuple[DecidedStep, ...]:
        """Verdicts and decisions of every step of a time span, of a tenant or of all of them."""
        if tenant:
            return await self._parts[self._databases.place_of(tenant)].decided(tenant, since, until, step)
        found = await gather_all(part.decided(None, since, until, step) for part in self._parts)
        return tuple(
            DecidedStep(steps[0].start, sum((Counter(each.results) for each in steps), Counter[tuple[str, str]]()))
            for steps in zip(*found, strict=True)
        )

    async def held_findings(self, tenant: str | None, since: int, until: int) -> FindingCounts:
        """Count the findings of held mail among the newest messages of a period."""
        if tenant:
            return await self._parts[self._databases.place_of(tenant)].held_findings(tenant, since, until)
        found = await gather_all(part.held_findings(None, since, until) for part in self._parts)
        # Where one database was not counted to its end, the others are asked again for the same period.
        reached = max((each.reached for each in found if each.more), default=0)
        if reached:
            found = await gather_all(part.held_findings(None, reached, until) for part in self._parts)
        return FindingCounts(
            sum(each.counted for each in found),
            bool(reached),
            reached or since,
            sum(each.held for each in found),
            sum((Counter(each.findings) for each in found), Counter[str]()),
        )

    async def top_values(self, tenant: str | None, since: int, until: int) -> TopValues:
        """The most frequent values among the newest messages of a period. Over all tenants, values that are frequent
        nowhere among the first of a database are left out."""
        if tenant:
            return await self._parts[self._databases.place_of(tenant)].top_values(tenant, since, until)
        found = await gather_all(part.top_values(None, since, until) for part in self._parts)
        names = ("senders", "domains", "targets", "findings", "tenants", "hosts", "newcomers")
        tops = {name: _add_tops([getattr(each, name) for each in found]) for name in names}
        counted, more = sum(each.counted for each in found), any(each.more for each in found)
        reached = max((each.reached for each in found if each.more), default=0)
        reached = reached or min((each.reached for each in found if each.counted), default=0)
        campaigns = sorted((each for part in found for each in part.campaigns), key=lambda each: -each[2])
        fresh = sorted((each for part in found for each in part.new_campaigns), key=lambda each: -each[2])
        some, new = tuple(campaigns[:TOP]), tuple(fresh[:TOP])
        return TopValues(counted, more, **tops, reached=reached, campaigns=some, new_campaigns=new)

    async def replies(self, since: int, until: int) -> Replies:
        """What next hops said to messages of a period, of all tenants."""
        found = await gather_all(part.replies(since, until) for part in self._parts)
        accepted, put_off, refused = (
            sum(getattr(each, name) for each in found) for name in ("accepted", "put_off", "refused")
        )
        return Replies(accepted, put_off, refused, any(each.more for each in found))


class ShardedSightings(StoredSightings):
    """Sender history in several databases."""

    def __init__(self, databases: TenantDatabases) -> None:
        self._databases, self._parts = databases, databases.each(StoredSightings)
        self._engine = databases.first

    async def find(self, tenant: str | None, keys: Sequence[int]) -> dict[int, Sighting]:
        """Those of the keys that are known to a tenant."""
        return await self._parts[self._databases.place_of(tenant)].find(tenant, keys)

    async def record(self, batches: Sequence[SightingBatch]) -> None:
        """Add what was seen, each tenant's in its database."""
        by_place: dict[int, list[SightingBatch]] = {}
        for batch in batches:
            by_place.setdefault(self._databases.place_of(batch.tenant), []).append(batch)
        await gather_all(self._parts[place].record(some) for place, some in by_place.items())

    async def purge(self, before: int, most: int) -> int:
        """Delete keys that are too old or too many."""
        return sum(await gather_all(part.purge(before, most) for part in self._parts))

    async def count(self, tenant: str | None) -> int:
        """How many keys a tenant has."""
        return await self._parts[self._databases.place_of(tenant)].count(tenant)


async def choose(
    databases: TenantDatabases,
    calls: Sequence[Coroutine[Any, Any, T | None]],
    tenant_of: Callable[[T], str | None] | None = None,
) -> T | None:
    """What the databases have of one message, one call for each: of two, the one where its tenant's mail belongs."""
    found = await find_everywhere(calls)
    for number, result in found:
        if tenant_of is None or databases.place_of(tenant_of(result)) == number:
            return result
    return found[0][1] if found else None


async def find_everywhere(calls: Sequence[Coroutine[Any, Any, T | None]]) -> list[tuple[int, T]]:
    """What the databases have, with their numbers. Raises `StorageError` where nothing was found and one of them could
    not be asked."""
    found: list[tuple[int, T]] = []
    faults: list[StorageError] = []
    for number, call in enumerate(calls):
        try:
            if (result := await call) is not None:
                found.append((number, result))
        except StorageError as fault:
            faults.append(fault)
    if faults and not found:
        raise faults[0]
    return found


def sum_counts(counts: Sequence[MessageCount]) -> MessageCount:
    """Counts of several databases as one, which ends where each of them ends."""
    total = sum(count.messages for count in counts)
    return MessageCount(min(total, MAX_COUNTED), total > MAX_COUNTED or any(count.more for count in counts))


def merge_pages(
    placed: Sequence[tuple[Position, T]], pages: Sequence[tuple[Position | None, Page[T]]], limit: int
) -> Page[T]:
    """One page of the pages that the databases have, each with the position at which it ends, None at the end of all.

    What lies below the end of one page is unknown in its database, so the merged page ends there.
    """
    floor = max((end for end, _ in pages if end is not None), default=None)
    known = sorted(((at, row) for at, row in placed if floor is None or at >= floor), key=lambda each: each[0])[::-1]
    wanted = max(1, min(limit, MAX_PAGE))
    if len(known) > wanted:
        return Page(tuple(row for _, row in known[:wanted]), _write_position(known[wanted - 1][0]))
    reached = next((page.reached for end, page in pages if end == floor and end is not None), None)
    return Page(tuple(row for _, row in known), None if floor is None else _write_position(floor), reached)


def _write_position(position: Position) -> str:
    return ".".join(map(str, position))


def _parse_position(cursor: str | None) -> Position | None:
    """Time and id of a cursor."""
    completed, _, uid = (cursor or "").partition(".")
    return (int(completed), int(uid)) if completed.isdecimal() and uid.isdecimal() else None


def _as_prefix(wanted: MessageFilter) -> MessageFilter | None:
    """The search for the beginning of an id that a search can be; None where it is none."""
    term = parse_term(wanted.anywhere) if wanted.anywhere else None
    if (term and term.ggrid) or canonical((wanted.ggrid or "").strip()):
        return None
    if wanted.ggrid is not None:
        return wanted if id_prefix(wanted.ggrid.strip()) else None
    return msgspec.structs.replace(wanted, ggrid=term.id_prefix, anywhere=None) if term and term.id_prefix else None


def _prefer(
    databases: TenantDatabases, rows: Sequence[tuple[int, T]], names: Callable[[T], tuple[str, str | None]]
) -> list[T]:
    """Each message once: that of the database where its tenant's mail belongs. `names` returns ggrid and tenant."""
    chosen: dict[str, T] = {}
    for number, row in rows:
        ggrid, tenant = names(row)
        if ggrid not in chosen or databases.place_of(tenant) == number:
            chosen[ggrid] = row
    return list(chosen.values())


async def _merge_newest(
    streams: Sequence[AsyncGenerator[Sequence[MessageRecord], None]], limit: int
) -> AsyncGenerator[MessageRecord, None]:
    """The newest records of several streams, each of which has its newest first."""
    waiting: list[tuple[int, str, int, list[MessageRecord]]] = []

    async def refill(number: int) -> None:
        async for records in streams[number]:
            if records:
                rest = list(records)[::-1]
                heapq.heappush(waiting, (-rest[-1].completed, rest[-1].ggrid, number, rest))
                return

    for number in range(len(streams)):
        await refill(number)
    while waiting and limit:
        _, _, number, rest = heapq.heappop(waiting)
        yield rest.pop()
        limit -= 1
        if rest:
            heapq.heappush(waiting, (-rest[-1].completed, rest[-1].ggrid, number, rest))
        else:
            await refill(number)


def _add_buckets(buckets: tuple[TrafficBucket, ...]) -> TrafficBucket:
    return TrafficBucket(
        buckets[0].start,
        sum(each.messages for each in buckets),
        sum(each.bytes for each in buckets),
        sum(each.duration for each in buckets),
        max(each.longest for each in buckets),
        tuple(map(sum, zip(*(each.latency for each in buckets), strict=True))),
        dict(sum((Counter(each.verdicts) for each in buckets), Counter())),
        dict(sum((Counter(each.decisions) for each in buckets), Counter())),
    )


def _add_tops(tops: Sequence[tuple[tuple[str, int], ...]]) -> tuple[tuple[str, int], ...]:
    return tuple(sum((Counter(dict(top)) for top in tops), Counter[str]()).most_common(TOP))


def _read_positions(ggrids: tuple[str, ...]) -> Work[dict[str, Position]]:
    rows = yield from read_by_ggrids(_POSITIONS, tuple(map(storable, ggrids)))
    return {row[0]: (int(row[1]), int(row[2])) for row in rows}


def _has_message(position: Position) -> Work[bool]:
    return bool((yield Read(_HOLDER, position)))


def _read_tenants(statement: str, *parameters: object) -> Work[tuple[str, ...]]:
    rows = yield Read(statement, parameters)
    return tuple(row[0] for row in rows)
