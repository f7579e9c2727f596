"""What a core and its quarantine tell Prometheus. Figures are read from their owners when Prometheus asks.

How much mail all cores hold together only the database knows; it is asked every `REFRESH_SECONDS`, and a figure that is
half a minute old is good enough to see a quarantine fill up. What the command line does in a process of its own shows
in what is held, not in what was done here.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost.guard.answers.dns import DnsCounters
from gatepost.guard.answers.reputation import ZoneCounters
from gatepost.guard.answers.sender_history import SenderHistoryCounters
from gatepost.process.logs import Logger
from gatepost.process.metrics import Timed, counter, gauge
from gatepost.process.periodic import PeriodicWork
from gatepost.store.engine import StoreCounters
from gatepost.store.message_records import MessageRecord
from gatepost.store.quarantine import QuarantineRecords
from gatepost.workers.fair_queue import FairQueue
from gatepost.workers.jobs import PoolCounters


class GuardMetrics(Collector):
    """The metrics of one core; register it in the registry that `/metrics` reads."""

    def __init__(
        self,
        queue: FairQueue,
        pool: Callable[[], PoolCounters],
        dns: Callable[[], DnsCounters],
        store: Callable[[], StoreCounters],
    ) -> None:
        self._queue, self._pool, self._dns, self._store = queue, pool, dns, store
        self._messages = Timed("gatepost_messages", "Messages analysed", ("verdict", "decision"))

    def observe_scan(self, record: MessageRecord, seconds: float) -> None:
        """Count a message that was analysed and whose result is on record."""
        self._messages.observe((record.report.verdict, record.report.decision), seconds)

    def collect(self) -> Iterator[Metric]:
        yield from self._messages.collect()
        yield from self._admission_metrics()
        yield from self._worker_metrics()
        dns, kept = self._dns(), self._store()
        yield counter("gatepost_dns_queries", "Questions sent to name servers", dns.queries)
        yield counter("gatepost_dns_cache_hits", "Questions answered without sending one", dns.hits)
        yield counter("gatepost_dns_failures", "Questions without an answer", dns.failures)
        yield counter("gatepost_store_changes", "Changes kept in storage", kept.changes)
        yield counter("gatepost_store_commits", "Commits that held them", kept.commits)
        yield counter("gatepost_store_failures", "Commits that failed", kept.failures)

    def _admission_metrics(self) -> Iterator[Metric]:
        load, counters = self._queue.load(), self._queue.counters()
        yield gauge("gatepost_in_processing", "Messages in processing", load.in_processing)
        yield gauge("gatepost_in_processing_maximum", "Messages in processing at which more are refused", load.maximum)
        yield counter("gatepost_admitted", "Messages that got a slot", counters.admitted)
        yield counter("gatepost_throttled", "Messages that were delayed", counters.throttled)
        yield counter("gatepost_rejected", "Messages that found no slot", counters.refused)

    def _worker_metrics(self) -> Iterator[Metric]:
        pool = self._pool()
        kills = counter("gatepost_worker_kills", "Workers ended over a message", labels=("reason",))
        for reason, count in pool.kills.items():
            kills.add_metric((reason,), count)
        yield kills
        yield counter(
            "gatepost_worker_restarts", "Workers that ended before their time and were replaced", pool.restarts
        )
        yield counter("gatepost_workers_relieved", "Workers that computed for long and got a stand-in", pool.relieved)
        yield counter("gatepost_poison_recalled", "Messages whose copy had broken a worker before", pool.recalled)
        yield gauge("gatepost_workers", "Workers that are ready", pool.workers)
        yield gauge("gatepost_workers_sealed", "1 if workers cannot reach files or network", pool.sealed)
        yield gauge("gatepost_analyses_queued", "Messages that wait for a worker", pool.queued)


class ReputationMetrics(Collector):
    """The metrics of a core's reputation zones, by the names that the settings give them."""

    def __init__(self, zones: Callable[[], tuple[ZoneCounters, ...]]) -> None:
        self._zones = zones

    def collect(self) -> Iterator[Metric]:
        asked = counter("gatepost_reputation_questions", "Values asked about", labels=("zone",))
        listed = counter("gatepost_reputation_listings", "Values that were listed", labels=("zone",))
        failed = counter("gatepost_reputation_failures", "Questions without an answer", labels=("zone",))
        muted = gauge("gatepost_reputation_muted", "1 if the zone is not believed now", labels=("zone",))
        for each in self._zones():
            asked.add_metric((each.zone,), each.asked)
            listed.add_metric((each.zone,), each.listed)
            failed.add_metric((each.zone,), each.failed)
            muted.add_metric((each.zone,), each.muted)
        yield from (asked, listed, failed, muted)


class SenderHistoryMetrics(Collector):
    """The metrics of a core's sender history."""

    def __init__(self, counters: Callable[[], SenderHistoryCounters]) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        done = self._counters()
        yield counter("gatepost_acquaintance_questions", "Messages asked about", done.asked)
        yield counter("gatepost_acquaintance_lookups", "Times that storage was read for one", done.looked_up)
        yield counter("gatepost_acquaintance_written", "Senders and sites written", done.written)
        yield counter("gatepost_acquaintance_dropped", "Those that could not be written", done.dropped)


REFRESH_SECONDS = 30.0

Event = Literal["kept", "released", "release_failures", "deleted", "expired", "failures"]
EVENTS: dict[Event, str] = {
    "kept": "Messages that were put into the quarantine",
    "released": "Messages that were sent on",
    "release_failures": "Releases that the next hop did not take",
    "deleted": "Messages that were deleted",
    "expired": "Messages, held or released, that were forgotten because their time was over",
    "failures": "Messages that should have been held and could not be; their senders try again",
}

log = Logger("gatepost.guard")


class QuarantineMetrics(Collector):
    """The metrics of one quarantine; it reads the database from `start` to `stop`."""

    def __init__(self, quarantine: QuarantineRecords, max_size: int | None) -> None:
        self._quarantine, self._max_size = quarantine, max_size
        self._events: Counter[Event] = Counter()
        self._totals: tuple[int, int] | None = None
        self._refreshing = PeriodicWork(self.refresh, REFRESH_SECONDS, "held mail could not be counted", log)

    def count(self, event: Event, times: int = 1) -> None:
        self._events[event] += times

    @property
    def failures(self) -> int:
        """How many messages should have been held and could not be."""
        return self._events["failures"]

    async def refresh(self) -> None:
        self._totals = await self._quarantine.totals()

    def start(self) -> None:
        """Refresh now and every `REFRESH_SECONDS`."""
        self._refreshing.start()

    async def stop(self) -> None:
        await self._refreshing.stop()

    def collect(self) -> Iterator[Metric]:
        if self._totals:
            yield gauge("gatepost_quarantine_held", "Messages that are held", self._totals[0])
            yield gauge("gatepost_quarantine_bytes", "Bytes of those", self._totals[1])
        if self._max_size is not None:
            explained = "Bytes at which no more is taken"
            yield gauge("gatepost_quarantine_bytes_maximum", explained, self._max_size)
        for event, explained in EVENTS.items():
            yield counter(f"gatepost_quarantine_{event}", explained, value=self._events[event])
