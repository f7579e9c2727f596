"""What abby tells Prometheus, and a port of its own for it where the operator wants one."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gatepost.abby.cores import Cores
from gatepost.api.errors import Failure
from gatepost.guard.scan import ScanResult
from gatepost.metrics import CONTENT_TYPE, Timed


class AbbyMetrics(Collector):
    """Scan requests by what they came to, and who waits."""

    def __init__(self, cores: Cores) -> None:
        self._cores = cores
        self._scans = Timed("gatepost_scan_requests", "Scan requests answered", ("outcome", "decision"))

    def scanned(self, outcome: ScanResult | Failure, seconds: float) -> None:
        """One request was answered: with a verdict, or with an error code."""
        if isinstance(outcome, Failure):
            self._scans.observe((outcome.error.code, ""), seconds)
        else:
            self._scans.observe((outcome.report.verdict, outcome.report.decision), seconds)

    def collect(self) -> Iterator[Metric]:
        yield from self._scans.collect()
        yield GaugeMetricFamily("gatepost_waiting", "Scans that wait for a slot", value=self._cores.waiting)
        yield GaugeMetricFamily("gatepost_waiting_bytes", "Bytes of those", value=self._cores.waiting_bytes)
        yield GaugeMetricFamily("gatepost_cores_answering", "Cores that answer", value=self._cores.answering)
        yield CounterMetricFamily(
            "gatepost_scans_again", "Attempts at a message after its first", value=self._cores.attempts_again
        )


def metrics_app(text: Callable[[], bytes]) -> Starlette:
    """`/metrics` and nothing else, for everybody who can reach its address."""

    async def metrics(_request: Request) -> Response:
        return Response(text(), headers={"content-type": CONTENT_TYPE})

    return Starlette(routes=[Route("/metrics", metrics)])
