"""Metrics for Prometheus that cost little per message: a dictionary and a list are incremented, and the metric families
are built when Prometheus asks for them."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Seconds: real mail takes milliseconds, hostile mail up to the time limit.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Timed(Collector):
    """Counts events by label, and their durations in one histogram."""

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
        counter = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, count in self._counts.items():
            counter.add_metric(labels, count)
        yield counter
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
    return generate_latest(registry)
