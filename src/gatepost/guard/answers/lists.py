"""Lists as guard serves them to analyses: look-ups, snapshots by version, and counters of what was hit.

A change of a list holds for the next message, on every node. So each message asks storage for the version of its
tenant's unkeyed lists, by a statement that it shares with all messages that came before the statement began. The lists
are fetched only when the version is another than the last one.

Learnt models are handed to workers in the same way: always those that are current in storage, within seconds. Which
models are current is asked every `POLL_SECONDS`; their bytes are read when a message needs them first, and kept for as
many tenants as fit. A message waits for storage only then. Where storage does not answer, a message is judged with the
models that are known, or without any: rules, lists and the shipped model do not depend on them.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from gatepost.analysis.report import Report
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.unkeyed import NO_ENTRIES, UnkeyedLists, pack_lists
from gatepost.process.background_work import MAX_REST_SECONDS, REST, background
from gatepost.process.logs import Logger
from gatepost.process.periodic import Outage, PeriodicWork
from gatepost.questions import Lookup, LookupAnswer
from gatepost.store.errors import StorageError
from gatepost.store.learning import Learning
from gatepost.store.list_lookup import HitCount
from gatepost.store.store import Store
from gatepost.workers.jobs import EMPTY, Snapshot
from gatepost.workers.protocol import RecentSnapshots

FLUSH_SECONDS = 2.0
PURGE_SECONDS = 300.0
# How many entries' counters are gathered before further ones are dropped: counting must not become the load.
MAX_COUNTED = 50_000

log = Logger("gatepost.lists")


class _CachedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot as last fetched: it holds while the version is the same, and until its first entry expires. While the
    event loop is late, the next is not fetched before `next_load`, by the clock of the loop."""

    version: str
    until: int | None
    snapshot: Snapshot
    next_load: float = 0.0


class _Loading:
    """The loads of one tenant's lists: one at a time, counted as they begin."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.begun = 0


class _VersionReads:
    """The reads of the version of one tenant's lists, one at a time: how many began, the last that ended well, and what
    it read."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.begun = self.ended = 0
        self.version = ""


class ListAnswers:
    """The lists of a deployment, for one core. `packed` counts how often a snapshot was read and packed."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._snapshots: RecentSnapshots[_CachedSnapshot] = RecentSnapshots()
        # What is here lives for as long as a message waits for it.
        self._loading: WeakValueDictionary[str, _Loading] = WeakValueDictionary()
        self._reads: WeakValueDictionary[str, _VersionReads] = WeakValueDictionary()
        self.packed = 0
        self._counts: dict[tuple[str | None, str, str], tuple[int, int]] = {}
        self._periodic = (
            PeriodicWork(self._flush, FLUSH_SECONDS, "hits of lists could not be counted", log, waits_first=True),
            PeriodicWork(self._purge, PURGE_SECONDS, "expired entries could not be purged", log),
        )

    def start(self) -> None:
        """From now on, write counters and purge what has expired."""
        for work in self._periodic:
            work.start()

    async def stop(self) -> None:
        for work in self._periodic:
            await work.stop()
        await self._flush()

    async def snapshot(self, tenant: str | None) -> Snapshot:
        """What the workers need to know of a tenant's unkeyed lists; raises `StorageError`."""
        key = f"lists:{tenant or ''}"
        version = await self._read_version(tenant)
        held = self._snapshots.get(key)
        if held is None or not self._holds(held, version):
            held = await self._load(key, tenant, version)
        return held.snapshot

    async def _read_version(self, tenant: str | None) -> str:
        """Return the version that storage has now: one that was read after this message came."""
        reads = self._reads.setdefault(tenant or "", _VersionReads())
        begun = reads.begun
        async with reads.lock:
            if reads.ended <= begun:
                number = reads.begun = reads.begun + 1
                reads.version = await self._store.list_lookup.unkeyed_version(tenant)
                reads.ended = number
            return reads.version

    async def _load(self, key: str, tenant: str | None, version: str) -> _CachedSnapshot:
        """Read and pack the lists of a tenant, once for all messages that wait for them. Packing takes a thread.

        A load that began after a message came has all that holds for this message, whatever was changed since then: so
        a list that changes all the time costs a message the load that is under way and one more, not one for each
        message before it. While the event loop is late, loads rest between them, as other work beside mail does
        (`background_work`): mail of the tenant whose lists change waits, not that of others.
        """
        loading = self._loading.setdefault(key, _Loading())
        begun, clock = loading.begun, asyncio.get_running_loop().time
        async with loading.lock:
            held = self._snapshots.get(key)
            if held is not None and (loading.begun > begun or self._holds(held, version)):
                return held
            if held is not None and background.must_rest:
                await asyncio.sleep(held.next_load - clock())
            loading.begun += 1
            started = clock()
            source = await self._store.list_lookup.unkeyed(tenant)
            loaded = await asyncio.to_thread(background.measure, _pack, key, source)
            rest = min(REST * (clock() - started), MAX_REST_SECONDS)
            held = msgspec.structs.replace(loaded, next_load=clock() + rest)
            self._snapshots.put(key, held, len(held.snapshot.data))
            self.packed += 1
            return held

    def _holds(self, held: _CachedSnapshot, version: str) -> bool:
        return held.version == version and (held.until or math.inf) > self._clock() * 1000

    async def with_comments(self, tenant: str | None, report: Report) -> Report:
        """Return the report with the comments of the entries that were found in the lists that travel without them."""
        wanted: dict[tuple[str, str], list[str]] = {}
        for note in report.lists:
            if not note.comment and _may_be_unkeyed(note.list):
                wanted.setdefault((note.scope, note.list), []).append(note.entry)
        found: dict[tuple[str, str, str], str] = {}
        for (scope, name), keys in wanted.items():
            for entry in await self._store.lists.find(tenant if scope == "tenant" else None, name, keys):
                found[scope, name, entry.key] = entry.comment
        if not any(found.values()):
            return report
        notes = (
            msgspec.structs.replace(note, comment=found.get((note.scope, note.list, note.entry), note.comment))
            for note in report.lists
        )
        return msgspec.structs.replace(report, lists=tuple(notes))

    async def answer(self, tenant: str | None, question: Lookup, recipients: Sequence[str] = ()) -> LookupAnswer:
        """Which entries are hit; the failure of storage is an answer too. Entries of a recipient count where nobody
        else gets the message: it has one verdict."""
        only = recipients[0] if len(recipients) == 1 else ""
        try:
            hits, is_whole = await self._store.list_lookup.find_for_mail(tenant, question.keys, only)
            return LookupAnswer(hits, cut=not is_whole)
        except StorageError as fault:
            log.error("lists could not be read", reason=str(fault))
            return LookupAnswer(failed=True)

    def count(self, tenant: str | None, report: Report) -> None:
        """Note which entries a message hit, once each."""
        now = int(self._clock() * 1000)
        for name, scope, entry in {(note.list, note.scope, note.entry) for note in report.lists}:
            if scope == "recipient":
                continue
            key = (tenant if scope == "tenant" else None, name, entry)
            if key in self._counts or len(self._counts) < MAX_COUNTED:
                self._counts[key] = (self._counts.get(key, (0, 0))[0] + 1, now)

    async def _flush(self) -> None:
        counted, self._counts = self._counts, {}
        if not counted:
            return
        try:
            await self._store.list_lookup.record_hits(
                [HitCount(*key, hits, last) for key, (hits, last) in counted.items()]
            )
        except StorageError as fault:
            log.warning("hits of lists could not be counted", reason=str(fault))

    async def _purge(self) -> None:
        await self._store.lists.purge_expired(int(self._clock() * 1000))


