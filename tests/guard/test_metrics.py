"""A core's figures are read when they are asked for."""

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from gatepost.analysis.report import Report
from gatepost.guard.answers.dns import DnsCounters
from gatepost.guard.metrics import GuardMetrics
from gatepost.mail.message import Envelope
from gatepost.process.metrics import exposition
from gatepost.store.engine import StoreCounters
from gatepost.store.message_records import MessageRecord
from gatepost.workers.fair_queue import FairQueue
from gatepost.workers.jobs import PoolCounters


def count_workers() -> PoolCounters:
    kills = {"stall": 1, "deadline": 2, "crash": 3, "memory": 4}
    return PoolCounters(50, kills, 5, 6, 8, 9, 1, 7, 2, sealed=True)  # type: ignore[arg-type]


def test_everything_is_there() -> None:
    queue = FairQueue(2, 1, 1.0)
    registry = CollectorRegistry()
    metrics = GuardMetrics(queue, count_workers, lambda: DnsCounters(10, 20, 3), lambda: StoreCounters(100, 9, 1))
    registry.register(metrics)
    slots = [queue.enter(None) for _ in range(3)]
    assert slots[2] is None
    report = Report("spam", "quarantine", (), 0, "")
    metrics.observe_scan(MessageRecord("", 0, 0, Envelope(), 0, "", report), 0.02)
    got = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(exposition(registry).decode())
        for sample in family.samples
    }
    expected = {
        ("gatepost_messages_total", "quarantine", "spam"): 1,
        ("gatepost_messages_seconds_count",): 1,
        ("gatepost_in_processing",): 2,
        ("gatepost_in_processing_maximum",): 2,
        ("gatepost_admitted_total",): 2,
        ("gatepost_throttled_total",): 1,
        ("gatepost_rejected_total",): 0,
        ("gatepost_worker_kills_total", "crash"): 3,
        ("gatepost_worker_kills_total", "memory"): 4,
        ("gatepost_workers",): 2,
        ("gatepost_workers_sealed",): 1,
        ("gatepost_analyses_queued",): 7,
        ("gatepost_dns_queries_total",): 10,
        ("gatepost_dns_cache_hits_total",): 20,
        ("gatepost_dns_failures_total",): 3,
        ("gatepost_store_changes_total",): 100,
        ("gatepost_store_commits_total",): 9,
        ("gatepost_store_failures_total",): 1,
    }
    assert {name: got.get(name) for name in expected} == expected
    assert slots[0]
    slots[0].leave()
    assert b"gatepost_in_processing 1.0" in exposition(registry)
