"""The quarantine: mail that must not go on, until a person decides about it or its retention is over.

The raw bytes are stored first, then the record in one transaction. A kill in between leaves bytes without a record,
which `Cleanup` deletes later; a record always has its bytes. Deleting goes the other way: first the record, then the
bytes.

guard's event loop never parses mail, here neither: what is shown to a person was read in a sealed worker, within the
same limits as an analysis, and comes back as plain text or as a picture drawn anew. A message that breaks its worker
is not shown, and that is a value like any other.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, cast

import msgspec
import structlog

from gatepost.events.sources import describe_held
from gatepost.events.stream import NO_EVENTS, Emits
from gatepost.guard.metrics import QuarantineMetrics
from gatepost.guard.quarantine.raw_store import RawStore
from gatepost.guard.quarantine.release import Releaser
from gatepost.mail.message import Envelope
from gatepost.scanning.held_mail import (
    Busy,
    Deleted,
    DeleteOrder,
    ExportOrder,
    HeldMailOrder,
    NotHeld,
    NotSent,
    PictureOrder,
    RecipientReleaseOrder,
    Released,
    ReleaseOrder,
    ReleaseOutcome,
    ViewOrder,
)
from gatepost.scanning.request import MessageBody, ScanRequest, ScanResult
from gatepost.scanning.spool import sha256
from gatepost.smtp.client import Tenancy
from gatepost.smtp.routing import Routing
from gatepost.smtp.signer import Signer
from gatepost.store.errors import StorageError
from gatepost.store.message_records import MessageRecord
from gatepost.store.quarantine import HeldMessage
from gatepost.store.store import Store
from gatepost.view.values import NotShown, Picture, View
from gatepost.workers.jobs import AnalysisJob
from gatepost.workers.protocol import Purpose, ViewResult

UNEXPECTED = NotShown("the worker showed something else")
# How long the sum of all that is held is believed; what was kept here meanwhile is added to it.
SIZE_SECONDS = 60.0

log = structlog.get_logger("gatepost.guard")


R = TypeVar("R")


class ShowsMail(Protocol):
    """What has messages read in a worker, to be shown; `guard.service.Guard` does."""

    async def show(self, job: AnalysisJob) -> ViewResult: ...


class _HeldBytes(msgspec.Struct, frozen=True):
    """The bytes of a held message, as a `MessageBody`."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def read(self) -> bytes:
        return self.content


