"""A message on its way in: spooled as it arrives, with a limit on its size, its slowness and the room that all take.

What is refused is still read to its end, or the client would take the reply for that of a later command; but not for
ever: whoever sends twice what may be sent, or too slowly, is cut off.

One mail transaction (RFC 5321 section 3.3), here and at the next hop at once.

MAIL and RCPT go to the next hop as they come, and its replies are the client's. Nothing is decided here that the next
hop decides: who is a valid recipient, who may send. Without a next hop everybody is taken, and only `deliver` fails.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable

from gatepost.mail.message import Envelope
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp import replies
from gatepost.smtp.client import Client
from gatepost.smtp.commands import Chunk, Path, xtext
from gatepost.smtp.connection import Connection, ConnectionTimeoutError
from gatepost.smtp.content import DotStream, LineEnds
from gatepost.smtp.next_hop import NextHop, NextHopError
from gatepost.smtp.relay import Relay
from gatepost.smtp.replies import Reply, passed_on
from gatepost.smtp.services import Services

_PIECE = 256 << 10


class Receiving:
    """Reads messages off one connection."""

    def __init__(self, wire: Connection, services: Services) -> None:
        self._wire, self._services, self._limits = wire, services, services.limits

    async def dotted(self, body: SpooledBody, alive: Callable[[], None]) -> Reply | None:
        """Read up to the lone dot; the reply if the message is refused. Raises `LateError` where it never ends."""
        stream, pace = DotStream(), _Pace(self._services)
        fault: Reply | None = None
        rest: bytes | None = None
        while rest is None:
            piece = await self._wire.piece(_PIECE, pace.deadline())
            pace.count(len(piece))
            content, rest = stream.feed(piece)
            fault = fault or self._kept(body, content, stream.ends)
            alive()
        self._wire.put_back(rest)
        return fault or (None if stream.ends.sound else replies.BARE_IN_MESSAGE)

    async def chunk(self, body: SpooledBody, chunk: Chunk, ends: LineEnds, alive: Callable[[], None]) -> Reply | None:
        """Read one chunk; the reply if the message is refused."""
        if chunk.size + body.size > self._limits.message:
            await self.swallow(chunk.size)
            return replies.TOO_LARGE
        pace, left = _Pace(self._services), chunk.size
        fault: Reply | None = None
        while left:
            piece = await self._wire.piece(min(left, _PIECE), pace.deadline())
            left -= len(piece)
            pace.count(len(piece))
            ends.see(piece)
            fault = fault or self._kept(body, piece, ends)
            alive()
        if chunk.last and not ends.sound:
            return fault or replies.BARE_IN_MESSAGE
        return fault

    async def swallow(self, size: int) -> None:
        """Read a chunk that nobody wants (RFC 3030 section 2: it comes all the same)."""
        if size > self._limits.message * 2:
            raise ConnectionTimeoutError
        pace, left = _Pace(self._services), size
        while left:
            piece = await self._wire.piece(min(left, _PIECE), pace.deadline())
            left -= len(piece)
            pace.count(len(piece))

    def _kept(self, body: SpooledBody, content: bytes, ends: LineEnds) -> Reply | None:
        if not ends.clean:
            return replies.BARE_IN_MESSAGE
        if body.size + len(content) > self._limits.message:
            return replies.TOO_LARGE
        if self._services.spooled + len(content) > self._limits.spooled:
            return replies.NO_ROOM
        try:
            body.write(content)
        except OSError:
            return replies.NO_ROOM
        self._services.spooled += len(content)
        return None


class _Pace:
    """By when the next piece must come."""

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


Pending = Reply | asyncio.Future[Reply]

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
    """From MAIL to the last reply. `body` is what BDAT brought so far; `tenant` that of all its recipients."""

    def __init__(self, mail: Path, client: Client, helo: str, relay: Relay | None) -> None:
        self._mail, self._client, self._helo, self._relay = mail, client, helo, relay
        self._link: NextHop | None = None
        self._sender: Pending = replies.SENDER_OK
        self._recipients: list[tuple[str, Pending]] = []
        self.tenants: dict[str, str | None] = {}
        self.tenant: str | None = None
        self.body: SpooledBody | None = None

    async def begin(self) -> Pending:
        """MAIL."""
        if self._relay is None:
            return self._sender
        try:
            self._link = await self._relay.lend()
        except NextHopError:
            self._sender = replies.NEXT_HOP_DOWN
            return self._sender
        if self._client.forwarded and "XFORWARD" in self._link.features:
            self._link.ask(_xforward(self._client.forwarded, self._link.features["XFORWARD"]))
        self._sender = self._ask(self._mail, b"MAIL FROM")
        return self._sender

    def add(self, recipient: Path) -> Pending:
        """RCPT, for a recipient of the transaction's tenant."""
        answer: Pending = replies.RECIPIENT_OK
        if self._relay is not None:
            answer = self._ask(recipient, b"RCPT TO")
        self._recipients.append((recipient.address, answer))
        return answer

    @property
    def started(self) -> bool:
        """Was MAIL accepted? Known only when its reply is there."""
        return _known(self._sender).positive

    @property
    def accepted(self) -> tuple[str, ...]:
        """The recipients that the next hop takes."""
        return tuple(address for address, answer in self._recipients if _known(answer).positive)

    @property
    def international(self) -> bool:
        """Did the client announce an international message (RFC 6531)?"""
        return "SMTPUTF8" in self._mail.parameters

    @property
    def asked(self) -> int:
        """How many recipients were named."""
        return len(self._recipients)

    @property
    def lost(self) -> bool:
        """Has the next hop gone away meanwhile?"""
        return self._link is not None and not self._link.usable

    def envelope(self) -> Envelope:
        """As the analysis gets it."""
        client = self._client
        return Envelope(
            sender=self._mail.address,
            recipients=self.accepted,
            remote_address=client.remote_address(),
            helo=client.helo(self._helo),
            tenant=self.tenant,
        )

    def digest(self, sha256: str) -> str:
        """The same for the same bytes and envelope."""
        parts = (sha256, self._mail.address, *sorted(self.accepted))
        return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()

    def keep_alive(self) -> None:
        """While a message comes in slowly, the next hop is told that somebody is still there."""
        link = self._link
        if link is not None and link.usable and asyncio.get_running_loop().time() - link.last_used > KEEP_ALIVE_SECONDS:
            link.ask(b"NOOP")

    async def deliver(self, pieces: Iterable[bytes]) -> Reply:
        """Send the message on; the next hop's last word is ours."""
        if self._relay is None:
            return replies.NO_NEXT_HOP
        link, self._link = self._link, None
        assert link is not None
        link.transactions += 1
        try:
            answer = await link.message(pieces)
        except NextHopError:
            return replies.NEXT_HOP_LOST
        finally:
            if not link.usable:
                link.close()
        if answer.positive:
            self._relay.give_back(link)
        else:
            self._relay.let_go(link)
        return passed_on(answer)

    def end(self) -> None:
        """Over, done or not."""
        if self.body is not None:
            self.body.close()
        link, self._link = self._link, None
        if link is not None and self._relay is not None:
            self._relay.let_go(link)

    def _ask(self, path: Path, words: bytes) -> Pending:
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


def _known(answer: Pending) -> Reply:
    """A reply, if it is there; a promise that was broken or is open counts as a failure for now."""
    if isinstance(answer, Reply):
        return answer
    if not answer.done() or answer.cancelled() or answer.exception():
        return replies.NEXT_HOP_LOST
    return answer.result()


async def settled(answer: Pending) -> Reply:
    """Wait for a reply, as the client gets it."""
    if isinstance(answer, Reply):
        return answer
    try:
        return passed_on(await answer)
    except NextHopError:
        return replies.NEXT_HOP_LOST


def _xforward(values: dict[str, str | None], names: str) -> bytes:
    known = names.upper().split()
    words = [
        name.encode() + b"=" + (xtext(value) if value else b"[UNAVAILABLE]")
        for name, value in values.items()
        if name in known
    ]
    return b" ".join([b"XFORWARD", *words])
