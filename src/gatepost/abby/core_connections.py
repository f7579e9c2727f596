"""Connections of abby to one core: HTTP/1.1 over TLS, kept open, with one exchange at a time on each.

Every message that goes to a core on another host passes here. By way of httpx that took 1.8 ms of CPU a message, more
than all else that abby does for it. Here a small message is one write, and its answer is read by httptools in
callbacks. What only a general client needs is left out: redirects, proxies, cookies, content codings and answers
without a length. With a context of `api.tls_sessions`, a new connection resumes the session of one before it.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import msgspec

CONNECT_SECONDS = 3.0
# How long a core may take no bytes of a message.
WRITE_SECONDS = 60.0
# A core closes connections that nobody uses after more than a minute (`api.server`).
KEEP_SECONDS = 30.0
# How long a core may take to answer the end of TLS.
CLOSE_SECONDS = 1.0
MAX_KEPT = 64
# Up to here one copy is cheaper than another record of TLS with its system call.
MAX_JOINED = 64 << 10


class ConnectError(Exception):
    """There is no connection; its cause says why."""


class ExchangeError(Exception):
    """A connection broke before the answer was whole, or the answer is no HTTP."""


class HttpAnswer(msgspec.Struct, frozen=True):
    """The answer of a core; `media_type` is its Content-Type."""

    status: int
    media_type: str
    body: bytes


class CoreConnections:
    """The connections to a core at a base address; `headers` are those of every request."""

    def __init__(self, address: str, context: ssl.SSLContext, headers: Mapping[str, str]) -> None:
        parts = urlsplit(address)
        self._host, self._prefix = parts.hostname or "", parts.path.rstrip("/")
        self._is_secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_secure else 80)
        self._context = context
        common = {"Host": parts.netloc, **headers}
        self._common = "".join(f"{name}: {value}\r\n" for name, value in common.items())
        self._kept: list[_Connection] = []
        self._used: set[_Connection] = set()
        self.opened = 0

    async def get(self, path: str, most: int) -> HttpAnswer:
        """Ask for something, whose answer has at most so many bytes."""
        return await self._exchange(f"GET {self._prefix}{path} HTTP/1.1\r\n{self._common}\r\n", (), 0, most)

    async def post(self, path: str, media_type: str, size: int, pieces: Iterable[bytes], most: int) -> HttpAnswer:
        """Send a body of so many bytes, in pieces, and return the answer, which has at most `most` bytes. Raises
        `ConnectError` where nothing was sent, `ExchangeError` where that is not known, `ValueError` where the answer is
        too long, and whatever making a piece raises."""
        head = (
            f"POST {self._prefix}{path} HTTP/1.1\r\n{self._common}"
            f"Content-Type: {media_type}\r\nContent-Length: {size}\r\n\r\n"
        )
        return await self._exchange(head, pieces, size, most)

    async def close(self) -> None:
        """Close all connections; what is under way fails."""
        open_ones = (*self._kept, *self._used)
        self._kept.clear()
        for connection in open_ones:
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                for connection in open_ones:
                    await connection.lost.wait()

    async def _exchange(self, head: str, pieces: Iterable[bytes], size: int, most: int) -> HttpAnswer:
        connection = self._take_kept() or await self._connect()
        self._used.add(connection)
        try:
            answer = await connection.exchange(head.encode("latin-1"), pieces, size, most)
        except BaseException:
            connection.close()
            raise
        finally:
            self._used.discard(connection)
        if connection.is_usable and len(self._kept) < MAX_KEPT:
            self._kept.append(connection)
        else:
            connection.close()
        return answer

    def _take_kept(self) -> "_Connection | None":
        """Take the connection that was used last, and close those that were not used for long."""
        oldest = asyncio.get_running_loop().time() - KEEP_SECONDS
        while self._kept and (not self._kept[0].is_usable or self._kept[0].last_used < oldest):
            self._kept.pop(0).close()
        while self._kept:
            connection = self._kept.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    async def _connect(self) -> "_Connection":
        context, name = (self._context, self._host) if self._is_secure else (None, None)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    _Connection, self._host, self._port, ssl=context, server_hostname=name
                )
        except (OSError, TimeoutError) as fault:
            raise ConnectError(str(fault)) from fault
        self.opened += 1
        return connection


class _Connection(asyncio.Protocol):
    """One connection, which has an exchange under way or waits for one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._parser: Any = None
        self._answer: asyncio.Future[HttpAnswer] | None = None
        self._status, self._media_type, self._stays_open = 0, "", False
        self._body: list[bytes] = []
        self._room = 0
        self.lost = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_open = self.is_usable = True
        self.last_used = self._loop.time()

    async def exchange(self, head: bytes, pieces: Iterable[bytes], size: int, most: int) -> HttpAnswer:
        """Send a request and return its answer. The connection can be used again only if the whole request was sent."""
        answer: asyncio.Future[HttpAnswer] = self._loop.create_future()
        self._answer = answer
        self._parser = httptools.HttpResponseParser(self)
        self._room, self.is_usable = most, False
        if self._transport.is_closing():
            raise ExchangeError("the connection was closed")
        if size <= MAX_JOINED:
            self._transport.write(b"".join((head, *pieces)))
            is_sent = True
        else:
            self._transport.write(head)
            is_sent = await self._write(pieces, answer)
        found = await answer
        self._answer, self.last_used = None, self._loop.time()
        self.is_usable = is_sent and self._is_open and self._stays_open
        return found

    async def _write(self, pieces: Iterable[bytes], answer: asyncio.Future[HttpAnswer]) -> bool:
        """Write the pieces at the pace of the core; return whether all were written before it answered."""
        for piece in pieces:
            if answer.done():
                return False
            self._transport.write(piece)
            if not self._writable.is_set():
                try:
                    async with asyncio.timeout(WRITE_SECONDS):
                        await self._writable.wait()
                except TimeoutError:
                    raise ExchangeError("it did not take the message in time") from None
        return not answer.done()

    def close(self) -> None:
        """Close the connection; what is under way fails."""
        self._fail(ExchangeError("the connection was closed"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self._fail(ExchangeError("it said something uninvited"))
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as fault:
            self._fail(ExchangeError(f"its answer is no HTTP ({type(fault).__name__})"))

    def on_message_begin(self) -> None:
        if self._answer is not None and self._answer.done():
            self._stays_open = False  # it says more than it was asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self._media_type = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._room -= len(body)
        if self._room < 0:
            self._fail(ValueError("the answer is too long"))
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._status < 200:  # an interim answer (RFC 9110 section 15.2)
            return
        found = HttpAnswer(self._status, self._media_type, b"".join(self._body))
        self._body, self._media_type = [], ""
        self._stays_open = self._parser.should_keep_alive()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(found)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.lost.set()
        self._fail(ExchangeError("it closed the connection"))

    def _fail(self, fault: Exception) -> None:
        """End the connection, and the exchange that is under way."""
        if self._is_open:
            self._is_open = self.is_usable = False
            if self._answer is None:
                self._transport.close()
            else:
                self._transport.abort()
        self._writable.set()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(fault)
            self._answer.exception()  # whoever waited for it may have gone