def _pack(key: str, source: UnkeyedLists) -> _CachedSnapshot:
    empty = msgspec.structs.replace(source, version="") == NO_ENTRIES
    data = b"" if empty else pack_lists(source)
    return _CachedSnapshot(source.version, source.until, Snapshot(key, f"{source.version}/{source.until}", data))


def _may_be_unkeyed(name: str) -> bool:
    """Whether a list can be one that is handed out whole; a custom one can."""
    definition = BY_NAME.get(name)
    return definition is None or not definition.keyed


POLL_SECONDS = 2.0
MAX_CACHED = 200
learning_log = Logger("gatepost.learning")

_MODEL = msgspec.msgpack.Decoder(dict[str, Any])


class LearntModelSnapshots:
    """The current learnt models of a deployment, packed by tenant."""

    def __init__(self, store: Learning, poll: float = POLL_SECONDS) -> None:
        self._store = store
        self._current: dict[str, int] = {}
        self._cached: dict[str, Snapshot] = {}
        failed = "learnt models could not be asked for"
        self._outage = Outage(failed, learning_log)
        self._following = PeriodicWork(self.refresh, poll, failed, learning_log, waits_first=True)

    @property
    def versions(self) -> dict[str, int]:
        """The version that takes part, by scope; the deployment's is ""."""
        return self._current

    async def start(self) -> None:
        """Learn what is current, and follow it from now on."""
        await self.refresh()
        self._following.start()

    async def stop(self) -> None:
        await self._following.stop()

    async def refresh(self) -> None:
        async with self._outage:
            self._current = await self._store.current_models()

    async def snapshot(self, tenant: str | None) -> Snapshot:
        """The models that speak about a tenant's mail: the deployment's and its own."""
        if not self._current:
            return EMPTY
        own = self._current.get(tenant.lower()) if tenant else None
        versions = [version for version in (self._current.get(""), own) if version]
        if not versions:
            return EMPTY
        key, name = f"learnt:{tenant if own else ''}", "-".join(map(str, versions))
        found = self._cached.pop(key, None)
        if found is None or found.version != name:
            try:
                packed = [await self._store.model_bytes(version) for version in versions]
            except StorageError as fault:
                learning_log.warning("learnt models could not be read", reason=str(fault))
                return found or EMPTY
            numbered = [_number(*each) for each in zip(packed, versions, strict=True)]
            found = Snapshot(key, name, msgspec.msgpack.encode([each for each in numbered if each]))
        self._cached[key] = found
        if len(self._cached) > MAX_CACHED:
            del self._cached[next(iter(self._cached))]
        return found


def _number(packed: bytes, version: int) -> bytes:
    """The model as workers need it: with its number, which the ledger names and which is known only once it is stored,
    and without the one that was proved. Mail is judged without a model that is damaged."""
    if not packed:
        return b""
    try:
        model = _MODEL.decode(packed)
    except msgspec.DecodeError as fault:
        learning_log.error("learnt model is damaged", version=version, reason=str(fault))
        return b""
    return msgspec.msgpack.encode({**model, "version": version, "proof": b""})
