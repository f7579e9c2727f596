"""HTTP/1.1 as both services speak it: uvicorn's httptools protocol with bounds of its own and JSON for what is no HTTP.

uvicorn answers a request that it cannot parse in plain text, takes header sections of any length and waits for them for
ever. Here the answer is an `Error` like every other, a header section holds at most 64 KiB, and it comes within 30 s.

The parser takes requests that RFC 9112 has a server refuse, since a proxy in front may read them otherwise: without a
Host or with two (section 3.2), of other versions than 1.0 and 1.1, and with transfer codings other than `chunked`
(section 6.1). They are refused. An offer to change the protocol (`Upgrade`, as Java's client sends with every request
to `http://`) may be ignored (RFC 9110 section 7.8). The parser would drop the body of such a request, so the request is
parsed again without the offer.

A route that scans mail gets an ordinary request straight from the HTTP parser, without an ASGI exchange, which took a
tenth of the event loop's CPU for a scan: the header section, then the whole body, and an object that takes the answer.
Ordinary means a POST to exactly its path, with a Content-Length of at most `MAX_DIRECT` bytes, on a connection that
stays open and on which nothing else is being answered, whose body arrives at once. Everything else goes through ASGI:
other lengths, `Transfer-Encoding`, `Expect`, pipelined requests, slow bodies. So does what the route itself finds
unusual, be it right or wrong: it gives the request back before it has done anything, and the code behind ASGI decides.
There is one place that refuses.
"""

import asyncio
import fcntl
import logging
import os
import re
import ssl
import sys
import termios
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self, TypeAlias

import httptools
import uvicorn
from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from gatepost.api.errors import MALFORMED_REQUEST, Error
from gatepost.api.http import JsonResponse
from gatepost.api.scanning import encode_scanning

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]
MAX_DIRECT = 64 << 10
# How long the rest of a body may take before ASGI takes over, which has deadlines for slow bodies.
REST_SECONDS = 0.1

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b" % (status.value, status.phrase.encode()) for status in HTTPStatus}


def announces_direct(headers: RawHeaders) -> bool:
    """Whether a header section announces a body that may be taken whole: small, and of a stated length."""
    size = 0
    for name, value in headers:
        if name == b"content-length":
            size = int(value) if value.isdigit() and len(value) < 8 else 0
        elif name in (b"transfer-encoding", b"expect"):
            return False
    return 0 < size <= MAX_DIRECT


