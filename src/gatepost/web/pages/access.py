"""Who has access: tenants with the domains whose mail is theirs, users, and the credentials of programs.

A user has a role, for all tenants or for one. An administrator of a tenant manages the users of that tenant. Users
cannot change their own role or disable themselves.

An API key of the List API is created here, shown once, listed with its last use, and revoked. Tokens of the Email
Scanning API are settings (`staticApiTokens` in abby.yml), so that abby needs no storage to know its callers: each
change is a published version. A token that is made here is shown once, and the version has its hash.
"""

import asyncio
import hashlib
import json
import secrets
from collections.abc import Sequence
from typing import Any, cast, get_args

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.ids import canonical, new_id
from gatepost.settings.keys import TokenPermission
from gatepost.store.api_keys import ApiKey, TokenUse
from gatepost.store.errors import LastAdministrator, NameTaken, NotFound, TenantFull
from gatepost.store.publishing import VersionContent
from gatepost.store.tenants import Tenant
from gatepost.store.users import Role, User
from gatepost.times import date_time
from gatepost.web.configuration import Publisher
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.credentials import generate_password
from gatepost.web.forms import Form, parse_expiry
from gatepost.web.list_access import parse_domains
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.pages.configuration import Running, find_running, for_publisher
from gatepost.web.request import NOT_VISIBLE, ROLE_MEANINGS, ROLES, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

MAX_TENANT_NAME = 200
MAX_DOMAINS = 10_000


async def create_tenant(context: WebContext, request: SignedInRequest) -> PageResult:
    name = request.form.text("name", MAX_TENANT_NAME)
    if not name or not name.isprintable():
        return with_status(await show_tenants(context, request, fault="enter a name of printable characters"), 400)
    created = await context.store.tenants.create(name, request.actor)
    if isinstance(created, NameTaken):
        fault = f"a tenant named {created.name} already exists"
        return with_status(await show_tenants(context, request, fault=fault), 409)
    return redirect(f"/tenants/{created.uid}", notice="tenant-created")


async def _find_tenant(context: WebContext, request: SignedInRequest) -> Tenant | Failure:
    uid = canonical(request.path_part("uid"))
    return (await context.store.tenants.find(uid) if uid else None) or NOT_VISIBLE


for_tenant = about(_find_tenant)


@for_tenant
async def set_domains(context: WebContext, request: SignedInRequest, tenant: Tenant) -> PageResult:
    """Replace the domains of a tenant, one in each line."""
    typed = request.form.raw_text("domains")
    keys, faults = parse_domains(typed)
    if len(keys) > MAX_DOMAINS:
        faults = [f"a tenant can have at most {MAX_DOMAINS:,} domains"]
    if faults:
        return with_status(await show_tenant(context, request, tenant, typed=typed, faults=faults), 400)
    outcome = await context.store.tenants.set_domains(tenant.uid, keys, request.actor)
    if isinstance(outcome, NotFound):
        return NOT_VISIBLE
    if isinstance(outcome, NameTaken):
        faults = [f"{outcome.name} belongs to another tenant, {outcome.by}"]
        return with_status(await show_tenant(context, request, tenant, typed=typed, faults=faults), 409)
    return redirect(f"/tenants/{tenant.uid}", notice="changed")


@for_tenant
async def delete_tenant(context: WebContext, request: SignedInRequest, tenant: Tenant) -> PageResult:
    """Delete a tenant, if the user has typed its name."""
    if request.form.text("name", MAX_TENANT_NAME) != tenant.name:
        fault = "to delete the tenant, type its name exactly as shown"
        return with_status(await show_tenant(context, request, tenant, faults=[fault]), 400)
    await context.store.tenants.delete(tenant.uid, request.actor)
    return redirect("/tenants", notice="tenant-deleted")


async def show_tenants(context: WebContext, request: SignedInRequest, *, fault: str = "") -> Response:
    tenants = await context.store.tenants.all()
    return await context.page(request, "tenants.html", tenants=tenants, fault=fault)


