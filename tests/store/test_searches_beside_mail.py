"""Searches do not hold up what mail needs of storage: as many as there are, however long they take."""

import asyncio
import threading

from tests.store.conftest import NewRecord

from gatepost.lists.catalogue import BY_NAME
from gatepost.store.audit import CLI
from gatepost.store.engine import Operations, Read, Work, large_query
from gatepost.store.lists import NewEntry
from gatepost.store.postgres import SEARCHES
from gatepost.store.sql import compose
from gatepost.store.sqlite import SEARCHERS
from gatepost.store.store import Store

MANY = 40
ENTRY = NewEntry("evil.example", "evil.example", "")


class Endless(Operations):
    """Searches that last until they are let go. `begun` and `ended` count them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store._engine)
        self._going = threading.Event()
        self.begun = self.ended = 0

    @large_query
    def look(self) -> Work[int]:
        self.begun += 1
        self._going.wait(180)
        rows = yield Read(compose("SELECT 1"))
        self.ended += 1
        return len(rows)

    def let_go(self) -> None:
        self._going.set()


async def test_a_scan_reads_and_writes_beside_any_number_of_searches(store: Store, new_record: NewRecord) -> None:
    await store.lists.add(None, BY_NAME["blocked-urls"], [ENTRY], CLI)
    searches = Endless(store)
    looking = [asyncio.create_task(searches.look()) for _ in range(MANY)]
    record = new_record()
    try:
        async with asyncio.timeout(180):
            while not searches.begun:  # noqa: ASYNC110  it counts in a thread
                await asyncio.sleep(0.001)
            # All that a scan asks storage for, and the record that it leaves.
            assert await store.list_lookup.find(None, (("url", ("evil.example",)),))
            await store.list_lookup.unkeyed(None)
            await store.sightings.find(None, (1, 2))
            await store.messages.record(record)
            assert await store.messages.find(record.ggrid)
        assert searches.ended == 0, "no search was waited for"
        assert searches.begun <= max(SEARCHES, SEARCHERS)
    finally:
        searches.let_go()
    assert await asyncio.gather(*looking) == [1] * MANY
