"""What abby, the SMTP source and the milter source report to Prometheus, and `/metrics` on a port of its own."""

import platform
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gatepost import __version__
from gatepost.api.errors import Failure
from gatepost.logs import LogOutput
from gatepost.metrics import CONTENT_TYPE, Timed
from gatepost.smtp.replies import DEFERRALS
from gatepost.speedups import native

if TYPE_CHECKING:
    from gatepost.abby.cores import Cores
    from gatepost.milter.intake import MilterIntake
    from gatepost.scanning.request import ScanResult
    from gatepost.smtp.flow_control import FlowControl
    from gatepost.smtp.intake import Intake
    from gatepost.smtp.routing import Routing
    from gatepost.smtp.services import Services


class AbbyMetrics(Collector):
    """Scan requests by outcome, and the scans that wait."""

    def __init__(self, cores: "Cores") -> None:
        self._cores = cores
        self._scans = Timed("gatepost_scan_requests", "Scan requests answered", ("outcome", "decision"))

    def observe_scan(self, outcome: "ScanResult | Failure", seconds: float) -> None:
        """Count one request that was answered, with a verdict or with an error code."""
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


def build_metrics_app(text: Callable[[], bytes]) -> Starlette:
    """Build an application that serves `/metrics` and nothing else, without authentication."""

    async def metrics(_request: Request) -> Response:
        return Response(text(), headers={"content-type": CONTENT_TYPE})

    return Starlette(routes=[Route("/metrics", metrics)])


class GatewayMetrics(Collector):
    """Sessions, answers and relay connections of the SMTP source."""

    def __init__(self, intake: "Intake", services: "Services") -> None:
        self._intake, self._services = intake, services

    def collect(self) -> Iterator[Metric]:
        yield from _describe_intake("smtp", "SMTP sessions", self._intake, self._services)
        full = self._intake.turned_away_full
        yield CounterMetricFamily("gatepost_smtp_port_full", "Connections that found no room on the port", value=full)
        begun = self._services.attempts
        yield CounterMetricFamily("gatepost_smtp_transactions", "Transactions that were begun", value=begun)
        put_off = CounterMetricFamily("gatepost_smtp_put_off", "Those put off for a reason of ours", labels=("reason",))
        for reason in sorted(set(DEFERRALS.values())):
            put_off.add_metric((reason,), self._services.deferred[reason])
        yield put_off
        outbound = self._services.outbound
        if outbound:
            limited = outbound.limits.limited
            yield CounterMetricFamily("gatepost_outbound_limited", "Commands of senders over a limit", value=limited)
        if self._services.routings:
            yield from _describe_next_hops(self._services.routings)
        if self._services.flow:
            yield from _describe_flow(self._services.flow)


def _describe_flow(flow: "FlowControl") -> Iterator[Metric]:
    refused = CounterMetricFamily("gatepost_flow_put_off", "Recipients and senders put off", labels=("limit",))
    for limit, count in flow.refused.items():
        refused.add_metric((limit,), count)
    yield refused
    yield GaugeMetricFamily("gatepost_flow_counters", "Counters of flow control in memory", value=flow.counters.size)
    looked_up = flow.greylist.looked_up
    yield CounterMetricFamily("gatepost_flow_greylist_lookups", "Look-ups of greylisting", value=looked_up)
    yield GaugeMetricFamily("gatepost_flow_open", "Whether limits do not hold", value=float(bool(flow.fault)))


class MilterMetrics(Collector):
    """Connections and answers of the milter source."""

    def __init__(self, intake: "MilterIntake", services: "Services") -> None:
        self._intake, self._services = intake, services

    def collect(self) -> Iterator[Metric]:
        yield from _describe_intake("milter", "Connections of mail servers", self._intake, self._services)


def _describe_intake(source: str, sessions: str, intake: "Intake", services: "Services") -> Iterator[Metric]:
    """What both sources of mail servers count."""
    yield GaugeMetricFamily(f"gatepost_{source}_sessions", f"{sessions} at this moment", value=intake.open)
    yield CounterMetricFamily(f"gatepost_{source}_connections", "Connections", value=intake.connections)
    yield CounterMetricFamily(f"gatepost_{source}_turned_away", "Those that were refused", value=intake.turned_away)
    answers = CounterMetricFamily(f"gatepost_{source}_messages", "Whole messages by their answer", labels=("answer",))
    for answer, count in services.answers.items():
        answers.add_metric((answer,), count)
    yield answers


def _describe_next_hops(routings: "Sequence[Routing]") -> Iterator[Metric]:
    labels = ("route", "next_hop")
    opened = CounterMetricFamily("gatepost_relay_connections", "Connections to the next hop", labels=labels)
    reused = CounterMetricFamily("gatepost_relay_reused", "Transactions on one that stood", labels=labels)
    failures = CounterMetricFamily("gatepost_relay_failures", "Connections that failed", labels=labels)
    up = GaugeMetricFamily("gatepost_next_hop_up", "Whether the next hop could be reached last", labels=labels)
    for route, relay in (each for routing in routings for each in routing.relays()):
        at = (route.name, relay.url)
        for family, value in ((opened, relay.opened), (reused, relay.reused), (failures, relay.failures)):
            family.add_metric(at, value)
        up.add_metric(at, float(not relay.fault))
    yield from (opened, reused, failures, up)


class ProcessInfo(Collector):
    """Which version runs, on what, and whether its log is complete."""

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("gatepost_build_info", "Always 1", labels=("version", "python", "speedups"))
        info.add_metric((__version__, platform.python_version(), "native" if native else "python"), 1)
        yield info
        yield CounterMetricFamily(
            "gatepost_log_lines_lost", "Log lines that could not be written", value=LogOutput.lost
        )


def build_registry() -> CollectorRegistry:
    """Return a registry with what every process tells: its build, lost log lines, memory, CPU time and descriptors."""
    registry = CollectorRegistry()
    registry.register(ProcessInfo())
    ProcessCollector(registry=registry)
    return registry