async def show_tenant(
    context: WebContext,
    request: SignedInRequest,
    tenant: Tenant,
    *,
    typed: str | None = None,
    faults: Sequence[str] = (),
) -> Response:
    """Show one tenant and its domains."""
    return await context.page(
        request,
        "tenant.html",
        tenant=tenant,
        typed="\n".join(tenant.domains) if typed is None else typed,
        faults=faults,
        is_strict=context.sign_in.is_tenant_strict(tenant.uid),
    )


MAX_USER_NAME = 100
LAST_ADMINISTRATOR = "this is the last administrator with access to all tenants; create another one first"
OWN_ACCOUNT = "you cannot change your own account here; ask another administrator"

NO_PASSWORD = "this user signs in through OpenID Connect and has no password here"  # noqa: S105


async def create_user(context: WebContext, request: SignedInRequest) -> PageResult:
    """Create a user with a random password, which is shown in this response only."""
    scope = request.parse_scope(request.form.text("scope"))
    if isinstance(scope, Failure):
        return scope
    name, role = request.form.text("name", MAX_USER_NAME), request.form.text("role")
    if not name or not name.isprintable():
        return with_status(await show_users(context, request, fault="enter a name of printable characters"), 400)
    if role not in ROLES:
        return with_status(await show_users(context, request, fault="choose a role"), 400)
    password = generate_password()
    hashed = await context.passwords.hash(password)
    created = await context.store.users.create(name, cast(Role, role), scope, hashed, request.actor, must_change=True)
    if isinstance(created, NotFound):
        return NOT_VISIBLE
    if isinstance(created, TenantFull):
        return with_status(await show_users(context, request, fault=created.explanation), 409)
    if isinstance(created, NameTaken):
        fault = f"a user named {created.name} already exists"
        return with_status(await show_users(context, request, fault=fault), 409)
    return await show_users(context, request, new_password=(created, password))


async def _find_user(context: WebContext, request: SignedInRequest) -> User | Failure:
    """Return the user that the path names, if the signed-in user may manage them."""
    user = await context.store.users.find(request.path_part("uid"))
    if user is None or (request.user.tenant and user.tenant != request.user.tenant):
        return NOT_VISIBLE
    return user


for_user = about(_find_user)


@for_user
async def change_user(context: WebContext, request: SignedInRequest, user: User) -> PageResult:
    """Change the role of a user, or disable or enable the user."""
    if user.uid == request.user.uid:
        return with_status(await show_users(context, request, fault=OWN_ACCOUNT), 409)
    role, disabled = request.form.text("role"), request.form.text("disabled")
    outcome = await context.store.users.update(
        user.uid,
        by=request.actor,
        role=cast(Role, role) if role in ROLES else None,
        disabled={"yes": True, "no": False}.get(disabled),
    )
    return await _answer_change(context, request, outcome, "changed")


@for_user
async def reset_password(context: WebContext, request: SignedInRequest, user: User) -> PageResult:
    """Set a random password for a user who lost theirs; the form can remove the second factor as well."""
    if user.uid == request.user.uid:
        return redirect("/account")
    if user.external:
        return with_status(await show_users(context, request, fault=NO_PASSWORD), 409)
    password = generate_password()
    await context.store.users.set_password(
        user.uid, await context.passwords.hash(password), request.actor, must_change=True
    )
    if request.form.has("totp"):
        await context.store.second_factors.forget(user.uid, request.actor)
    return await show_users(context, request, new_password=(user, password))


@for_user
async def delete_user(context: WebContext, request: SignedInRequest, user: User) -> PageResult:
    if user.uid == request.user.uid:
        return with_status(await show_users(context, request, fault=OWN_ACCOUNT), 409)
    outcome = await context.store.users.delete(user.uid, request.actor)
    return await _answer_change(context, request, outcome, "user-deleted")


