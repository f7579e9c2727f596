"""One mail transaction (RFC 5321 section 3.3), here and at the next hop at once, and the message as it arrives.

MAIL and RCPT go to the next hop as they come, and its replies are the client's. Nothing is decided here that the next
hop decides: who is a valid recipient, who may send. Without a next hop every recipient is taken, and only `deliver`
fails.

A message is spooled as it arrives, with a limit on its size, its slowness and the space that all messages take. What is
refused is still read to its end, or the client would take the reply for that of a later command; but not for ever: a
client that sends twice what it may send, or too slowly, is cut off.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable

from gatepost.mail.message import Envelope
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp import replies
from gatepost.smtp.client import SmtpClient
from gatepost.smtp.commands import Chunk, PathCommand, encode_xtext
from gatepost.smtp.connection import Connection, ConnectionTimeoutError
from gatepost.smtp.content import DotStream, LineEnds
from gatepost.smtp.next_hop import NextHop, NextHopError
from gatepost.smtp.relay import Relay
from gatepost.smtp.replies import SmtpReply, pass_on
from gatepost.smtp.reporting import ReportAddress
from gatepost.smtp.services import Services
from gatepost.store.errors import StorageError

_PIECE = 256 << 10


class MessageReceiver:
    """Reads messages off one connection."""

    def __init__(self, connection: Connection, services: Services) -> None:
        self._connection, self._services, self._limits = connection, services, services.limits

    async def receive_data(self, body: SpooledBody, alive: Callable[[], None]) -> SmtpReply | None:
        """Read up to the lone dot; return the reply if the message is refused. Raises `ConnectionTimeoutError`."""
        stream, pace = DotStream(), _ArrivalDeadline(self._services)
        fault: SmtpReply | None = None
        rest: bytes | None = None
        while rest is None:
            piece = await self._connection.read_piece(_PIECE, pace.deadline())
            pace.count(len(piece))
            content, rest = stream.feed(piece)
            fault = fault or self._spool(body, content, stream.ends)
            alive()
        self._connection.put_back(rest)
        return fault or (None if stream.ends.sound else replies.BARE_IN_MESSAGE)

    async def receive_chunk(
        self, body: SpooledBody, chunk: Chunk, ends: LineEnds, alive: Callable[[], None]
    ) -> SmtpReply | None:
        """Read one chunk; return the reply if the message is refused."""
        if chunk.size + body.size > self._limits.message:
            await self.discard(chunk.size)
            return replies.TOO_LARGE
        pace, left = _ArrivalDeadline(self._services), chunk.size
        fault: SmtpReply | None = None
        while left:
            piece = await self._connection.read_piece(min(left, _PIECE), pace.deadline())
            left -= len(piece)
            pace.count(len(piece))
            ends.check(piece)
            fault = fault or self._spool(body, piece, ends)
            alive()
        if chunk.last and not ends.sound:
            return fault or replies.BARE_IN_MESSAGE
        return fault

    async def discard(self, size: int) -> None:
        """Read a chunk of a message that is refused (RFC 3030 section 2: it comes all the same)."""
        if size > self._limits.message * 2:
            raise ConnectionTimeoutError
        pace, left = _ArrivalDeadline(self._services), size
        while left:
            piece = await self._connection.read_piece(min(left, _PIECE), pace.deadline())
            left -= len(piece)
            pace.count(len(piece))

    def _spool(self, body: SpooledBody, content: bytes, ends: LineEnds) -> SmtpReply | None:
        if not ends.clean:
            return replies.BARE_IN_MESSAGE
        if body.size + len(content) > self._limits.message:
            return replies.TOO_LARGE
        if self._services.spooled + len(content) > self._limits.spooled:
            return replies.NO_ROOM
        try:
            body.write(content)
        except StorageError:
            return replies.NO_ROOM
        self._services.spooled += len(content)
        return None


class _ArrivalDeadline:
    """The time by which the next piece of a message must come."""

    def __init__(self, services: Services) -> None:
        self._limits = services.limits
        self._now = asyncio.get_running_loop().time
        self._started = self._now()
        self._size = 0

    def count(self, size: int) -> None:
        self._size += size
        if self._size > self._limits.message * 2:
            raise ConnectionTimeoutError

    def deadline(self) -> float:
        limits = self._limits
        whole = min(limits.data_grace + self._size / limits.data_rate, limits.data_most)
        return min(self._now() + limits.data_wait, self._started + whole)


Pending = SmtpReply | asyncio.Future[SmtpReply]

KEEP_ALIVE_SECONDS = 60.0
# Parameters of MAIL and RCPT, and the extension that the next hop must have for each.
_NEEDED = {
    "SIZE": "SIZE",
    "BODY": "8BITMIME",
    "SMTPUTF8": "SMTPUTF8",
    "RET": "DSN",
    "ENVID": "DSN",
    "NOTIFY": "DSN",
    "ORCPT": "DSN",
}


class Transaction:
    """From MAIL to the last reply. `body` is what BDAT brought so far; `tenant` that of all its recipients,
    `report` the reporting address that it is for."""

    def __init__(self, mail: PathCommand, client: SmtpClient, helo: str, relay: Relay | None) -> None:
        self._mail, self._client, self._helo, self._relay = mail, client, helo, relay
        self._link: NextHop | None = None
        self._sender: Pending = replies.SENDER_OK
        self._recipients: list[tuple[str, Pending]] = []
        self.tenants: dict[str, str | None] = {}
        self.tenant: str | None = None
        self.report: ReportAddress | None = None
        self.body: SpooledBody | None = None

    async def begin(self) -> Pending:
        """Handle MAIL: connect to the next hop and pass it on."""
        if self._relay is None:
            return self._sender
        try:
            self._link = await self._relay.borrow()
        except NextHopError:
            self._sender = replies.NEXT_HOP_DOWN
            return self._sender
        if self._client.xforward and "XFORWARD" in self._link.features:
            self._link.ask(_xforward(self._client.xforward, self._link.features["XFORWARD"]))
        self._sender = self._ask(self._mail, b"MAIL FROM")
        return self._sender

    def add(self, recipient: PathCommand, report: ReportAddress | None = None) -> Pending:
        """Handle RCPT for a recipient of the transaction's tenant; a reporting address is none of the next hop's."""
        answer: Pending = replies.RECIPIENT_OK
        self.report = report
        if self._relay is not None and report is None:
            answer = self._ask(recipient, b"RCPT TO")
        self._recipients.append((recipient.address, answer))
        return answer

    @property
    def started(self) -> bool:
        """Whether MAIL was accepted; known only when its reply is there."""
        return _current_reply(self._sender).positive

    @property
    def accepted(self) -> tuple[str, ...]:
        """The recipients that the next hop takes."""
        return tuple(address for address, answer in self._recipients if _current_reply(answer).positive)

    @property
    def international(self) -> bool:
        """Whether the client announced an international message (RFC 6531)."""
        return "SMTPUTF8" in self._mail.parameters

    @property
    def asked(self) -> int:
        """How many recipients were named."""
        return len(self._recipients)

    @property
    def lost(self) -> bool:
        """Whether the connection to the next hop was lost meanwhile."""
        return self._link is not None and not self._link.usable

    def envelope(self) -> Envelope:
        """Return the envelope for the analysis."""
        client = self._client
        return Envelope(
            sender=self._mail.address,
            recipients=self.accepted,
            remote_address=client.remote_address(),
            helo=client.helo(self._helo),
            tenant=self.tenant,
        )

    def digest(self, sha256: str) -> str:
        """Return a hash that is the same for the same bytes and envelope."""
        parts = (sha256, self._mail.address, *sorted(self.accepted))
        return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()

    def keep_alive(self) -> None:
        """Send NOOP to the next hop while a message comes in slowly, so that it does not close the connection."""
        link = self._link
        if link is not None and link.usable and asyncio.get_running_loop().time() - link.last_used > KEEP_ALIVE_SECONDS:
            link.ask(b"NOOP")

    async def deliver(self, pieces: Iterable[bytes]) -> SmtpReply:
        """Send the message on; return the next hop's last reply."""
        if self._relay is None:
            return replies.NO_NEXT_HOP
        link, self._link = self._link, None
        assert link is not None
        link.transactions += 1
        try:
            answer = await link.send_message(pieces)
        except NextHopError:
            return replies.NEXT_HOP_LOST
        finally:
            if not link.usable:
                link.close()
        if answer.positive:
            self._relay.give_back(link)
        else:
            self._relay.abandon(link)
        return pass_on(answer)

    def end(self) -> None:
        """Close the body and end the transaction at the next hop, whether completed or not."""
        if self.body is not None:
            self.body.close()
        link, self._link = self._link, None
        if link is not None and self._relay is not None:
            self._relay.abandon(link)

    def _ask(self, path: PathCommand, words: bytes) -> Pending:
        link = self._link
        if link is None:
            return replies.NEXT_HOP_LOST if self._relay else replies.OUT_OF_ORDER
        line = words + b":<" + path.address.encode() + b">"
        for name, value in path.parameters.items():
            if _NEEDED[name] in link.features:
                line += f" {name}={value}".encode() if value else f" {name}".encode()
            elif name == "SMTPUTF8":
                return replies.NEXT_HOP_CONFUSED
        return link.ask(line)


def _current_reply(answer: Pending) -> SmtpReply:
    """Return the reply, if it is there; a promise that failed or is open counts as a failure for now."""
    if isinstance(answer, SmtpReply):
        return answer
    if not answer.done() or answer.cancelled() or answer.exception():
        return replies.NEXT_HOP_LOST
    return answer.result()


async def wait_for_reply(answer: Pending) -> SmtpReply:
    """Wait for a reply, and return it as the client gets it."""
    if isinstance(answer, SmtpReply):
        return answer
    try:
        return pass_on(await answer)
    except NextHopError:
        return replies.NEXT_HOP_LOST


def _xforward(values: dict[str, str | None], names: str) -> bytes:
    known = names.upper().split()
    words = [
        name.encode() + b"=" + (encode_xtext(value) if value else b"[UNAVAILABLE]")
        for name, value in values.items()
        if name in known
    ]
    return b" ".join([b"XFORWARD", *words])
