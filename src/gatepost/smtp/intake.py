"""Scan sources on sockets of mail servers: they listen, take as many clients as the limits allow, and end their
sessions in order.

`Intake` is the SMTP source, whose clients hand their mail over. `AskerIntake` is for mail servers that ask for a
verdict and deliver themselves: over milter, or in the protocols of spamd and rspamd. A host that may connect to it can
have mail analysed for any tenant. Over TCP these are this machine and the hosts of the settings; over a Unix socket,
its mode says who may.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from gatepost.api.connections import Accepting, ConnectionLimits
from gatepost.auth.origin import Networks
from gatepost.names import strip_path
from gatepost.process.logs import Logger
from gatepost.smtp import replies
from gatepost.smtp.client import identify_client
from gatepost.smtp.commands import SmtpLimits, is_address
from gatepost.smtp.connection import Connection
from gatepost.smtp.services import Services
from gatepost.smtp.session import Session

BACKLOG = 512
# A client has so much time after the pause before the greeting, until its session may end in favour of another.
GRACE_SECONDS = 3.0
# How long sessions may go on when the service ends, before those end whose clients are waited for.
LINGER_SECONDS, LOOK_SECONDS = 1.0, 0.02
# What clients over Unix sockets are counted as: they have no address.
UNIX = "unix"

log = Logger("gatepost.guard")


class OpenSession(Protocol):
    """A conversation with one client; `deciding` while a message is analysed and its client waits."""

    deciding: bool

    def rank_to_end(self, *, is_old: bool) -> int | None:
        """How soon it ends in favour of another client where the port is full, from 0; None where it does not."""
        ...

    async def run(self) -> None: ...

    def stop(self, *, patient: bool) -> None:
        """End after the message that is under way; a `patient` call lets a client go on that will send one."""

    def give_way(self) -> None: ...


class Intake:
    """A server on sockets that are bound already. `run_here` serves until `should_exit` is set. Sessions use
    `services`. Of the connections, `reserved` are for listed hosts alone."""

    def __init__(
        self,
        services: Services,
        sockets: Sequence[socket.socket],
        max_connections: int,
        listed: Networks = (),
        *,
        reserved: int = 0,
    ) -> None:
        self.services, self._sockets = services, sockets
        self._listed = listed
        self._limits = ConnectionLimits(max_connections, services.limits.per_address, reserved)
        self._sessions: dict[Connection, tuple[asyncio.Task[None], OpenSession, str]] = {}
        self._arriving: set[asyncio.Task[None]] = set()
        self._exit = asyncio.Event()
        self.ready = asyncio.Event()
        self.connections = 0
        # Idle and stalled sessions that ended because the port was full.
        self.gave_way = 0
        # Sessions by age, when they began, and whether their client is listed or local.
        self._by_age: dict[Connection, tuple[OpenSession, float, bool]] = {}

    @property
    def should_exit(self) -> bool:
        return self._exit.is_set()

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        if value:
            self._exit.set()

    @property
    def turned_away(self) -> int:
        return self._limits.refused

    @property
    def turned_away_full(self) -> int:
        """Those of them that found no room on the port, however few they had themselves."""
        return self._limits.refused_full

    @property
    def open(self) -> int:
        return len(self._sessions)

    async def run_here(self) -> None:
        """Serve; returns when the last session has ended."""
        for routing in self.services.routings:
            routing.start()
        accepting = Accepting(self._sockets, BACKLOG, self._welcome)
        self.ready.set()
        try:
            await self._exit.wait()
        finally:
            accepting.stop()
            await asyncio.gather(*self._arriving, return_exceptions=True)
            await self._stop_sessions()
            for routing in self.services.routings:
                await routing.close()

    def _welcome(self, accepted: socket.socket, _address: object) -> None:
        task = asyncio.create_task(self._hand_over(accepted))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _hand_over(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._new_connection, accepted)
        except (OSError, asyncio.CancelledError):
            accepted.close()

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
        self._begin(connection, Session(connection, client, self.services), client.address, known=client.known)

    def _make_room(self, *, known: bool) -> None:
        """End the first session in the order of `rank_to_end`, of equal ones the oldest. Only a listed or local client
        takes the place of another."""
        oldest = asyncio.get_running_loop().time() - GRACE_SECONDS - self.services.limits.greeting_pause
        best: tuple[int, Connection] | None = None
        for connection, (session, began, is_known) in self._by_age.items():
            rank = session.rank_to_end(is_old=began <= oldest) if known or not is_known else None
            if rank is not None and (best is None or rank < best[0]):
                best = rank, connection
                if rank == 0:
                    break
        if best:
            self._end_idle(best[1])

    def _end_idle(self, connection: Connection) -> None:
        del self._by_age[connection]
        # Its place is free at once; the connection itself is lost in one of the loop's next turns.
        _, session, address = self._sessions.pop(connection)
        self._limits.leave(address)
        self.gave_way += 1
        log.info("idle session ended, because the port is full", client=address)
        session.give_way()

    def _begin(self, connection: Connection, session: OpenSession, address: str, *, known: bool) -> None:
        """Run the session of a client that was admitted."""
        self._by_age[connection] = session, asyncio.get_running_loop().time(), known
        self._sessions[connection] = (asyncio.create_task(session.run()), session, address)

    def _on_end(self, connection: Connection) -> None:
        """A client that hangs up before it is answered will send the message again: it is not to be there twice."""
        found = self._sessions.get(connection)
        if found is not None and found[1].deciding:
            found[0].cancel()

    def _on_lost(self, connection: Connection) -> None:
        self._by_age.pop(connection, None)
        found = self._sessions.pop(connection, None)
        if found is None:
            return
        task, _, address = found
        self._limits.leave(address)
        # There is no client left to reply to: what is not with the next hop yet stays with the sender.
        task.cancel()

    async def _stop_sessions(self) -> None:
        """Have all sessions end after their current message; those that do not in time are cut off. Clients that have
        just connected, or are between two commands of a message, have a moment to go on: others are told 421."""
        self.services.stopping = True
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + LINGER_SECONDS
        while self._sessions and (is_patient := loop.time() < patient_until):
            for _, session, _ in list(self._sessions.values()):
                session.stop(patient=is_patient)
            await asyncio.sleep(LOOK_SECONDS)
        for _, session, _ in list(self._sessions.values()):
            session.stop(patient=False)
        tasks = [task for task, _, _ in self._sessions.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=self.services.limits.stop)
            self.cut_off()
            await asyncio.gather(*tasks, return_exceptions=True)

    def cut_off(self) -> None:
        """End all sessions at once, without an answer: their clients send again what they were not answered for."""
        for task, _, _ in self._sessions.values():
            task.cancel()


class AskerPart(msgspec.Struct, frozen=True, eq=False):
    """What a source uses; `allowed` are the hosts, besides this machine, that may connect."""

    services: Services
    max_connections: int
    allowed: Networks = ()


Part = TypeVar("Part", bound=AskerPart)


def read_path(text: bytes, limits: SmtpLimits) -> str | None:
    """Return the address of MAIL or RCPT as the SMTP client wrote it, without brackets and source route; None for one
    that no analysis could use. What makes an address valid has been decided by the mail server."""
    try:
        address = strip_path(text.decode("utf-8"))
    except UnicodeDecodeError:
        return None
    return address if len(address.encode()) <= limits.path and address.isprintable() else None


def read_recipient(text: bytes, limits: SmtpLimits) -> str | None:
    """Return the address of RCPT; None for one that two readers may take for mailboxes of two tenants. Mail servers
    show it as it came, and deliver what they make of it."""
    address = read_path(text, limits)
    return address if address and ("@" not in address or is_address("RCPT", address)) else None


class AskerSession(OpenSession, Generic[Part]):
    """One connection of a mail server at `peer`."""

    deciding = is_put_off = False

    def __init__(self, connection: Connection, peer: str, part: Part) -> None:
        self._connection, self._peer, self._part = connection, peer, part

    def rank_to_end(self, *, is_old: bool) -> int | None:  # noqa: ARG002
        return 0 if self.is_put_off else None

    def give_way(self) -> None:
        """End the connection at once, without an answer: the mail server has a failure for now."""
        self._connection.abort()


class AskerIntake(Intake, Generic[Part]):
    """A server for mail servers. `name` is that of the source, `begin` makes the session of a connection."""

    def __init__(
        self,
        name: str,
        part: Part,
        begin: Callable[[Connection, str, Part], AskerSession[Part]],
        sockets: Sequence[socket.socket],
    ) -> None:
        super().__init__(part.services, sockets, part.max_connections, part.allowed)
        self.name, self._part, self._begin_session = name, part, begin

    def _on_made(self, connection: Connection) -> None:
        self.connections += 1
        peer = UNIX if connection.is_local else connection.peer
        if not self._may_connect(connection):
            self._limits.refused += 1
            log.warning("connection refused: the host is not in allowedHosts", source=self.name, client=peer)
            connection.close()
            return
        if self._limits.is_full(peer, listed=True):
            self._make_room(known=True)
        if not self._limits.admit(peer, listed=True):
            connection.close()
            return
        self._begin(connection, self._begin_session(connection, peer, self._part), peer, known=True)

    def _may_connect(self, connection: Connection) -> bool:
        is_own = connection.is_local or connection.peer == connection.own
        return is_own or identify_client(connection.peer, self._listed).known
