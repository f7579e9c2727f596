"""abby, the API service: routes, and what each of them needs. Everything comes in as a value; there are no globals."""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from gatepost.abby.apikeys import KeyDoor
from gatepost.abby.cores import Cores
from gatepost.abby.credentials import Door, Guesses, Tokens
from gatepost.abby.docs import docs_page
from gatepost.abby.dryrun import DryRuns
from gatepost.abby.exports import Exports
from gatepost.abby.failures import Answering, Endpoint, Handler, Json
from gatepost.abby.holding import HeldMailRoom, HoldingCore
from gatepost.abby.listing import Listing
from gatepost.abby.messages import Messages
from gatepost.abby.releasing import Releasing
from gatepost.abby.scanning import Observer, Scanning, unobserved
from gatepost.abby.status import Ready, Status, always_ready
from gatepost.abby.web.assets import Assets
from gatepost.abby.web.desk import Desk, Installation
from gatepost.abby.web.passwords import Passwords
from gatepost.abby.web.registry import web_routes
from gatepost.abby.web.rendering import Renderer
from gatepost.abby.web.templating import environment
from gatepost.api.interface import SCANNING
from gatepost.api.lists_interface import BASE, LISTS_API
from gatepost.api.openapi import document
from gatepost.api.scanning import encode
from gatepost.guard.spool import Spool
from gatepost.policy import Policies, unchanged
from gatepost.settings import StaticApiToken
from gatepost.store.store import Store

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
    releasers: Sequence[HoldingCore] = (),
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
    door = Door(Tokens(tokens), Guesses(clock))
    scanning = Scanning(door=door, cores=cores, store=store, spool=spool, seconds=long_request_seconds, observe=observe)
    messages = Messages(door=door, store=store)
    room = HeldMailRoom(store, releasers)
    releasing = Releasing(door=door, room=room)
    trials, exports = DryRuns(store, policies or unchanged()), Exports(store)
    lists = Listing(door=KeyDoor(store, Guesses(clock)), store=store, trials=trials, exports=exports)
    assets = Assets()
    desk = Desk(
        store=store,
        cores=cores,
        room=room,
        spool=spool,
        policies=policies or unchanged(),
        trials=trials,
        exports=exports,
        passwords=Passwords(),
        guesses=Guesses(clock),
        renderer=Renderer(environment(assets.paths)),
        installation=installation or Installation(),
        scan_seconds=long_request_seconds,
    )
    status = Status(door=door, cores=cores, ready=ready, metrics=metrics, metrics_public=metrics_public)

    described, lists_described = document(SCANNING), document(LISTS_API)
    own = [
        _route("/v1/messageQueue/submitEmail", scanning.submit, "POST"),
        _route("/v1/admin/status", status.status, "POST"),
        _route("/v1/messages/{ggrid}", messages.read, "GET"),
        _route("/v1/messages/{ggrid}/release", releasing.release, "POST"),
        _route("/v1/openapi.json", _fixed(Json(encode(described))), "GET"),
        *(_route(f"{BASE}/{name}", handler, "POST") for name, handler in lists.operations.items()),
        _route(f"{BASE}/openapi.json", _fixed(Json(encode(lists_described))), "GET"),
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
