"""Ports, taken before anything starts: a busy one is one sentence, not a half-started service.

A port is bound first and listened on when the service is ready, so nobody gets through to one that is not. In between
it must be taken for good: with SO_REUSEADDR two sockets can be bound to one port until one of them listens (socket(7)),
so that option is used only against the remains of closed connections, and set for all once the service listens.

HTTP servers inside one event loop, started together and stopped together.

The first SIGINT or SIGTERM lets requests in flight finish, the second ends the process at once: nothing that was
answered is lost by that, since an answer is given only when its record is on disk.

What abby tells Prometheus, and a port of its own for it where the operator wants one.
"""

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, Protocol

import structlog
import uvicorn
import uvloop
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gatepost.abby.cores import Cores
from gatepost.api.errors import Failure
from gatepost.metrics import CONTENT_TYPE, Timed
from gatepost.scanning.request import ScanResult
from gatepost.service.data_folder import StartError

_REASONS = {
    errno.EADDRINUSE: "another program uses it",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
    errno.EACCES: "this user may not use that port; choose one above 1023",
}


def bind(host: str, port: int, key: str) -> tuple[socket.socket, ...]:
    """Sockets on every address that a host name means; `key` is the setting to change. Raises `StartError`."""
    bound: list[socket.socket] = []
    try:
        for family, address in _addresses(host, port):
            bound.append(_bound(family, address))
    except OSError as fault:
        close(bound)
        reason = _REASONS.get(fault.errno or 0, (fault.strerror or str(fault)).lower())
        raise StartError(f"Gatepost cannot listen on {shown(host, port)} ({key}): {reason}.") from None
    return tuple(bound)


def close(sockets: Sequence[socket.socket]) -> None:
    """Let go of the ports."""
    for each in sockets:
        each.close()


def port_of(sockets: Sequence[socket.socket]) -> int:
    """The port that was given, where 0 was asked for."""
    return int(sockets[0].getsockname()[1])


def shown(host: str, port: int) -> str:
    """Host and port as they stand in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    several = list(dict.fromkeys((family, (str(address[0]), port)) for family, _, _, _, address in found))
    # With port 0 each address would get a port of its own.
    return [(int(family), address) for family, address in several][: 1 if port == 0 else None]


def _bound(family: int, address: tuple[str, int]) -> socket.socket:
    try:
        return _try(family, address, reuse=False)
    except OSError as fault:
        if fault.errno != errno.EADDRINUSE:
            raise
        return _try(family, address, reuse=True)


def _try(family: int, address: tuple[str, int], *, reuse: bool) -> socket.socket:
    created = socket.socket(family, socket.SOCK_STREAM)
    try:
        if reuse:
            allow_reuse(created)
        if family == socket.AF_INET6:
            created.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        created.setblocking(False)
        created.bind(address)
    except OSError:
        created.close()
        raise
    return created


def allow_reuse(listening: socket.socket) -> None:
    """Let the next start have the port while connections of this one are still remembered (RFC 9293 section 3.6.1)."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


log = structlog.get_logger("gatepost")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Serves(Protocol):
    """What runs here until it is told to exit; `ready` is set once it listens."""

    ready: asyncio.Event
    should_exit: bool

    async def run_here(self) -> None: ...


class Server(uvicorn.Server):
    """uvicorn without signal handlers of its own, on sockets that are bound already."""

    def __init__(self, config: uvicorn.Config, sockets: Sequence[socket.socket]) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._sockets = list(sockets)

    async def run_here(self) -> None:
        """Serve until `should_exit` is set."""
        await self.serve(self._sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            raise StartError("A service could not start; the log says why.") from None
        except OSError as fault:
            raise StartError(f"A service cannot listen on its port: {fault.strerror or fault}.") from None
        for each in self._sockets:
            allow_reuse(each)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run a service in an event loop of its own; `main` gets the event that asks it to stop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_watched(main))


async def _watched(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, _stop, stop, number)
    await main(stop)


def _stop(stop: asyncio.Event, number: int) -> None:
    if stop.is_set():
        log.warning("stopped at once", signal=signal.Signals(number).name)
        os._exit(128 + number)
    log.info("stopping", signal=signal.Signals(number).name)
    stop.set()


async def serve(servers: Sequence[Serves], stop: asyncio.Event, started: Callable[[], Awaitable[None]]) -> None:
    """Serve until asked to stop or until one server fails; in either case all of them end."""
    tasks = [asyncio.create_task(server.run_here()) for server in servers]
    try:
        if await _first(tasks, _all_ready(servers)):
            await started()
            await _first(tasks, stop.wait())
    finally:
        for server in servers:
            server.should_exit = True
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _all_ready(servers: Sequence[Serves]) -> None:
    for server in servers:
        await server.ready.wait()


async def _first(tasks: Sequence[asyncio.Task[None]], awaited: Coroutine[Any, Any, Any]) -> bool:
    """Wait; true if what was awaited came before any of the tasks ended."""
    waiter = asyncio.create_task(awaited)
    await asyncio.wait([*tasks, waiter], return_when=asyncio.FIRST_COMPLETED)
    if waiter.done():
        return True
    waiter.cancel()
    return False


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
