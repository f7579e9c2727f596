"""A message on its way in: spooled as it arrives, with a limit on its size, its slowness and the room that all take.

What is refused is still read to its end, or the client would take the reply for that of a later command; but not for
ever: whoever sends twice what may be sent, or too slowly, is cut off.
"""

import asyncio
from collections.abc import Callable

from gatepost.guard.smtp import replies
from gatepost.guard.smtp.commands import Chunk
from gatepost.guard.smtp.content import DotStream, LineEnds
from gatepost.guard.smtp.replies import Reply
from gatepost.guard.smtp.services import Services
from gatepost.guard.smtp.wire import LateError, Wire
from gatepost.guard.spool import SpooledBody

_PIECE = 256 << 10


class Receiving:
    """Reads messages off one connection."""

    def __init__(self, wire: Wire, services: Services) -> None:
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
            raise LateError
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
            raise LateError

    def deadline(self) -> float:
        limits = self._limits
        whole = min(limits.data_grace + self._size / limits.data_rate, limits.data_most)
        return min(self._now() + limits.data_wait, self._started + whole)
