"""The content of messages: how it arrives after DATA (RFC 5321 section 4.5.2) or in chunks (RFC 3030), and leaves.

Servers that take LF.LF, CR.CR or any mix of them for the end of a message let a sender smuggle a second one past a
server that does not (CVE-2023-51764 and its like). Here only CRLF.CRLF ends a message, and a message with any CR or LF
outside of CRLF, or with a NUL that a server behind us might drop, is refused whole: nothing of it can be passed on and
read differently there.

What arrives is spooled, with a limit on its size, its slowness and the space of all messages. What is refused is still
read to its end, or the client would take the reply for that of a later command; but not for ever: a client that sends
twice what it may send, or too slowly, is cut off. Behind a queue, which would send a bounce for every refusal, what is
refused for good is spooled like all else, to be held.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable

from gatepost.api.connections import ArrivalPace
from gatepost.scanning.request import Shares
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp import replies
from gatepost.smtp.commands import Chunk, SmtpLimits
from gatepost.smtp.connection import Connection, ConnectionTimeoutError
from gatepost.smtp.replies import SmtpReply
from gatepost.store.errors import StorageError

_PIECE = 256 << 10
_END = b"\r\n.\r\n"
_LINE_END = re.compile(rb"\r\n|\r|\n")


class LineEnds:
    """Watches bytes go by; `clean` while every CR and LF stood in a CRLF and no byte was NUL."""

    def __init__(self) -> None:
        self.clean = True
        self._after_cr = False

    def check(self, data: bytes) -> None:
        if not self.clean or not data:
            return
        if self._after_cr:
            data = b"\r" + data
        self._after_cr = data.endswith(b"\r")
        pairs = data.count(b"\r\n")
        self.clean = data.count(b"\n") == pairs and data.count(b"\r") == pairs + self._after_cr and b"\0" not in data

    @property
    def sound(self) -> bool:
        """Whether the whole message was clean, and no CR waits for its LF."""
        return self.clean and not self._after_cr


def normalise_line_ends(raw: bytes) -> bytes:
    """A message as SMTP may carry it (RFC 5321 section 2.3.8): every line ends with CRLF, and only lines do.

    Mail that came over SMTP is like that already. What came over HTTP may not be, and a lone LF before a dot would let
    a next hop that takes LF for a line end read a second message out of the first.
    """
    pairs = raw.count(b"\r\n")
    if raw.count(b"\r") == pairs == raw.count(b"\n"):
        return raw
    return _LINE_END.sub(b"\r\n", raw)


def is_sound(raw: bytes) -> bool:
    """Whether a whole message could have come over SMTP: CR and LF stand only in CRLF, and there is no NUL."""
    ends = LineEnds()
    ends.check(raw)
    return ends.sound


class DotStream:
    """The bytes after DATA, without their dot-stuffing."""

    def __init__(self) -> None:
        self.ends = LineEnds()
        # As if an empty line had come before: a message may begin with a stuffed dot, or be nothing but the end.
        self._held = b"\r\n"
        self._skip = 2

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return what belongs to the message, and, once it has ended, what came behind the end."""
        whole = self._held + data
        end = whole.find(_END)
        if end >= 0:
            return self._unstuff(whole[: end + 2]), whole[end + len(_END) :]
        keep = next(length for length in range(min(len(_END), len(whole)), -1, -1) if whole.endswith(_END[:length]))
        self._held = whole[len(whole) - keep :]
        return self._unstuff(whole[: len(whole) - keep]), None

    def _unstuff(self, stuffed: bytes) -> bytes:
        self.ends.check(stuffed)
        text = stuffed.replace(b"\r\n.", b"\r\n")[self._skip :]
        self._skip = max(0, self._skip - len(stuffed))
        return text


class DotStuffer:
    """Dot-stuffs a message for the next hop; `end` is what must follow the last piece."""

    def __init__(self) -> None:
        self._tail = b"\r\n"

    def feed(self, data: bytes) -> bytes:
        if not data:
            return b""
        joined = self._tail + data
        stuffed = joined.replace(b"\r\n.", b"\r\n..")[len(self._tail) :]
        self._tail = joined[-2:]
        return stuffed

    @property
    def end(self) -> bytes:
        """The lone dot, on a line of its own even if the message does not end with one."""
        return b".\r\n" if self._tail == b"\r\n" else b"\r\n.\r\n"


