"""Run a feed: lock it, read its source, compare it with its own entries, change them, and look back.

Changes are made in calls of 500 entries, each of them atomic and safe to repeat. New entries are added before old ones
go, and what is remembered of the source is written last: a run that is killed leaves a usable list, and the next one
goes on. A source that answers with something implausible changes nothing: too many entries, too many that the list
refuses, or too few of those that it had.
"""

import asyncio
import contextlib
import os
import random
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import BinaryIO, TypeVar

import msgspec

from gatepost.api.lists import MAX_ENTRIES
from gatepost.feeds.items import FeedFault, RejectedValue
from gatepost.feeds.source import Reading, read_source
from gatepost.ids import new_id
from gatepost.lists.catalogue import ListDefinition
from gatepost.policy.layers import Policies
from gatepost.rejudge.dry_run import can_look_back, look_back
from gatepost.settings.feeds import FeedSettings
from gatepost.store.audit import Actor
from gatepost.store.errors import ListFull, NotFound, StorageError
from gatepost.store.feeds import FeedCounts, FeedRecord, FeedResult, FeedState
from gatepost.store.lists import NewEntry
from gatepost.store.look_backs import LookBack
from gatepost.store.store import Store
from gatepost.times import now

DAY, MINUTE = 86_400_000, 60_000
# How long a killed run blocks its feed, and how often a living one says that it lives.
LOCK_MILLISECONDS, RENEW_SECONDS = 2 * MINUTE, 20.0
JITTER = 0.05
FIRST_RETRY_MINUTES = 5

T = TypeVar("T")
Advance = Callable[[int, int], None]


class RunOptions(msgspec.Struct, frozen=True):
    """How a run differs from an ordinary one. `days` is how far to look back, None for what the feed says."""

    dry_run: bool = False
    force: bool = False
    only_due: bool = False
    days: int | None = None


ORDINARY = RunOptions()


class FeedOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """What a run did, or with `dry_run` would do. `look_back_id` is the number of the stored look back."""

    feed: str
    result: FeedResult
    message: str = ""
    counts: FeedCounts = FeedCounts()
    rejected: tuple[RejectedValue, ...] = ()
    look_back: LookBack | None = None
    look_back_id: int | None = None
    dry_run: bool = False


class FeedBusy(msgspec.Struct, frozen=True):
    """Another process runs the feed, until that time at most; or it is not due."""

    holder: str
    until: int


class _Changes(msgspec.Struct, frozen=True):
    """What a run has to do: entries to add or update, and keys that vanished. `fresh` are the keys that are new."""

    put: tuple[NewEntry, ...] = ()
    fresh: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()


