"""What abby, the SMTP source, the milter source and each process report to Prometheus, `/metrics` on a port of its own,
and the metrics of a node of several processes: whichever of them is asked answers for all.

Every process writes its figures into a board, a file in memory, once a second; who is asked reads the boards of the
others and merges them as each metric says (`process.metrics`). A process that ended leaves what it had counted behind,
so that no counter of the node ever falls.
"""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gatepost import __version__
from gatepost.api.errors import Failure
from gatepost.process.logs import Logger, LogOutput
from gatepost.process.metrics import (
    CONTENT_TYPE,
    Family,
    Merged,
    Timed,
    counter,
    exposition,
    flatten,
    gauge,
    merge,
    unflatten,
)
from gatepost.process.node_memory import NodeMemory, fit_cell
from gatepost.process.periodic import PeriodicWork
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
        yield gauge("gatepost_waiting", "Scans that wait for a slot", "sum", self._cores.waiting)
        yield gauge("gatepost_waiting_bytes", "Bytes of those", "sum", self._cores.waiting_bytes)
        yield gauge("gatepost_cores_answering", "Cores that answer", "most", self._cores.answering)
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
        yield counter("gatepost_smtp_gave_way", "Idle sessions ended on a full port", gave_way, of_process=True)
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
    yield gauge(f"gatepost_{source}_sessions", f"{sessions} at this moment", "sum", intake.open)
    yield counter(f"gatepost_{source}_connections", "Connections", intake.connections, of_process=True)
    yield counter(f"gatepost_{source}_turned_away", "Those that were refused", intake.turned_away, of_process=True)
    answers = counter(f"gatepost_{source}_messages", "Whole messages by their answer", labels=("answer",))
    for answer, count in services.answers.items():
        answers.add_metric((answer,), count)
    yield answers
    full = intake.turned_away_full
    yield counter(f"gatepost_{source}_port_full", "Connections that found no room on the port", full, of_process=True)
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
    up = gauge("gatepost_next_hop_up", "Whether the next hop could be reached last", "least", labels=labels)
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


class ProcessInfo(Collector):
    """Which version runs, on what, and whether its log is complete."""

    def collect(self) -> Iterator[Metric]:
        info = gauge("gatepost_build_info", "Always 1", "own", labels=("version", "python", "speedups"))
        info.add_metric((__version__, platform.python_version(), "native" if native else "python"), 1)
        yield info
        yield counter("gatepost_log_lines_lost", "Log lines that could not be written", value=LogOutput.lost)


# Of what a process tells of itself, the start of a node is that of its oldest process.
_START_TIME = "process_start_time_seconds"


class ProcessFigures(Collector):
    """Memory, CPU time, descriptors and start of this process, as the client library of Prometheus names them."""

    def __init__(self) -> None:
        self._source = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        for family in self._source.collect():
            if family.type == "gauge":
                merged: Merged = "least" if family.name == _START_TIME else "sum"
                own = gauge(family.name, family.documentation, merged)
                own.samples = family.samples
                yield own
            else:
                yield family


def build_registry() -> CollectorRegistry:
    """Return a registry with what every process tells: its build, lost log lines, memory, CPU time and descriptors."""
    registry = CollectorRegistry()
    registry.register(ProcessInfo())
    registry.register(ProcessFigures())
    return registry


WRITE_SECONDS = 1.0

log = Logger("gatepost")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Family, ...])


class MetricBoards:
    """The boards of all processes of a node, and one for what ended ones have left; made before the node forks."""

    def __init__(self, memory: NodeMemory) -> None:
        self._memory = memory
        self._boards = [os.memfd_create("gatepost-metrics", os.MFD_CLOEXEC) for _ in range(memory.members + 1)]
        self._restarts = memory.allocate(1)

    def write(self, families: Iterable[Metric]) -> None:
        self._write(self._memory.member, flatten(families))

    def read_others(self) -> list[tuple[Family, ...]]:
        """Return the figures of every other process, and what ended ones have left."""
        with self._memory:
            raw = [_read(board) for number, board in enumerate(self._boards) if number != self._memory.member]
        return [_decode_board(each) for each in raw if each]

    def retire(self, member: int) -> None:
        """Keep what a process that has ended had counted; for the parent."""
        with self._memory:
            ended, left = _read(self._boards[-1]), _read(self._boards[member])
        counted = [
            tuple(family for family in _decode_board(each) if family.kind != "gauge") for each in (ended, left) if each
        ]
        self._write(len(self._boards) - 1, merge(counted))
        self._write(member, ())
        self._restarts[0] = fit_cell(self._restarts[0] + 1)

    @property
    def restarts(self) -> int:
        """How many processes were started again."""
        return int(self._restarts[0])

    @property
    def members(self) -> int:
        return self._memory.members

    def _write(self, number: int, families: tuple[Family, ...]) -> None:
        raw, board = _encoder.encode(families), self._boards[number]
        with self._memory:
            os.ftruncate(board, len(raw))
            os.pwrite(board, raw, 0)


class NodeMetrics(Collector):
    """The metrics of the node, as one of its processes tells them. `registry` has those of this process."""

    def __init__(self, registry: CollectorRegistry, boards: MetricBoards) -> None:
        self._own, self._boards = registry, boards
        self._merged = CollectorRegistry()
        self._merged.register(self)
        failed = "the metrics of this process could not be shared"
        self._writing = PeriodicWork(self._write, WRITE_SECONDS, failed, log)

    def render(self) -> bytes:
        """Return what `/metrics` answers."""
        return exposition(self._merged)

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked before `/metrics` is."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from map(unflatten, merge([flatten(self._own.collect()), *self._boards.read_others()]))
        yield gauge("gatepost_front_processes", "Processes of this node", "own", self._boards.members)
        yield counter("gatepost_front_restarts", "Processes started again", self._boards.restarts)

    def start(self) -> None:
        """Let the other processes know the figures of this one, from now on."""
        self._writing.start()

    def end(self) -> None:
        self._writing.cancel()

    async def _write(self) -> None:
        self._boards.write(self._own.collect())


def _decode_board(raw: bytes) -> tuple[Family, ...]:
    """Return the figures of a board; none where its process has written something else."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ()


def _read(board: int) -> bytes:
    return os.pread(board, os.fstat(board).st_size, 0)
