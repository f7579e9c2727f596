"""The store, whichever engine runs it: every method of the interface as a piece of work.

An engine says how work is done (`_change` for keeps, `_query` for reading, `_query_once` for reading several things as
of one moment, `_stream` for what is too long to hold), and no more.
"""

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from itertools import starmap
from typing import Any, TypeVar

from gatepost.lists.catalogue import BY_NAME, Definition
from gatepost.lists.entry import Refused
from gatepost.lists.hit import Hit
from gatepost.lists.unkeyed import Unkeyed
from gatepost.store import (
    apikeys,
    auditing,
    definitions,
    directory,
    entries,
    feedback,
    heldmail,
    messages,
    sightings,
    sweeping,
    tenancy,
)
from gatepost.store.feedbackstore import Feedback, Says
from gatepost.store.interface import (
    CLI,
    Actor,
    ApiKey,
    AuditRecord,
    EntryRow,
    HeldFilter,
    HeldMail,
    HitCount,
    KeyRefused,
    ListEntry,
    ListFull,
    ListState,
    MessageRecord,
    Missing,
    NewEntry,
    Release,
    StorageError,
    StoreCounters,
    Taken,
    Tenant,
)
from gatepost.store.searchengine import SearchEngine
from gatepost.store.sightingstore import Sighting, SightingBatch
from gatepost.store.userengine import UserEngine
from gatepost.store.work import Read, Row, Work, storable

T = TypeVar("T")

# Small enough that a result which arrives meanwhile waits for milliseconds, not seconds.
PURGE_BATCH = 500
# The first batch is small, so that its bytes leave at once.
FIRST_BATCH, BATCH = 50, 2_000
MESSAGE_BATCH = 100


