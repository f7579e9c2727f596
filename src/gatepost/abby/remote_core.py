"""A core over HTTPS, as abby hands mail to it.

It gets `POST /scan`: a length of four bytes, big-endian, that many bytes of JSON, and the raw message, streamed from
where it lies. abby proves itself with a shared secret and verifies the core's certificate; neither redirects nor
proxies of the environment are followed. Orders on held mail go as `scanning.held_mail` says.

Connections are HTTP/1.1 over TLS, kept open, with one exchange at a time on each. By way of httpx a message took 1.8 ms
of CPU, more than all else that abby does for it. Here a small message is one write, and its answer is read by httptools
in callbacks. What only a general client needs is left out: redirects, proxies, cookies, content codings and answers
without a length. A new connection resumes the TLS session of one before it (`api.connections`).
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import httptools
import msgspec

from gatepost.abby.cores import Down
from gatepost.api.connections import client_context
from gatepost.api.http import ConnectedClient
from gatepost.api.scanning import MAX_BODY
from gatepost.scanning.held_mail import MESSAGE, ExportOrder, HeldMailOrder, NotHeld, ReleaseOrder, read_answer
from gatepost.scanning.request import CONTENT_TYPE, STORAGE_FAILED, Full, Load, ScanRequest, ScanResult, frame_request
from gatepost.scanning.spool import MessageBody
from gatepost.view.values import NotShown
from gatepost.workers.protocol import Extracted

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


R = TypeVar("R")

MAX_ANSWER = 32 << 20
# A core gives one message as long as an analysis may take; then it says that it could not be shown.
ORDER_SECONDS = 60.0
# A core that does not even tell its load for so long has stalled: twice this is how long an order waits for it.
STALL_SECONDS = 2.0
# How long requests under way may go on with the trust of before.
FORMER_SECONDS = 300.0


_RESULT = msgspec.json.Decoder(ScanResult)
_LOAD = msgspec.json.Decoder(Load)
_FEATURES = msgspec.json.Decoder(Extracted | NotShown)
_FULL = msgspec.json.Decoder(Full)


class RemoteCore:
    """A core at a base address like `https://host:9785`."""

    enabled = True

    def __init__(self, address: str, secret: str, ca: Path | ssl.SSLContext | None) -> None:
        self.name = address
        self._headers = {"Authorization": f"Bearer {secret}"}
        self._connections = CoreConnections(address, _tls_context(ca), self._headers)
        self._former: set[asyncio.Task[None]] = set()

    def trust(self, ca: Path) -> None:
        """Verify connections from now on with this file, which has changed; raises `OSError` if it cannot be read.
        Connections that stand are used for what is under way, and closed."""
        former, self._connections = self._connections, CoreConnections(self.name, _tls_context(ca), self._headers)
        task = asyncio.create_task(_close_later(former))
        self._former.add(task)
        task.add_done_callback(self._former.discard)

    def load_now(self) -> Load | None:
        return None

    @property
    def waiting(self) -> tuple[int, int]:
        return 0, 0

    async def close(self) -> None:
        for task in self._former:
            task.cancel()
        await asyncio.gather(*self._former, return_exceptions=True)
        await self._connections.close()

    async def ask_load(self) -> Load | Down:
        try:
            got = await self._connections.get("/load", MAX_ANSWER)
            return _LOAD.decode(got.body) if got.status == 200 else _describe_refusal(got.status)
        except (ConnectError, ExchangeError, ValueError) as fault:
            return Down(f"does not answer ({_name_fault(fault)})", begun=False, refused=_is_refused(fault))

    async def scan(self, request: ScanRequest, body: MessageBody, _client: ConnectedClient) -> ScanResult | Full | Down:
        result = await self._upload("/scan", request, body, _RESULT)
        if isinstance(result, ScanResult) and result.ggrid != request.ggrid:
            return Down("it answered for another message")
        return result

    async def read_features(
        self, request: ScanRequest, body: MessageBody, _client: ConnectedClient
    ) -> Extracted | NotShown | Full | Down:
        return await self._upload("/features", request, body, _FEATURES)

    async def _upload(
        self, path: str, request: ScanRequest, body: MessageBody, decoder: msgspec.json.Decoder[R]
    ) -> R | Full | Down:
        size, pieces = frame_request(request, body)
        try:
            got = await self._connections.post(path, CONTENT_TYPE, size, pieces, MAX_ANSWER)
            if got.status == 503:
                return _FULL.decode(got.body)
            if got.status == STORAGE_FAILED:
                return Down("its storage failed", answered=True, storage=True)
            return decoder.decode(got.body) if got.status == 200 else _describe_refusal(got.status)
        except ConnectError as fault:
            return Down(f"no connection ({_name_fault(fault)})", begun=False)
        except (ExchangeError, ValueError) as fault:
            return Down(f"no result ({type(fault).__name__})")

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld | Down:
        """Have this core do what the order says with mail that it holds."""
        outcome = asyncio.create_task(self._send_order(order))
        try:
            while not (await asyncio.wait([outcome], timeout=STALL_SECONDS))[0]:
                # It may take its time, as the next hop does; but it has to be alive.
                if not await self._is_alive():
                    return Down(f"no answer to {order.path} (it has stalled)", core=self.name)
            result = await outcome
            return msgspec.structs.replace(result, core=self.name) if isinstance(result, Down) else result
        finally:
            outcome.cancel()
            await asyncio.gather(outcome, return_exceptions=True)

    async def _is_alive(self) -> bool:
        try:
            async with asyncio.timeout(STALL_SECONDS):
                return not isinstance(await self.ask_load(), Down)
        except TimeoutError:
            return False

    async def _send_order(self, order: HeldMailOrder[R]) -> R | NotHeld | Down:
        content = msgspec.json.encode(order)
        seconds = None if isinstance(order, ReleaseOrder) else ORDER_SECONDS
        most = MAX_BODY if isinstance(order, ExportOrder) else MAX_ANSWER
        try:
            async with asyncio.timeout(seconds):
                got = await self._connections.post(order.path, "application/json", len(content), (content,), most)
            if got.status != 200:
                return _describe_refusal(got.status)
            if isinstance(order, ExportOrder) and got.media_type == MESSAGE:
                return cast("R", got.body)
            return read_answer(order, got.body)
        except (ConnectError, ExchangeError, TimeoutError, ValueError) as fault:
            return Down(f"no answer to {order.path} ({type(fault).__name__})")


async def _close_later(connections: CoreConnections) -> None:
    try:
        await asyncio.sleep(FORMER_SECONDS)
    finally:
        await connections.close()


def _tls_context(ca: Path | ssl.SSLContext | None) -> ssl.SSLContext:
    return ca if isinstance(ca, ssl.SSLContext) else client_context(ca)


def _is_refused(fault: BaseException | None) -> bool:
    """Whether the machine is there and says that the port is closed: the core has ended, or is about to."""
    while fault is not None and not isinstance(fault, ConnectionRefusedError):
        fault = fault.__cause__ or fault.__context__
    return fault is not None


def _name_fault(fault: BaseException) -> str:
    """Return what went wrong: a certificate that is not trusted is named, all else by its kind."""
    found: BaseException | None = fault
    while found is not None and not isinstance(found, ssl.SSLCertVerificationError):
        found = found.__cause__ or found.__context__
    if isinstance(found, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {found.verify_message}; look at ca and at the core's certificate"
    return type(fault).__name__


def _describe_refusal(status: int) -> Down:
    hint = ": is the secret the same on both sides?" if status == 401 else ""
    return Down(f"it answered {status}{hint}", answered=True)
