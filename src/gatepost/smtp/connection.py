"""The bytes of one client's connection: lines and pieces out of a bounded buffer, replies in, STARTTLS in between.

A line ends with CRLF and nothing else; a bare CR, a bare LF or a NUL in it is seen as soon as it comes. When TLS
starts, what was sent in clear behind STARTTLS is thrown away and not read again: else an attacker in the middle could
have commands executed as if they had come under TLS (CVE-2011-0411).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import cast

from gatepost.api.connections import DeadlineTimer

READ_AHEAD = 256 << 10
WRITE_AHEAD = 256 << 10
# How long a client may take to answer the end of TLS; one that is idle may never do.
FAREWELL_SECONDS = 0.5


class ConnectionGoneError(Exception):
    """The client has closed the connection."""


class ConnectionTimeoutError(Exception):
    """The client took too long."""


class LineError(Exception):
    """No line: too long, or with a bare CR, LF or NUL."""

    def __init__(self, too_long: bool) -> None:
        super().__init__()
        self.too_long = too_long


class Connection(asyncio.Protocol):
    """One connection. `on_made` is called when it stands, `on_end` when the client sends no more, `on_lost` when
    it is closed."""

    def __init__(
        self,
        on_made: Callable[["Connection"], None],
        on_end: Callable[["Connection"], None],
        on_lost: Callable[["Connection"], None],
    ) -> None:
        self._on_made, self._on_end, self._on_lost = on_made, on_end, on_lost
        self._buffer = bytearray()
        self._transport: asyncio.Transport
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._blocked = self._paused = False
        self._timer = DeadlineTimer(self._be_late)
        self._ended = False
        # Whether TLS was begun; `encrypted` says that it stands.
        self._secured = False
        self.encrypted = False

    @property
    def peer(self) -> str:
        """The other end's address."""
        name = self._transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    @property
    def own(self) -> str:
        """This end's address."""
        name = self._transport.get_extra_info("sockname")
        return str(name[0]) if name else ""

    @property
    def is_local(self) -> bool:
        """Whether it came over a Unix socket, whose mode says who may connect."""
        connected = self._transport.get_extra_info("socket")
        return connected is not None and connected.family == socket.AF_UNIX

    @property
    def local_port(self) -> int:
        """The port that the client has connected to."""
        name = self._transport.get_extra_info("sockname")
        return int(name[1]) if isinstance(name, tuple) and len(name) > 1 else 0

    @property
    def buffered(self) -> bool:
        """Whether something has come that was not read yet."""
        return bool(self._buffer)

    @property
    def has_line(self) -> bool:
        return b"\n" in self._buffer

    @property
    def is_awaited(self) -> bool:
        """Whether the client is waited for: for bytes, or for its part of a handshake."""
        return self._reader is not None or (self._secured and not self.encrypted)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of this class; they only behave like it.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_AHEAD)
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > READ_AHEAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._ended = True
        _wake(self._reader)
        self._on_end(self)
        # Half a connection under TLS is closed in any case, and the event loop warns of who asks to keep it.
        return not self._secured

    def connection_lost(self, _exc: Exception | None) -> None:
        self._ended = True
        _wake(self._reader)
        _wake(self._writer)
        self._timer.stop()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        _wake(self._writer)

    async def read_line(self, limit: int, seconds: float) -> bytes:
        """Return the next line without its CRLF; it must be whole within so many seconds."""
        deadline = asyncio.get_running_loop().time() + seconds
        while (end := self._line_end(limit)) is None:
            await self._wait_for_data(deadline)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    async def read_piece(self, most: int, deadline: float) -> bytes:
        """Return some bytes, at least one; they must come before that time of the loop."""
        while not self._buffer:
            await self._wait_for_data(deadline)
        with memoryview(self._buffer) as view, view[:most] as part:
            piece = bytes(part)
        del self._buffer[: len(piece)]
        self._resume()
        return piece

    async def talks_within(self, seconds: float) -> bool:
        """Whether the client sends anything within so many seconds."""
        if seconds and not self._buffer:
            try:
                await self._wait_for_data(asyncio.get_running_loop().time() + seconds)
            except ConnectionTimeoutError:
                pass
        return self.buffered

    def put_back(self, data: bytes) -> None:
        """Put bytes that were read too far before the rest."""
        self._buffer[:0] = data

    def write(self, data: bytes) -> None:
        """Send; `drain` waits where the client does not read."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self, seconds: float) -> None:
        """Return when the client has read most of what was sent."""
        while self._blocked and not self._ended:
            self._writer = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(seconds):
                    await self._writer
            except TimeoutError:
                self.abort()
                raise ConnectionGoneError from None

    async def start_tls(self, context: ssl.SSLContext, go_ahead: bytes, seconds: float) -> bool:
        """Tell the client to begin, and do the handshake. What came in clear so far is thrown away."""
        loop = asyncio.get_running_loop()
        self._transport.pause_reading()
        self._buffer.clear()
        self._paused, self._secured = False, True
        self.write(go_ahead)
        try:
            secure = await loop.start_tls(
                self._transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=FAREWELL_SECONDS,
            )
        except OSError:
            self.abort()
            return False
        except asyncio.CancelledError:
            self.abort()
            raise
        if secure is None:
            return False
        self._transport = secure
        secure.set_write_buffer_limits(WRITE_AHEAD)
        self.encrypted = True
        return True

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _line_end(self, limit: int) -> int | None:
        """Where the first line ends, None if it is not whole yet. Raises `LineError`."""
        end = self._buffer.find(b"\n", 0, limit)
        line = self._buffer[: end - 1] if end > 0 else self._buffer[:limit]
        if end < 0 and len(line) >= limit:
            raise LineError(too_long=True)
        if end < 0:
            # The last byte may be the CR of a CRLF that is on its way.
            if b"\r" in line[:-1] or b"\0" in line:
                raise LineError(too_long=False)
            return None
        if end == 0 or self._buffer[end - 1] != 0x0D or b"\r" in line or b"\0" in line:
            raise LineError(too_long=False)
        return end - 1

    async def _wait_for_data(self, deadline: float) -> None:
        if self._ended:
            raise ConnectionGoneError
        self._resume()
        self._reader = asyncio.get_running_loop().create_future()
        self._timer.set(deadline)
        try:
            await self._reader
        finally:
            self._reader = None

    def _be_late(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_exception(ConnectionTimeoutError())

    def _resume(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