class Engine(UserEngine, SearchEngine):
    """A `CountingStore` on some engine."""

    def __init__(self) -> None:
        self._directories: directory.Directories = {}
        self._used: dict[str, int] = {}
        self._noting: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def counters(self) -> StoreCounters: ...

    async def _glance(self, work: Callable[[], Work[T]]) -> T:
        """Do work that reads a row or two that are asked for all the time."""
        return await self._query(work)

    @abstractmethod
    def _stream(
        self, read: Read, made: Callable[[Sequence[Row]], T], first: int, batch: int
    ) -> AsyncGenerator[T, None]:
        """The rows of one statement, in batches, each as `made` gives it; the next one is read ahead."""

    async def record_message(self, record: MessageRecord) -> MessageRecord:
        return await self._change(partial(messages.keep, record))

    async def message(self, ggrid: str) -> MessageRecord | None:
        return await self._query(partial(heldmail.with_release, ggrid))

    def recent_messages(self, tenant: str | None, limit: int) -> AsyncGenerator[Sequence[MessageRecord], None]:
        read = messages.recent(_scope(tenant), limit)
        return self._stream(read, partial(_each, messages.from_row), MESSAGE_BATCH, MESSAGE_BATCH)

    async def purge_messages(self, before: int) -> int:
        await self._enter_late()
        total = 0
        while deleted := await self._change(partial(messages.purge, before, PURGE_BATCH)):
            total += deleted
        await self._purge_traffic(before)
        return total

    async def create_tenant(self, name: str, by: Actor = CLI) -> Tenant | Taken:
        return await self._change(partial(tenancy.create, name, by, _now()))

    async def tenants(self) -> tuple[Tenant, ...]:
        return await self._query_once(tenancy.everybody)

    async def tenant(self, uid: str) -> Tenant | None:
        return await self._query(partial(tenancy.one, uid))

    async def delete_tenant(self, uid: str, by: Actor = CLI) -> Tenant | Missing:
        deleted = await self._change(partial(tenancy.delete, uid, by, _now()))
        await self._sweep()
        return deleted

    async def set_tenant_domains(self, uid: str, domains: Sequence[str], by: Actor = CLI) -> Tenant | Missing | Taken:
        return await self._change(partial(tenancy.set_domains, uid, domains, by, _now()))

    async def tenant_of(self, domain: str) -> str | None:
        return await self._query(partial(tenancy.owner_of, domain))

    async def add_entries(
        self, scope: str | None, definition: Definition, new: Sequence[NewEntry], by: Actor
    ) -> int | ListFull | Missing:
        return await self._change(partial(entries.add, _scope(scope), definition, new, by, _now()))

    async def delete_entries(self, scope: str | None, list_name: str, keys: Sequence[str], by: Actor) -> int:
        return await self._change(partial(entries.delete, _scope(scope), list_name, keys, by, _now()))

    def stream_entries(self, scope: str | None, list_name: str) -> AsyncGenerator[Sequence[ListEntry], None]:
        return self.stream_rows(scope, list_name, partial(_each, ListEntry))

    async def stream_rows(
        self, scope: str | None, list_name: str, made: Callable[[Sequence[EntryRow]], T]
    ) -> AsyncGenerator[T, None]:
        definition = await self.list_definition(scope, list_name)
        if definition is None:
            return
        read = entries.everything(_scope(scope), definition, _now())
        async with aclosing(self._stream(read, made, FIRST_BATCH, BATCH)) as batches:
            async for batch in batches:
                yield batch

    async def entries(self, scope: str | None, list_name: str, keys: Sequence[str]) -> tuple[ListEntry, ...]:
        return await self._query(partial(entries.some, _scope(scope), list_name, keys, _now()))

    async def lists(self, scope: str | None) -> tuple[ListState, ...]:
        return await self._query_once(partial(definitions.states, _scope(scope), _now()))

    async def list_definition(self, scope: str | None, name: str) -> Definition | None:
        if name in BY_NAME:
            return BY_NAME[name]
        return await self._query(partial(definitions.one, _scope(scope), name))

    async def create_list(
        self, scope: str | None, definition: Definition, by: Actor
    ) -> Definition | Taken | Missing | Refused:
        return await self._change(partial(definitions.create, _scope(scope), definition, by, _now()))

    async def delete_list(self, scope: str | None, name: str, by: Actor) -> int | Missing:
        deleted = await self._change(partial(definitions.delete, _scope(scope), name, by, _now()))
        await self._sweep()
        return deleted

    async def lookup(self, tenant: str | None, keys: Sequence[tuple[str, Sequence[str]]]) -> tuple[Hit, ...]:
        return await self._query(partial(directory.lookup, self._directories, _scope(tenant), keys, _now()))

    async def unkeyed_version(self, tenant: str | None) -> str:
        return await self._glance(partial(directory.version, _scope(tenant), _now()))

    async def unkeyed(self, tenant: str | None) -> Unkeyed:
        return await self._query_once(partial(directory.unkeyed, _scope(tenant), _now()))

    async def record_hits(self, counts: Sequence[HitCount]) -> None:
        if counts:
            await self._change(partial(entries.hit, counts))

    async def purge_expired(self, now: int) -> int:
        total = 0
        while deleted := await self._change(partial(entries.purge, now)):
            total += deleted
        await self._sweep()
        return total

    async def create_api_key(
        self, name: str, tenant: str | None, read_only: bool, expires: int | None, by: Actor = CLI
    ) -> tuple[str, ApiKey] | Missing:
        key = apikeys.new_key(name, _scope(tenant), read_only, expires, _now())
        return await self._change(partial(apikeys.create, apikeys.new_secret(), key, by))

    async def api_key(self, secret: str) -> ApiKey | KeyRefused:
        now = _now()
        key = await self._query(partial(apikeys.find, secret, now))
        if isinstance(key, ApiKey):
            self._note_use(key, now)
        return key

    async def api_keys(self, tenant: str | None = None) -> tuple[ApiKey, ...]:
        return await self._query(partial(apikeys.everything, tenant))

    async def revoke_api_key(self, uid: str, by: Actor = CLI) -> ApiKey | Missing:
        return await self._change(partial(apikeys.revoke, uid, by, _now()))

    async def audit(
        self,
        *,
        since: int | None = None,
        until: int | None = None,
        tenant: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[AuditRecord, ...]:
        return await self._query(partial(auditing.page, since, until, _scope(tenant), before, limit))

    async def hold(self, record: MessageRecord) -> bool:
        return await self._change(partial(heldmail.keep, record, _now()))

    async def held(self, ggrid: str, tenant: str | None = None) -> HeldMail | None:
        return await self._query(partial(heldmail.find, ggrid, _scope(tenant)))

    async def held_page(self, wanted: HeldFilter, before: str | None = None, limit: int = 100) -> tuple[HeldMail, ...]:
        return await self._query(partial(heldmail.page, wanted, before, limit))

    async def claim_release(self, ggrid: str, holder: str, now: int, until: int) -> bool:
        return await self._change(partial(heldmail.claim, ggrid, holder, now, until))

    async def give_back(self, ggrid: str, holder: str) -> None:
        await self._change(partial(heldmail.give_back, ggrid, holder))

    async def mark_released(self, ggrid: str, recipients: Sequence[str], by: Actor) -> Release:
        return await self._change(partial(heldmail.released, ggrid, recipients, by, _now()))

    async def delete_held(self, ggrid: str, by: Actor, tenant: str | None = None) -> bool:
        return await self._change(partial(heldmail.delete, ggrid, _scope(tenant), by, _now()))

    async def note_export(self, ggrid: str, tenant: str | None, by: Actor) -> None:
        await self._change(partial(heldmail.exported, ggrid, _scope(tenant), by, _now()))

    async def report_wrong(self, ggrid: str, says: Says, by: Actor, tenant: str | None = None) -> bool:
        return await self._change(partial(feedback.report, ggrid, says, by, _scope(tenant), _now()))

    async def feedback(self, after: int = 0, limit: int = 1_000) -> tuple[Feedback, ...]:
        return await self._query(partial(feedback.page, after, limit))

    async def purge_held(self, before: int) -> int:
        total = 0
        while deleted := await self._change(partial(heldmail.purge, before, _now(), PURGE_BATCH)):
            total += deleted
        await self._change(partial(heldmail.forget_undecided, _now()))
        return total

    async def needed_among(self, ggrids: Sequence[str]) -> frozenset[str]:
        return await self._query(partial(heldmail.needed, ggrids))

    async def held_size(self) -> int:
        return await self._query(heldmail.size)

    async def held_totals(self) -> tuple[int, int]:
        return await self._query(heldmail.totals)

    async def undecided_before(self, digest: str) -> int:
        return await self._change(partial(heldmail.undecided_before, digest, _now()))

    async def sightings(self, tenant: str | None, keys: Sequence[int]) -> dict[int, Sighting]:
        return await self._glance(partial(sightings.look, tenant, keys)) if keys else {}

    async def record_sightings(self, batches: Sequence[SightingBatch]) -> None:
        await self._change(partial(sightings.record, batches))

    async def purge_sightings(self, before: int, most: int) -> int:
        sizes = await self._query(sightings.sizes)
        return sum([await self._fewer_sightings(scope, size - most, before) for scope, size in sizes])

    async def count_sightings(self, tenant: str | None) -> int:
        return await self._query(partial(sightings.size, tenant))

    async def _fewer_sightings(self, scope: int, excess: int, before: int) -> int:
        total = 0
        while deleted := await self._change(partial(sightings.expire, scope, before, BATCH)):
            total += deleted
        while (left := excess - total) > 0 and (
            deleted := await self._change(partial(sightings.evict, scope, min(BATCH, left)))
        ):
            total += deleted
        return total

    async def _sweep(self) -> None:
        while await self._change(sweeping.step):
            pass

    def _note_use(self, key: ApiKey, now: int) -> None:
        """Write down that a key was used, while its request goes on."""
        last = max(key.last_used or 0, self._used.get(key.id, 0))
        if now - last >= apikeys.USE_MILLISECONDS:
            self._used[key.id] = now
            task = asyncio.ensure_future(self._noted(key.id, now))
            self._noting.add(task)
            task.add_done_callback(self._noting.discard)

    async def _noted(self, uid: str, now: int) -> None:
        try:
            await self._change(partial(apikeys.used, uid, now))
        except StorageError:
            # The request that used the key meets the same trouble and reports it.
            self._used.pop(uid, None)

    async def _finish_noting(self) -> None:
        await asyncio.gather(*self._noting)


def given_up(ahead: asyncio.Future[Any]) -> None:
    """Nobody wants any more what was to be read next, nor to hear that it failed."""
    ahead.cancel()
    ahead.add_done_callback(lambda done: done.cancelled() or done.exception())


def _each(made: Callable[..., T], rows: Sequence[Row]) -> list[T]:
    return list(starmap(made, rows))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _scope(scope: str | None) -> str | None:
    return storable(scope.lower()) if scope else None
