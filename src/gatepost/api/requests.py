"""Reading HTTP requests, as both services do it: how fast a body must arrive, and what becomes of one that is unread.

A client earns time with bytes: it may pause for `IDLE_SECONDS`, and after a first minute must have kept up `SLOWEST`
bytes per second.

A response may be sent before the upload has ended: the credential is missing, or there are too many bytes. A server
that then closes its socket with bytes unread makes the kernel send a reset, and the client loses the response (RFC 9112
section 9.6). `UnreadBodies` writes the response first, reads and drops what still arrives for a while, and only then
lets the connection end.
"""

import asyncio
import json
from ipaddress import ip_address
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import msgspec
from multipart import parse_options_header  # type: ignore[import-untyped]  # it is annotated, without saying so
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gatepost.api.errors import MALFORMED_REQUEST, UNSUPPORTED_MEDIA_TYPE, Failure

IDLE_SECONDS = 30.0
FIRST_SECONDS = 60.0
SLOWEST = 1024

MAX_BOUNDARY = 200

SMALL_BODY = 64 << 10
SMALL_BODY_SECONDS = 0.25
DRAIN_BYTES = 512 << 20
DRAIN_SECONDS = 120.0
DRAIN_IDLE_SECONDS = 5.0


class ClientLeft(msgspec.Struct, frozen=True):
    """The client has closed the connection; no response can be sent."""


class BodyPace:
    """The deadline of a body that is being read, `with BodyPace() as pace:`; raises `TimeoutError` where the body stops
    arriving or is too slow.

    Every upload has one, and hardly any gets near it. So bytes that arrive only move the deadline; the timer looks at
    it when it fires, and is set again if there is time left.
    """

    def __init__(self, idle_seconds: float | None = None, first_seconds: float | None = None) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._start, self._received = loop.time(), 0
        self._idle_seconds, self._first_seconds = idle_seconds or IDLE_SECONDS, first_seconds or FIRST_SECONDS
        self._deadline = self._start + self._idle_seconds
        self._timer: asyncio.TimerHandle
        self._expired = False

    def earn(self, count: int) -> None:
        """Move the deadline for so many bytes that have arrived."""
        self._received += count
        earned = self._start + self._first_seconds + self._received / SLOWEST
        self._deadline = min(self._loop.time() + self._idle_seconds, earned)
        if self._deadline < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(self._deadline, self._look)

    def __enter__(self) -> Self:
        self._task = asyncio.current_task(self._loop)
        self._cancelling = self._task.cancelling() if self._task else 0
        self._timer = self._loop.call_at(self._deadline, self._look)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if not self._expired or self._task is None:
            return
        # As asyncio.timeout has it: a cancellation that came from elsewhere as well goes on as one.
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from fault

    def _look(self) -> None:
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        elif self._task:
            self._expired = True
            self._task.cancel()


def parse_boundary(headers: list[tuple[bytes, bytes]]) -> str | Failure:
    """Return the boundary of a request that is multipart/form-data (RFC 7578) and not compressed."""
    content_type = ""
    for name, value in headers:
        if name == b"content-type":
            content_type = value.decode("latin-1")
        elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            return Failure(UNSUPPORTED_MEDIA_TYPE, "send the body as it is, without Content-Encoding")
    kind, options = parse_options_header(content_type[:1024])
    if kind != "multipart/form-data":
        return Failure(UNSUPPORTED_MEDIA_TYPE, "the content type must be multipart/form-data")
    boundary = str(options.get("boundary", ""))
    if not (0 < len(boundary) <= MAX_BOUNDARY and boundary.isascii() and boundary.isprintable()):
        return Failure(MALFORMED_REQUEST, "multipart/form-data needs a boundary of 1 to 200 printable characters")
    return boundary


class _RepeatedKey(Exception):  # noqa: N818  an outcome, not a fault
    """Ends the decoding of an object that has a key twice."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key or '""'


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        names = sorted(key for key, _ in pairs)
        raise _RepeatedKey(next(key for key, following in pairwise(names) if key == following))


# Numbers are not converted: an integer of thousands of digits is no reason to stop here.
_KEYS = json.JSONDecoder(object_pairs_hook=_refuse_repeats, parse_int=len, parse_float=len)


def find_repeated_key(data: bytes | bytearray) -> str:
    """Return a key that stands twice in one object of a JSON text, "" where there is none.

    RFC 8259 section 4 leaves open which of the two counts, and readers differ: what a proxy or a log took for a
    tenant's call could be a global one here. For JSON that msgspec has decoded; raises `RecursionError` where it is
    nested too deeply.
    """
    try:
        _KEYS.decode(data.decode("utf-8-sig"))
    except _RepeatedKey as found:
        return found.key
    return ""


def decode_json(what: str, data: bytes | bytearray) -> Any:
    """Return the values of a JSON text, or the failure that says why it cannot be read; `what` begins the sentence."""
    try:
        found = msgspec.json.decode(data)
        repeated = find_repeated_key(data)
    except RecursionError:
        return Failure(MALFORMED_REQUEST, f"{what} is nested too deeply")
    except ValueError:
        return Failure(MALFORMED_REQUEST, f"{what} is not valid JSON in UTF-8")
    return Failure(MALFORMED_REQUEST, f"{what} has the key {repeated[:100]} twice in one object") if repeated else found


def content_length(headers: list[tuple[bytes, bytes]]) -> int:
    """Return the announced length of a body, 0 where none is announced; the HTTP parser lets only numbers through."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def is_from_this_machine(request: Request) -> bool:
    """Does the request come from a loopback address, and not through a proxy on this machine?"""
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    try:
        return ip_address(request.client.host if request.client else "").is_loopback
    except ValueError:
        return False


class UnreadBodies:
    """ASGI wrapper that delivers every response to its client, also while the client is still sending."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        await self._app(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request and its response; `unread` says whether more of the body is to come."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._closing = False
        announced = _announced_body(scope)
        self.unread = announced != 0
        self._small = 0 < announced <= SMALL_BODY

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            self.unread = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.unread and not await self._read_small_body():
                message["headers"] = [*message["headers"], (b"connection", b"close")]
                self._closing = True
        elif self._closing and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def _read_small_body(self) -> bool:
        """Read a small body to its end first, so that the connection can serve the next request."""
        if not self._small:
            return False
        try:
            async with asyncio.timeout(SMALL_BODY_SECONDS):
                while self.unread:
                    await self.receive()
        except TimeoutError:
            return False
        return True

    async def _drain(self) -> None:
        """Read and drop what still arrives, within bounds of time and size."""
        loop = asyncio.get_running_loop()
        end, left = loop.time() + DRAIN_SECONDS, DRAIN_BYTES
        try:
            async with asyncio.timeout(DRAIN_IDLE_SECONDS) as deadline:
                while self.unread and left > 0:
                    left -= len((await self.receive()).get("body", b""))
                    deadline.reschedule(min(end, loop.time() + DRAIN_IDLE_SECONDS))
        except TimeoutError:
            return


def _announced_body(scope: Scope) -> int:
    """Return the length of the body that the request announces (RFC 9112 section 6); -1 where it announces a body
    without its length, or where the client waits for `100 Continue` before it sends one."""
    size, expects = 0, False
    for name, value in scope["headers"]:
        if name == b"content-length":
            size = int(value) if value.isdigit() else -1
        elif name == b"transfer-encoding":
            return -1
        elif name == b"expect":
            expects = True
    return -1 if expects and size else size
