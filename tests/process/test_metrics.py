"""Counts and times as Prometheus reads them."""

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from gatepost.process.metrics import BUCKETS, Timed, counter, exposition, gauge, merge


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


def figures_of(*parts: list[Metric]) -> dict[tuple[str, ...], float]:
    merged = merge(family for families in parts for family in families)
    return {(each.name, *each.labels.values()): each.value for family in merged for each in family.samples}


def test_labels_are_merged_apart_and_counters_are_added_up() -> None:
    def tell(opened: float, done: float) -> list[Metric]:
        hop, seen = counter("hop", "Opened", labels=("url",)), counter("seen", "Seen", done)
        hop.add_metric(("a",), 1.0)
        hop.add_metric(("b",), opened)
        return [hop, seen]

    got = figures_of([gauge("up", "Up", 3.0), *tell(4, 5)], tell(0, 6))
    assert got == {("up",): 3, ("hop_total", "a"): 2, ("hop_total", "b"): 4, ("seen_total",): 11}