class DirectExchange:
    """One request and its answer. To uvicorn's protocol it is the cycle that runs, so that requests behind it wait,
    and a stop of the server lets it end."""

    # What uvicorn's protocol reads of a cycle.
    waiting_for_100_continue = more_body = response_started = False

    def __init__(self, connection: HttpToolsProtocol, write: Callable[[bytes], None]) -> None:
        self._connection, self._write = connection, write
        self.response_complete = self.disconnected = False
        self.keep_alive = True
        self._gone: asyncio.Future[None] | None = None
        self._on_end: Callable[[], None] | None = None
        self.headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def message_event(self) -> Self:
        """What uvicorn tells that something has happened. An attribute would make each exchange refer to itself, and
        only the collector of cycles would free it, with all that hangs on it."""
        return self

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have the answer made; the server waits for it when it stops."""
        task = self._connection.loop.create_task(work)
        self._connection.tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        """The work has ended. If there was no answer, it was cancelled or broke: then the connection ends as well."""
        self._connection.tasks.discard(task)
        if not self.response_complete:
            self.response_complete = True
            self._connection.transport.close()
        if self._on_end is not None:
            self._on_end()

    def call_at_end(self, on_end: Callable[[], None]) -> None:
        """Call this once the exchange is over."""
        self._on_end = on_end

    def set(self) -> None:
        """uvicorn calls it when something has happened to the connection."""
        if self.disconnected and self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    async def receive(self) -> Message:
        """As ASGI has it after the whole body: there is nothing to receive but that the client leaves."""
        if not self.disconnected:
            self._gone = self._connection.loop.create_future()
            await self._gone
        return {"type": "http.disconnect"}

    def answer(self, response: JsonResponse | None) -> None:
        """Send the answer in one piece; None where the client has left."""
        self.response_complete = True
        transport = self._connection.transport
        if response is not None and not self.disconnected and not transport.is_closing():
            headers = (*self._connection.server_state.default_headers, *response.raw_headers, *self.headers)
            lines = [b": ".join(header) for header in headers]
            self._write(b"\r\n".join((_STATUS_LINES[response.status_code], *lines, b"", response.body)))
        if not self.keep_alive:
            transport.close()
        self._connection.on_response_complete()


# Takes a whole body; False gives the request back.
DirectCall: TypeAlias = Callable[[bytes, DirectExchange], bool]
# Takes a header section and the address of the client; None gives the request back.
DirectRoute: TypeAlias = Callable[[RawHeaders, str], DirectCall | None]
# Takes the method and the path as well.
FindsDirect: TypeAlias = Callable[[bytes, bytes, RawHeaders, str], DirectCall | None]
# By method and path.
DirectRoutes: TypeAlias = Mapping[tuple[bytes, bytes], DirectRoute]


MAX_HEAD = 64 << 10
HEAD_SECONDS = 30.0
KEEP_ALIVE_SECONDS = 75

_VERSIONS = ("1.0", "1.1")
_HEAD_START = b"HTTP/1.1 "
_HEAD_TOO_LARGE = "the header section is larger than 64 KiB"
# RFC 3986 section 3.2.2, with the port; the host of `Host` may be empty.
_HOST = re.compile(rb"(?:\[[0-9A-Za-z:.%_~-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?\Z")


class _RefusedRequest(Exception):  # noqa: N818  an outcome, not a fault
    """Ends the parsing of a request that is not answered; its text is the reason."""


def _check_head(version: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Raise `_RefusedRequest` for a request whose meaning RFC 9112 leaves open or has refused."""
    # What arrived in one piece was not counted while it arrived.
    size, host, hosts, codings = 0, b"", 0, []
    for name, value in headers:
        size += len(name) + len(value)
        if name == b"host":
            host, hosts = value, hosts + 1
        elif name == b"transfer-encoding":
            codings.append(value.strip().lower())
    if size > MAX_HEAD:
        raise _RefusedRequest(_HEAD_TOO_LARGE)
    if version not in _VERSIONS:
        raise _RefusedRequest(f"HTTP/{version} is not spoken here; send HTTP/1.1")
    if hosts > 1 or (not hosts and version == "1.1"):
        raise _RefusedRequest(f"the request has {'more than one' if hosts else 'no'} Host header")
    if hosts and not _HOST.match(host):
        raise _RefusedRequest("the Host header is not a host, with :port if need be")
    if codings and (codings != [b"chunked"] or version == "1.0"):
        raise _RefusedRequest("the only Transfer-Encoding that is taken is chunked, once, with HTTP/1.1")


