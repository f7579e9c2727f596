"""HTTP servers in one event loop, started together and stopped together.

The first SIGINT or SIGTERM lets requests in flight finish, the second ends the process at once. The second loses
nothing that was answered: an answer is sent only when its record is on disk.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import structlog
import uvicorn
import uvloop

from gatepost.api.server import server_config
from gatepost.service.certificates import check_pair
from gatepost.service.data_folder import StartError
from gatepost.service.plan import allow_reuse

log = structlog.get_logger("gatepost")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Serves(Protocol):
    """A server that runs until `should_exit` is set; `ready` is set once it listens."""

    ready: asyncio.Event
    should_exit: bool

    async def run_here(self) -> None: ...


class Server(uvicorn.Server):
    """uvicorn without its own signal handlers, on sockets that are already bound."""

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


def build_server(app: Any, bound: Sequence[socket.socket], pair: tuple[Path, Path] | None = None) -> Server:
    """Build a server for an application on bound sockets, with HTTPS if there is a certificate and key."""
    certificate, key = pair or (None, None)
    if certificate and key:
        check_pair(certificate, key)
    return Server(server_config(app, certificate=certificate, key=key), bound)


def run(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run a service in a new event loop; `main` gets the event that asks it to stop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run_until_signal(main))


async def _run_until_signal(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, _handle_signal, stop, number)
    await main(stop)


def _handle_signal(stop: asyncio.Event, number: int) -> None:
    if stop.is_set():
        log.warning("stopped at once", signal=signal.Signals(number).name)
        os._exit(128 + number)
    log.info("stopping", signal=signal.Signals(number).name)
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
