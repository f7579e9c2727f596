"""Tenants and users: the customers of a deployment with the domains whose mail is theirs, and who may sign in.

A user has a role, for all tenants or for one. An administrator of a tenant manages the users of that tenant. Users
cannot change their own role or disable themselves.
"""

from collections.abc import Sequence
from typing import cast

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.ids import canonical
from gatepost.store.errors import LastAdministrator, NameTaken, NotFound, TenantFull
from gatepost.store.tenants import Tenant
from gatepost.store.users import Role, User
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.credentials import generate_password
from gatepost.web.list_access import parse_domains
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.request import NOT_VISIBLE, ROLE_MEANINGS, ROLES, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

MAX_TENANT_NAME = 200
MAX_DOMAINS = 10_000


async def create_tenant(context: WebContext, request: SignedInRequest) -> PageResult:
    """Create a tenant."""
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
    """List all tenants."""
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
    """Delete a user."""
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
)
