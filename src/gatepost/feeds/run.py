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
from msgspec.structs import replace

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
        run = _Run(self._store, self._policies, self._advance, settings, options, stream)
        if options.dry_run:
            return await run.try_out(await self._store.feeds.state(settings.name))
        holder = f"{socket.gethostname()}:{os.getpid()}:{new_id()[-12:]}"
        until = now() + LOCK_MILLISECONDS
        state = await self._store.feeds.take(settings.name, holder, until, only_due=options.only_due)
        if state is None:
            other = await self._store.feeds.state(settings.name)
            return FeedBusy(other.holder, other.locked_until)
        async with run.keep_lock(holder):
            return await run.carry_out(state, holder)

    async def clear(self, name: str, scope: str | None, list_name: str) -> int:
        """Delete all entries of a feed from a list; returns how many."""
        return await _clear(self._store, Actor("feed", name), scope, list_name)


class _Run:
    """One run of one feed. `lost` is set once another process has taken the feed over."""

    def __init__(
        self,
        store: Store,
        policies: Policies,
        advance: Advance,
        settings: FeedSettings,
        options: RunOptions,
        stream: BinaryIO | None,
    ) -> None:
        self._store, self._policies, self._advance = store, policies, advance
        self._settings, self._options, self._stream = settings, options, stream
        self._by = Actor("feed", settings.name)
        self._lost = asyncio.Event()

    async def carry_out(self, state: FeedState, holder: str) -> FeedOutcome:
        """Read the source, change what differs, and remember what came of it."""
        settings, before, started = self._settings, state.record, now()
        try:
            outcome, record = await self._apply(before, replace(_forget_other(before, settings), started=started))
        except FeedFault as fault:
            outcome = self._describe_fault(fault)
            # What was remembered stays: also the list that a feed had before its settings were changed.
            record = replace(before, started=started, failures=before.failures + 1)
        moment = now()
        is_good = outcome.result in ("changed", "unchanged")
        record = replace(record, finished=moment, result=outcome.result, message=outcome.message)
        if is_good:
            record = replace(record, counts=outcome.counts, succeeded=moment, failures=0)
        audited = outcome.result == "changed" or (not is_good and outcome.message != before.message)
        next_run = moment + _pause(settings, record.failures)
        if not await self._store.feeds.finish(settings.name, holder, record, next_run, audited=audited):
            return replace(outcome, message="another process took the feed over meanwhile")
        return outcome

    async def _apply(self, before: FeedRecord, known: FeedRecord) -> tuple[FeedOutcome, FeedRecord]:
        settings, definition = self._settings, await self._find_list()
        reading = await read_source(settings, definition, known, now(), self._stream)
        if reading.is_unchanged:
            counts = replace(known.counts, added=0, updated=0, removed=0, expiring=0)
            return FeedOutcome(settings.name, "unchanged", counts=counts), known
        changes = await self._compare(reading, known)
        moved = 0
        if before.list_name and (before.scope, before.list_name) != (settings.tenant, settings.list_name):
            # The feed filled another list before its settings were changed.
            moved = await _clear(self._store, self._by, before.scope, before.list_name)
        counts = _count(reading, await self._change(definition, changes), moved)
        found = await self._look_back(definition, changes.fresh)
        number = None
        if found and found.found:
            number = await self._store.look_backs.record(settings.tenant, definition.name, found)
        is_changed = counts.added + counts.updated + counts.removed + counts.expiring
        record = replace(
            known,
            etag=reading.etag,
            last_modified=reading.last_modified,
            position=reading.position,
            full_read=known.started if reading.is_full else known.full_read,
            present=len(reading.items.entries) - counts.kept if reading.is_full else known.present,
        )
        rejected, result = tuple(reading.items.rejected), _name_result(bool(is_changed))
        return FeedOutcome(settings.name, result, "", counts, rejected, found, number), record

    async def try_out(self, state: FeedState) -> FeedOutcome:
        """Do everything but change anything. The source is read whole, whatever is remembered of it."""
        settings = self._settings
        try:
            definition = await self._find_list()
            reading = await read_source(settings, definition, FeedRecord(), now(), self._stream)
            changes = await self._compare(reading, _forget_other(state.record, settings))
        except FeedFault as fault:
            return replace(self._describe_fault(fault), dry_run=True)
        gone = len(changes.vanished)
        would = FeedCounts(
            added=len(changes.fresh),
            updated=len(changes.put) - len(changes.fresh),
            removed=len(changes.revoked) + (0 if settings.keep_vanished else gone),
            expiring=gone if settings.keep_vanished else 0,
        )
        found = await self._look_back(definition, changes.fresh)
        rejected, result = tuple(reading.items.rejected), _name_result(changes != _Changes())
        counts = _count(reading, would, 0)
        return FeedOutcome(settings.name, result, "", counts, rejected, found, dry_run=True)

    def _describe_fault(self, fault: FeedFault) -> FeedOutcome:
        return FeedOutcome(self._settings.name, "refused" if fault.refused else "failed", str(fault))

    async def _find_list(self) -> ListDefinition:
        settings = self._settings
        if settings.tenant and await self._store.tenants.find(settings.tenant) is None:
            raise FeedFault(f"there is no tenant {settings.tenant}")
        definition = await self._store.lists.definition(settings.tenant, settings.list_name)
        if definition is None:
            raise FeedFault(f"there is no list {settings.list_name} in its scope; gatepost lists create makes one")
        return definition

    async def _compare(self, reading: Reading, known: FeedRecord) -> "_Changes":
        """Compare what was read with the feed's own entries."""
        own: dict[str, int | None] = {}
        after, moment, settings = "", now(), self._settings
        while rows := await self._store.feeds.entries(settings.tenant, settings.list_name, self._by, after):
            own.update((key, expires) for key, expires in rows if expires is None or expires > moment)
            after = rows[-1][0]
        return _compare(reading, own, settings, known, force=self._options.force)

    async def _change(self, definition: ListDefinition, changes: "_Changes") -> FeedCounts:
        settings, feeds, by = self._settings, self._store.feeds, self._by
        total = len(changes.put) + len(changes.vanished) + len(changes.revoked)
        done = put = removed = expiring = 0
        for entries in _split(changes.put):
            put += _require(await feeds.put_entries(settings.tenant, definition, entries, by))
            done = self._note_progress(done + len(entries), total)
        for keys in _split((*changes.revoked, *(() if settings.keep_vanished else changes.vanished))):
            removed += await feeds.delete_entries(settings.tenant, definition.name, keys, by)
            done = self._note_progress(done + len(keys), total)
        until = now() + settings.keep_vanished * DAY
        for keys in _split(changes.vanished if settings.keep_vanished else ()):
            expiring += await feeds.expire_entries(settings.tenant, definition.name, keys, by, until)
            done = self._note_progress(done + len(keys), total)
        updated = len(changes.put) - len(changes.fresh)
        kept = len(changes.put) - put
        return FeedCounts(
            added=max(0, put - updated), updated=min(put, updated), removed=removed, expiring=expiring, kept=kept
        )

    def _note_progress(self, done: int, total: int) -> int:
        """Tell how far the run is, and end it where the feed was taken over."""
        self._advance(done, total)
        if self._lost.is_set():
            raise FeedFault("another process took the feed over meanwhile")
        return done

    async def _look_back(self, definition: ListDefinition, keys: Sequence[str]) -> LookBack | None:
        days = self._settings.look_back if self._options.days is None else self._options.days
        if not days or not can_look_back(definition) or not (keys or self._options.dry_run):
            return None
        return await look_back(self._store, self._policies, self._settings.tenant, definition, keys, days, self._by)

    @contextlib.asynccontextmanager
    async def keep_lock(self, holder: str) -> AsyncIterator[None]:
        """Renew the lock for as long as the run takes."""

        async def renew() -> None:
            with contextlib.suppress(StorageError):
                is_held = True
                while is_held:
                    is_held = await self._store.feeds.keep(self._settings.name, holder, now() + LOCK_MILLISECONDS)
                    await asyncio.sleep(RENEW_SECONDS if is_held else 0)
            self._lost.set()

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _clear(store: Store, by: Actor, scope: str | None, list_name: str) -> int:
    done = 0
    while rows := await store.feeds.entries(scope, list_name, by):
        for keys in _split([key for key, _ in rows]):
            done += await store.feeds.delete_entries(scope, list_name, keys, by)
    return done


def _name_result(is_changed: bool) -> FeedResult:
    return "changed" if is_changed else "unchanged"


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
    return replace(
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


def _split(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[start : start + MAX_ENTRIES] for start in range(0, len(items), MAX_ENTRIES)]
