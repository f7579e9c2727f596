"""The ports of a process, which stay open while what stands behind them is replaced.

HTTP: connections belong to the port, and each request goes to the application that is newest when it begins; so a
client that keeps its connection open notices nothing. SMTP: a session keeps the services that it began with; when
others take over, it ends with 421 after its current message (RFC 5321 section 3.8), and the client comes again. Milter:
a connection stays, and each message is handled by the services that are newest when it begins.

HTTP servers in one event loop, started together and stopped together.

The first SIGINT or SIGTERM lets requests in flight finish, the second ends the process at once. The second loses
nothing that was answered: an answer is sent only when its record is on disk.
"""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import structlog
import uvicorn
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.api.connections import AcceptBalance, ConnectionLimits, CountedProtocol, accept_connections
from gatepost.api.server import server_config
from gatepost.node_memory import Tally
from gatepost.service.certificates import check_pair, find_pair, load_pair
from gatepost.service.data_folder import StartError
from gatepost.service.node import SingleProcess
from gatepost.service.plan import Bound, Plan, allow_reuse
from gatepost.service.systemd import notify_stopping
from gatepost.settings.scan_sources import ConnectionSettings

if TYPE_CHECKING:
    from gatepost.milter.intake import MilterIntake
    from gatepost.milter.session import MilterPart
    from gatepost.service.core import SmtpPart
    from gatepost.smtp.intake import Intake


log = structlog.get_logger("gatepost")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
HANDSHAKE_SECONDS = 10.0
# How long a client may take to answer the end of TLS (RFC 8446 section 6.1); one that is idle may never do.
FAREWELL_SECONDS = 0.5
BACKLOG = 2048


class Serves(Protocol):
    """A server that runs until `should_exit` is set; `ready` is set once it listens."""

    ready: asyncio.Event
    should_exit: bool

    async def run_here(self) -> None: ...


class Server(uvicorn.Server):
    """uvicorn without its own signal handlers, on sockets that are already bound.

    It accepts connections itself: uvicorn hears of a connection only after the TLS handshake, and could not count those
    of clients that say nothing.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: Sequence[socket.socket],
        limits: ConnectionLimits,
        balance: AcceptBalance | None = None,
    ) -> None:
        super().__init__(config)
        self._balance = balance
        self.ready = asyncio.Event()
        self._sockets = list(sockets)
        self._limits = limits
        self._accepting: list[asyncio.Task[None]] = []
        self._arriving: set[asyncio.Task[None]] = set()

    def limit_connections(self, limits: ConnectionSettings) -> None:
        """Set other limits on connections."""
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
            if self._balance:
                self._balance.begin()
            self._accepting = [
                asyncio.create_task(accept_connections(each, self._balance, self._welcome))
                for each in _listen(self._sockets)
            ]
        except SystemExit:
            raise StartError("A service could not start; the log says why.") from None
        except OSError as fault:
            raise StartError(f"A service cannot listen on its port: {fault.strerror or fault}.") from None
        for each in self._sockets:
            allow_reuse(each)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in (*self._accepting, *self._arriving):
            task.cancel()
        await asyncio.gather(*self._accepting, *self._arriving, return_exceptions=True)
        if self._balance:
            self._balance.end()
        await super().shutdown(sockets)

    def _welcome(self, connection: socket.socket, address: Any) -> None:
        peer = str(address[0])
        if not self._limits.admit(peer):
            log.info("connection refused", client=peer, open=self._limits.open)
            connection.close()
            if self._balance:
                self._balance.count(-1)
            return
        task = asyncio.get_running_loop().create_task(self._hand_over(connection, peer))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    def _leave(self, peer: str) -> None:
        self._limits.leave(peer)
        if self._balance:
            self._balance.count(-1)

    async def _hand_over(self, connection: socket.socket, peer: str) -> None:
        """Do the TLS handshake, if there is TLS, and let HTTP be spoken."""
        config, tls = self.config, self.config.ssl
        make: Any = config.http_protocol_class
        inner = make(config=config, server_state=self.server_state, app_state=self.lifespan.state)
        counted = CountedProtocol(inner, lambda: self._leave(peer))
        seconds = (HANDSHAKE_SECONDS, FAREWELL_SECONDS) if tls else (None, None)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: counted,
                connection,
                ssl=tls,
                ssl_handshake_timeout=seconds[0],
                ssl_shutdown_timeout=seconds[1],
            )
        except (OSError, asyncio.CancelledError):
            connection.close()
            counted.leave()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(sockets: Sequence[socket.socket]) -> Sequence[socket.socket]:
    for each in sockets:
        each.setblocking(False)
        each.listen(BACKLOG)
    return sockets


def build_server(
    app: Any,
    bound: Sequence[socket.socket],
    pair: tuple[Path, Path] | None = None,
    connections: ConnectionSettings | None = None,
    *,
    tally: Tally | None = None,
    balance: AcceptBalance | None = None,
) -> Server:
    """Build a server for an application on bound sockets, with HTTPS if there is a certificate and key, and with the
    limits of these settings. `tally` and `balance` are set where several processes serve the port."""
    certificate, key = pair or (None, None)
    if certificate and key:
        load_pair(certificate, key)
    limits = connections or ConnectionSettings()
    counted = ConnectionLimits(
        limits.maximum, limits.per_address, limits.reserved, limits.listed_hosts, trusts_loopback=True, tally=tally
    )
    return Server(server_config(app, certificate=certificate, key=key), bound, counted, balance)


def run(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]], *, is_child: bool = False) -> None:
    """Run a service in a new event loop; `main` gets the event that asks it to stop.

    A process that a parent has started ends at once only when the parent kills it: a service manager may signal both,
    and a second signal then says nothing.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run_until_signal(main, is_child=is_child))