class FeedRunner:
    """Runs feeds on one storage. `advance` is told how many entries of how many are done."""

    def __init__(self, store: Store, policies: Policies, advance: Advance = lambda _done, _total: None) -> None:
        self._store, self._policies, self._advance = store, policies, advance

    async def run(
        self, settings: FeedSettings, options: RunOptions = ORDINARY, stream: BinaryIO | None = None
    ) -> FeedOutcome | FeedBusy:
        """Run one feed. What goes wrong with its source is an outcome; storage that fails raises."""
        if options.dry_run:
            return await self._try(settings, options, await self._store.feeds.state(settings.name), stream)
        holder = f"{socket.gethostname()}:{os.getpid()}:{new_id()[-12:]}"
        state = await self._store.feeds.take(
            settings.name, holder, now() + LOCK_MILLISECONDS, only_due=options.only_due
        )
        if state is None:
            other = await self._store.feeds.state(settings.name)
            return FeedBusy(other.holder, other.locked_until)
        async with self._keep(settings.name, holder) as lost:
            return await self._run(settings, options, state, holder, stream, lost)

    async def _run(
        self,
        settings: FeedSettings,
        options: RunOptions,
        state: FeedState,
        holder: str,
        stream: BinaryIO | None,
        lost: asyncio.Event,
    ) -> FeedOutcome:
        known, started = _forget_other(state.record, settings), now()
        known = msgspec.structs.replace(known, started=started)
        try:
            outcome, record = await self._apply(settings, options, state, known, stream, lost)
        except FeedFault as fault:
            result: FeedResult = "refused" if fault.refused else "failed"
            outcome = FeedOutcome(settings.name, result, str(fault))
            # What was remembered stays: also the list that a feed had before its settings were changed.
            record = msgspec.structs.replace(state.record, started=started, failures=state.record.failures + 1)
        moment = now()
        is_good = outcome.result in ("changed", "unchanged")
        record = msgspec.structs.replace(
            record,
            finished=moment,
            result=outcome.result,
            message=outcome.message,
            counts=outcome.counts if is_good else record.counts,
            succeeded=moment if is_good else record.succeeded,
            failures=0 if is_good else record.failures,
        )
        audited = outcome.result == "changed" or (not is_good and outcome.message != state.record.message)
        next_run = moment + _pause(settings, record.failures)
        if not await self._store.feeds.finish(settings.name, holder, record, next_run, audited=audited):
            return msgspec.structs.replace(outcome, message="another process took the feed over meanwhile")
        return outcome

    async def _apply(
        self,
        settings: FeedSettings,
        options: RunOptions,
        state: FeedState,
        known: FeedRecord,
        stream: BinaryIO | None,
        lost: asyncio.Event,
    ) -> tuple[FeedOutcome, FeedRecord]:
        by, definition = Actor("feed", settings.name), await self._find_list(settings)
        reading = await read_source(settings, definition, known, now(), stream)
        if reading.is_unchanged:
            counts = msgspec.structs.replace(known.counts, added=0, updated=0, removed=0, expiring=0)
            return FeedOutcome(settings.name, "unchanged", counts=counts), known
        own = await self._own_entries(settings, by)
        changes = _compare(reading, own, settings, known, force=options.force)
        moved = await self._leave_other_list(state.record, settings)
        counts = await self._change(settings, definition, changes, by, lost)
        counts = _count(reading, counts, moved)
        found, number = await self._look_back(settings, options, definition, changes.fresh, by)
        result: FeedResult = (
            "changed" if counts.added + counts.updated + counts.removed + counts.expiring else "unchanged"
        )
        record = msgspec.structs.replace(
            known,
            etag=reading.etag,
            last_modified=reading.last_modified,
            position=reading.position,
            full_read=known.started if reading.is_full else known.full_read,
            present=len(reading.items.entries) - counts.kept if reading.is_full else known.present,
        )
        rejected = tuple(reading.items.rejected)
        return FeedOutcome(settings.name, result, "", counts, rejected, found, number), record

    async def _try(
        self, settings: FeedSettings, options: RunOptions, state: FeedState, stream: BinaryIO | None
    ) -> FeedOutcome:
        """Do everything but change anything. The source is read whole, whatever is remembered of it."""
        by = Actor("feed", settings.name)
        try:
            definition = await self._find_list(settings)
            reading = await read_source(settings, definition, FeedRecord(), now(), stream)
            own = await self._own_entries(settings, by)
            known = _forget_other(state.record, settings)
            changes = _compare(reading, own, settings, known, force=options.force)
        except FeedFault as fault:
            return FeedOutcome(settings.name, "refused" if fault.refused else "failed", str(fault), dry_run=True)
        gone = len(changes.vanished)
        would = FeedCounts(
            added=len(changes.fresh),
            updated=len(changes.put) - len(changes.fresh),
            removed=len(changes.revoked) + (0 if settings.keep_vanished else gone),
            expiring=gone if settings.keep_vanished else 0,
        )
        counts = _count(reading, would, 0)
        days = settings.look_back if options.days is None else options.days
        found = None
        if days and can_look_back(definition):
            found = await look_back(self._store, self._policies, settings.tenant, definition, changes.fresh, days, by)
        result: FeedResult = "changed" if changes != _Changes() else "unchanged"
        return FeedOutcome(settings.name, result, "", counts, tuple(reading.items.rejected), found, dry_run=True)

    async def clear(self, name: str, scope: str | None, list_name: str) -> int:
        """Delete all entries of a feed from a list; returns how many."""
        by, done = Actor("feed", name), 0
        while rows := await self._store.feeds.entries(scope, list_name, by):
            for keys in _split([key for key, _ in rows]):
                done += await self._store.feeds.delete_entries(scope, list_name, keys, by)
        return done

    async def _find_list(self, settings: FeedSettings) -> ListDefinition:
        if settings.tenant and await self._store.tenants.find(settings.tenant) is None:
            raise FeedFault(f"there is no tenant {settings.tenant}")
        definition = await self._store.lists.definition(settings.tenant, settings.list_name)
        if definition is None:
            raise FeedFault(f"there is no list {settings.list_name} in its scope; gatepost lists create makes one")
        return definition

    async def _own_entries(self, settings: FeedSettings, by: Actor) -> dict[str, int | None]:
        own: dict[str, int | None] = {}
        after, moment = "", now()
        while rows := await self._store.feeds.entries(settings.tenant, settings.list_name, by, after):
            own.update((key, expires) for key, expires in rows if expires is None or expires > moment)
            after = rows[-1][0]
        return own

    async def _leave_other_list(self, before: FeedRecord, settings: FeedSettings) -> int:
        """Delete the entries of a feed from the list that it filled before its settings were changed."""
        if not before.list_name or (before.scope, before.list_name) == (settings.tenant, settings.list_name):
            return 0
        return await self.clear(settings.name, before.scope, before.list_name)

    async def _change(
        self, settings: FeedSettings, definition: ListDefinition, changes: _Changes, by: Actor, lost: asyncio.Event
    ) -> FeedCounts:
        total = len(changes.put) + len(changes.vanished) + len(changes.revoked)
        done = put = removed = expiring = 0
        for entries in _split(changes.put):
            outcome = await self._store.feeds.put_entries(settings.tenant, definition, entries, by)
            put += _require(outcome)
            done += len(entries)
            self._advance(done, total)
            _check_lock(lost)
        for keys in _split((*changes.revoked, *(() if settings.keep_vanished else changes.vanished))):
            removed += await self._store.feeds.delete_entries(settings.tenant, definition.name, keys, by)
            done += len(keys)
            self._advance(done, total)
            _check_lock(lost)
        until = now() + settings.keep_vanished * DAY
        for keys in _split(changes.vanished if settings.keep_vanished else ()):
            expiring += await self._store.feeds.expire_entries(settings.tenant, definition.name, keys, by, until)
            _check_lock(lost)
        updated = len(changes.put) - len(changes.fresh)
        kept = len(changes.put) - put
        return FeedCounts(
            added=max(0, put - updated), updated=min(put, updated), removed=removed, expiring=expiring, kept=kept
        )

    async def _look_back(
        self, settings: FeedSettings, options: RunOptions, definition: ListDefinition, keys: Sequence[str], by: Actor
    ) -> tuple[LookBack | None, int | None]:
        days = settings.look_back if options.days is None else options.days
        if not days or not keys or not can_look_back(definition):
            return None, None
        found = await look_back(self._store, self._policies, settings.tenant, definition, keys, days, by)
        if not found.found:
            return found, None
        return found, await self._store.look_backs.record(settings.tenant, definition.name, found)

    @contextlib.asynccontextmanager
    async def _keep(self, name: str, holder: str) -> AsyncIterator[asyncio.Event]:
        """Renew the lock for as long as the run takes; the event is set once it is lost."""
        lost = asyncio.Event()

        async def renew() -> None:
            with contextlib.suppress(StorageError):
                is_held = True
                while is_held:
                    is_held = await self._store.feeds.keep(name, holder, now() + LOCK_MILLISECONDS)
                    await asyncio.sleep(RENEW_SECONDS if is_held else 0)
            lost.set()

        task = asyncio.create_task(renew())
        try:
            yield lost
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _compare(
    reading: Reading, own: dict[str, int | None], settings: FeedSettings, known: FeedRecord, *, force: bool
) -> _Changes:
    """What there is to do; raises `FeedFault` where what was read is not plausible, unless that is forced."""
    items = reading.items
    entries = items.entries
    if not force and items.read and items.invalid * 100 > items.read * settings.max_invalid:
        first = items.rejected[0]
        raise FeedFault(
            f"{items.invalid:,} of {items.read:,} values are no entries of {settings.list_name}, so this is not taken"
            f" for the feed (maxInvalid); the first is {first.value[:80]!r}: it {first.reason}",
            refused=True,
        )
    base = min(known.present, len(own))
    lost = base - sum(1 for key in entries if key in own)
    if reading.is_full and not force and base and lost * 100 > base * settings.max_loss:
        raise FeedFault(
            f"the feed has lost {lost:,} of its {base:,} entries, more than {settings.max_loss} % (maxLoss);"
            " gatepost feeds run --force accepts that once",
            refused=True,
        )
    put = tuple(entry for key, entry in entries.items() if key not in own or own[key] != entry.expires)
    vanished = tuple(sorted(own.keys() - entries.keys())) if reading.is_full else ()
    revoked = () if reading.is_full else tuple(sorted(items.revoked & own.keys()))
    return _Changes(put, tuple(entry.key for entry in put if entry.key not in own), vanished, revoked)


