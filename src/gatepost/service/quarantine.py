"""The quarantine of a configuration, put together: for the service, and for the command line beside it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from gatepost.guard.quarantine import Quarantine
from gatepost.guard.rawstore import open_raw_store
from gatepost.guard.tally import Tally
from gatepost.guard.tidying import Tidying
from gatepost.service.datafolder import DataFolder
from gatepost.service.gateway import build_relay
from gatepost.settings import Guard as GuardSettings
from gatepost.store.held_mail import HeldMailStore


@asynccontextmanager
async def open_quarantine(
    settings: GuardSettings, store: HeldMailStore, data: DataFolder, registry: CollectorRegistry | None = None
) -> AsyncIterator[Quarantine]:
    """A quarantine on this store. A service names its registry: it has the quarantine tidied and counted while it runs;
    a command leaves that to the service."""
    raw = open_raw_store(settings.quarantine.url, data.quarantine)
    relay = build_relay(settings)
    tally = Tally(store, settings.quarantine.max_size)
    quarantine = Quarantine(store, raw, relay, max_size=settings.quarantine.max_size, tally=tally)
    tidying = Tidying(store, raw, settings.quarantine.retention, tally=tally)
    if registry:
        registry.register(tally)
        tally.start()
        tidying.start()
    try:
        yield quarantine
    finally:
        await quarantine.finish()
        await tidying.stop()
        await tally.stop()
        if relay:
            await relay.close()