async def _run_until_signal(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]], *, is_child: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set if is_child else partial(_handle_signal, stop, number))
    await main(stop)


def _handle_signal(stop: asyncio.Event, number: int) -> None:
    if stop.is_set():
        log.warning("stopped at once", signal=signal.Signals(number).name)
        os._exit(128 + number)
    log.info("stopping", signal=signal.Signals(number).name)
    notify_stopping()
    stop.set()


async def serve(servers: Sequence[Serves], stop: asyncio.Event, started: Callable[[], Awaitable[None]]) -> None:
    """Serve until asked to stop or until one server fails; in either case all of them end."""
    tasks = [asyncio.create_task(server.run_here()) for server in servers]
    try:
        if await _wait_for_first(tasks, _wait_until_ready(servers)):
            await started()
            await _wait_for_first(tasks, stop.wait())
    finally:
        for server in servers:
            server.should_exit = True
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _wait_until_ready(servers: Sequence[Serves]) -> None:
    for server in servers:
        await server.ready.wait()


async def _wait_for_first(tasks: Sequence[asyncio.Task[None]], awaited: Coroutine[Any, Any, Any]) -> bool:
    """Wait; return whether `awaited` finished before any of the tasks."""
    waiter = asyncio.create_task(awaited)
    await asyncio.wait([*tasks, waiter], return_when=asyncio.FIRST_COMPLETED)
    if waiter.done():
        return True
    waiter.cancel()
    return False


HTTP_PORTS = ("guard", "abby", "metrics", "guard metrics")


class _Application:
    """An application, and the requests that it has not answered yet."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.present = app, 0
        self.idle = asyncio.Event()
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
        newest.present += 1
        newest.idle.clear()
        try:
            await newest.app(scope, receive, send)
        finally:
            newest.present -= 1
            if not newest.present:
                newest.idle.set()


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    """What an application does at the start and the end is done by its generation."""
    for answer in ("lifespan.startup.complete", "lifespan.shutdown.complete"):
        await receive()
        await send({"type": answer})


class Listeners:
    """The servers of a process on its bound ports, built for its first plan and kept to its end."""

    def __init__(self, plan: Plan, bound: Bound, node: SingleProcess) -> None:
        self._apps: dict[str, SwitchedApp] = {}
        self._http: dict[str, Server] = {}
        for name in (name for name in HTTP_PORTS if name in bound):
            app = self._apps[name] = SwitchedApp()
            tally, balance = node.connections(name), node.balance(name)
            pair, limits = find_pair(plan, name), _limits_of(plan, name)
            if name in ("metrics", "guard metrics"):
                tally = balance = None
            self._http[name] = build_server(app, bound[name], pair, limits, tally=tally, balance=balance)
        self._smtp: Intake | None = None
        self._milter: MilterIntake | None = None
        self._node, self._bound = node, bound

    @property
    def servers(self) -> list[Serves]:
        """Every server; complete once the first generation has taken over."""
        return [*self._http.values(), *(each for each in (self._smtp, self._milter) if each)]

    def intake(self, part: "SmtpPart") -> "Intake":
        """Return the SMTP server; the first generation builds it."""
        from gatepost.smtp.client import parse_networks
        from gatepost.smtp.intake import Intake

        if self._smtp is None:
            source = part.settings
            self._smtp = Intake(
                part.services,
                (*self._bound["smtp"], *self._bound.get("smtp outbound", ())),
                source.max_connections,
                parse_networks(source.xclient_hosts),
                reserved=source.reserved_connections,
                tally=self._node.connections("smtp"),
                balance=self._node.balance("smtp"),
            )
        return self._smtp

    def milter_intake(self, part: "MilterPart") -> "MilterIntake":
        """Return the server for mail servers that ask for verdicts; the first generation builds it."""
        from gatepost.milter.intake import MilterIntake

        if self._milter is None:
            tally, balance = self._node.connections("milter"), self._node.balance("milter")
            self._milter = MilterIntake(part, self._bound["milter"], tally=tally, balance=balance)
        return self._milter

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
        self,
        plan: Plan,
        apps: Mapping[str, ASGIApp],
        smtp: "SmtpPart | None",
        milter: "MilterPart | None" = None,
    ) -> Callable[[], Awaitable[object]]:
        """Let what a generation has built serve from now on, with its limits; returns what waits until nothing of the
        one before is in use."""
        waits = [self._apps[name].use(apps[name]) for name in self._apps if name in apps]
        for name, server in self._http.items():
            server.limit_connections(_limits_of(plan, name))
        if smtp and self._smtp:
            from gatepost.smtp.client import parse_networks

            source = smtp.settings
            listed = parse_networks(source.xclient_hosts)
            waits.append(self._smtp.use(smtp.services, source.max_connections, listed, source.reserved_connections))

        if milter and self._milter:
            waits.append(self._milter.use_part(milter))

        async def wait() -> None:
            await asyncio.gather(*(each() for each in waits))

        return wait


def _limits_of(plan: Plan, name: str) -> ConnectionSettings:
    if name == "abby" and plan.abby:
        return plan.abby.connections
    source = plan.guard.scan_sources.rest_api if plan.guard and name == "guard" else None
    return source.connections if source else ConnectionSettings()