class Quarantine:
    """The held mail that this process can reach, `HoldsMail` and `CarriesOutOrders`. At `max_size` bytes it takes no
    more: the sender tries again. Without a `viewer` it shows no message. `hostname`, `tenancy` and `node` are for
    releases. `core` is the name of this core in records, where others cannot reach the bytes."""

    def __init__(
        self,
        store: Store,
        raw: RawStore,
        routing: Routing | None = None,
        viewer: ShowsMail | None = None,
        *,
        max_size: int | None = None,
        hostname: str = "localhost",
        tenancy: Tenancy | None = None,
        node: str = "",
        metrics: QuarantineMetrics | None = None,
        events: Emits = NO_EVENTS,
        clock: Callable[[], float] = time.time,
        core: str = "",
        outbound: Routing | None = None,
        signer: Signer | None = None,
    ) -> None:
        self._store, self._raw, self._viewer, self._max_size = store, raw, viewer, max_size
        self._events, self._core = events, core
        self._metrics = metrics or QuarantineMetrics(store.quarantine, max_size)
        self._releaser = Releaser(
            *(store, raw, routing, clock, hostname, tenancy), node=node, outbound=outbound, signer=signer
        )
        self._size = 0
        self._summed: float | None = None
        self._operations: dict[type, Callable[[Any], Awaitable[Any]]] = {
            ReleaseOrder: self._release,
            RecipientReleaseOrder: self._release,
            ViewOrder: self._view,
            PictureOrder: self._picture,
            ExportOrder: self._export,
            DeleteOrder: self._delete,
        }

    async def keep(self, request: ScanRequest, result: ScanResult, raw: MessageBody) -> None:
        """Hold a message; durable when it returns. The same one again changes nothing."""
        try:
            await self._keep(request, result, raw)
        except StorageError:
            self._metrics.count("failures")
            raise

    async def _keep(self, request: ScanRequest, result: ScanResult, raw: MessageBody) -> None:
        await self._check_size(raw.size)
        await self._raw.put(request.ggrid, raw)
        digest = await asyncio.to_thread(sha256, raw)
        record = MessageRecord(
            ggrid=result.ggrid,
            created=result.created,
            completed=result.completed,
            envelope=request.envelope,
            size=raw.size,
            sha256=digest,
            report=result.report,
            source=request.source,
            receipt=result.receipt,
        )
        if await self._store.quarantine.hold(record, self._core):
            self._size += raw.size
            self._metrics.count("kept")
            self._events.emit(describe_held, record)
            log.info("held", ggrid=result.ggrid, verdict=result.report.verdict, size=raw.size)

    async def take_back(self, ggrid: str) -> None:
        """Hold a message no longer that its sender was told to send again; where that fails, it stays."""
        try:
            if await self._store.quarantine.delete(ggrid, None):
                await self._raw.delete(ggrid)
        except StorageError as fault:
            log.warning("a message that comes again stays held", ggrid=ggrid, reason=str(fault))

    async def undecided_before(self, digest: str) -> int:
        """Return how often this digest was undecided in the last 24 hours before this time, which is recorded."""
        return await self._store.quarantine.undecided_before(digest)

    async def one(self, ggrid: str, tenant: str | None = None) -> HeldMessage | None:
        """Return a message that is held or was released, of that tenant if one is named."""
        return await self._store.quarantine.find(ggrid, tenant)

    async def raw(self, ggrid: str, tenant: str | None = None) -> bytes | None:
        """Return the bytes of a held message."""
        mail = await self._store.quarantine.find(ggrid, tenant)
        return await self._raw.get(mail.record.ggrid) if mail and mail.state != "released" else None

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld:
        """Release, view, export or delete a message, as the order says; `NotHeld` if its bytes are not here."""
        return cast("R | NotHeld", await self._operations[type(order)](order))

    async def delete(self, order: DeleteOrder) -> bool:
        """Delete a message, also one whose bytes are not here; False where there is none, or it is being released. The
        bytes of one that can be restored stay."""
        if not await self._store.quarantine.delete(order.ggrid, order.by, order.tenant, for_good=order.for_good):
            return False
        self._metrics.count("deleted")
        if order.for_good:
            await self._raw.delete(order.ggrid)
        return True

    async def _release(self, order: ReleaseOrder | RecipientReleaseOrder) -> ReleaseOutcome:
        mail = await self._store.quarantine.find(order.ggrid, order.tenant)
        if mail is None:
            return NotHeld()
        if isinstance(order, ReleaseOrder):
            outcome = await self._releaser.release(mail, order)
        else:
            outcome = await self._releaser.release_to(mail, order)
        if isinstance(outcome, NotSent) and not outcome.forbidden:
            self._metrics.count("release_failures")
        elif isinstance(outcome, Released) and mail.release is None:
            self._metrics.count("released")
        return outcome

    async def _view(self, order: ViewOrder) -> View | NotShown | NotHeld:
        shown = await self._show(order, "view")
        return UNEXPECTED if isinstance(shown, Picture) else shown

    async def _picture(self, order: PictureOrder) -> Picture | NotShown | NotHeld:
        shown = await self._show(order, "picture", order.index)
        return UNEXPECTED if isinstance(shown, View) else shown

    async def _show(self, order: HeldMailOrder[Any], purpose: Purpose, index: int = 0) -> ViewResult | NotHeld:
        raw = await self.raw(order.ggrid, order.tenant)
        if raw is None:
            return NotHeld()
        if self._viewer is None:
            return NotShown("there is no worker to read it")
        job = AnalysisJob(order.ggrid, Envelope(), _HeldBytes(raw), time.time(), purpose=purpose, index=index)
        return await self._viewer.show(job)

    async def _export(self, order: ExportOrder) -> bytes | NotHeld:
        mail = await self._store.quarantine.find(order.ggrid, order.tenant)
        raw = await self.raw(order.ggrid, order.tenant)
        if mail is None or raw is None:
            return NotHeld()
        if order.is_reading:
            await self._store.audit.note_view(mail.record.ggrid, mail.record.envelope.tenant, order.by)
        elif not order.for_learning:
            await self._store.audit.note_export(mail.record.ggrid, mail.record.envelope.tenant, order.by)
        return raw

    async def _delete(self, order: DeleteOrder) -> Deleted | Busy | NotHeld:
        """Without its record, bytes that lie at another core would stay behind: so only the core that has the bytes
        deletes."""
        if await self.raw(order.ggrid, order.tenant) is None:
            return NotHeld()
        if await self.delete(order):
            return Deleted()
        mail = await self.one(order.ggrid, order.tenant)
        return Busy() if mail and mail.state == "releasing" else NotHeld()

    async def finish(self) -> None:
        """Wait for the releases that are under way."""
        await self._releaser.finish()

    async def _check_size(self, size: int) -> None:
        if self._max_size is None:
            return
        now = time.monotonic()
        if self._summed is None or now - self._summed > SIZE_SECONDS or self._size + size > self._max_size:
            self._size, self._summed = await self._store.quarantine.size(), now
        if self._size + size > self._max_size:
            log.error("the quarantine is full", bytes=self._size, maximum=self._max_size)
            raise StorageError(f"The quarantine holds {self._size:,} bytes; quarantine.maxSize is {self._max_size:,}.")


