"""The quarantine: mail that must not go on, until somebody looks at it or its time is over.

The raw bytes go first, then the record in one transaction. A kill in between leaves bytes that nobody knows of, which
are swept later; a record always has its bytes. Taking out goes the other way: first the record, then the bytes.

Keeping the quarantine in order: what is too old goes, and so do bytes that no record knows.

Bytes without a record are what a kill left behind, or belong to a message that was released or deleted. Young ones are
left alone, for their record may be on its way.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from gatepost.guard.metrics import QuarantineMetrics
from gatepost.guard.quarantine.raw_store import RawStore
from gatepost.guard.quarantine.release import Releaser
from gatepost.scanning.held_mail import NotHeld, NotSent, Outcome, Released, Sends
from gatepost.scanning.request import MessageBody, ScanRequest, ScanResult
from gatepost.scanning.spool import sha256
from gatepost.store.audit import Actor
from gatepost.store.errors import StorageError
from gatepost.store.held_mail import HeldMailStore, HeldMessage
from gatepost.store.held_search import HeldFilter
from gatepost.store.messages import MessageRecord

PAGE = 100
# How long the sum of all that is held is believed; what was kept here meanwhile is added to it.
SIZE_SECONDS = 60.0

log = structlog.get_logger("gatepost.guard")


class Quarantine:
    """`Holding`, and all that is done with held mail. At `max_size` bytes it takes no more: the sender tries again."""

    def __init__(
        self,
        store: HeldMailStore,
        raw: RawStore,
        sends: Sends | None = None,
        *,
        max_size: int | None = None,
        tally: QuarantineMetrics | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._raw, self._max_size = store, raw, max_size
        self._tally = tally or QuarantineMetrics(store, max_size)
        self._releaser = Releaser(store, raw, sends, clock)
        self._size = 0
        self._summed: float | None = None

    async def keep(self, request: ScanRequest, result: ScanResult, raw: MessageBody) -> None:
        """Hold a message; durable when it returns. The same one again changes nothing."""
        try:
            await self._keep(request, result, raw)
        except StorageError:
            self._tally.count("failures")
            raise

    async def _keep(self, request: ScanRequest, result: ScanResult, raw: MessageBody) -> None:
        await self._check_room(raw.size)
        await self._raw.put(request.ggrid, raw)
        digest = await asyncio.to_thread(sha256, raw)
        record = MessageRecord(
            result.ggrid, result.created, result.completed, request.envelope, raw.size, digest, result.report
        )
        if await self._store.hold(record):
            self._size += raw.size
            self._tally.count("kept")
            log.info("held", ggrid=result.ggrid, verdict=result.report.verdict, size=raw.size)

    async def undecided_before(self, digest: str) -> int:
        """How often this digest was undecided in the last 24 hours, this time not counted; this time is noted."""
        return await self._store.undecided_before(digest)

    async def page(self, wanted: HeldFilter, before: str | None = None, limit: int = PAGE) -> tuple[HeldMessage, ...]:
        """Messages that match, newest first. For the next page, `before` is the ggrid of the last one of this."""
        found: list[HeldMessage] = []
        while len(found) < limit:
            page = await self._store.search_held(wanted, before, limit - len(found))
            found += page.rows
            before = page.next
            if before is None:
                break
        return tuple(found)

    async def one(self, ggrid: str, tenant: str | None = None) -> HeldMessage | None:
        """A message that is held or was released, of that tenant if one is named."""
        return await self._store.held(ggrid, tenant)

    async def raw(self, ggrid: str, tenant: str | None = None) -> bytes | None:
        """The bytes of a held message, to look at."""
        mail = await self._store.held(ggrid, tenant)
        return await self._raw.get(mail.record.ggrid) if mail and mail.state != "released" else None

    async def export(self, ggrid: str, by: Actor, tenant: str | None = None) -> bytes | None:
        """The bytes of a held message, for somebody to take away; the audit trail says who."""
        mail = await self._store.held(ggrid, tenant)
        raw = await self.raw(ggrid, tenant)
        if mail is not None and raw is not None:
            await self._store.note_export(mail.record.ggrid, mail.record.envelope.tenant, by)
        return raw

    async def release(
        self, ggrid: str, by: Actor, recipients: Sequence[str] = (), tenant: str | None = None
    ) -> Outcome:
        """Send a message on, to these recipients or to its own, once. It is not analysed again."""
        mail = await self._store.held(ggrid, tenant)
        if mail is None:
            return NotHeld()
        outcome = await self._releaser.release(mail, by, recipients)
        if isinstance(outcome, NotSent):
            self._tally.count("release_failures")
        elif isinstance(outcome, Released) and mail.release is None:
            self._tally.count("released")
        return outcome

    async def delete(self, ggrid: str, by: Actor, tenant: str | None = None) -> bool:
        """Take a message out for good; False where there is none, or it is being released."""
        if not await self._store.delete_held(ggrid, by, tenant):
            return False
        self._tally.count("deleted")
        await self._raw.delete(ggrid)
        return True

    async def finish(self) -> None:
        """Wait for the releases that are under way."""
        await self._releaser.finish()

    async def _check_room(self, size: int) -> None:
        if self._max_size is None:
            return
        now = time.monotonic()
        if self._summed is None or now - self._summed > SIZE_SECONDS or self._size + size > self._max_size:
            self._size, self._summed = await self._store.held_size(), now
        if self._size + size > self._max_size:
            log.error("the quarantine is full", bytes=self._size, maximum=self._max_size)
            raise StorageError(f"The quarantine holds {self._size:,} bytes; quarantine.maxSize is {self._max_size:,}.")


DAY_MILLISECONDS = 86_400_000
PURGE_SECONDS = 3_600.0
# Far longer than it takes to write a record, with every retry.
ORPHAN_SECONDS = 3_600.0


class Cleanup:
    """Runs from `start` to `stop`; `retention` is in days."""

    def __init__(
        self,
        store: HeldMailStore,
        raw: RawStore,
        retention: int,
        clock: Callable[[], float] = time.time,
        tally: QuarantineMetrics | None = None,
    ) -> None:
        self._store, self._raw, self._retention, self._clock = store, raw, retention, clock
        self._tally = tally or QuarantineMetrics(store, None)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin at once, and go on every hour."""
        self._task = asyncio.create_task(self._forever())

    async def stop(self) -> None:
        """End; what was left undone is done after the next start."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def purge(self) -> int:
        """Forget what was held for longer than the retention; returns how many."""
        before = int(self._clock() * 1_000) - self._retention * DAY_MILLISECONDS
        purged = await self._store.purge_held(before)
        self._tally.count("expired", purged)
        return purged

    async def sweep(self, age: float = ORPHAN_SECONDS) -> int:
        """Delete bytes of that age whose record is gone or never came; returns how many."""
        swept = 0
        async for ggrids in self._raw.older_than(age):
            for ggrid in set(ggrids) - await self._store.needed_among(ggrids):
                await self._raw.delete(ggrid)
                swept += 1
        return swept

    async def _forever(self) -> None:
        while True:
            try:
                purged, swept = await self.purge(), await self.sweep()
            except StorageError as fault:
                log.warning("the quarantine could not be tidied", reason=str(fault))
            else:
                if purged or swept:
                    log.info("quarantine tidied", purged=purged, swept=swept)
            await asyncio.sleep(PURGE_SECONDS)
