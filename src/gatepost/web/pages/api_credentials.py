"""Credentials of programs: API keys of the List API, and tokens of the Email Scanning API.

A key is created here, shown once, listed with its last use, and revoked.

Tokens are settings (`staticApiTokens` in abby.yml), so that abby needs no storage to know its callers: each change is a
published version. A token that is made here is shown once, and the version has its hash.
"""

import asyncio
import hashlib
import json
import secrets
from typing import Any, get_args

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.ids import canonical, new_id
from gatepost.settings.keys import TokenPermission
from gatepost.store.api_keys import ApiKey, TokenUse
from gatepost.store.errors import NotFound, TenantFull
from gatepost.store.publishing import VersionContent
from gatepost.times import date_time
from gatepost.web.configuration import Publisher
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import Form, parse_expiry
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.pages.configuration import Running, find_running, for_publisher
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute

MAX_NAME = 100
SENT_BEFORE = "this form was sent before, and its key exists; if the secret is lost, revoke that key and create another"


async def create_key(context: WebContext, request: SignedInRequest) -> PageResult:
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
        return with_status(await show_keys(context, request, fault=fault), 400)
    created = await context.store.api_keys.create(
        name, scope, form.has("read-only"), expires, request.actor, key_id=stated
    )
    if isinstance(created, NotFound) and created.what == "form":
        return with_status(await show_keys(context, request, fault=SENT_BEFORE), 409)
    if isinstance(created, NotFound):
        return NOT_VISIBLE
    if isinstance(created, TenantFull):
        return with_status(await show_keys(context, request, fault=created.explanation), 409)
    secret, key = created
    return await show_keys(context, request, secret=secret, created=key)


async def revoke_key(context: WebContext, request: SignedInRequest) -> PageResult:
    """Revoke a key."""
    keys = await context.store.api_keys.all(request.user.tenant)
    if not any(key.id == request.path_part("id") for key in keys):
        return NOT_VISIBLE
    await context.store.api_keys.revoke(request.path_part("id"), request.actor)
    return redirect("/keys", notice="key-revoked")


async def show_keys(
    context: WebContext, request: SignedInRequest, *, secret: str = "", created: ApiKey | None = None, fault: str = ""
) -> Response:
    """List all keys that the user may see, with the secret of one that was created now."""
    keys = sorted(
        await context.store.api_keys.all(request.user.tenant), key=lambda key: (bool(key.revoked), -key.created)
    )
    return await context.page(
        request,
        "keys.html",
        keys=keys,
        scopes=await find_scopes(context, request),
        secret=secret,
        created=created,
        fault=fault,
        now=context.now(),
        base=str(request.http.base_url).rstrip("/"),
        form=request.form if fault else Form(),
        form_id=new_id(),
        certificate=context.installation.certificate,
    )


MAX_TOKENS = 200
TOKEN_BYTES = 32
PERMISSIONS: tuple[str, ...] = get_args(TokenPermission)
_DOCUMENT, _KEY = "abby.yml", "staticApiTokens"


class TokenRow(msgspec.Struct, frozen=True):
    """A token as the page shows it. `form` says how it is stored, `use` when it was last used."""

    name: str
    permissions: tuple[str, ...]
    made: str
    form: str
    use: TokenUse | None = None


@for_publisher
async def create_token(context: WebContext, request: SignedInRequest, publisher: Publisher) -> PageResult:
    """Make a token, publish its hash, and show it in this response only."""
    running = await find_running(context, publisher)
    name, allowed = request.form.text("name", MAX_NAME), [each for each in PERMISSIONS if request.form.has(each)]
    tokens = _tokens(running.content)
    if not name or not name.isprintable() or "${" in name:
        return await show_tokens(context, request, publisher, fault="enter a name of printable characters")
    if any(each.get("name") == name for each in tokens) or len(tokens) >= MAX_TOKENS:
        return await show_tokens(context, request, publisher, fault="a token has this name, or there are too many")
    token = secrets.token_hex(TOKEN_BYTES)
    made = {"name": name, "tokenHash": hashlib.sha256(token.encode()).hexdigest(), "made": date_time(context.now())}
    entry = {**made, **({"permissions": allowed} if allowed else {})}
    fault = await _publish(context, request, publisher, running, [*tokens, entry], f"API token {name} made")
    if fault:
        return await show_tokens(context, request, publisher, fault=fault)
    return await show_tokens(context, request, publisher, created=(name, token))


