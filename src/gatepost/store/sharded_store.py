"""The whole store where tenants have their mail in several databases (`tenant_databases`).

It has the same subjects as `Store`. Those that have to do with mail know the databases; all others are in the first.
"""

import asyncio
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from gatepost.store.engine import ChangeObserver, StoreCounters, now, write_rows
from gatepost.store.errors import StorageError
from gatepost.store.store import PROVE, Store
from gatepost.store.tenant_databases import TenantDatabase, TenantDatabases

PROVE_SECONDS = 4.0
# The classes of the subjects that have to do with mail.
SPREAD = {
    "messages": "gatepost.store.sharded_messages.ShardedMessages",
    "traffic": "gatepost.store.sharded_messages.ShardedTraffic",
    "sightings": "gatepost.store.sharded_messages.ShardedSightings",
    "quarantine": "gatepost.store.sharded_quarantine.ShardedQuarantine",
    "feedback": "gatepost.store.sharded_quarantine.ShardedFeedback",
    "digests": "gatepost.store.sharded_quarantine.ShardedDigests",
    "look_backs": "gatepost.store.sharded_quarantine.ShardedLookBacks",
    "privacy": "gatepost.store.sharded_quarantine.ShardedPrivacy",
    "tenants": "gatepost.store.sharded_quarantine.ShardedTenants",
}


class ShardedStore(Store):
    """All that is stored, in several databases."""

    def __init__(self, databases: TenantDatabases, data_folder: Path, *, at_once: bool = True) -> None:
        self._databases = databases
        super().__init__(databases.first, data_folder, at_once=at_once)

    def _make(self, subject: str) -> Any:
        if subject not in SPREAD:
            return super()._make(subject)
        module, _, kind = SPREAD[subject].rpartition(".")
        return getattr(import_module(module), kind)(self._databases, *self._parts(subject)[1:])

    async def close(self) -> None:
        """Finish what is under way and close all databases."""
        await super().close()
        await self._databases.close()

    async def faults_of_tenants(self) -> tuple[str, ...]:
        """What cannot be used of the databases besides the first."""
        found = await asyncio.gather(*map(self._find_fault, self._databases.others))
        return tuple(fault for fault in found if fault)

    async def _find_fault(self, database: TenantDatabase) -> str:
        try:
            async with asyncio.timeout(PROVE_SECONDS):
                await (await database.engine()).change(partial(write_rows, PROVE, now()))
        except StorageError as fault:
            return f"database {database.name} cannot be used: {str(fault).rstrip('.')}"
        except TimeoutError:
            return f"database {database.name} does not answer within {PROVE_SECONDS:.0f} seconds"
        return ""

    def observe_changes(self, observer: ChangeObserver) -> None:
        """Have every announced change reported from now on, in whatever database it is."""
        for engine in self._databases.engines:
            engine.observe_changes(observer)

    def counters(self) -> StoreCounters:
        """How many changes were written in all databases."""
        found = self._databases.counters()
        return StoreCounters(*(sum(each) for each in zip(*found, strict=True)))
