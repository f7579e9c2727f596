"""API keys: made here, shown once, listed with their last use, ended for good."""

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.store.api_keys import ApiKey
from gatepost.store.errors import NotFound
from gatepost.web.context import Scopes, WebContext, scopes
from gatepost.web.forms import parse_expiry
from gatepost.web.request import NOT_HERE, SignedInRequest
from gatepost.web.responses import html_response, redirect
from gatepost.web.site import Page, Row

LONGEST_NAME = 100


async def show(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """All keys that the visitor may see."""
    return html_response(await _page(desk, visit))


async def create(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Make a key. Its secret is in the answer and nowhere else, so there is no redirect."""
    form = visit.form
    scope = visit.scope(form.text("scope"))
    if isinstance(scope, Failure):
        return scope
    expires = parse_expiry(form.text("expires"), desk.now())
    name = form.text("name", LONGEST_NAME)
    fault = expires.message if isinstance(expires, Failure) else "" if name else "a key needs a name"
    if fault or isinstance(expires, Failure):
        return html_response(await _page(desk, visit, fault=fault), 400)
    made = await desk.store.create_api_key(name, scope, form.has("read-only"), expires, visit.actor)
    if isinstance(made, NotFound):
        return NOT_HERE
    secret, key = made
    return html_response(await _page(desk, visit, secret=secret, made=key))


async def revoke(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """End a key."""
    keys = await desk.store.api_keys(visit.user.tenant)
    if not any(key.id == visit.part("id") for key in keys):
        return NOT_HERE
    await desk.store.revoke_api_key(visit.part("id"), visit.actor)
    return redirect("/keys?done=key-revoked")


async def _page(
    desk: WebContext, visit: SignedInRequest, *, secret: str = "", made: ApiKey | None = None, fault: str = ""
) -> str:
    known: Scopes = await scopes(desk, visit)
    keys = sorted(await desk.store.api_keys(visit.user.tenant), key=lambda key: (bool(key.revoked), -key.created))
    return desk.renderer.page(
        "keys.html",
        visit,
        here="/keys",
        keys=keys,
        scopes=known,
        secret=secret,
        made=made,
        fault=fault,
        now=desk.now(),
        base=str(visit.request.base_url).rstrip("/"),
    )


ROWS: tuple[Row, ...] = (
    Page("GET", "/keys", show, "keys.read"),
    Page("POST", "/keys", create, "keys.change"),
    Page("POST", "/keys/{id}/revoke", revoke, "keys.change"),
)