DAY_MILLISECONDS = 86_400_000
PURGE_SECONDS = 3_600.0
# Far longer than it takes to write a record, with every retry.
ORPHAN_SECONDS = 3_600.0


class Cleanup:
    """Deletes what is older than the retention, in days, and bytes that no record knows, from `start` to `stop`.
    Deletions that can be taken back become final after `deleted_retention` days.

    Bytes without a record are what a kill left behind, or belong to a message that was released or deleted. Young ones
    are left alone, for their record may be on its way.
    """

    def __init__(
        self,
        store: Store,
        raw: RawStore,
        retention: int,
        clock: Callable[[], float] = time.time,
        metrics: QuarantineMetrics | None = None,
        deleted_retention: int = 0,
    ) -> None:
        self._store, self._raw, self._retention, self._clock = store, raw, retention, clock
        self._deleted_retention = deleted_retention
        self._metrics = metrics or QuarantineMetrics(store.quarantine, None)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Clean up now and every hour."""
        self._task = asyncio.create_task(self._forever())

    async def stop(self) -> None:
        """Stop; what is left undone is done after the next start."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def purge(self) -> int:
        """Delete what was held for longer than the retention of its tenant or, without one, of the configuration;
        return how many."""
        moment = int(self._clock() * 1_000)
        limits = await self._store.tenants.retention_limits("quarantine", moment)
        purged = await self._store.quarantine.purge(moment - self._retention * DAY_MILLISECONDS, limits)
        await self._store.quarantine.purge_deleted(moment - self._deleted_retention * DAY_MILLISECONDS)
        self._metrics.count("expired", purged)
        return purged

    async def sweep(self, age: float = ORPHAN_SECONDS) -> int:
        """Delete bytes of that age whose record is gone or never came; return how many."""
        swept = 0
        async for ggrids in self._raw.older_than(age):
            for ggrid in set(ggrids) - await self._store.quarantine.needed_among(ggrids):
                await self._raw.delete(ggrid)
                swept += 1
        return swept

    async def _forever(self) -> None:
        while True:
            try:
                purged, swept = await self.purge(), await self.sweep()
            except StorageError as fault:
                log.warning("the quarantine could not be cleaned up", reason=str(fault))
            else:
                if purged or swept:
                    log.info("quarantine cleaned up", purged=purged, swept=swept)
            await asyncio.sleep(PURGE_SECONDS)
