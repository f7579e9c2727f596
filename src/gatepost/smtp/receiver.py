"""The message itself as it arrives: spooled, with a limit on its size, its slowness and the space of all messages.

What is refused is still read to its end, or the client would take the reply for that of a later command; but not for
ever: a client that sends twice what it may send, or too slowly, is cut off. Behind a queue, which would send a bounce
for every refusal, what is refused for good is spooled like all else, to be held.
"""

import asyncio

from gatepost.scanning.spool import SpooledBody
from gatepost.smtp import replies
from gatepost.smtp.commands import Chunk
from gatepost.smtp.connection import Connection, ConnectionTimeoutError
from gatepost.smtp.content import DotStream, LineEnds
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.services import Services
from gatepost.store.errors import StorageError

_PIECE = 256 << 10


class MessageReceiver:
    """Reads messages off one connection."""

    def __init__(self, connection: Connection, services: Services) -> None:
        self._connection, self._services, self._limits = connection, services, services.limits

    def holds(self, refusal: SmtpReply) -> bool:
        """Whether a message that gets this reply is held instead."""
        return self._services.holds(refusal)

    async def receive_data(self, body: SpooledBody) -> SmtpReply | None:
        """Read up to the lone dot; return the reply if the message is refused. Raises `ConnectionTimeoutError`."""
        stream, pace = DotStream(), _ArrivalDeadline(self._services)
        fault: SmtpReply | None = None
        rest: bytes | None = None
        while rest is None:
            piece = await self._connection.read_piece(_PIECE, pace.deadline())
            pace.count(len(piece))
            content, rest = stream.feed(piece)
            fault = self._spool(body, content, stream.ends, fault)
        self._connection.put_back(rest)
        return fault or (None if stream.ends.sound else replies.BARE_IN_MESSAGE)

    async def receive_chunk(
        self, body: SpooledBody, chunk: Chunk, ends: LineEnds, fault: SmtpReply | None = None
    ) -> SmtpReply | None:
        """Read one chunk; return the reply if the message is refused. `fault` is that of the chunks before."""
        whole = chunk.size + body.size
        if whole > self._limits.message and (not self.holds(replies.TOO_LARGE) or whole > self._limits.message * 2):
            await self.discard(chunk.size)
            return replies.TOO_LARGE
        pace, left = _ArrivalDeadline(self._services), chunk.size
        while left:
            piece = await self._connection.read_piece(min(left, _PIECE), pace.deadline())
            left -= len(piece)
            pace.count(len(piece))
            ends.check(piece)
            fault = self._spool(body, piece, ends, fault)
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

    def _spool(self, body: SpooledBody, content: bytes, ends: LineEnds, fault: SmtpReply | None) -> SmtpReply | None:
        if fault is None and not ends.clean:
            fault = replies.BARE_IN_MESSAGE
        elif fault is None and body.size + len(content) > self._limits.message:
            fault = replies.TOO_LARGE
        if fault is not None and not self.holds(fault):
            return fault
        if self._services.spooled + len(content) > self._limits.spooled:
            return replies.NO_ROOM
        try:
            body.write(content)
        except StorageError:
            return replies.NO_ROOM
        self._services.spooled += len(content)
        return fault


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
