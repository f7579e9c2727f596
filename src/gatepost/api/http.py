"""HTTP requests and responses, as both services read and send them.

A client earns time with bytes: it may pause for `IDLE_SECONDS`, and after a first minute must have kept up `SLOWEST`
bytes per second.

A response may be sent before the upload has ended: the credential is missing, or there are too many bytes. A server
that then closes its socket with bytes unread makes the kernel send a reset, and the client loses the response (RFC 9112
section 9.6). `UnreadBodies` writes the response first, reads and drops what still arrives for a while, and only then
lets the connection end.

Here is the one place where failures become responses. Handlers return a `Response`, or a `Failure` as a value. The
client gets the failure's code and sentence, the log gets the cause of an exception. Below `/v1` and `/api` the response
to a failure is always JSON; elsewhere a browser that asks for text/html gets a page, if the service has given
`HttpErrors` a function that renders one.
"""

import asyncio
import errno
import re
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import msgspec
from multipart import parse_options_header  # type: ignore[import-untyped]  # it is annotated, without saying so
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gatepost.api.connections import ArrivalPace, DeadlineTimer
from gatepost.api.errors import (
    INTERNAL_ERROR,
    MALFORMED_REQUEST,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    STORAGE_UNAVAILABLE,
    UNSUPPORTED_MEDIA_TYPE,
    Error,
    Failure,
)
from gatepost.api.scanning import encode_scanning
from gatepost.ids import new_id
from gatepost.process.background_work import background
from gatepost.process.logs import Logger
from gatepost.store.errors import StorageError

T = TypeVar("T")

log = Logger("gatepost.api")

IDLE_SECONDS = 30.0
FIRST_SECONDS = 60.0
SLOWEST = 1024
# Whatever came before, so many bytes a second must come in each `FIRST_SECONDS`.
FLOOR = 256

MAX_BOUNDARY = 200

SMALL_BODY = 64 << 10
SMALL_BODY_SECONDS = 0.25
DRAIN_BYTES = 512 << 20
DRAIN_SECONDS = 120.0
DRAIN_IDLE_SECONDS = 5.0


class ClientLeft(msgspec.Struct, frozen=True):
    """The client has closed the connection; no response can be sent."""


class ConnectedClient:
    """The client of a request whose body has been read, as far as whoever works for it needs to know."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    async def wait_until_gone(self) -> None:
        """Return when the client has left."""
        while (await self._receive())["type"] != "http.disconnect":
            continue


async def end_with_client(receive: Receive, work: Awaitable[T]) -> T:
    """Do work for a client whose request has been read; it is cancelled when the client leaves, and then
    `ClientDisconnect` is raised."""
    gone = asyncio.ensure_future(ConnectedClient(receive).wait_until_gone())
    task = asyncio.ensure_future(work)
    waiting: set[asyncio.Future[Any]] = {gone, task}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


class BodyPace:
    """The deadline of a body that is being read, `with BodyPace() as pace:`; raises `TimeoutError` where the body stops
    arriving or is too slow.

    Every upload has one, and hardly any gets near it, so bytes that arrive only move it.
    """

    def __init__(self, idle_seconds: float | None = None, first_seconds: float | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._pace = ArrivalPace(
            loop.time, idle_seconds or IDLE_SECONDS, first_seconds or FIRST_SECONDS, SLOWEST, FLOOR
        )
        self._timer, self._expired = DeadlineTimer(self._expire), False

    def earn(self, count: int) -> None:
        """Move the deadline for so many bytes that have arrived."""
        self._pace.count(count)
        self._timer.set(self._pace.deadline)

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        self._timer.set(self._pace.deadline)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.stop()
        if not self._expired or self._task is None:
            return
        # As asyncio.timeout has it: a cancellation that came from elsewhere as well goes on as one.
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from fault

    def _expire(self) -> None:
        if self._task:
            self._expired = True
            self._task.cancel()


# As most clients write it; what differs goes through a parser.
_PLAIN_BOUNDARY = re.compile(r"multipart/form-data; boundary=([0-9A-Za-z_-]{1,70})")


def parse_boundary(headers: list[tuple[bytes, bytes]]) -> str | Failure:
    """Return the boundary of a request that is multipart/form-data (RFC 7578) and not compressed."""
    content_type = ""
    for name, value in headers:
        if name == b"content-type":
            content_type = value.decode("latin-1")
        elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            return Failure(UNSUPPORTED_MEDIA_TYPE, "send the body as it is, without Content-Encoding")
    if plain := _PLAIN_BOUNDARY.fullmatch(content_type):
        return plain[1]
    kind, options = parse_options_header(content_type[:1024])
    if kind != "multipart/form-data":
        return Failure(UNSUPPORTED_MEDIA_TYPE, "the content type must be multipart/form-data")
    boundary = str(options.get("boundary", ""))
    if not (0 < len(boundary) <= MAX_BOUNDARY and boundary.isascii() and boundary.isprintable()):
        return Failure(MALFORMED_REQUEST, "multipart/form-data needs a boundary of 1 to 200 printable characters")
    return boundary


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


Headers: TypeAlias = tuple[tuple[str, str], ...]
Handler: TypeAlias = Callable[[Request], Awaitable[Response | Failure | None]]
ErrorPage: TypeAlias = Callable[[Failure, Headers, Request], Awaitable[Response]]

JSON_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
# The key of the ASGI scope under which `HttpErrors` passes the service's error page to its endpoints.
_ERROR_PAGE = "gatepost.error_page"


class JsonResponse(Response):
    """A JSON body that is already encoded. Its constructor does less than its parent's: every request needs one."""

    def __init__(self, body: bytes, status: int = 200, headers: Headers = ()) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [*JSON_HEADERS, (b"content-length", b"%d" % len(body))]
        if headers:
            self.raw_headers += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def json_failure(failure: Failure) -> JsonResponse:
    """Return the response to a failure, as JSON."""
    return JsonResponse(
        encode_scanning(Error(failure.error.code, failure.message)), failure.error.status, _failure_headers(failure)
    )


