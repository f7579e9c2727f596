"""The milter source: it listens on TCP and Unix sockets for the mail servers that may use it.

Whoever connects can have mail analysed and held for any tenant. Over TCP only this machine and the hosts of the
settings may connect; over a Unix socket those whom its mode allows.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from gatepost.api.connections import AcceptBalance
from gatepost.logs import Logger
from gatepost.milter.session import MilterPart, MilterSession
from gatepost.node_memory import Tally
from gatepost.smtp.client import identify_client
from gatepost.smtp.connection import Connection
from gatepost.smtp.intake import Intake

# What clients over Unix sockets are counted as: they have no address.
UNIX = "unix"

log = Logger("gatepost.guard")


class MilterIntake(Intake):
    """A server for mail servers, with sessions that go on when other settings take over."""

    def __init__(
        self,
        part: MilterPart,
        sockets: Sequence[socket.socket],
        *,
        tally: Tally | None = None,
        balance: AcceptBalance | None = None,
    ) -> None:
        super().__init__(part.services, sockets, part.max_connections, part.allowed, tally=tally, balance=balance)
        self._part = part
        self._milters: dict[Connection, MilterSession] = {}

    def use_part(self, part: MilterPart) -> Callable[[], Awaitable[object]]:
        """Have messages that begin from now on handled by this part. Returns what waits until those of the part before
        are answered, or until they are cut off."""
        before, self._part = self._part, part
        self._services, self._listed = part.services, part.allowed
        self._limits.change(part.max_connections, part.services.limits.per_address)
        busy = [session for session in self._milters.values() if session.has_message_of(before)]

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
            log.warning("milter connection refused: the host is not in allowedHosts", client=peer)
            connection.close()
            return
        if not self._limits.admit(peer, listed=True):
            connection.close()
            return
        session = self._milters[connection] = MilterSession(connection, peer, lambda: self._part)
        self._begin(connection, session, peer)

    def _may_connect(self, connection: Connection) -> bool:
        is_own = connection.is_local or connection.peer == connection.own
        return is_own or identify_client(connection.peer, self._listed).known

    def _on_lost(self, connection: Connection) -> None:
        self._milters.pop(connection, None)
        super()._on_lost(connection)