@for_publisher
async def revoke_token(context: WebContext, request: SignedInRequest, publisher: Publisher) -> PageResult:
    """Publish a version without a token."""
    running, name = await find_running(context, publisher), request.form.text("name", MAX_NAME)
    tokens = _tokens(running.content)
    kept = [each for each in tokens if each.get("name") != name]
    if len(kept) == len(tokens):
        return NOT_VISIBLE
    fault = await _publish(context, request, publisher, running, kept, f"API token {name} revoked")
    if fault:
        return await show_tokens(context, request, publisher, fault=fault)
    return redirect("/tokens", notice="token-revoked")


async def _publish(
    context: WebContext,
    request: SignedInRequest,
    publisher: Publisher,
    running: Running,
    tokens: list[dict[str, Any]],
    reason: str,
) -> str:
    """Publish a version with these tokens; returns why not, if it cannot be."""
    documents = json.loads(json.dumps(running.content.documents))
    if running.faults or _DOCUMENT not in documents:
        return "the files of this node cannot be published yet; the page Configuration says why"
    documents[_DOCUMENT][_KEY] = tokens
    content = VersionContent(documents, running.content.files)
    faults = await asyncio.to_thread(publisher.find_faults, content)
    if faults:
        return f"the version would have a fault: {faults[0]}"
    if not await context.store.publishing.publish(running.number, content, reason, request.actor):
        return "another version was published meanwhile; try again"
    return ""


def _tokens(content: VersionContent) -> list[dict[str, Any]]:
    found = content.documents.get(_DOCUMENT, {}).get(_KEY)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _describe(entry: dict[str, Any], uses: dict[str, TokenUse]) -> TokenRow:
    form = "hash" if entry.get("tokenHash") else "reference"
    allowed = entry.get("permissions")
    permissions = tuple(map(str, allowed)) if isinstance(allowed, list) else ()
    name, made = str(entry.get("name", "")), str(entry.get("made", ""))[:40]
    use = uses.get(name)
    # A use from before belongs to another token of the same name, which was revoked.
    is_own = use is not None and (not made or date_time(use.last_used) >= made)
    return TokenRow(name, permissions, made, form, use if is_own else None)


async def show_tokens(
    context: WebContext,
    request: SignedInRequest,
    publisher: Publisher,
    *,
    fault: str = "",
    created: tuple[str, str] | None = None,
) -> Response:
    """List the tokens of the running version, with one that was made now."""
    running, uses = await find_running(context, publisher), await context.store.api_keys.token_uses()
    page = await context.page(
        request,
        "tokens.html",
        here="/keys",
        tokens=[_describe(each, uses) for each in _tokens(running.content)],
        running=running,
        permissions=PERMISSIONS,
        fault=fault,
        created=created,
        base=str(request.http.base_url).rstrip("/"),
        certificate=context.installation.certificate,
    )
    return with_status(page, 400 if fault else 200)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/keys", show_keys, "keys.read"),
    PageRoute("POST", "/keys", create_key, "keys.change"),
    PageRoute("POST", "/keys/{id}/revoke", revoke_key, "keys.change"),
    PageRoute("GET", "/tokens", for_publisher(show_tokens), "system.read"),
    PageRoute("POST", "/tokens", create_token, "system.change"),
    PageRoute("POST", "/tokens/revoke", revoke_token, "system.change"),
)
