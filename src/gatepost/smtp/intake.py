"""The SMTP scan source: it listens, takes as many clients as the limits allow, and ends their sessions in order."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from gatepost.api.connections import AcceptBalance, ConnectionLimits, accept_connections
from gatepost.process.logs import Logger
from gatepost.process.node_memory import Tally
from gatepost.smtp import replies
from gatepost.smtp.client import Networks, identify_client
from gatepost.smtp.connection import Connection
from gatepost.smtp.services import Services
from gatepost.smtp.session import Session

BACKLOG = 512
# A client has so much time after the pause before the greeting, until its session may end in favour of another.
GRACE_SECONDS = 3.0

log = Logger("gatepost.guard")


class OpenSession(Protocol):
    """A conversation with one client; `deciding` while a message is analysed and its client waits."""

    @property
    def deciding(self) -> bool: ...

    async def run(self) -> None: ...

    def stop(self) -> None: ...


class Intake:
    """A server on sockets that are bound already. `run_here` serves until `should_exit` is set. Of the connections,
    `reserved` are for listed hosts alone. `tally` and `balance` are set where several processes serve the port."""

    def __init__(
        self,
        services: Services,
        sockets: Sequence[socket.socket],
        max_connections: int,
        listed: Networks = (),
        *,
        reserved: int = 0,
        tally: Tally | None = None,
        balance: AcceptBalance | None = None,
    ) -> None:
        self._services, self._sockets = services, sockets
        self._listed = listed
        self._limits = ConnectionLimits(max_connections, services.limits.per_address, reserved, tally=tally)
        self._balance = balance
        self._sessions: dict[Connection, tuple[asyncio.Task[None], OpenSession, str]] = {}
        self._arriving: set[asyncio.Task[None]] = set()
        self._exit = asyncio.Event()
        self.ready = asyncio.Event()
        self.connections = 0
        # Idle sessions that ended because the port was full.
        self.gave_way = 0
        # SMTP sessions by age, when they began, and whether their client is listed or local.
        self._by_age: dict[Connection, tuple[Session, float, bool]] = {}

    @property
    def services(self) -> Services:
        """What sessions that begin now use."""
        return self._services

    @property
    def should_exit(self) -> bool:
        return self._exit.is_set()

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        if value:
            self._exit.set()

    @property
    def turned_away(self) -> int:
        """Clients above a limit."""
        return self._limits.refused

    @property
    def turned_away_full(self) -> int:
        """Those of them that found no room on the port, however few they had themselves."""
        return self._limits.refused_full

    @property
    def open(self) -> int:
        """Sessions at this moment."""
        return len(self._sessions)

    def use(
        self, services: Services, max_connections: int, listed: Networks = (), reserved: int = 0
    ) -> Callable[[], Awaitable[object]]:
        """Give sessions that begin from now on these services and limits. Sessions before end after their current
        message; returns what waits until they have, or until they are cut off."""
        before, self._services, self._listed = self._services, services, listed
        self._limits.change(max_connections, services.limits.per_address, reserved)
        if before is services:
            return _wait_for_nothing
        for routing in services.routings:
            routing.start()
        return self._stop_sessions(before)

    async def run_here(self) -> None:
        """Serve; returns when the last session has ended."""
        loop = asyncio.get_running_loop()
        for routing in self._services.routings:
            routing.start()
        stop_listening = await self._listen(loop)
        for each in self._sockets:
            # Connections inherit it: the next start gets the port while remains of this one's are about.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.ready.set()
        try:
            await self._exit.wait()
        finally:
            await stop_listening()
            await self._stop_sessions(self._services)()
            for routing in self._services.routings:
                await routing.close()

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> Callable[[], Awaitable[None]]:
        """Accept connections from now on; returns what ends that and closes the sockets."""
        # The event loop takes a server's socket for one of TCP.
        served = [each for each in self._sockets if self._balance is None and each.family != socket.AF_UNIX]
        servers = [await loop.create_server(self._new_connection, sock=each, backlog=BACKLOG) for each in served]
        balance, accepted = self._balance, [each for each in self._sockets if each not in served]
        if balance:
            balance.begin()
        for each in accepted:
            each.listen(BACKLOG)
        tasks = [asyncio.create_task(accept_connections(each, balance, self._welcome)) for each in accepted]

        async def end() -> None:
            for server in servers:
                server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if balance:
                balance.end()
            for each in accepted:
                each.close()

        return end

    def _welcome(self, accepted: socket.socket, _address: object) -> None:
        task = asyncio.create_task(self._hand_over(accepted))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _hand_over(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._new_connection, accepted)
        except OSError:
            accepted.close()
            if self._balance:
                self._balance.count(-1)

    def _new_connection(self) -> Connection:
        return Connection(self._on_made, self._on_end, self._on_lost)

    def _on_made(self, connection: Connection) -> None:
        client = identify_client(connection.peer, self._listed)
        self.connections += 1
        if self._limits.is_full(client.address, listed=client.known):
            self._make_room(known=client.known)
        if not self._limits.admit(client.address, listed=client.known):
            connection.write(replies.TOO_MANY_CONNECTIONS.encode())
            connection.close()
            return
        session = Session(connection, client, self._services)
        self._by_age[connection] = session, asyncio.get_running_loop().time(), client.known
        self._begin(connection, session, client.address)

    def _make_room(self, *, known: bool) -> None:
        """End the oldest session without a transaction: one that never had any, else one that waits between two. Only a
        listed or local client takes the place of another."""
        oldest = asyncio.get_running_loop().time() - GRACE_SECONDS - self._services.limits.greeting_pause
        waiting: Connection | None = None
        for connection, (session, began, is_known) in self._by_age.items():
            if began > oldest:
                break
            if not session.is_idle or (is_known and not known):
                continue
            waiting = waiting or connection
            if not session.has_begun:
                waiting = connection
                break
        if waiting is not None:
            self._end_idle(waiting)

    def _end_idle(self, connection: Connection) -> None:
        session, _, _ = self._by_age.pop(connection)
        # Its place is free at once; the connection itself is lost in one of the loop's next turns.
        _, _, address = self._sessions.pop(connection)
        self._limits.leave(address)
        self.gave_way += 1
        log.info("idle session ended, because the port is full", client=address)
        session.give_way()

    def _begin(self, connection: Connection, session: OpenSession, address: str) -> None:
        """Run the session of a client that was admitted."""
        self._sessions[connection] = (asyncio.create_task(session.run()), session, address)

    def _on_end(self, connection: Connection) -> None:
        """A client that hangs up before it is answered will send the message again: it is not to be there twice."""
        found = self._sessions.get(connection)
        if found is not None and found[1].deciding:
            found[0].cancel()

    def _on_lost(self, connection: Connection) -> None:
        if self._balance:
            self._balance.count(-1)
        self._by_age.pop(connection, None)
        found = self._sessions.pop(connection, None)
        if found is None:
            return
        task, _, address = found
        self._limits.leave(address)
        # There is no client left to reply to: what is not with the next hop yet stays with the sender.
        task.cancel()

    def _stop_sessions(self, services: Services) -> Callable[[], Awaitable[None]]:
        """Have all sessions end after their current message; returns what waits until they have, or are cut off."""
        services.stopping = True
        tasks = [task for task, _, _ in self._sessions.values()]
        for _, session, _ in list(self._sessions.values()):
            session.stop()

        async def wait() -> None:
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=services.limits.stop)
                for task in late:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        return wait


async def _wait_for_nothing() -> None:
    """No session has other services than those in use."""