async def _answer_change(
    context: WebContext, request: SignedInRequest, outcome: User | NotFound | LastAdministrator, done: str
) -> PageResult:
    if isinstance(outcome, NotFound):
        return NOT_VISIBLE
    if isinstance(outcome, LastAdministrator):
        return with_status(await show_users(context, request, fault=LAST_ADMINISTRATOR), 409)
    return redirect("/users", notice=done)


async def show_users(
    context: WebContext, request: SignedInRequest, *, fault: str = "", new_password: tuple[User, str] | None = None
) -> Response:
    """List all users that the user may see, with the password of one that was set now."""
    return await context.page(
        request,
        "users.html",
        users=await context.store.users.all(request.user.tenant),
        key_uses=await context.store.second_factors.security_key_uses(),
        needs_second_factor=context.sign_in.needs_second_factor,
        scopes=await find_scopes(context, request),
        meaning=ROLE_MEANINGS,
        fault=fault,
        new_password=new_password,
        base=str(request.http.base_url).rstrip("/"),
    )


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
    tenant: str | None = None


@for_publisher
async def create_token(context: WebContext, request: SignedInRequest, publisher: Publisher) -> PageResult:
    """Make a token, publish its hash, and show it in this response only."""
    running = await find_running(context, publisher)
    name, allowed = request.form.text("name", MAX_NAME), [each for each in PERMISSIONS if request.form.has(each)]
    tokens, scope = _tokens(running.content), request.parse_scope(request.form.text("scope"))
    if isinstance(scope, Failure) or (scope and not await context.store.tenants.find(scope)):
        return NOT_VISIBLE
    if not name or not name.isprintable() or "${" in name:
        return await show_tokens(context, request, publisher, fault="enter a name of printable characters")
    if any(each.get("name") == name for each in tokens) or len(tokens) >= MAX_TOKENS:
        return await show_tokens(context, request, publisher, fault="a token has this name, or there are too many")
    token = secrets.token_hex(TOKEN_BYTES)
    made = {"name": name, "tokenHash": hashlib.sha256(token.encode()).hexdigest(), "made": date_time(context.now())}
    entry = {**made, **({"permissions": allowed} if allowed else {}), **({"tenant": scope} if scope else {})}
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
    tenant = str(entry["tenant"]) if entry.get("tenant") else None
    return TokenRow(name, permissions, made, form, use if is_own else None, tenant)


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
        scopes=await find_scopes(context, request),
        fault=fault,
        created=created,
        base=str(request.http.base_url).rstrip("/"),
        certificate=context.installation.certificate,
    )
    return with_status(page, 400 if fault else 200)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/tenants", show_tenants, "tenants.read"),
    PageRoute("POST", "/tenants", create_tenant, "tenants.change"),
    PageRoute("GET", "/tenants/{uid}", for_tenant(show_tenant), "tenants.read"),
    PageRoute("POST", "/tenants/{uid}/domains", set_domains, "tenants.change"),
    PageRoute("POST", "/tenants/{uid}/delete", delete_tenant, "tenants.change"),
    PageRoute("GET", "/users", show_users, "users.read"),
    PageRoute("POST", "/users", create_user, "users.change"),
    PageRoute("POST", "/users/{uid}", change_user, "users.change"),
    PageRoute("POST", "/users/{uid}/password", reset_password, "users.change"),
    PageRoute("POST", "/users/{uid}/delete", delete_user, "users.change"),
    PageRoute("GET", "/keys", show_keys, "keys.read"),
    PageRoute("POST", "/keys", create_key, "keys.change"),
    PageRoute("POST", "/keys/{id}/revoke", revoke_key, "keys.change"),
    PageRoute("GET", "/tokens", for_publisher(show_tokens), "system.read"),
    PageRoute("POST", "/tokens", create_token, "system.change"),
    PageRoute("POST", "/tokens/revoke", revoke_token, "system.change"),
)
