"""The HTTPS scan source of a core. Only abby gets in, with a secret that both know.

`POST /scan` takes a message (see `upload`) and answers when its result is on record; what can be done with held ones is
in `orders`. `GET /load` tells how busy the core is, and so does the header `gatepost-load:
n/threshold/maximum` on every answer; with `?once=free` a full core tells it when a slot is free, or a second later.
A full core answers a scan with 503 at once, before it reads a message that it could not take.
`/healthz` and, for this machine only, `/metrics` need no secret.
"""

import asyncio
import hashlib
import hmac
from typing import Any, Protocol

import msgspec
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gatepost.api.errors import (
    FORBIDDEN,
    MALFORMED_REQUEST,
    PAYLOAD_TOO_LARGE,
    UNAUTHORIZED,
    UNSUPPORTED_MEDIA_TYPE,
    Failure,
)
from gatepost.api.requests import is_from_this_machine
from gatepost.api.responses import Endpoint, HttpErrors, JsonResponse
from gatepost.api.scanning import MAX_BODY
from gatepost.guard.quarantine.held_mail import HeldMailOperations
from gatepost.guard.quarantine.orders import MESSAGE, PATHS, order
from gatepost.metrics import CONTENT_TYPE as METRICS_TYPE
from gatepost.metrics import exposition
from gatepost.scanning.held_mail import NotHeld
from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult
from gatepost.scanning.spool import Spool
from gatepost.scanning.upload import CONTENT_TYPE, FREE, MAX_HEAD, Upload

IDLE_SECONDS = 60.0
MAX_ORDER = 64 << 10

Answer = Response | Failure


class CoreScans(Protocol):
    """The core behind the source; `guard.core.Guard` is one."""

    def load(self) -> Load: ...

    async def room(self) -> None: ...

    async def scan(self, request: ScanRequest) -> ScanResult | Full: ...


class FullAnswer(msgspec.Struct, frozen=True):
    """The body of a 503."""

    load: Load
    error: str = "full"
    message: str = "every slot is taken; nothing was done"


def build_rest_app(
    guard: CoreScans, secret: str, spool: Spool, metrics: CollectorRegistry, custody: HeldMailOperations | None = None
) -> Starlette:
    """The source as an ASGI application. Whoever serves it starts and stops the core."""
    source = _Source(guard, secret, spool, metrics, custody)
    routes = [
        Route("/scan", Endpoint(source.scan), methods=["POST"]),
        *(Route(path, Endpoint(source.held), methods=["POST"]) for path in PATHS),
        Route("/load", Endpoint(source.load), methods=["GET"]),
        Route("/healthz", Endpoint(source.health), methods=["GET"]),
        Route("/metrics", Endpoint(source.metrics), methods=["GET"]),
    ]
    app = _Rest(guard, routes=routes)
    app.router.redirect_slashes = False
    return app


class _Source:
    def __init__(
        self,
        guard: CoreScans,
        secret: str,
        spool: Spool,
        metrics: CollectorRegistry,
        custody: HeldMailOperations | None,
    ) -> None:
        self._guard, self._spool, self._registry, self._custody = guard, spool, metrics, custody
        # Hashes have one length: comparing them tells nothing, not even how long the secret is.
        self._credential = _hashed(f"Bearer {secret}".encode())

    async def scan(self, request: Request) -> Answer:
        refusal = self._refusal(request) or _unfit(request)
        if refusal:
            return refusal
        load = self._guard.load()
        if load.full:
            return _json(FullAnswer(load), 503)
        with self._spool.new() as body:
            upload = Upload(body)
            fault = await _received(request, upload)
            scan = fault or upload.finish()
            if isinstance(scan, Failure):
                return scan
            result = await self._guard.scan(scan)
        return _json(FullAnswer(result.load), 503) if isinstance(result, Full) else _json(result)

    async def held(self, request: Request) -> Answer:
        if refusal := self._refusal(request):
            return refusal
        announced = request.headers.get("content-length", "")
        if not announced.isdigit() or int(announced) > MAX_ORDER:
            return Failure(PAYLOAD_TOO_LARGE, "the order has no length, or is too long")
        wanted = order(request.url.path, await request.body())
        if isinstance(wanted, Failure):
            return wanted
        done = await wanted.carried_out(self._custody) if self._custody else NotHeld()
        return Response(done, media_type=MESSAGE) if isinstance(done, bytes) else _json(done)

    async def load(self, request: Request) -> Answer:
        if refusal := self._refusal(request):
            return refusal
        if request.query_params.get("once") == FREE:
            await self._guard.room()
        return _json(self._guard.load())

    async def health(self, _request: Request) -> Answer:
        return _json({"status": "ok"})

    async def metrics(self, request: Request) -> Answer:
        if not is_from_this_machine(request):
            return Failure(FORBIDDEN, "metrics are answered on loopback only")
        return Response(exposition(self._registry), headers={"content-type": METRICS_TYPE})

    def _refusal(self, request: Request) -> Failure | None:
        given = request.headers.get("authorization", "").encode("latin-1")
        if hmac.compare_digest(_hashed(given), self._credential):
            return None
        return Failure(UNAUTHORIZED, "the shared secret is missing or wrong", (("WWW-Authenticate", "Bearer"),))


class _Rest(Starlette):
    """Starlette without its own middleware: between server and routes are only two wrappers."""

    def __init__(self, guard: CoreScans, **options: Any) -> None:
        super().__init__(**options)
        self._guard = guard

    def build_middleware_stack(self) -> ASGIApp:
        return _LoadHeader(HttpErrors(self.router), self._guard)


class _LoadHeader:
    """ASGI wrapper that tells the load with every response."""

    def __init__(self, app: ASGIApp, guard: CoreScans) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_load(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"gatepost-load", _told(self._guard.load()))]
            await send(message)

        await self._app(scope, receive, send_with_load)


async def _received(request: Request, upload: Upload) -> Failure | None:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(IDLE_SECONDS) as patience:
            async for piece in request.stream():
                fault = upload.feed(piece)
                if fault:
                    return fault
                patience.reschedule(loop.time() + IDLE_SECONDS)
    except TimeoutError:
        return Failure(MALFORMED_REQUEST, "the message stopped arriving")
    return None


def _unfit(request: Request) -> Failure | None:
    """What can be seen before anything is read."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != CONTENT_TYPE:
        return Failure(UNSUPPORTED_MEDIA_TYPE, f"the content type must be {CONTENT_TYPE}")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MAX_BODY + MAX_HEAD + 4:
        return Failure(PAYLOAD_TOO_LARGE, f"the message is larger than {MAX_BODY} bytes")
    return None


def _json(value: object, status: int = 200) -> Response:
    return JsonResponse(msgspec.json.encode(value), status)


def _told(load: Load) -> bytes:
    return b"%d/%d/%d" % (load.in_processing, load.threshold, load.maximum)


def _hashed(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
