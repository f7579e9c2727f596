"""HTTP servers in one event loop, started together and stopped together.

The first SIGINT or SIGTERM lets requests in flight finish, the second ends the process at once. The second loses
nothing that was answered: an answer is sent only when its record is on disk.
"""

import asyncio
import contextlib
import os
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import structlog
import uvicorn
import uvloop

from gatepost.api.connections import AcceptBalance, ConnectionLimits, CountedProtocol, accept_connections
from gatepost.api.server import server_config, tls_context
from gatepost.node_memory import Tally
from gatepost.service.certificates import check_pair
from gatepost.service.data_folder import StartError
from gatepost.service.plan import allow_reuse
from gatepost.service.systemd import notify_stopping
from gatepost.settings.scan_sources import ConnectionSettings

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


def load_pair(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context of HTTPS with a certificate; raises `StartError` if it cannot be used with the key."""
    check_pair(certificate, key)
    return tls_context(certificate, key)


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
