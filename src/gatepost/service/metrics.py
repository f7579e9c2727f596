"""What abby, the SMTP source, the milter source and each process report to Prometheus, and `/metrics` on a port of its
own."""

import platform
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gatepost import __version__
from gatepost.api.errors import Failure
from gatepost.process.background_work import background
from gatepost.process.health import PARTS, SEVERITY, Health
from gatepost.process.logs import LogOutput
from gatepost.process.metrics import CONTENT_TYPE, Timed, counter, gauge
from gatepost.smtp.replies import DEFERRALS
from gatepost.smtp.services import ANSWERS
from gatepost.speedups import native

if TYPE_CHECKING:
    from gatepost.abby.cores import Cores
    from gatepost.scanning.request import ScanResult
    from gatepost.smtp.intake import AskerIntake, Intake
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
        yield gauge("gatepost_waiting", "Scans that wait for a slot", self._cores.waiting)
        yield gauge("gatepost_waiting_bytes", "Bytes of those", self._cores.waiting_bytes)
        yield gauge("gatepost_cores_answering", "Cores that answer", self._cores.answering)
        yield counter("gatepost_scans_again", "Attempts at a message after its first", value=self._cores.attempts_again)


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
        gave_way = self._intake.gave_way
        yield counter("gatepost_smtp_gave_way", "Idle sessions ended on a full port", gave_way)
        outbound = self._services.outbound
        if outbound:
            limited = outbound.limits.limited
            yield counter("gatepost_outbound_limited", "Commands of senders over a limit", limited)
            if rewriting := outbound.rewriting:
                rewritten = counter("gatepost_senders_rewritten", "Senders rewritten (SRS)", labels=("outcome",))
                rewritten.add_metric(("rewritten",), rewriting.rewritten)
                rewritten.add_metric(("returned",), rewriting.returned)
                rewritten.add_metric(("refused",), rewriting.refused)
                yield rewritten
        if self._services.routings:
            yield from _describe_next_hops(self._services.routings)
        if self._services.recipients:
            found = counter("gatepost_recipients_verified", "Recipients that were verified", labels=("finding",))
            for finding in ANSWERS:
                found.add_metric((finding,), self._services.recipients.found[finding])
            yield found


class AskerMetrics(Collector):
    """Connections and answers of a source for mail servers that deliver themselves."""

    def __init__(self, intake: "AskerIntake[Any]", services: "Services") -> None:
        self._intake, self._services = intake, services

    def collect(self) -> Iterator[Metric]:
        yield from _describe_intake(self._intake.name, "Connections of mail servers", self._intake, self._services)


def _describe_intake(source: str, sessions: str, intake: "Intake", services: "Services") -> Iterator[Metric]:
    """What both sources of mail servers count."""
    yield gauge(f"gatepost_{source}_sessions", f"{sessions} at this moment", intake.open)
    yield counter(f"gatepost_{source}_connections", "Connections", intake.connections)
    yield counter(f"gatepost_{source}_turned_away", "Those that were refused", intake.turned_away)
    answers = counter(f"gatepost_{source}_messages", "Whole messages by their answer", labels=("answer",))
    for answer, count in services.answers.items():
        answers.add_metric((answer,), count)
    yield answers
    full = intake.turned_away_full
    yield counter(f"gatepost_{source}_port_full", "Connections that found no room on the port", full)
    yield counter(f"gatepost_{source}_transactions", "Transactions that were begun", services.attempts)
    put_off = counter(f"gatepost_{source}_put_off", "Those put off for a reason of ours", labels=("reason",))
    for reason in sorted(set(DEFERRALS.values())):
        put_off.add_metric((reason,), services.deferred[reason])
    yield put_off


def _describe_next_hops(routings: "Sequence[Routing]") -> Iterator[Metric]:
    labels = ("route", "next_hop")
    opened = counter("gatepost_relay_connections", "Connections to the next hop", labels=labels)
    reused = counter("gatepost_relay_reused", "Transactions on one that stood", labels=labels)
    failures = counter("gatepost_relay_failures", "Connections that failed", labels=labels)
    up = gauge("gatepost_next_hop_up", "Whether the next hop could be reached last", labels=labels)
    for route, relay in (each for routing in routings for each in routing.relays()):
        at = (route.name, relay.url)
        for family, value in ((opened, relay.opened), (reused, relay.reused), (failures, relay.failures)):
            family.add_metric(at, value)
        up.add_metric(at, float(not relay.fault))
    yield from (opened, reused, failures, up)
    said = counter("gatepost_next_hop_answers", "Answers of the next hop", labels=("route", "stage", "answer"))
    for route in (route for routing in routings for route in routing.routes):
        for (stage, answer), count in sorted(route.answers.total.items()):
            said.add_metric((route.name, stage, answer), count)
    yield said


class HealthMetrics(Collector):
    """How this node is, by the value that `/readyz`, pages and `gatepost nodes` show."""

    def __init__(self, health: Callable[[], Health]) -> None:
        self._health = health

    def collect(self) -> Iterator[Metric]:
        now = self._health()
        yield gauge("gatepost_queue_status", "0 GREEN, 1 YELLOW, 2 RED", SEVERITY[now.state])
        codes = {each.code for each in now.reasons}
        warned = gauge("gatepost_health_warning", "1 while there is a reason about a part", labels=("component",))
        for code in PARTS:
            warned.add_metric((code,), float(code in codes))
        yield warned


class ProcessInfo(Collector):
    """Which version runs, on what and as which node, whether its log is complete, and how often other work waited."""

    def __init__(self, node: str) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        info = gauge("gatepost_build_info", "Always 1", labels=("node", "version", "python", "speedups"))
        info.add_metric((self._node, __version__, platform.python_version(), "native" if native else "python"), 1)
        yield info
        yield counter(
            "gatepost_background_rests",
            "Times that exports, searches, trials and calls that are not mail waited because much mail came",
            background.rests,
        )
        yield counter("gatepost_log_lines_lost", "Log lines that could not be written", value=LogOutput.lost)


def build_registry(node: str) -> CollectorRegistry:
    """Return a registry with what every process tells: its build, lost log lines, memory, CPU time and descriptors;
    `node` is its name for people."""
    registry = CollectorRegistry()
    registry.register(ProcessInfo(node))
    ProcessCollector(registry=registry)
    return registry