def _rebuild_head(first: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the header section of a request, with this first line, without its offer to change the protocol."""
    lines = [first]
    for name, value in headers:
        if name == b"connection":
            kept = [token for token in value.split(b",") if token.strip().lower() != b"upgrade"]
            lines += [b"connection: " + b",".join(kept)] if kept else []
        elif name != b"upgrade":
            lines.append(b"%b: %b" % (name, value))
    return b"\r\n".join((*lines, b"", b""))


class JoinedWrites:
    """A connection's transport, on which a header section goes out together with what is written next.

    uvicorn writes head and body of a response one after the other. Over TLS each would be a record of its own, with a
    system call and, for the client, another wake-up. A head that nothing follows at once goes out by itself, in the
    next round of the event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""
        self.is_closing = transport.is_closing
        self.get_extra_info, self.abort = transport.get_extra_info, transport.abort

    def write(self, data: bytes) -> None:
        """Send bytes; those of a head a little later."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(_HEAD_START):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def write_whole(self, response: bytes) -> None:
        """Send a response whose body is there as well."""
        if self._head:
            self._flush()
        self._transport.write(response)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)


class JsonHttp(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._head_begun = False
        self._offers_upgrade = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        # Whether a header section was ever complete.
        self.has_begun = False
        # Since when the connection waits for its next request; one timer looks at it for all requests.
        self._idle_since: float | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        # The request that is being taken without ASGI: what takes its body, and the body so far.
        self._direct: DirectCall | None = None
        self._direct_body: list[bytes] = []
        self._direct_timer: asyncio.TimerHandle | None = None
        self._ends = False
        # Whether the connection stands, TLS included.
        self.is_made = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._joined, self.is_made = JoinedWrites(transport, self.loop), True
        self.transport = self._joined  # type: ignore[assignment]  # all of it that is used here
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        self._idle_since = None
        self._feed(data)
        if self._direct is not None and self._direct_timer is None:
            self._direct_timer = self.loop.call_later(REST_SECONDS, self._use_asgi)
        if self._in_head and self._head_bytes > MAX_HEAD:
            self.send_400_response(_HEAD_TOO_LARGE)
        elif self._head_begun and self._head_timer is None:
            self._expect_head()

    def _feed(self, data: bytes) -> None:
        left = memoryview(data)
        while True:
            try:
                self.parser.feed_data(left)
            except httptools.HttpParserUpgrade as offer:
                if not self._offers_upgrade:
                    return  # CONNECT, which is answered without its body
                left = left[offer.args[0] :]
                self._feed_without_offer()
            except httptools.HttpParserError as fault:
                reason = fault.__context__
                known = isinstance(reason, _RefusedRequest)
                self.send_400_response(str(reason) if known else "Invalid HTTP request received.")
                return
            else:
                return

    def _feed_without_offer(self) -> None:
        """Parse a header section again that ended in an offer to change the protocol, for its body to be read."""
        first = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode("ascii"))
        head = _rebuild_head(first, self.headers)
        self._offers_upgrade = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(head)

    def on_message_begin(self) -> None:
        self._head_begun = True
        self.url, self.expect_100_continue, self.headers = b"", False, []

    def _begin_asgi(self) -> None:
        """Do what uvicorn does at the beginning and at the end of a header section. Its scope takes a while, and a
        request that is taken without ASGI needs none."""
        url, expects, headers = self.url, self.expect_100_continue, self.headers
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers = self.scope["headers"] = headers
        super().on_headers_complete()

    def on_headers_complete(self) -> None:
        _check_head(self.parser.get_http_version(), self.headers)
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._offers_upgrade = True
            return
        self._in_head = self._head_begun = False
        self._head_bytes, self.has_begun = 0, True
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self._direct = self._find_direct()
        if self._direct is None:
            self._begin_asgi()

    def _find_direct(self) -> DirectCall | None:
        """Return what takes the body of this request, if it needs no ASGI exchange."""
        cycle: RequestResponseCycle | None = self.cycle
        is_alone = cycle is None or (cycle.response_complete and not self.pipeline)
        if self._ends or not is_alone or not announces_direct(self.headers) or not self.parser.should_keep_alive():
            return None
        find: FindsDirect | None = getattr(self.app, "find_direct", None)
        method: bytes = self.parser.get_method()
        return None if find is None else find(method, self.url, self.headers, self.client[0] if self.client else "")

    def on_body(self, body: bytes) -> None:
        if self._direct is None:
            super().on_body(body)
        else:
            self._direct_body.append(body)

    def on_message_complete(self) -> None:
        if self._offers_upgrade:
            return
        self._in_head = True
        if self._direct is None:
            super().on_message_complete()
            return
        call, body = self._direct, self._direct_body
        whole = body[0] if len(body) == 1 else b"".join(body)
        before, exchange = self.cycle, DirectExchange(self, self._joined.write_whole)
        self.cycle = exchange  # type: ignore[assignment]  # all of it that is used here
        if call(whole, exchange):
            self._end_direct()
        else:
            self.cycle = before
            self._use_asgi()
            super().on_message_complete()

    def _use_asgi(self) -> None:
        """Let the application have the request that was to be taken without ASGI, as far as it has come."""
        body = b"".join(self._direct_body)
        self._end_direct()
        if self.transport.is_closing():
            return
        self._begin_asgi()
        if body:
            super().on_body(body)

    def _end_direct(self) -> None:
        self._direct, self._direct_body = None, []
        if self._direct_timer is not None:
            self._direct_timer.cancel()
            self._direct_timer = None

    def on_response_complete(self) -> None:
        """As uvicorn has it, but for the timer of idle connections: it would be made and cancelled for each request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            return
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """Close the connection if no request has come for so long; look again where it is idle for less."""
        self._idle_timer = None
        if self._idle_since is None:
            return  # the answer to what is under way starts the timer again
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._close_if_idle)
        else:
            self.timeout_keep_alive_handler()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in filter(None, (self._head_timer, self._idle_timer)):
            timer.cancel()
        self._end_direct()
        super().connection_lost(exc)
        # It refers to this connection: only the collector of cycles would free both, with what TLS has read ahead.
        self.cycle = None  # type: ignore[assignment]  # as before the first request

    @property
    def is_waiting(self) -> bool:
        """Whether no request is under way: nothing of one has come but a part of its header section, and all before it
        are answered. One that is refused before its body has come is answered, however slowly the rest drips in."""
        cycle: RequestResponseCycle | None = self.cycle
        is_refused = cycle is not None and cycle.response_started and cycle.more_body
        return not self.pipeline and (is_refused or (self._in_head and (cycle is None or cycle.response_complete)))

    def give_way(self) -> None:
        """Close a connection that waits for a request: the port is full, or the service ends."""
        if self.transport is not None:
            self.transport.close()

    def end_after_answer(self) -> None:
        """End the connection after the next answer."""
        self._ends = True
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None:
            cycle.keep_alive = False

    def is_unused_since(self, moment: float, *, is_patient: bool) -> bool:
        """Whether no request is under way, and the last one was answered before this moment of the loop, or there was
        none. For a patient caller a part of a header section is one, and so is what has arrived and was not read."""
        if not self.is_made or not self.is_waiting or (self._idle_since or 0.0) > moment:
            return False
        return not is_patient or not (self._head_begun or _count_unread(self._joined.get_extra_info("socket")))

    def abort(self) -> None:
        """End the connection at once."""
        if self.is_made:
            self._joined.abort()

    def send_400_response(self, msg: str) -> None:
        """The answer to what is no HTTP request; it never goes into the middle of another one's answer."""
        cycle: RequestResponseCycle | None = self.cycle
        if not self.pipeline and (cycle is None or cycle.response_complete or not cycle.response_started):
            body = encode_scanning(Error(MALFORMED_REQUEST.code, msg))
            head = (b"content-type: application/json", b"content-length: %d" % len(body), b"connection: close")
            self.transport.write(STATUS_LINE[400] + b"\r\n".join((*head, b"", body)))
        self.transport.close()

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _head_is_late(self) -> None:
        if self._head_begun:
            self.send_400_response("the header section did not arrive in time")
        else:
            self.transport.close()


