"""Counts and times as Prometheus reads them."""

import ast

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.source_trees import ROOT, walk_source

from gatepost.process.metrics import BUCKETS, Merged, Timed, counter, exposition, flatten, gauge, merge, unflatten


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


def figures_of(*processes: list[Metric]) -> dict[tuple[str, ...], float]:
    merged = map(unflatten, merge([flatten(families) for families in processes]))
    return {(each.name, *each.labels.values()): each.value for family in merged for each in family.samples}


@pytest.mark.parametrize(("merged", "figure"), [("sum", 6.0), ("least", 1.0), ("most", 3.0), ("own", 2.0)])
def test_gauges_of_several_processes_become_one_as_they_say(merged: Merged, figure: float) -> None:
    several: list[list[Metric]] = [[gauge("things", "Things", merged, value)] for value in (2.0, 1.0, 3.0)]
    assert figures_of(*several) == {("things",): figure}
    # Each process merges the generations of its settings before, and what comes of that says the same.
    again = [list(map(unflatten, merge([flatten(families)]))) for families in several]
    assert figures_of(*again) == {("things",): figure}


def test_labels_are_merged_apart_and_counters_are_added_up() -> None:
    def tell(up: float, done: float) -> list[Metric]:
        hop, seen = gauge("hop", "Up", "least", labels=("url",)), counter("seen", "Seen", done)
        hop.add_metric(("a",), 1.0)
        hop.add_metric(("b",), up)
        return [hop, seen]

    assert figures_of(tell(1, 5), tell(0, 6)) == {("hop", "a"): 1, ("hop", "b"): 0, ("seen_total",): 11}


def test_what_outlasts_settings() -> None:
    families = flatten([gauge("a", "A", "sum", 1), counter("b", "B", 1), counter("c", "C", 1, of_process=True)])
    assert [each.name for each in families if each.outlasts_settings] == ["b"]
    again = flatten(map(unflatten, families))
    assert again == families, "what one process has merged is merged again with others"


def test_every_metric_says_how_it_is_merged() -> None:
    """Families are made by `gauge` and `counter`, of which the first cannot be called without it."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {alias.name}"
        for path in sorted(ROOT.rglob("*.py"))
        if path != ROOT / "process" / "metrics.py"
        for node in walk_source(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prometheus_client")
        for alias in node.names
        if alias.name.endswith("MetricFamily") or alias.name in ("Gauge", "Counter", "Histogram", "Summary", "Info")
    ]
    assert not wrong
