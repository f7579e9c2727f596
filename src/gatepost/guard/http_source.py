"""The HTTPS scan source of a core. Only abby gets in, with a secret that both know.

`POST /scan` takes a message (see `scanning.request`), lets it wait for its turn where the core is full, and answers
when its result is on record. `POST /features` takes one that came with a complaint, and answers what models learn from
it. Both answer 503 where no message may wait. Orders on held mail are in `scanning.held_mail`. `GET /load` tells how
busy the core is. `/healthz` and, for this
machine only, `/metrics` need no secret. Whoever guesses the secret waits longer each time.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gatepost.api.errors import (
    FORBIDDEN,
    MALFORMED_REQUEST,
    PAYLOAD_TOO_LARGE,
    STORAGE_UNAVAILABLE,
    UNAUTHORIZED,
    UNSUPPORTED_MEDIA_TYPE,
    Error,
    Failure,
)
from gatepost.api.http import (
    BodyPace,
    ClientLeft,
    ConnectedClient,
    Endpoint,
    HttpErrors,
    JsonResponse,
    is_from_this_machine,
    json_failure,
    note_fault,
)
from gatepost.api.scanning import MAX_BODY
from gatepost.api.server import DirectCall, DirectExchange, RawHeaders
from gatepost.guard.service import Guard
from gatepost.process.logs import Logger
from gatepost.process.metrics import CONTENT_TYPE as METRICS_TYPE
from gatepost.scanning.held_mail import MESSAGE, ORDERS, CarriesOutOrders, NotHeld, read_order
from gatepost.scanning.request import (
    CONTENT_TYPE,
    MAX_HEAD,
    STORAGE_FAILED,
    Full,
    Load,
    ScanRequest,
    ScanUpload,
    split_upload,
)
from gatepost.scanning.spool import MessageBody, Spool, SpooledBody
from gatepost.store.errors import StorageError

IDLE_SECONDS = 60.0
MAX_ORDER = 64 << 10

log = Logger("gatepost.guard")

Answer = Response | Failure | None


class FullAnswer(msgspec.Struct, frozen=True):
    """The body of a 503."""

    load: Load
    overloaded: bool
    message: str
    error: str = "full"


class SlowsGuesses(Protocol):
    """What makes those who guess the secret wait; the service has one for each port."""

    async def enter(self, request: Request, *, right: bool) -> None:
        """Return when this attempt, which was right or wrong, may be answered."""
        ...

    def enter_at_once(self, host: str) -> bool:
        """Whether a right attempt from this address waits for nothing; it is counted then."""
        ...


def build_rest_app(
    guard: Guard,
    secret: str,
    spool: Spool,
    metrics: Callable[[], bytes],
    held_mail: CarriesOutOrders | None = None,
    guesses: SlowsGuesses | None = None,
) -> Starlette:
    """Return the source as an ASGI application. It neither starts nor stops the core. `metrics` renders what
    `/metrics` answers."""
    source = _Source(guard, secret, spool, metrics, held_mail, guesses)
    routes = [
        Route("/scan", Endpoint(source.scan), methods=["POST"]),
        Route("/features", Endpoint(source.read_features), methods=["POST"]),
        *(Route(kind.path, Endpoint(source.carry_out), methods=["POST"]) for kind in ORDERS),
        Route("/load", Endpoint(source.load), methods=["GET"]),
        Route("/healthz", Endpoint(source.health), methods=["GET"]),
        Route("/metrics", Endpoint(source.metrics), methods=["GET"]),
    ]
    app = _RestApp(source, routes=routes)
    app.router.redirect_slashes = False
    return app


class _Source:
    def __init__(
        self,
        guard: Guard,
        secret: str,
        spool: Spool,
        metrics: Callable[[], bytes],
        held_mail: CarriesOutOrders | None,
        guesses: SlowsGuesses | None,
    ) -> None:
        self._guesses = guesses
        self._guard, self._spool, self._metrics, self._held_mail = guard, spool, metrics, held_mail
        # Hashes have one length: comparing them tells nothing, not even how long the secret is.
        self._credential = _hash(f"Bearer {secret}".encode())

    async def scan(self, request: Request) -> Answer:
        return await self._take(request, self._guard.scan_in_turn)

    async def read_features(self, request: Request) -> Answer:
        return await self._take(request, self._guard.read_features)

    async def _take(
        self, request: Request, work: Callable[[ScanRequest, MessageBody, ConnectedClient], Awaitable[msgspec.Struct]]
    ) -> Answer:
        """Take a message, have it worked on in its turn, and answer what came of it."""
        refusal = await self._refusal(request) or _check_headers(request)
        if refusal:
            return refusal
        with self._spool.new() as body:
            upload = ScanUpload(body)
            fault = await _receive(request, upload, body)
            scan = fault or upload.finish()
            if isinstance(scan, Failure):
                return scan
            await body.finish()
            return await self._work(work, scan, body, ConnectedClient(request.receive))

    def begin_scan(self, headers: RawHeaders, host: str) -> DirectCall | None:
        """Take a message whose header section has come without an ASGI exchange (`api.server`); None gives it back, as
        does False after its body: what is refused, or has to wait for its answer, is the business of `scan`."""
        given = dict(headers)
        right = hmac.compare_digest(_hash(given.get(b"authorization", b"")), self._credential)
        if not right or given.get(b"content-type") != CONTENT_TYPE.encode() or len(given) < len(headers):
            return None
        if self._guesses and not self._guesses.enter_at_once(host):
            return None

        def take(whole: bytes, exchange: DirectExchange) -> bool:
            parts = split_upload(whole)
            if parts is None:
                return False
            exchange.start(self._answer(*parts, exchange))
            return True

        return take

    async def _answer(self, scan: ScanRequest, message: bytes, exchange: DirectExchange) -> None:
        answer: JsonResponse | None
        try:
            with self._spool.hold(message) as body:
                client = ConnectedClient(exchange.receive)
                answer = await self._work(self._guard.scan_in_turn, scan, body, client)
        except Exception as fault:  # noqa: BLE001  it becomes the answer, as `HttpErrors` has it
            answer = json_failure(note_fault(fault, "/scan"))
        exchange.answer(answer)

    async def _work(
        self,
        work: Callable[[ScanRequest, MessageBody, ConnectedClient], Awaitable[msgspec.Struct]],
        scan: ScanRequest,
        body: MessageBody,
        client: ConnectedClient,
    ) -> JsonResponse | None:
        try:
            result = await work(scan, body, client)
        except StorageError as fault:
            log.error("storage failed", ggrid=scan.ggrid, reason=str(fault))
            return _json(Error(STORAGE_UNAVAILABLE.code, "the result could not be kept"), STORAGE_FAILED)
        if isinstance(result, Full):
            text = "the messages that wait hold too much" if result.overloaded else "no message is taken now"
            return _json(FullAnswer(result.load, result.overloaded, f"{text}; nothing was done"), 503)
        return None if isinstance(result, ClientLeft) else _json(result)

    async def carry_out(self, request: Request) -> Answer:
        if refusal := await self._refusal(request):
            return refusal
        announced = request.headers.get("content-length", "")
        if not announced.isdigit() or int(announced) > MAX_ORDER:
            return Failure(PAYLOAD_TOO_LARGE, "the order has no length, or is too long")
        order = read_order(request.url.path, await request.body())
        if isinstance(order, Failure):
            return order
        result = await self._held_mail.carry_out(order) if self._held_mail else NotHeld()
        return Response(result, media_type=MESSAGE) if isinstance(result, bytes) else _json(result)

    async def load(self, request: Request) -> Answer:
        if refusal := await self._refusal(request):
            return refusal
        await self._guard.look()
        return _json(self._guard.load())

    async def health(self, _request: Request) -> Answer:
        return _json({"status": "ok"})

    async def metrics(self, request: Request) -> Answer:
        if not is_from_this_machine(request):
            return Failure(FORBIDDEN, "metrics are answered on loopback only")
        return Response(self._metrics(), headers={"content-type": METRICS_TYPE})

    async def _refusal(self, request: Request) -> Failure | None:
        given = request.headers.get("authorization", "").encode("latin-1")
        right = hmac.compare_digest(_hash(given), self._credential)
        if self._guesses:
            await self._guesses.enter(request, right=right)
        if right:
            return None
        log.warning(
            "secret of a core refused", client=request.client.host if request.client else "", path=request.url.path
        )
        return Failure(UNAUTHORIZED, "the shared secret is missing or wrong", (("WWW-Authenticate", "Bearer"),))


class _RestApp(Starlette):
    """Starlette without its own middleware: between server and routes is one wrapper."""

    def __init__(self, source: _Source, **options: Any) -> None:
        super().__init__(**options)
        self._source = source

    def find_direct(self, method: bytes, path: bytes, headers: RawHeaders, client: str) -> DirectCall | None:
        """Return what takes the body of a request without ASGI; None for all but ordinary scans."""
        return self._source.begin_scan(headers, client) if (method, path) == (b"POST", b"/scan") else None

    def build_middleware_stack(self) -> ASGIApp:
        return HttpErrors(self.router)


async def _receive(request: Request, upload: ScanUpload, body: SpooledBody) -> Failure | None:
    try:
        with BodyPace(IDLE_SECONDS) as pace:
            async for piece in request.stream():
                fault = upload.feed(piece)
                if fault:
                    return fault
                await body.settle()
                pace.earn(len(piece))
    except TimeoutError:
        return Failure(MALFORMED_REQUEST, "the message stopped arriving, or arrives too slowly")
    return None


def _check_headers(request: Request) -> Failure | None:
    """Return the failure that can be seen before anything is read."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != CONTENT_TYPE:
        return Failure(UNSUPPORTED_MEDIA_TYPE, f"the content type must be {CONTENT_TYPE}")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MAX_BODY + MAX_HEAD + 4:
        return Failure(PAYLOAD_TOO_LARGE, f"the message is larger than {MAX_BODY} bytes")
    return None


def _json(value: object, status: int = 200) -> JsonResponse:
    return JsonResponse(msgspec.json.encode(value), status)


def _hash(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