def _count_unread(connection: Any) -> int:
    """Return how many bytes have arrived at a socket that nobody has read."""
    try:
        return int.from_bytes(fcntl.ioctl(connection.fileno(), termios.FIONREAD, b"\0" * 4), sys.byteorder)
    except (OSError, ValueError, AttributeError):
        return 0


def server_config(app: Any, *, certificate: Path | None = None, key: Path | None = None) -> uvicorn.Config:
    """uvicorn as both services run it: uvloop, no access log, no server name; TLS 1.2 or newer with a certificate."""
    return uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        loop="uvloop",
        http=JsonHttp,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        ssl_context_factory=(lambda _config, _default: tls_context(certificate, key)) if certificate and key else None,
    )


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what TLS is served with on every port: 1.2 or newer, and no renegotiation, by which a client has us
    sign again and again (CVE-2011-1473)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(certificate, key)
    return context


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what HTTPS is served with: HTTP/1.1 alone (ALPN, RFC 7301).

    While the files are the same, so is the context: children of a process that has made it have the key of its session
    tickets in common, and each of them resumes the sessions of the others.
    """
    states = tuple((state.st_mtime_ns, state.st_size, state.st_ino) for state in map(os.stat, (certificate, key)))
    seen, context = _contexts.get((certificate, key), (None, None))
    if context is None or seen != states:
        context = server_context(certificate, key)
        context.set_alpn_protocols(["http/1.1"])
        _contexts[certificate, key] = states, context
    return context


_contexts: dict[tuple[Path, Path], tuple[tuple[tuple[int, int, int], ...], ssl.SSLContext]] = {}
