"""The ports of a process: its servers, which stay while what stands behind them is replaced.

HTTP: connections belong to the port, and each request goes to the application that is newest when it begins; so a
client that keeps its connection open notices nothing. SMTP: a session keeps the services that it began with; when
others take over, it ends with 421 after its current message (RFC 5321 section 3.8), and the client comes again. Milter
and its like: a connection stays, and each message is handled by the services that are newest when it begins.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import uvicorn
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.api.connections import Accepting, ConnectionLimits, CountedProtocol
from gatepost.api.server import DirectCall, DirectExchange, FindsDirect, JsonHttp, RawHeaders, server_config
from gatepost.process.logs import Logger
from gatepost.process.metrics import counter
from gatepost.service.certificates import check_pair, find_pair
from gatepost.service.data_folder import StartError
from gatepost.service.plan import Bound, Plan
from gatepost.settings.scan_sources import ConnectionSettings

if TYPE_CHECKING:
    from gatepost.service.core import SmtpPart
    from gatepost.smtp.intake import AskerIntake, AskerPart, Intake


log = Logger("gatepost")

HANDSHAKE_SECONDS = 10.0
# How long a client may take to answer the end of TLS (RFC 8446 section 6.1); one that is idle may never do.
FAREWELL_SECONDS = 0.5
BACKLOG = 2048
# A client has so much time for its first request until its connection may end in favour of another.
GRACE_SECONDS = 3.0


class Serves(Protocol):
    """A server that runs until `should_exit` is set; `ready` is set once it listens."""

    ready: asyncio.Event
    should_exit: bool

    async def run_here(self) -> None: ...


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

    def limit_connections(self, limits: ConnectionSettings) -> None:
        self._limits.change(limits.maximum, limits.per_address, limits.reserved, limits.listed_hosts)

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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._accepting:
            self._accepting.stop()
        for task in self._arriving:
            task.cancel()
        await asyncio.gather(*self._arriving, return_exceptions=True)
        await super().shutdown(sockets)

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


class _Application:
    """An application, and the requests that it has not answered yet."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.present = app, 0
        self.find_direct: FindsDirect | None = getattr(app, "find_direct", None)
        self.idle = asyncio.Event()
        self.idle.set()

    def begin(self) -> None:
        if not self.present:
            self.idle.clear()
        self.present += 1

    def end(self) -> None:
        """Count a request that has been answered."""
        self.present -= 1
        if not self.present:
            self.idle.set()


class SwitchedApp:
    """The application of a port: the newest one gets every request that begins."""

    def __init__(self) -> None:
        self._newest: _Application | None = None

    def use(self, app: ASGIApp) -> Callable[[], Awaitable[object]]:
        """Give new requests to this application; returns what waits until the one before has answered all of its."""
        before, self._newest = self._newest, _Application(app)

        async def wait() -> None:
            if before:
                await before.idle.wait()

        return wait

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _answer_lifespan(receive, send)
            return
        newest = self._newest
        assert newest is not None
        newest.begin()
        try:
            await newest.app(scope, receive, send)
        finally:
            newest.end()

    def find_direct(self, method: bytes, path: bytes, headers: RawHeaders, client: str) -> DirectCall | None:
        """Return what takes the body of a request without ASGI; None where the newest application does not."""
        present = self._newest
        if present is None or present.find_direct is None:
            return None
        call = present.find_direct(method, path, headers, client)
        if call is None:
            return None
        take = call

        def run(body: bytes, exchange: DirectExchange) -> bool:
            # Another application may have taken over while the body arrived.
            if self._newest is not present or not take(body, exchange):
                return False
            present.begin()
            exchange.call_at_end(present.end)
            return True

        return run


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    """What an application does at the start and the end is done by its generation."""
    for answer in ("lifespan.startup.complete", "lifespan.shutdown.complete"):
        await receive()
        await send({"type": answer})


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


