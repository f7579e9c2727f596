"""abby, the API service, as an ASGI application: its endpoints, and what each of them needs.

Everything is passed in as a value; there are no globals. The routes of the web interface are passed in as well, so that
this package knows nothing of pages. The state of the service is told here: `POST /v1/admin/status` for its clients,
health, readiness and metrics for its operators. So are the APIs: `/docs` shows their OpenAPI documents to people, on a
page that has no script and loads nothing.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.abby.authenticator import ApiKeyAuthenticator, Authenticator, ServiceGuesses, Tokens
from gatepost.abby.cores import Cores
from gatepost.abby.held_mail import HeldMailCore, HeldMailOnCores, HeldMessagesApi
from gatepost.abby.lists import Exports, ListsApi
from gatepost.abby.messages import MessagesApi
from gatepost.abby.scan import PATH as SCAN_PATH
from gatepost.abby.scan import OutcomeObserver, ScanApi, ignore_outcome
from gatepost.api.call_limits import CallLimits
from gatepost.api.errors import (
    CORE_UNAVAILABLE,
    FORBIDDEN,
    INVALID_PARAMETERS,
    MALFORMED_REQUEST,
    PAYLOAD_TOO_LARGE,
    Failure,
)
from gatepost.api.http import (
    STRICT_TRANSPORT,
    CallBesideMail,
    Endpoint,
    ErrorPage,
    Handler,
    HttpErrors,
    JsonResponse,
    StrictTransport,
    UnreadBodies,
    is_from_this_machine,
)
from gatepost.api.openapi import LISTS_API, LISTS_BASE, SCANNING, Interface, document
from gatepost.api.scanning import SystemStatus, encode_scanning
from gatepost.api.server import DirectCall, DirectExchange, DirectRoutes, RawHeaders
from gatepost.api.strict_json import decode_json
from gatepost.policy.layers import unchanged_policies
from gatepost.rejudge.list_plan import ListDryRuns
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.scanning.spool import Spool
from gatepost.settings.keys import StaticApiTokenSettings
from gatepost.store.store import Store

MAX_BODY = 64 << 10
BODY_SECONDS = 10.0
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OK = b'{"status":"ok"}'


class StatusApi:
    """The endpoints for state; `metrics` returns the text for Prometheus."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        cores: Cores,
        metrics: Callable[[], bytes] = bytes,
    ) -> None:
        self._authenticator = authenticator
        self._cores = cores
        self._metrics = metrics

    async def status(self, request: Request) -> Response | Failure | None:
        """Return the colour of the queue. The body, if any, must be a JSON object; its fields are ignored."""
        caller = await self._authenticator.enter(request)
        if isinstance(caller, Failure):
            return caller
        refusal = await _body_fault(request)
        if refusal:
            return refusal
        health = await self._cores.status()
        # Warnings are for operators, and a token may be a tenant's.
        told = tuple(each for each in health.reasons if each.state != "GREEN")
        return JsonResponse(encode_scanning(SystemStatus(health.state, told)))

    async def health(self, _request: Request) -> Response:
        """Answer that the process runs and serves."""
        return JsonResponse(OK)

    async def readiness(self, request: Request) -> Response | Failure:
        """Answer whether the service can do its work: to clients on this machine with the reasons of its state."""
        health = await self._cores.look()
        if health.state == "RED" and health.fault:
            return Failure(CORE_UNAVAILABLE, health.fault)
        if not health.reasons or not is_from_this_machine(request):
            return JsonResponse(OK)
        told = {"status": "ok", "state": health.state, "reasons": health.reasons}
        return JsonResponse(msgspec.json.encode(told))

    async def metrics(self, request: Request) -> Response | Failure:
        """Return the metrics, to clients on this machine only."""
        if is_from_this_machine(request):
            return Response(self._metrics(), headers={"content-type": METRICS_TYPE})
        return Failure(FORBIDDEN, "metrics are answered on loopback only")


async def _body_fault(request: Request) -> Failure | None:
    data = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > MAX_BODY:
                    return Failure(PAYLOAD_TOO_LARGE, "no body is needed here")
    except TimeoutError:
        return Failure(MALFORMED_REQUEST, "the request body stopped arriving")
    if not data:
        return None
    found = decode_json("the body", data)
    if isinstance(found, Failure):
        return found
    return None if isinstance(found, dict) else Failure(INVALID_PARAMETERS, "the body must be an object")


STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font: 0.9em ui-monospace, monospace; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid #8886; border-radius: 0.4rem; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem; border-bottom: 1px solid #8884; }
section { margin: 2rem 0; }
.method { font-weight: 700; text-transform: uppercase; }
nav a { margin-right: 1rem; }
"""


def render_docs(documents: Iterable[dict[str, Any]]) -> Response:
    """Return one page for all documents. Its texts are plain, but for `code` and lines that start with `- `."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("gatepost.abby"), autoescape=True)
    environment.filters["json"] = partial(json.dumps, ensure_ascii=False)
    environment.tests["item"] = lambda line: line.startswith("- ")
    page = environment.get_template("docs.html").render(documents=list(documents), style=STYLE)
    return Response(page, headers=_page_headers(), media_type="text/html")


def _page_headers() -> dict[str, str]:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


LONG_REQUEST_SECONDS = 3600.0


class _MessageConvertor(StringConvertor):
    """A part of a path that names a message: `search` is a path of its own, and takes no GET."""

    regex = "(?!search(?:/|$))[^/]+"


register_url_convertor("message", _MessageConvertor())


class ApiServices(msgspec.Struct, frozen=True):
    """What the endpoints and the pages of the web interface share; each of these exists once in a process."""

    store: Store
    cores: Cores
    held_mail: HeldMailOnCores
    spool: Spool
    policies: PoliciesInForce
    dry_runs: ListDryRuns
    exports: Exports
    limits: CallLimits
    guesses: ServiceGuesses
    scan_seconds: float


def create_services(
    *,
    store: Store,
    cores: Cores,
    spool: Spool,
    held_mail_cores: Sequence[HeldMailCore] = (),
    policies: PoliciesInForce | None = None,
    scan_seconds: float = LONG_REQUEST_SECONDS,
) -> ApiServices:
    """`held_mail_cores` are the cores again, as those that hold mail; `policies` are those that the cores apply;
    `scan_seconds` is how long a scan may take, with the wait for a slot."""
    applied = policies or PoliciesInForce(unchanged_policies(), store.own_rules)
    limits = CallLimits()
    return ApiServices(
        store=store,
        cores=cores,
        held_mail=HeldMailOnCores(store.quarantine, held_mail_cores),
        spool=spool,
        policies=applied,
        dry_runs=ListDryRuns(store, applied),
        exports=Exports(store, limits),
        limits=limits,
        guesses=ServiceGuesses(),
        scan_seconds=scan_seconds,
    )


