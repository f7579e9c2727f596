"""abby, the API service: routes, and what each of them needs. Everything comes in as a value; there are no globals."""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from gatepost.abby.authenticator import ApiKeyAuthenticator, Authenticator, Guesses, Tokens
from gatepost.abby.cores import Cores
from gatepost.abby.docs_page import docs_page
from gatepost.abby.failures import Answering, Endpoint, Handler, Json
from gatepost.abby.held_mail import HeldMailCore, HeldMailOnCores
from gatepost.abby.lists import Exports, ListsApi
from gatepost.abby.messages import MessagesApi, ReleaseApi
from gatepost.abby.scan import Observer, ScanApi, unobserved
from gatepost.abby.status import Ready, StatusApi, always_ready
from gatepost.api.openapi import document
from gatepost.api.operations import LISTS_API, LISTS_BASE, SCANNING
from gatepost.api.scanning import encode_scanning
from gatepost.policy.layers import Policies, unchanged_policies
from gatepost.rejudge.dry_run import ListDryRuns
from gatepost.scanning.spool import Spool
from gatepost.settings.keys import StaticApiToken
from gatepost.store.store import Store
from gatepost.web.context import Installation, WebContext
from gatepost.web.credentials import Passwords
from gatepost.web.registry import web_routes
from gatepost.web.rendering import PageRenderer
from gatepost.web.responses import Assets, environment

LONG_REQUEST_SECONDS = 3600.0


class Abby(Starlette):
    """Starlette without its layers: one wrapper of our own stands between the server and the routes."""

    def build_middleware_stack(self) -> ASGIApp:
        return Answering(self.router)


def create_app(
    *,
    cores: Cores,
    store: Store,
    tokens: Iterable[StaticApiToken],
    spool: Spool,
    releasers: Sequence[HeldMailCore] = (),
    long_request_seconds: float = LONG_REQUEST_SECONDS,
    ready: Ready = always_ready,
    metrics: Callable[[], bytes] = bytes,
    metrics_public: bool = False,
    observe: Observer = unobserved,
    clock: Callable[[], float] = time.monotonic,
    routes: Iterable[BaseRoute] = (),
    policies: Policies | None = None,
    installation: Installation | None = None,
) -> Starlette:
    """The whole service. `releasers` are the cores again, as those that hold mail; `routes` are added behind its own;
    `observe` is told the outcome of every scan; `policies` are those that the cores judge by."""
    door = Authenticator(Tokens(tokens), Guesses(clock))
    scanning = ScanApi(door=door, cores=cores, store=store, spool=spool, seconds=long_request_seconds, observe=observe)
    messages = MessagesApi(door=door, store=store)
    held_mail = HeldMailOnCores(store, releasers)
    releasing = ReleaseApi(door=door, held_mail=held_mail)
    trials, exports = ListDryRuns(store, policies or unchanged_policies()), Exports(store)
    lists = ListsApi(door=ApiKeyAuthenticator(store, Guesses(clock)), store=store, trials=trials, exports=exports)
    assets = Assets()
    desk = WebContext(
        store=store,
        cores=cores,
        held_mail=held_mail,
        spool=spool,
        policies=policies or unchanged_policies(),
        trials=trials,
        exports=exports,
        passwords=Passwords(),
        guesses=Guesses(clock),
        renderer=PageRenderer(environment(assets.paths)),
        installation=installation or Installation(),
        scan_seconds=long_request_seconds,
    )
    status = StatusApi(door=door, cores=cores, ready=ready, metrics=metrics, metrics_public=metrics_public)

    described, lists_described = document(SCANNING), document(LISTS_API)
    own = [
        _route("/v1/messageQueue/submitEmail", scanning.submit, "POST"),
        _route("/v1/admin/status", status.status, "POST"),
        _route("/v1/messages/{ggrid}", messages.read, "GET"),
        _route("/v1/messages/{ggrid}/release", releasing.release, "POST"),
        _route("/v1/openapi.json", _fixed(Json(encode_scanning(described))), "GET"),
        *(_route(f"{LISTS_BASE}/{name}", handler, "POST") for name, handler in lists.operations.items()),
        _route(f"{LISTS_BASE}/openapi.json", _fixed(Json(encode_scanning(lists_described))), "GET"),
        _route("/docs", _fixed(docs_page([described, lists_described])), "GET"),
        _route("/healthz", status.health, "GET"),
        _route("/readyz", status.readiness, "GET"),
        _route("/metrics", status.metrics, "GET"),
        *web_routes(desk, assets),
    ]
    app = Abby(routes=[*own, *routes], lifespan=_running(cores))
    app.router.redirect_slashes = False
    return app


def _running(cores: Cores) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    """The cores are heard for as long as the service runs."""

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


def _fixed(response: Response) -> Handler:
    """A handler that always answers the same."""

    async def handler(_request: Request) -> Response:
        return response

    return handler
