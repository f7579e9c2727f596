"""What a core tells Prometheus. Everything but the messages themselves is read from its owner when asked for."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost.analysis import Report
from gatepost.guard.acquaintance import AcquaintanceCounters
from gatepost.guard.admission import AdmissionCounters
from gatepost.guard.dns import DnsCounters
from gatepost.guard.pool import PoolCounters
from gatepost.guard.scan import Load
from gatepost.metrics import Timed
from gatepost.store.engine import StoreCounters


class CountsAdmission(Protocol):
    def counters(self) -> AdmissionCounters: ...

    def load(self) -> Load: ...


class CountsPool(Protocol):
    def counters(self) -> PoolCounters: ...


class CountsDns(Protocol):
    def counters(self) -> DnsCounters: ...


class CountsStore(Protocol):
    def counters(self) -> StoreCounters: ...


class GuardMetrics(Collector):
    """The metrics of one core; register it in the registry that `/metrics` reads."""

    def __init__(self, admission: CountsAdmission, pool: CountsPool, resolver: CountsDns, store: CountsStore) -> None:
        self._admission, self._pool, self._resolver, self._store = admission, pool, resolver, store
        self._messages = Timed("gatepost_messages", "Messages analysed", ("verdict", "decision"))

    def scanned(self, report: Report, seconds: float) -> None:
        """One message was analysed and its result kept."""
        self._messages.observe((report.verdict, report.decision), seconds)

    def collect(self) -> Iterator[Metric]:
        yield from self._messages.collect()
        yield from self._admitted()
        yield from self._worked()
        yield from self._looked_up()
        kept = self._store.counters()
        yield _counter("gatepost_store_changes", "Changes kept in storage", kept.changes)
        yield _counter("gatepost_store_commits", "Commits that held them", kept.commits)
        yield _counter("gatepost_store_failures", "Commits that failed", kept.failures)

    def _admitted(self) -> Iterator[Metric]:
        load, door = self._admission.load(), self._admission.counters()
        yield _gauge("gatepost_in_processing", "Messages in processing", load.in_processing)
        yield _gauge("gatepost_in_processing_maximum", "Messages in processing at which more are refused", load.maximum)
        yield _gauge("gatepost_queue_status", "0 GREEN, 1 YELLOW (throttles), 2 RED (full)", queue_status(load))
        yield _counter("gatepost_admitted", "Messages that got a slot", door.admitted)
        yield _counter("gatepost_throttled", "Messages that were delayed", door.throttled)
        yield _counter("gatepost_rejected", "Messages that found no slot", door.refused)

    def _worked(self) -> Iterator[Metric]:
        pool = self._pool.counters()
        kills = CounterMetricFamily("gatepost_worker_kills", "Workers ended over a message", labels=("reason",))
        for reason, count in pool.kills.items():
            kills.add_metric((reason,), count)
        yield kills
        yield _counter(
            "gatepost_worker_restarts", "Analyses that started again through no fault of theirs", pool.restarts
        )
        yield _gauge("gatepost_workers", "Workers that are ready", pool.workers)
        yield _gauge("gatepost_workers_sealed", "1 if workers cannot reach files or network", pool.sealed)
        yield _gauge("gatepost_analyses_queued", "Messages that wait for a worker", pool.queued)

    def _looked_up(self) -> Iterator[Metric]:
        dns = self._resolver.counters()
        yield _counter("gatepost_dns_queries", "Questions sent to name servers", dns.queries)
        yield _counter("gatepost_dns_cache_hits", "Questions answered without sending one", dns.hits)
        yield _counter("gatepost_dns_failures", "Questions that nobody answered", dns.failures)


class CountsAcquaintances(Protocol):
    def counters(self) -> AcquaintanceCounters: ...


class AcquaintanceMetrics(Collector):
    """What the memory of a core tells Prometheus."""

    def __init__(self, acquaintances: CountsAcquaintances) -> None:
        self._acquaintances = acquaintances

    def collect(self) -> Iterator[Metric]:
        done = self._acquaintances.counters()
        yield _counter("gatepost_acquaintance_questions", "Messages asked about", done.asked)
        yield _counter("gatepost_acquaintance_lookups", "Times that storage was read for one", done.looked_up)
        yield _counter("gatepost_acquaintance_written", "Senders and sites written", done.written)
        yield _counter("gatepost_acquaintance_dropped", "Those that could not be written", done.dropped)


def queue_status(load: Load) -> int:
    """GREEN, YELLOW or RED as 0, 1 or 2."""
    return 2 if load.full else int(load.throttling)


def _counter(name: str, documentation: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, documentation, value=value)


def _gauge(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, value=value)
