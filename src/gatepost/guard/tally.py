"""What the quarantine tells Prometheus: what is held by all cores together, and what was done here since the start.

The database knows what is held, and is asked now and then; a figure that is half a minute old is good enough to see a
quarantine fill up. What the command line does in a process of its own shows in what is held, not in what was done here.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost.store.errors import StorageError
from gatepost.store.held_mail import HeldMailStore

LOOK_SECONDS = 30.0

Event = Literal["kept", "released", "release_failures", "deleted", "expired", "failures"]
EVENTS: dict[Event, str] = {
    "kept": "Messages that were put into the quarantine",
    "released": "Messages that were sent on",
    "release_failures": "Releases that the next hop did not take",
    "deleted": "Messages that somebody deleted",
    "expired": "Messages, held or released, that were forgotten because their time was over",
    "failures": "Messages that should have been held and could not be; their senders try again",
}

log = structlog.get_logger("gatepost.guard")


class Tally(Collector):
    """Counts for one quarantine; looks at the database from `start` to `stop`."""

    def __init__(self, store: HeldMailStore, max_size: int | None) -> None:
        self._store, self._max_size = store, max_size
        self._events: Counter[Event] = Counter()
        self._totals: tuple[int, int] | None = None
        self._task: asyncio.Task[None] | None = None

    def count(self, event: Event, times: int = 1) -> None:
        """It happened."""
        self._events[event] += times

    async def look(self) -> None:
        """See how much is held."""
        try:
            self._totals = await self._store.held_totals()
        except StorageError as fault:
            log.warning("what is held could not be counted", reason=str(fault))

    def start(self) -> None:
        """Look now, and again and again."""
        self._task = asyncio.create_task(self._forever())

    async def stop(self) -> None:
        """Look no more."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def collect(self) -> Iterator[Metric]:
        if self._totals:
            yield GaugeMetricFamily("gatepost_quarantine_held", "Messages that are held", value=self._totals[0])
            yield GaugeMetricFamily("gatepost_quarantine_bytes", "Bytes of those", value=self._totals[1])
        if self._max_size is not None:
            explained = "Bytes at which no more is taken"
            yield GaugeMetricFamily("gatepost_quarantine_bytes_maximum", explained, value=self._max_size)
        for event, explained in EVENTS.items():
            yield CounterMetricFamily(f"gatepost_quarantine_{event}", explained, value=self._events[event])

    async def _forever(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)
