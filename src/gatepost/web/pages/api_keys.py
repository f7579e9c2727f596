"""API keys of the List API: created here, shown once, listed with their last use, revoked."""

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.ids import canonical, new_id
from gatepost.store.api_keys import ApiKey
from gatepost.store.errors import NotFound, TenantFull
from gatepost.web.context import Scopes, WebContext, find_scopes
from gatepost.web.forms import Form, parse_expiry
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

MAX_NAME = 100
SENT_BEFORE = "this form was sent before, and its key exists; if the secret is lost, revoke that key and create another"


async def show_keys(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """List all keys that the user may see."""
    return html_response(await _render_keys(context, request))


async def create_key(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Create a key. Its secret is in this response only, so there is no redirect; the same form sent again, as a reload
    does, creates no second key."""
    form = request.form
    stated = canonical(form.text("form", 60))
    scope = request.parse_scope(form.text("scope"))
    if isinstance(scope, Failure):
        return scope
    expires = parse_expiry(form.text("expires"), context.now())
    name = form.text("name", MAX_NAME)
    fault = expires.message if isinstance(expires, Failure) else "" if name else "enter a name"
    if fault or isinstance(expires, Failure):
        return html_response(await _render_keys(context, request, fault=fault), 400)
    created = await context.store.api_keys.create(
        name, scope, form.has("read-only"), expires, request.actor, key_id=stated
    )
    if isinstance(created, NotFound) and created.what == "form":
        return html_response(await _render_keys(context, request, fault=SENT_BEFORE), 409)
    if isinstance(created, NotFound):
        return NOT_VISIBLE
    if isinstance(created, TenantFull):
        return html_response(await _render_keys(context, request, fault=created.explanation), 409)
    secret, key = created
    return html_response(await _render_keys(context, request, secret=secret, created=key))


async def revoke_key(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Revoke a key."""
    keys = await context.store.api_keys.all(request.user.tenant)
    if not any(key.id == request.path_part("id") for key in keys):
        return NOT_VISIBLE
    await context.store.api_keys.revoke(request.path_part("id"), request.actor)
    return redirect("/keys", notice="key-revoked")


async def _render_keys(
    context: WebContext, request: SignedInRequest, *, secret: str = "", created: ApiKey | None = None, fault: str = ""
) -> str:
    scopes: Scopes = await find_scopes(context, request)
    keys = sorted(
        await context.store.api_keys.all(request.user.tenant), key=lambda key: (bool(key.revoked), -key.created)
    )
    return await context.renderer.render_in_turns(
        "keys.html",
        request,
        here="/keys",
        keys=keys,
        scopes=scopes,
        secret=secret,
        created=created,
        fault=fault,
        now=context.now(),
        base=str(request.http.base_url).rstrip("/"),
        form=request.form if fault else Form(),
        form_id=new_id(),
        certificate=context.installation.certificate,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/keys", show_keys, "keys.read"),
    PageRoute("POST", "/keys", create_key, "keys.change"),
    PageRoute("POST", "/keys/{id}/revoke", revoke_key, "keys.change"),
)
