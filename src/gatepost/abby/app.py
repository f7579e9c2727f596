"""abby, the API service, as an ASGI application: its endpoints, and what each of them needs.

Everything is passed in as a value; there are no globals. The routes of the web interface are passed in as well, so that
this package knows nothing of pages.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.abby.authenticator import ApiKeyAuthenticator, Authenticator, Guesses, GuessMemories, Tokens
from gatepost.abby.cores import Cores
from gatepost.abby.docs_page import render_docs
from gatepost.abby.held_mail import HeldMailCore, HeldMailOnCores
from gatepost.abby.held_messages import HeldMessagesApi
from gatepost.abby.lists import Exports, ListsApi
from gatepost.abby.message_reports import ReportsApi
from gatepost.abby.messages import MessagesApi
from gatepost.abby.scan import OutcomeObserver, ScanApi, ignore_outcome
from gatepost.abby.status import ReadinessCheck, StatusApi, always_ready
from gatepost.api.call_limits import CallLimits
from gatepost.api.errors import Failure
from gatepost.api.http import Endpoint, ErrorPage, Handler, HttpErrors, JsonResponse, StrictTransport, UnreadBodies
from gatepost.api.openapi import LISTS_API, LISTS_BASE, SCANNING, document
from gatepost.api.scanning import encode_scanning
from gatepost.background_work import background
from gatepost.node_memory import Tally
from gatepost.policy.layers import unchanged_policies
from gatepost.rejudge.dry_run import ListDryRuns
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.scanning.spool import Spool
from gatepost.settings.keys import StaticApiTokenSettings
from gatepost.store.store import Store

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
    guesses: GuessMemories
    scan_seconds: float


def create_services(
    *,
    store: Store,
    cores: Cores,
    spool: Spool,
    held_mail_cores: Sequence[HeldMailCore] = (),
    policies: PoliciesInForce | None = None,
    scan_seconds: float = LONG_REQUEST_SECONDS,
    calls: Tally | None = None,
    guesses: GuessMemories | None = None,
) -> ApiServices:
    """`held_mail_cores` are the cores again, as those that hold mail; `policies` are those that the cores apply;
    `scan_seconds` is how long a scan may take, with the wait for a slot; `calls` and `guesses` are shared where the
    service runs as several processes."""
    applied = policies or PoliciesInForce(unchanged_policies(), store.own_rules)
    limits = CallLimits(tally=calls)
    return ApiServices(
        store=store,
        cores=cores,
        held_mail=HeldMailOnCores(store.quarantine, held_mail_cores),
        spool=spool,
        policies=applied,
        dry_runs=ListDryRuns(store, applied),
        exports=Exports(store, limits),
        limits=limits,
        guesses=guesses or GuessMemories(),
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

    def __init__(self, error_page: ErrorPage | None, *, strict_transport: bool, **options: Any) -> None:
        super().__init__(**options)
        self._error_page = error_page
        self._strict_transport = strict_transport

    def build_middleware_stack(self) -> ASGIApp:
        app = UnreadBodies(HttpErrors(ExactPaths(self.router), self._error_page))
        return StrictTransport(app) if self._strict_transport else app


def create_app(
    services: ApiServices,
    *,
    tokens: Iterable[StaticApiTokenSettings],
    ready: ReadinessCheck = always_ready,
    metrics: Callable[[], bytes] = bytes,
    metrics_public: bool = False,
    observe: OutcomeObserver = ignore_outcome,
    clock: Callable[[], float] = time.monotonic,
    routes: Iterable[BaseRoute] = (),
    error_page: ErrorPage | None = None,
    strict_transport: bool = False,
    look_back: bool = False,
) -> Starlette:
    """Return the whole service. `observe` is called with the outcome of every scan; `routes` are added after those of
    the APIs, and `error_page` renders failures for browsers; `strict_transport` tells browsers to use HTTPS only;
    with `look_back` delivered mail is looked at for entries that come through the List API."""
    authenticator = Authenticator(
        Tokens(tokens), Guesses(clock, services.guesses.tokens), services.store.api_keys.note_token_use
    )
    status = StatusApi(
        authenticator=authenticator,
        cores=services.cores,
        ready=ready,
        metrics=metrics,
        metrics_public=metrics_public,
    )
    lists = ListsApi(
        authenticator=ApiKeyAuthenticator(services.store.api_keys, Guesses(clock, services.guesses.keys)),
        store=services.store,
        dry_runs=services.dry_runs,
        exports=services.exports,
        limits=services.limits,
        look_back=look_back,
    )
    scanning_document, lists_document = document(SCANNING), document(LISTS_API)
    own = [
        *_scanning_routes(services, authenticator, observe),
        _route("/v1/admin/status", status.status, "POST"),
        _route("/v1/openapi.json", _constant(JsonResponse(encode_scanning(scanning_document))), "GET"),
        *(_route(f"{LISTS_BASE}/{name}", _after_mail(handler), "POST") for name, handler in lists.operations.items()),
        _route(f"{LISTS_BASE}/openapi.json", _constant(JsonResponse(encode_scanning(lists_document))), "GET"),
        _route("/docs", _constant(render_docs([scanning_document, lists_document])), "GET"),
        _route("/healthz", status.health, "GET"),
        _route("/readyz", status.readiness, "GET"),
        _route("/metrics", status.metrics, "GET"),
    ]
    app = AbbyApp(
        error_page, strict_transport=strict_transport, routes=[*own, *routes], lifespan=_running(services.cores)
    )
    app.router.redirect_slashes = False
    return app


def _scanning_routes(services: ApiServices, authenticator: Authenticator, observe: OutcomeObserver) -> list[Route]:
    scanning = ScanApi(
        authenticator=authenticator,
        cores=services.cores,
        store=services.store.tenants,
        spool=services.spool,
        seconds=services.scan_seconds,
        observe=observe,
    )
    messages = MessagesApi(authenticator=authenticator, store=services.store, limits=services.limits)
    reports = ReportsApi(
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
        _route("/v1/messageQueue/submitEmail", scanning.submit, "POST"),
        _route("/v1/messages/search", _after_mail(messages.search), "POST"),
        _route("/v1/messages/{ggrid:message}", messages.read, "GET"),
        _route("/v1/messages/{ggrid}/timeline", messages.show_timeline, "GET"),
        _route("/v1/messages/{ggrid}/text", held.show_text, "GET"),
        _route("/v1/messages/{ggrid}/release", held.release, "POST"),
        _route("/v1/messages/{ggrid}/delete", held.delete, "POST"),
        _route("/v1/messages/{ggrid}/report", reports.report, "POST"),
        _route("/v1/heldMessages/search", _after_mail(messages.search_held), "POST"),
        _route("/v1/heldMessages/release", held.release_many, "POST"),
        _route("/v1/heldMessages/delete", held.delete_many, "POST"),
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


def _after_mail(handler: Handler) -> Handler:
    """Return a handler that lets mail go first while the event loop is late."""

    async def wait(request: Request) -> Response | Failure | None:
        await background.wait_for_mail()
        return await handler(request)

    return wait


def _constant(response: Response) -> Handler:
    """Return a handler that always answers the same."""

    async def handler(_request: Request) -> Response:
        return response

    return handler
