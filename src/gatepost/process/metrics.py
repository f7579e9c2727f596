"""Metrics for Prometheus: figures that cost little, added up where several parts tell the same."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Seconds: real mail takes milliseconds, hostile mail up to the time limit.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


def gauge(
    name: str, documentation: str, value: float | None = None, *, labels: Sequence[str] = ()
) -> GaugeMetricFamily:
    """A figure that rises and falls; with labels, values are added to it."""
    return GaugeMetricFamily(name, documentation, value, labels or None)


def counter(
    name: str, documentation: str, value: float | None = None, *, labels: Sequence[str] = ()
) -> CounterMetricFamily:
    """A figure that only rises; with labels, values are added to it."""
    return CounterMetricFamily(name, documentation, value, labels or None)


class Timed(Collector):
    """Counts events by label, and their durations in one histogram; to count is to change a dictionary and a list."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        self._name, self._documentation, self._labels = name, documentation, tuple(labels)
        self._counts: dict[tuple[str, ...], int] = {}
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def observe(self, labels: tuple[str, ...], seconds: float) -> None:
        """Count one event, with a value for each label."""
        self._counts[labels] = self._counts.get(labels, 0) + 1
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds

    def collect(self) -> Iterator[Metric]:
        counted = counter(self._name, self._documentation, labels=self._labels)
        for labels, count in self._counts.items():
            counted.add_metric(labels, count)
        yield counted
        yield HistogramMetricFamily(
            f"{self._name}_seconds", f"{self._documentation}: seconds taken", self._cumulative(), self._seconds
        )

    def _cumulative(self) -> list[tuple[str, float]]:
        total, result = 0, []
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._buckets, strict=True):
            total += count
            result.append((bound, float(total)))
        return result


def exposition(registry: CollectorRegistry) -> bytes:
    """Return the text of `/metrics`."""
    merged = CollectorRegistry()
    merged.register(_Merged(registry))
    return generate_latest(merged)


class _Merged(Collector):
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def describe(self) -> tuple[Metric, ...]:
        """Nothing is asked before `/metrics` is."""
        return ()

    def collect(self) -> list[Metric]:
        return merge(self._registry.collect())


def merge(families: Iterable[Metric]) -> list[Metric]:
    """Add up the figures of metrics that come several times."""
    merged: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for family in families:
        merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        known = values.setdefault(family.name, {})
        for sample in family.samples:
            key = (sample.name, tuple(sample.labels.items()))
            known[key] = known.get(key, 0.0) + float(sample.value)
    for name, family in merged.items():
        for (sample_name, labels), value in values[name].items():
            family.add_sample(sample_name, dict(labels), value)
    return list(merged.values())
