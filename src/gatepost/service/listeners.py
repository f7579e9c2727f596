"""The HTTP servers of a process, on sockets that are bound already."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import uvicorn
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp

from gatepost.api.connections import Accepting, ConnectionLimits, CountedProtocol
from gatepost.api.server import JsonHttp, server_config
from gatepost.process.logs import Logger
from gatepost.process.metrics import counter
from gatepost.service.certificates import check_pair, find_pair
from gatepost.service.data_folder import StartError
from gatepost.service.plan import Bound, Plan
from gatepost.settings.scan_sources import ConnectionSettings

log = Logger("gatepost")

HANDSHAKE_SECONDS = 10.0
# How long a client may take to answer the end of TLS (RFC 8446 section 6.1); one that is idle may never do.
FAREWELL_SECONDS = 0.5
BACKLOG = 2048
# A client has so much time for its first request until its connection may end in favour of another.
GRACE_SECONDS = 3.0
# How long a client whose connection is to end may ask once more after its last answer, and how often that is looked at.
LINGER_SECONDS, LOOK_SECONDS = 0.5, 0.02


class Serves(Protocol):
    """A server that runs until `should_exit` is set; `ready` is set once it listens. Then it finishes what is under
    way, unless that is `cut_off`."""

    ready: asyncio.Event
    should_exit: bool

    async def run_here(self) -> None: ...

    def cut_off(self) -> None: ...


class _Arrival(NamedTuple):
    """A connection that was accepted: when, from whom, and what hands it over."""

    protocol: JsonHttp
    task: asyncio.Task[None]
    began: float
    known: bool
    peer: str


class Server(uvicorn.Server):
    """uvicorn without its own signal handlers, on sockets that are already bound.

    It accepts connections itself: uvicorn hears of a connection only after the TLS handshake, and could not count those
    of clients that say nothing.
    """

    def __init__(self, config: uvicorn.Config, sockets: Sequence[socket.socket], limits: ConnectionLimits) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._sockets = list(sockets)
        self._limits = limits
        self._accepting: Accepting | None = None
        self._arriving: set[asyncio.Task[None]] = set()
        # Connections by age, and those that ended while they waited for a request, because the port was full.
        self._by_age: dict[CountedProtocol, _Arrival] = {}
        self.gave_way = 0

    @property
    def turned_away_full(self) -> int:
        """Connections that found no room on the port, however few their client had."""
        return self._limits.refused_full

    def use_tls(self, context: ssl.SSLContext | None) -> None:
        """Speak TLS with this context, or none, with clients that connect from now on."""
        self.config.ssl = context

    async def run_here(self) -> None:
        """Serve until `should_exit` is set."""
        await self.serve(self._sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  uvicorn's name
        try:
            await super().startup([])
            self._accepting = Accepting(self._sockets, BACKLOG, self._welcome)
        except SystemExit:
            raise StartError("A service could not start; the log says why.") from None
        except OSError as fault:
            raise StartError(f"A service cannot listen on its port: {fault.strerror or fault}.") from None
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  uvicorn's name
        """Answer all requests, and end all connections. A client that has just used its connection may be about to use
        it again, so it has a moment to do so, and the answer says that the connection ends (RFC 9112 section 9.6)."""
        if self._accepting:
            self._accepting.stop()
        self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        for arrival in self._by_age.values():
            arrival.protocol.end_after_answer()
        clock = asyncio.get_running_loop().time
        patient_until = clock() + 2 * LINGER_SECONDS
        while self._by_age or self.server_state.tasks:
            latest, is_patient = clock() - LINGER_SECONDS, clock() < patient_until
            for arrival in list(self._by_age.values()):
                if not arrival.protocol.is_made:
                    if not is_patient:
                        arrival.task.cancel()  # a handshake that takes its time
                elif arrival.began <= latest and arrival.protocol.is_unused_since(latest, is_patient=is_patient):
                    arrival.protocol.give_way()
            await asyncio.sleep(LOOK_SECONDS)
        for task in self._arriving:
            task.cancel()
        await asyncio.gather(*self._arriving, return_exceptions=True)
        await self.lifespan.shutdown()

    def cut_off(self) -> None:
        for arrival in list(self._by_age.values()):
            arrival.task.cancel()
            arrival.protocol.abort()
        for task in self.server_state.tasks:
            task.cancel()

    def _welcome(self, connection: socket.socket, address: Any) -> None:
        peer = str(address[0])
        if self._limits.is_full(peer):
            self._make_room(known=self._limits.is_known(peer))
        if not self._limits.admit(peer):
            log.info("connection refused", client=peer, open=self._limits.open)
            connection.close()
            return
        config = self.config
        make: Any = config.http_protocol_class
        inner = make(config=config, server_state=self.server_state, app_state=self.lifespan.state)
        counted = CountedProtocol(inner, lambda: self._leave(counted, peer))
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._hand_over(connection, counted))
        self._by_age[counted] = _Arrival(inner, task, loop.time(), self._limits.is_known(peer), peer)
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    def _make_room(self, *, known: bool) -> None:
        """End the oldest connection that waits for a request: one that never had any, else one that waits for its
        next. Only a listed or local client takes the place of another."""
        oldest = asyncio.get_running_loop().time() - GRACE_SECONDS
        waiting: CountedProtocol | None = None
        for counted, arrival in self._by_age.items():
            if arrival.began > oldest:
                break
            if not arrival.protocol.is_waiting or (arrival.known and not known):
                continue
            waiting = waiting or counted
            if not arrival.protocol.has_begun:
                waiting = counted
                break
        if waiting is None:
            return
        arrival = self._by_age[waiting]
        self.gave_way += 1
        log.info("idle connection ended, because the port is full", client=arrival.peer)
        # Its place is free at once; one whose handshake goes on ends with its task.
        waiting.leave()
        arrival.protocol.give_way()
        arrival.task.cancel()

    def _leave(self, counted: CountedProtocol, peer: str) -> None:
        self._by_age.pop(counted, None)
        self._limits.leave(peer)

    async def _hand_over(self, connection: socket.socket, counted: CountedProtocol) -> None:
        """Do the TLS handshake, if there is TLS, and let HTTP be spoken."""
        tls = self.config.ssl
        seconds = (HANDSHAKE_SECONDS, FAREWELL_SECONDS) if tls else (None, None)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: counted, connection, ssl=tls, ssl_handshake_timeout=seconds[0], ssl_shutdown_timeout=seconds[1]
            )
        except (OSError, asyncio.CancelledError):
            connection.close()
            counted.leave()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


METRICS_PORTS = ("metrics", "guard metrics")
HTTP_PORTS = ("guard", "abby", *METRICS_PORTS)


class HttpMetrics(Collector):
    """Connections of HTTP ports that gave way, or found no room; by the names of the ports."""

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers

    def collect(self) -> Iterator[Metric]:
        gave_way = counter("gatepost_http_gave_way", "Idle connections ended on a full port", labels=("port",))
        full = counter("gatepost_http_port_full", "Connections that found no room on the port", labels=("port",))
        for name, server in self._servers.items():
            gave_way.add_metric((name,), server.gave_way)
            full.add_metric((name,), server.turned_away_full)
        yield from (gave_way, full)


def build_servers(plan: Plan, bound: Bound, apps: Mapping[str, ASGIApp]) -> dict[str, Server]:
    """Build the HTTP servers on bound sockets, by the names of their ports, with HTTPS where there is a certificate;
    raises `StartError` if that cannot be used."""
    found: dict[str, Server] = {}
    for name in (each for each in HTTP_PORTS if each in bound):
        pair, limits = find_pair(plan, name), _limits_of(plan, name)
        if pair:
            check_pair(*pair)
        certificate, key = pair or (None, None)
        counted = ConnectionLimits(
            limits.maximum, limits.per_address, limits.reserved, limits.listed_hosts, trusts_loopback=True
        )
        config = server_config(apps[name], certificate=certificate, key=key)
        config.lifespan = "off"  # what an application does at the start and the end is done by the parts
        found[name] = Server(config, bound[name], counted)
    return found


def _limits_of(plan: Plan, name: str) -> ConnectionSettings:
    if name == "abby" and plan.abby:
        return plan.abby.connections
    source = plan.guard.scan_sources.rest_api if plan.guard and name == "guard" else None
    return source.connections if source else ConnectionSettings()