def _failure_headers(failure: Failure) -> Headers:
    if failure.error.retry_after and not any(name.lower() == "retry-after" for name, _ in failure.headers):
        return (*failure.headers, ("Retry-After", str(failure.error.retry_after)))
    return failure.headers


async def failure_response(failure: Failure, scope: Scope) -> Response:
    """Return the response to a failure: a page where the client wants one and the service has one, else JSON."""
    error_page: ErrorPage | None = scope.get(_ERROR_PAGE)
    if error_page and _wants_page(scope):
        return await error_page(failure, _failure_headers(failure), Request(scope))
    return json_failure(failure)


def _wants_page(scope: Scope) -> bool:
    path: str = scope["path"]
    if path in ("/v1", "/api") or path.startswith(("/v1/", "/api/")):
        return False
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in scope["headers"])


class Endpoint:
    """One handler as an ASGI application. A handler returns None where the client has left."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        result = await self._handler(Request(scope, receive))
        if isinstance(result, Failure):
            result = await failure_response(result, scope)
        if result is not None:
            await result(scope, receive, send)


class CallBesideMail(Endpoint):
    """A handler of calls that are not mail: while much mail comes, they keep to their share (`background_work`)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await background.call(super().__call__(scope, receive, send))


class HttpErrors:
    """ASGI wrapper around all routes of a service: every exception becomes a response."""

    def __init__(self, app: ASGIApp, error_page: ErrorPage | None = None) -> None:
        self._app = app
        self._error_page = error_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[_ERROR_PAGE] = self._error_page
        started = False

        async def send_noting_start(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, send_noting_start)
        except ClientDisconnect:
            return
        except HTTPException as fault:
            answer = await _routing_response(fault, scope)
            await answer(scope, receive, send)
        except Exception as fault:
            if started:
                raise
            answer = await failure_response(note_fault(fault, scope["path"]), scope)
            await answer(scope, receive, send)


STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")


class StrictTransport:
    """ASGI wrapper that tells browsers to come by HTTPS only (RFC 6797). It is for a service whose certificate the
    operator has configured: with a self-signed one a browser would not let its user in any more."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], STRICT_TRANSPORT]
            await send(message)

        await self._app(scope, receive, send_with_header if scope["type"] == "http" else send)


async def _routing_response(fault: HTTPException, scope: Scope) -> Response:
    """Return the response where the router found no such path, or no such method there."""
    if fault.status_code == METHOD_NOT_ALLOWED.status:
        methods = sorted((fault.headers or {}).get("Allow", "").split(", "))
        allowed = ", ".join([*methods, "OPTIONS"])
        if scope["method"] == "OPTIONS":
            return Response(status_code=204, headers={"Allow": allowed})
        message = f"{scope['method']} is not possible here; use {' or '.join(methods)}"
        return await failure_response(Failure(METHOD_NOT_ALLOWED, message, (("Allow", allowed),)), scope)
    return await failure_response(Failure(NOT_FOUND, "there is nothing at this path"), scope)


def note_fault(fault: Exception, path: str) -> Failure:
    """Log an exception under a reference, and return the failure that carries the reference."""
    reference = new_id()
    is_full = isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EDQUOT)
    if is_full or isinstance(fault, StorageError):
        log.error("storage failed", reference=reference, path=path, reason=str(fault))
        message = f"storage cannot be used now, try again; the log has it as {reference}"
        return Failure(STORAGE_UNAVAILABLE, message)
    log.error("request broke", reference=reference, path=path, exc_info=fault)
    message = f"something broke on our side; the log has it as {reference}"
    return Failure(INTERNAL_ERROR, message)
