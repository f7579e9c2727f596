"""HTTP responses, as both services send them: JSON bodies, and the one place where failures become responses.

Handlers return a `Response`, or a `Failure` as a value. The client gets the failure's code and sentence, the log gets
the cause of an exception. Below `/v1` and `/api` the response to a failure is always JSON; elsewhere a browser that
asks for text/html gets a page, if the service has given `HttpErrors` a function that renders one.
"""

import errno
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gatepost.api.errors import INTERNAL_ERROR, METHOD_NOT_ALLOWED, NOT_FOUND, STORAGE_UNAVAILABLE, Error, Failure
from gatepost.api.scanning import encode_scanning
from gatepost.ids import new_id
from gatepost.store.errors import StorageError

log = structlog.get_logger("gatepost.api")

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
        self.raw_headers += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


async def failure_response(failure: Failure, scope: Scope) -> Response:
    """Return the response to a failure: a page where the client wants one and the service has one, else JSON."""
    headers = failure.headers
    if failure.error.retry_after and not any(name.lower() == "retry-after" for name, _ in headers):
        headers = (*headers, ("Retry-After", str(failure.error.retry_after)))
    error_page: ErrorPage | None = scope.get(_ERROR_PAGE)
    if error_page and _wants_page(scope):
        return await error_page(failure, headers, Request(scope))
    return JsonResponse(encode_scanning(Error(failure.error.code, failure.message)), failure.error.status, headers)


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
            answer = await _fault_response(fault, scope)
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


async def _fault_response(fault: Exception, scope: Scope) -> Response:
    """Log an exception under a reference, and return the response that carries the reference."""
    reference = new_id()
    is_full = isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EDQUOT)
    if is_full or isinstance(fault, StorageError):
        log.error("storage failed", reference=reference, path=scope["path"], reason=str(fault))
        message = f"storage cannot be used now, try again; the log has it as {reference}"
        return await failure_response(Failure(STORAGE_UNAVAILABLE, message), scope)
    log.error("internal error", reference=reference, path=scope["path"], exc_info=fault)
    message = f"something broke on our side; the log has it as {reference}"
    return await failure_response(Failure(INTERNAL_ERROR, message), scope)