class SpoolSpace(Shares):
    """The space that all messages on their way in take together, in bytes, and what those of a tenant may take."""

    async def write(self, body: SpooledBody, content: bytes) -> bool:
        """Write the next piece of a message; returns False where there is no room for it."""
        if not self.has_room(body.tenant, len(content)):
            return False
        body.write(content)
        self.take(body.tenant, len(content))
        try:
            await body.settle()
        except StorageError:
            return False
        return True

    def close(self, body: SpooledBody) -> None:
        """Give up the message and what it takes."""
        self.give_back(body.tenant, body.size)
        body.close()


class MessageReceiver:
    """Reads messages off one connection. `holds` says whether a message that gets a reply is held instead."""

    def __init__(
        self, connection: Connection, limits: SmtpLimits, space: SpoolSpace, holds: Callable[[SmtpReply], bool]
    ) -> None:
        self._connection, self._limits, self._space, self._holds = connection, limits, space, holds

    async def receive_data(self, body: SpooledBody) -> SmtpReply | None:
        """Read up to the lone dot; return the reply if the message is refused. Raises `ConnectionTimeoutError`."""
        stream, pace = DotStream(), start_pace(self._limits)
        fault: SmtpReply | None = None
        rest: bytes | None = None
        while rest is None:
            piece = await self._connection.read_piece(_PIECE, pace.deadline)
            pace.count(len(piece))
            if pace.size > self._limits.message * 2:
                raise ConnectionTimeoutError
            content, rest = stream.feed(piece)
            fault = await self._spool(body, content, stream.ends, fault)
        self._connection.put_back(rest)
        return fault or (None if stream.ends.sound else replies.BARE_IN_MESSAGE)

    async def receive_chunk(
        self, body: SpooledBody, chunk: Chunk, ends: LineEnds, fault: SmtpReply | None = None
    ) -> SmtpReply | None:
        """Read one chunk; return the reply if the message is refused. `fault` is that of the chunks before."""
        whole = chunk.size + body.size
        if whole > self._limits.message and (not self._holds(replies.TOO_LARGE) or whole > self._limits.message * 2):
            await self.discard(chunk.size)
            return replies.TOO_LARGE
        async for piece in self._read_pieces(chunk.size):
            ends.check(piece)
            fault = await self._spool(body, piece, ends, fault)
        if chunk.last and not ends.sound:
            return fault or replies.BARE_IN_MESSAGE
        return fault

    async def discard(self, size: int) -> None:
        """Read a chunk of a message that is refused (RFC 3030 section 2: it comes all the same)."""
        if size > self._limits.message * 2:
            raise ConnectionTimeoutError
        async for _ in self._read_pieces(size):
            pass

    async def _read_pieces(self, size: int) -> AsyncIterator[bytes]:
        pace = start_pace(self._limits)
        while size:
            piece = await self._connection.read_piece(min(size, _PIECE), pace.deadline)
            size -= len(piece)
            pace.count(len(piece))
            yield piece

    async def _spool(
        self, body: SpooledBody, content: bytes, ends: LineEnds, fault: SmtpReply | None
    ) -> SmtpReply | None:
        if fault is None and not ends.clean:
            fault = replies.BARE_IN_MESSAGE
        elif fault is None and body.size + len(content) > self._limits.message:
            fault = replies.TOO_LARGE
        if fault is not None and not self._holds(fault):
            return fault
        return fault if await self._space.write(body, content) else replies.NO_ROOM


def start_pace(limits: SmtpLimits) -> ArrivalPace:
    """Return by when a message must come that begins now."""
    now = asyncio.get_running_loop().time
    return ArrivalPace(now, limits.data_wait, limits.data_grace, limits.data_rate, limits.data_floor, limits.data_most)
