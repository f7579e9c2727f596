"""Keeping the quarantine in order: what is too old goes, and so do bytes that no record knows.

Bytes without a record are what a kill left behind, or belong to a message that was released or deleted. Young ones are
left alone, for their record may be on its way.
"""

import asyncio
import time
from collections.abc import Callable

import structlog

from gatepost.guard.rawstore import RawStore
from gatepost.guard.tally import Tally
from gatepost.store.errors import StorageError
from gatepost.store.held_mail import HeldMailStore

DAY_MILLISECONDS = 86_400_000
PURGE_SECONDS = 3_600.0
# Far longer than it takes to write a record, with every retry.
ORPHAN_SECONDS = 3_600.0

log = structlog.get_logger("gatepost.guard")


class Tidying:
    """Runs from `start` to `stop`; `retention` is in days."""

    def __init__(
        self,
        store: HeldMailStore,
        raw: RawStore,
        retention: int,
        clock: Callable[[], float] = time.time,
        tally: Tally | None = None,
    ) -> None:
        self._store, self._raw, self._retention, self._clock = store, raw, retention, clock
        self._tally = tally or Tally(store, None)
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