class ExactPaths:
    """ASGI application before the router: a request for a path without parameters, as every scan is, needs no search
    through the routes. What is not found here is the router's to find or to refuse."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._endpoints: dict[tuple[str | None, str | None], ASGIApp] = {
            (method, route.path): route.app
            for route in router.routes
            if isinstance(route, Route) and isinstance(route.endpoint, Endpoint) and not route.param_convertors
            for method in route.methods or ()
        }

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        endpoint = self._endpoints.get((scope.get("method"), scope.get("path")))
        return (endpoint or self._router)(scope, receive, send)


class AbbyApp(Starlette):
    """Starlette without its own middleware: between server and routes are only the wrappers of `gatepost.api`."""

    def __init__(
        self, error_page: ErrorPage | None, *, strict_transport: bool, direct_routes: DirectRoutes, **options: Any
    ) -> None:
        super().__init__(**options)
        self._error_page = error_page
        self._strict_transport = strict_transport
        self._direct_routes = direct_routes

    def build_middleware_stack(self) -> ASGIApp:
        app = UnreadBodies(HttpErrors(ExactPaths(self.router), self._error_page))
        return StrictTransport(app) if self._strict_transport else app

    def find_direct(self, method: bytes, path: bytes, headers: RawHeaders, client: str) -> DirectCall | None:
        """Return what takes the body of a request without ASGI; None where there is no such route, or it gives the
        request back."""
        route = self._direct_routes.get((method, path))
        call = route(headers, client) if route else None
        if call is None or not self._strict_transport:
            return call
        take = call

        def take_strictly(body: bytes, exchange: DirectExchange) -> bool:
            exchange.headers = (STRICT_TRANSPORT,)
            return take(body, exchange)

        return take_strictly


def create_app(
    services: ApiServices,
    *,
    tokens: Iterable[StaticApiTokenSettings],
    metrics: Callable[[], bytes] = bytes,
    observe: OutcomeObserver = ignore_outcome,
    routes: Iterable[BaseRoute] = (),
    error_page: ErrorPage | None = None,
    strict_transport: bool = False,
    look_back: bool = False,
) -> Starlette:
    """Return the whole service. `observe` is called with the outcome of every scan; `routes` are added after those of
    the APIs, and `error_page` renders failures for browsers; `strict_transport` tells browsers to use HTTPS only;
    with `look_back` delivered mail is looked at for entries that come through the List API."""
    authenticator = Authenticator(Tokens(tokens), services.guesses.tokens, services.store.api_keys.note_token_use)
    status = StatusApi(authenticator=authenticator, cores=services.cores, metrics=metrics)
    scanning = ScanApi(
        authenticator=authenticator,
        cores=services.cores,
        store=services.store.tenants,
        spool=services.spool,
        seconds=services.scan_seconds,
        observe=observe,
    )
    own = [
        _route(SCAN_PATH, scanning.submit, "POST"),
        *_message_routes(services, authenticator),
        _route("/v1/admin/status", status.status, "POST"),
        _route("/v1/openapi.json", _made_once(lambda: _encode_document(SCANNING)), "GET"),
        *_list_routes(services, look_back),
        _route(f"{LISTS_BASE}/openapi.json", _made_once(lambda: _encode_document(LISTS_API)), "GET"),
        _route("/docs", _made_once(lambda: render_docs([document(SCANNING), document(LISTS_API)])), "GET"),
        _route("/healthz", status.health, "GET"),
        _route("/readyz", status.readiness, "GET"),
        _route("/metrics", status.metrics, "GET"),
    ]
    app = AbbyApp(
        error_page,
        strict_transport=strict_transport,
        direct_routes={(b"POST", SCAN_PATH.encode()): scanning.begin},
        routes=[*own, *routes],
        lifespan=_running(services.cores),
    )
    app.router.redirect_slashes = False
    return app


def _list_routes(services: ApiServices, look_back: bool) -> list[Route]:
    lists = ListsApi(
        authenticator=ApiKeyAuthenticator(services.store.api_keys, services.guesses.keys),
        store=services.store,
        dry_runs=services.dry_runs,
        exports=services.exports,
        limits=services.limits,
        look_back=look_back,
    )
    return [_beside_mail(f"{LISTS_BASE}/{name}", handler, "POST") for name, handler in lists.operations.items()]


def _message_routes(services: ApiServices, authenticator: Authenticator) -> list[Route]:
    messages = MessagesApi(
        authenticator=authenticator,
        store=services.store,
        cores=services.cores,
        spool=services.spool,
        limits=services.limits,
        seconds=services.scan_seconds,
    )
    held = HeldMessagesApi(
        authenticator=authenticator, held_mail=services.held_mail, store=services.store, limits=services.limits
    )
    return [
        _beside_mail("/v1/messages/search", messages.search, "POST"),
        _beside_mail("/v1/messages/{ggrid:message}", messages.read, "GET"),
        _beside_mail("/v1/messages/{ggrid}/timeline", messages.show_timeline, "GET"),
        _beside_mail("/v1/messages/{ggrid}/text", held.show_text, "GET"),
        _beside_mail("/v1/messages/{ggrid}/release", held.release, "POST"),
        _beside_mail("/v1/messages/{ggrid}/delete", held.delete, "POST"),
        _beside_mail("/v1/messages/{ggrid}/report", messages.report, "POST"),
        _beside_mail("/v1/heldMessages/search", messages.search_held, "POST"),
        _beside_mail("/v1/heldMessages/release", held.release_many, "POST"),
        _beside_mail("/v1/heldMessages/delete", held.delete_many, "POST"),
    ]


def _running(cores: Cores) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """Return a lifespan that polls the cores for as long as the service runs."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await cores.start()
        try:
            yield
        finally:
            await cores.stop()

    return lifespan


def _route(path: str, handler: Handler, method: str) -> Route:
    return Route(path, Endpoint(handler), methods=[method])


def _beside_mail(path: str, handler: Handler, method: str) -> Route:
    return Route(path, CallBesideMail(handler), methods=[method])


def _encode_document(interface: Interface) -> Response:
    return JsonResponse(encode_scanning(document(interface)))


def _made_once(make: Callable[[], Response]) -> Handler:
    """Return a handler that always answers the same. The answer is made for the first request, by a thread: most
    services are never asked for it, and every start would wait for it."""
    made: list[Response] = []

    async def handler(_request: Request) -> Response:
        if not made:
            made.append(await asyncio.to_thread(make))
        return made[0]

    return handler
