"""Mail servers that ask for a verdict and deliver themselves: over milter, or in the protocols of spamd and rspamd.

Whoever connects can have mail analysed for any tenant. Over TCP only this machine and the hosts of the settings may
connect; over a Unix socket those whom its mode allows. Connections outlive a change of settings: each message is
handled by the settings that hold when it begins.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from gatepost.api.connections import AcceptBalance
from gatepost.process.logs import Logger
from gatepost.process.node_memory import Tally
from gatepost.smtp.client import Networks, identify_client
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.connection import Connection
from gatepost.smtp.intake import Intake, OpenSession
from gatepost.smtp.services import Services

# What clients over Unix sockets are counted as: they have no address.
UNIX = "unix"

log = Logger("gatepost.guard")


class AskerPart(msgspec.Struct, frozen=True, eq=False):
    """A source of one generation; `allowed` are the hosts, besides this machine, that may connect."""

    services: Services
    max_connections: int
    allowed: Networks = ()


Part = TypeVar("Part", bound=AskerPart)


def read_path(text: bytes, limits: SmtpLimits) -> str | None:
    """Return the address of MAIL or RCPT as the SMTP client wrote it, without brackets and source route; None for one
    that no analysis could use. What makes an address valid has been decided by the mail server."""
    path = text.strip(b" \t")
    if path.startswith(b"<") and path.endswith(b">"):
        path = path[1:-1]
    if path.startswith(b"@") and b":" in path:
        path = path.partition(b":")[2]
    try:
        address = path.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return address if len(path) <= limits.path and address.isprintable() else None


class AskerSession(OpenSession, Protocol):
    """One connection of a mail server; `idle` is set while no message is under way."""

    @property
    def idle(self) -> asyncio.Event: ...

    def has_message_of(self, part: AskerPart) -> bool:
        """Whether a message is under way that this part handles."""
        ...

    def cut_off(self) -> None:
        """End the connection at once, without an answer: the mail server has a failure for now."""
        ...


class AskerIntake(Intake, Generic[Part]):
    """A server for mail servers. `name` is that of the source, `begin` makes the session of a connection: from it, the
    address of the mail server, and what returns the part that new messages are handled by."""

    def __init__(
        self,
        name: str,
        part: Part,
        begin: Callable[[Connection, str, Callable[[], Part]], AskerSession],
        sockets: Sequence[socket.socket],
        *,
        tally: Tally | None = None,
        balance: AcceptBalance | None = None,
    ) -> None:
        super().__init__(part.services, sockets, part.max_connections, part.allowed, tally=tally, balance=balance)
        self.name, self._part, self._begin_session = name, part, begin
        self._asking: dict[Connection, AskerSession] = {}

    def use_part(self, part: Part) -> Callable[[], Awaitable[object]]:
        """Have messages that begin from now on handled by this part. Returns what waits until those of the part before
        are answered, or until they are cut off."""
        before, self._part = self._part, part
        self._services, self._listed = part.services, part.allowed
        self._limits.change(part.max_connections, part.services.limits.per_address)
        busy = [session for session in self._asking.values() if session.has_message_of(before)]

        async def wait() -> None:
            try:
                async with asyncio.timeout(before.services.limits.stop):
                    await asyncio.gather(*(session.idle.wait() for session in busy))
            except TimeoutError:
                for session in busy:
                    if session.has_message_of(before):
                        session.cut_off()

        return wait

    def _on_made(self, connection: Connection) -> None:
        self.connections += 1
        peer = UNIX if connection.is_local else connection.peer
        if not self._may_connect(connection):
            self._limits.refused += 1
            log.warning("connection refused: the host is not in allowedHosts", source=self.name, client=peer)
            connection.close()
            return
        if not self._limits.admit(peer, listed=True):
            connection.close()
            return
        session = self._asking[connection] = self._begin_session(connection, peer, lambda: self._part)
        self._begin(connection, session, peer)

    def _may_connect(self, connection: Connection) -> bool:
        is_own = connection.is_local or connection.peer == connection.own
        return is_own or identify_client(connection.peer, self._listed).known

    def _on_lost(self, connection: Connection) -> None:
        self._asking.pop(connection, None)
        super()._on_lost(connection)
