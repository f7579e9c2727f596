"""Where failures become responses: the one place.

The outside gets a code and a sentence, the log gets the cause. Inside `/v1` and `/api` the answer is always JSON;
elsewhere a browser that asks for text/html gets a page.

An answer may come before the upload has ended: no credential, or too many bytes. A server that then closes its socket
with bytes unread makes the kernel send a reset, and the client loses the answer that it was to read (RFC 9112 section
9.6). So the answer is written first, what still comes is read and dropped for a while, and then the connection ends.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache

import structlog
from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gatepost.api.errors import INTERNAL_ERROR, METHOD_NOT_ALLOWED, NOT_FOUND, Error, Failure
from gatepost.api.scanning import encode_scanning
from gatepost.ids import new_id
from gatepost.web.responses import Assets, environment, html_response

SMALL_BODY = 64 << 10
SMALL_BODY_SECONDS = 0.25
DRAIN_BYTES = 512 << 20
DRAIN_SECONDS = 120.0
DRAIN_IDLE_SECONDS = 5.0

log = structlog.get_logger("gatepost.abby")

Handler = Callable[[Request], Awaitable[Response | Failure | None]]

JSON_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


class Json(Response):
    """A JSON answer that is already encoded; leaner than its parent, for it is on every request's way."""

    def __init__(self, body: bytes, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [*JSON_HEADERS, (b"content-length", b"%d" % len(body))]
        self.raw_headers += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def answer(failure: Failure, scope: Scope) -> Response:
    """The response to a failure."""
    headers = failure.headers
    if failure.error.retry_after and not any(name.lower() == "retry-after" for name, _ in headers):
        headers = (*headers, ("Retry-After", str(failure.error.retry_after)))
    if _wants_page(scope):
        return _page(failure, headers)
    return Json(encode_scanning(Error(failure.error.code, failure.message)), failure.error.status, headers)


def _wants_page(scope: Scope) -> bool:
    path: str = scope["path"]
    if path in ("/v1", "/api") or path.startswith(("/v1/", "/api/")):
        return False
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in scope["headers"])


def _page(failure: Failure, headers: tuple[tuple[str, str], ...]) -> Response:
    title = failure.error.code.replace("_", " ").capitalize()
    sentence = failure.message[:1].upper() + failure.message[1:].rstrip(".") + "."
    page = _templates().get_template("error.html").render(title=title, message=sentence, error=failure.error)
    response = html_response(page, failure.error.status)
    response.headers.update(dict(headers))
    return response


@lru_cache(1)
def _templates() -> Environment:
    return environment(Assets().paths)


class Endpoint:
    """One handler as an ASGI application. None means that the client has left and nobody waits for an answer."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        result = await self.handler(Request(scope, receive))
        if isinstance(result, Failure):
            result = answer(result, scope)
        if result is not None:
            await result(scope, receive, send)


class Answering:
    """The wrapper around all routes: every exception becomes an answer, every answer reaches its client."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        try:
            await self.app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            return
        except HTTPException as fault:
            await _routed(fault, scope)(scope, exchange.receive, exchange.send)
        except Exception as fault:
            if exchange.started:
                raise
            await _broken(fault, scope)(scope, exchange.receive, exchange.send)


def _routed(fault: HTTPException, scope: Scope) -> Response:
    """What the router says: no such path, or no such method there."""
    allowed = ", ".join(sorted((fault.headers or {}).get("Allow", "").split(", ")))
    if fault.status_code == METHOD_NOT_ALLOWED.status:
        if scope["method"] == "OPTIONS":
            return Response(status_code=204, headers={"Allow": f"{allowed}, OPTIONS"})
        message = f"{scope['method']} is not possible here; {allowed} is"
        return answer(Failure(METHOD_NOT_ALLOWED, message, (("Allow", allowed),)), scope)
    return answer(Failure(NOT_FOUND, "there is nothing at this path"), scope)


def _broken(fault: Exception, scope: Scope) -> Response:
    reference = new_id()
    log.error("internal error", reference=reference, path=scope["path"], exc_info=fault)
    return answer(Failure(INTERNAL_ERROR, f"something broke on our side; the log has it as {reference}"), scope)


class _Exchange:
    """One request and its answer, with an eye on what of the body is still to come."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._closing = False
        announced = _announced(scope)
        self.unread = announced != 0
        self._small = 0 < announced <= SMALL_BODY
        self.started = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            self.unread = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            if self.unread and not await self._read_small_body():
                message["headers"] = [*message["headers"], (b"connection", b"close")]
                self._closing = True
        elif self._closing and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def _read_small_body(self) -> bool:
        """A small body is read to its end first, so that the connection can serve the next request."""
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
        """Take what still comes, for a while."""
        loop = asyncio.get_running_loop()
        end, left = loop.time() + DRAIN_SECONDS, DRAIN_BYTES
        try:
            async with asyncio.timeout(DRAIN_IDLE_SECONDS) as patience:
                while self.unread and left > 0:
                    left -= len((await self.receive()).get("body", b""))
                    patience.reschedule(min(end, loop.time() + DRAIN_IDLE_SECONDS))
        except TimeoutError:
            return


def _announced(scope: Scope) -> int:
    """Bytes of body that the request says it has (RFC 9112 section 6); -1 where it only says that there are some, or
    where the client waits for a word before it sends them."""
    size, expects = 0, False
    for name, value in scope["headers"]:
        if name == b"content-length":
            size = int(value) if value.isdigit() else -1
        elif name == b"transfer-encoding":
            return -1
        elif name == b"expect":
            expects = True
    return -1 if expects and size else size
