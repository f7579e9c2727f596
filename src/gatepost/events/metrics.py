"""What the event stream tells Prometheus."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost.events.stream import EventStream


class EventMetrics(Collector):
    """Events by kind, and what became of them at each output."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    def collect(self) -> Iterator[Metric]:
        stream = self._stream
        emitted = CounterMetricFamily("gatepost_events", "Events by kind", labels=("event",))
        for kind, count in sorted(stream.emitted.items()):
            emitted.add_metric((kind,), count)
        yield emitted
        delivered = CounterMetricFamily("gatepost_events_delivered", "Events delivered", labels=("output",))
        dropped = CounterMetricFamily("gatepost_events_dropped", "Events given up, at a bound", labels=("output",))
        failures = CounterMetricFamily("gatepost_events_failures", "Attempts that failed", labels=("output",))
        waiting = GaugeMetricFamily("gatepost_events_waiting_bytes", "Bytes that wait", labels=("output",))
        dropped.add_metric(("queue",), stream.dropped)
        failures.add_metric(("queue",), stream.failures)
        for output in stream.outputs:
            counters = output.counters()
            delivered.add_metric((output.name,), counters.delivered)
            dropped.add_metric((output.name,), counters.dropped)
            failures.add_metric((output.name,), counters.failures)
            waiting.add_metric((output.name,), counters.waiting_bytes)
        yield from (delivered, dropped, failures, waiting)