class Listeners:
    """The servers of a process on its bound ports, built for its first plan and kept to its end."""

    def __init__(self, plan: Plan, bound: Bound) -> None:
        self._apps: dict[str, SwitchedApp] = {}
        self._http: dict[str, Server] = {}
        self._smtp: Intake | None = None
        self._askers: dict[str, AskerIntake[Any]] = {}
        self._bound = bound
        for name in (name for name in HTTP_PORTS if name in bound):
            app = self._apps[name] = SwitchedApp()
            self._http[name] = self._build_server(plan, name, app)

    def _build_server(self, plan: Plan, name: str, app: ASGIApp) -> Server:
        """Build a server on bound sockets, with HTTPS where there is a certificate; raises `StartError` if that cannot
        be used."""
        pair, limits = find_pair(plan, name), _limits_of(plan, name)
        if pair:
            check_pair(*pair)
        certificate, key = pair or (None, None)
        counted = ConnectionLimits(
            limits.maximum, limits.per_address, limits.reserved, limits.listed_hosts, trusts_loopback=True
        )
        return Server(server_config(app, certificate=certificate, key=key), self._bound[name], counted)

    def http_servers(self) -> Mapping[str, Server]:
        """The HTTP servers by the names of their ports."""
        return self._http

    @property
    def servers(self) -> list[Serves]:
        """Every server; complete once the first generation has taken over."""
        return [*self._http.values(), *([self._smtp] if self._smtp else ()), *self._askers.values()]

    def intake(self, part: "SmtpPart") -> "Intake":
        """Return the SMTP server; the first generation builds it."""
        from gatepost.auth.origin import parse_networks
        from gatepost.smtp.intake import Intake

        if self._smtp is None:
            source = part.settings
            self._smtp = Intake(
                part.services,
                (*self._bound["smtp"], *self._bound.get("outbound smtp", ())),
                source.max_connections,
                parse_networks(tuple(source.xclient_hosts)),
                reserved=source.reserved_connections,
            )
        return self._smtp

    def asker_intake(self, name: str, part: "AskerPart") -> "AskerIntake[Any]":
        """Return the server of a source for mail servers that ask for verdicts; the first generation builds it."""
        from gatepost.service.core import ASKER_SESSIONS
        from gatepost.smtp.intake import AskerIntake

        if name not in self._askers:
            self._askers[name] = AskerIntake(name, part, ASKER_SESSIONS[name], self._bound[name])
        return self._askers[name]

    def use_tls(self, contexts: Mapping[str, ssl.SSLContext]) -> None:
        """Speak TLS with these contexts, by port, with clients that connect from now on."""
        for name, server in self._http.items():
            server.use_tls(contexts.get(name))

    def renew_certificates(self, plan: Plan, contexts: Mapping[str, ssl.SSLContext]) -> None:
        """Show certificates whose files have changed: that for STARTTLS, which is read again, and these contexts of
        HTTPS. Raises `StartError` if the first cannot be used."""
        tls = self._smtp.services.tls if self._smtp else None
        if tls:
            check_pair(*plan.smtp_certificate)
            tls.load_cert_chain(*plan.smtp_certificate)
        self.use_tls(contexts)

    def use(
        self, plan: Plan, apps: Mapping[str, ASGIApp], smtp: "SmtpPart | None", askers: "Mapping[str, AskerPart]"
    ) -> Callable[[], Awaitable[object]]:
        """Let what a generation has built serve from now on, with its limits; returns what waits until nothing of the
        one before is in use."""
        waits = [self._apps[name].use(apps[name]) for name in self._apps if name in apps]
        for name, server in self._http.items():
            server.limit_connections(_limits_of(plan, name))
        if smtp and self._smtp:
            from gatepost.auth.origin import parse_networks

            source = smtp.settings
            listed = parse_networks(tuple(source.xclient_hosts))
            waits.append(self._smtp.use(smtp.services, source.max_connections, listed, source.reserved_connections))

        waits += [self._askers[name].use_part(part) for name, part in askers.items() if name in self._askers]

        async def wait() -> None:
            await asyncio.gather(*(each() for each in waits))

        return wait


def _limits_of(plan: Plan, name: str) -> ConnectionSettings:
    if name == "abby" and plan.abby:
        return plan.abby.connections
    source = plan.guard.scan_sources.rest_api if plan.guard and name == "guard" else None
    return source.connections if source else ConnectionSettings()
