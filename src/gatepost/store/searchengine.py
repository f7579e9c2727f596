"""`SearchStore` and `TrafficStore`, whichever engine does the work.

A search reads more than once and must see one moment throughout: rows that come in between would move its edge.
"""

from functools import partial

from gatepost.store import auditpages, entrypages, findable, heldpages, search, traffic
from gatepost.store.doing import Doing, now, scoped
from gatepost.store.interface import HeldFilter
from gatepost.store.searchstore import AuditFilter, AuditPage, EntryPage, HeldCounts, HeldPage, MessageFilter, Page
from gatepost.store.trafficstore import Bucket

PURGE_BATCH = 500


class SearchEngine(Doing):
    """Pages of what is kept, and traffic."""

    async def search_messages(self, wanted: MessageFilter, before: str | None = None, limit: int = 100) -> Page:
        return await self._query_once(partial(search.search, wanted, before, limit))

    async def search_held(self, wanted: HeldFilter, before: str | None = None, limit: int = 100) -> HeldPage:
        return await self._query_once(partial(heldpages.search, wanted, before, limit))

    async def held_counts(self, tenant: str | None = None) -> HeldCounts:
        return await self._query(partial(heldpages.counts, scoped(tenant)))

    async def entries_page(
        self,
        scope: str | None,
        list_name: str,
        *,
        prefix: str = "",
        part: str = "",
        after: str | None = None,
        limit: int = 100,
    ) -> EntryPage:
        return await self._query_once(partial(entrypages.page, scoped(scope), list_name, prefix, part, after, limit))

    async def audit_page(self, wanted: AuditFilter, before: str | None = None, limit: int = 100) -> AuditPage:
        return await self._query_once(partial(auditpages.page, wanted, before, limit))

    async def traffic(self, tenant: str | None, since: int, until: int, step: int) -> tuple[Bucket, ...]:
        return await self._query(partial(traffic.read, scoped(tenant), since, until, step))

    async def _enter_late(self) -> None:
        """Enter what was kept before there was a search."""
        while await self._change(findable.enter_late):
            pass

    async def _purge_traffic(self, before: int) -> None:
        """Forget traffic of old, and add up what is settled."""
        while await self._change(partial(traffic.purge, before, PURGE_BATCH)):
            pass
        while await self._change(partial(traffic.settle, now())):
            pass
