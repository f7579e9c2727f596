"""Accepting connections where several processes share a listening socket, so that each gets its part of them.

The kernel wakes every process and gives a connection to the quickest. A client that keeps its connections open would
have most of them with one process, for as long as it runs. Therefore a process that has more connections than another
one that accepts lets it go first for a few milliseconds. A process that works hardly ever waits: it is only the
difference that counts.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from gatepost.node_memory import NodeMemory

ACCEPT_PAUSE_SECONDS = 0.1
# How long a process lets another one go first, and how often.
COURTESY_SECONDS = 0.002
COURTESIES = 5

log = structlog.get_logger("gatepost")


class ConnectionCells:
    """Where the processes of a node note how many connections of a port each of them has; 0 is said by those that do
    not accept, and one more than the number by the others."""

    def __init__(self, memory: NodeMemory) -> None:
        self.memory = memory
        self.columns = memory.allocate_columns(1)


class AcceptBalance:
    """The connections of one port in this process, beside those in the others."""

    def __init__(self, cells: ConnectionCells) -> None:
        self._columns = cells.columns
        self._own = cells.columns[cells.memory.member]

    def begin(self) -> None:
        """Take part from now on."""
        self._own[0] = 1

    def end(self) -> None:
        """Take part no longer."""
        self._own[0] = 0

    def count(self, change: int) -> None:
        """Count a connection that was opened (1) or closed (-1)."""
        if self._own[0]:
            self._own[0] += change

    @property
    def is_ahead(self) -> bool:
        """Whether another process that accepts has fewer connections."""
        own = self._own[0]
        return any(0 < column[0] < own for column in self._columns)


async def accept_connections(
    listening: socket.socket,
    balance: AcceptBalance | None,
    handle: Callable[[socket.socket, Any], None],
) -> None:
    """Accept connections until cancelled; `handle` gets each with the address of its client."""
    loop = asyncio.get_running_loop()

    def accept() -> Awaitable[tuple[socket.socket, Any]]:
        return loop.sock_accept(listening) if balance is None else _accept_in_turn(listening, balance)

    while True:
        try:
            connection, address = await accept()
        except OSError as fault:
            # No descriptor is left, or the client has gone already; either passes.
            log.warning("a connection could not be accepted", reason=fault.strerror)
            await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
            continue
        handle(connection, address)


async def _accept_in_turn(listening: socket.socket, balance: AcceptBalance) -> tuple[socket.socket, Any]:
    while True:
        await _wait_until_readable(listening)
        for _ in range(COURTESIES):
            if not balance.is_ahead:
                break
            await asyncio.sleep(COURTESY_SECONDS)
        try:
            connection, address = listening.accept()
        except BlockingIOError:
            continue  # another process was quicker
        connection.setblocking(False)
        balance.count(1)
        return connection, address


async def _wait_until_readable(listening: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(listening.fileno(), _set_once, ready)
    try:
        await ready
    finally:
        loop.remove_reader(listening.fileno())


def _set_once(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
