"""Counts and times as Prometheus reads them."""

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from gatepost.metrics import BUCKETS, Timed, exposition


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(exposition(registry).decode())
        for sample in family.samples
    }


def test_counts_by_label_and_cumulative_buckets() -> None:
    registry, timed = CollectorRegistry(), Timed("things", "Things done", ("colour",))
    registry.register(timed)
    for seconds in (0.0, 0.001, 0.0011, 0.7, 1e9):
        timed.observe(("red",), seconds)
    timed.observe(("blue",), 0.7)
    got = samples(registry)
    assert got["things_total", "red"] == 5
    assert got["things_total", "blue"] == 1
    assert got["things_seconds_bucket", "0.001"] == 2, "a bound belongs to its bucket"
    assert got["things_seconds_bucket", "0.0025"] == 3
    assert got["things_seconds_bucket", "0.5"] == 3
    assert got["things_seconds_bucket", "1.0"] == 5
    assert got["things_seconds_bucket", "+Inf"] == got["things_seconds_count",] == 6
    assert got["things_seconds_sum",] == sum((0.0, 0.001, 0.0011, 0.7, 1e9, 0.7))
    assert sum(name[0] == "things_seconds_bucket" for name in got) == len(BUCKETS) + 1
