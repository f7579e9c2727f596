"""The quarantine of a configuration, put together: for the service, and for the command line beside it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gatepost.guard.quarantine import Quarantine
from gatepost.guard.rawstore import open_raw_store
from gatepost.guard.tidying import Tidying
from gatepost.service.datafolder import DataFolder
from gatepost.service.gateway import build_relay
from gatepost.settings import Guard as GuardSettings
from gatepost.store.heldstore import HeldStore


@asynccontextmanager
async def open_quarantine(
    settings: GuardSettings, store: HeldStore, data: DataFolder, *, tidy: bool
) -> AsyncIterator[Quarantine]:
    """A quarantine on this store. The service has it tidied while it runs; a command leaves that to the service."""
    raw = open_raw_store(settings.quarantine.url, data.quarantine)
    relay = build_relay(settings)
    quarantine = Quarantine(store, raw, relay, max_size=settings.quarantine.max_size)
    tidying = Tidying(store, raw, settings.quarantine.retention)
    if tidy:
        tidying.start()
    try:
        yield quarantine
    finally:
        await quarantine.finish()
        await tidying.stop()
        if relay:
            await relay.close()