def _count(reading: Reading, done: FeedCounts, moved: int) -> FeedCounts:
    items = reading.items
    return msgspec.structs.replace(
        done,
        read=items.read,
        entries=len(items.entries),
        invalid=items.invalid,
        expired=items.expired,
        other=items.other,
        repeated=items.repeated,
        removed=done.removed + moved,
    )


def _forget_other(record: FeedRecord, settings: FeedSettings) -> FeedRecord:
    """What is remembered, as far as it is about the feed as it is defined now."""
    if record.fingerprint == settings.fingerprint:
        return record
    return FeedRecord(settings.tenant, settings.list_name, settings.fingerprint, failures=record.failures)


def _pause(settings: FeedSettings, failures: int) -> int:
    """Milliseconds to the next run, a little more or less, so that feeds and nodes do not all run at once."""
    minutes = settings.every
    if failures:
        minutes = min(minutes, FIRST_RETRY_MINUTES << min(failures - 1, 10))
    return int(minutes * MINUTE * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311  not a secret


def _require(outcome: int | ListFull | NotFound) -> int:
    if isinstance(outcome, ListFull):
        raise FeedFault(f"{outcome.explanation}, and the feed does not fit", refused=True)
    if isinstance(outcome, NotFound):
        raise FeedFault(f"the {outcome.what} was deleted meanwhile")
    return outcome


def _check_lock(lost: asyncio.Event) -> None:
    if lost.is_set():
        raise FeedFault("another process took the feed over meanwhile")


def _split(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[start : start + MAX_ENTRIES] for start in range(0, len(items), MAX_ENTRIES)]
