"""Tenants: the customers of a deployment, and the domains whose mail belongs to them."""

from collections.abc import Sequence

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.ids import canonical
from gatepost.lists.addresses import normalise_tenant_domain
from gatepost.lists.entries import ListRefusal
from gatepost.store.errors import NameTaken, NotFound
from gatepost.store.tenants import Tenant
from gatepost.web.context import WebContext
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

MAX_NAME = 200
MAX_DOMAINS = 10_000


async def show_tenants(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """List all tenants."""
    return html_response(await _render_tenants(context, request))


async def create_tenant(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Create a tenant."""
    name = request.form.text("name", MAX_NAME)
    if not name or not name.isprintable():
        return html_response(await _render_tenants(context, request, fault="enter a name of printable characters"), 400)
    created = await context.store.tenants.create(name, request.actor)
    if isinstance(created, NameTaken):
        return html_response(
            await _render_tenants(context, request, fault=f"a tenant named {created.name} already exists"), 409
        )
    return redirect(f"/tenants/{created.uid}", notice="tenant-created")


async def show_tenant(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show one tenant and its domains."""
    tenant = await _find_tenant(context, request)
    return tenant if isinstance(tenant, Failure) else html_response(await _render_tenant(context, request, tenant))


async def set_domains(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Replace the domains of a tenant, one in each line."""
    tenant = await _find_tenant(context, request)
    if isinstance(tenant, Failure):
        return tenant
    typed = request.form.raw_text("domains")
    lines = [(number, line.strip()) for number, line in enumerate(typed.splitlines(), 1) if line.strip()]
    normal = [normalise_tenant_domain(line) for _, line in lines]
    faults = [
        f"line {number}: {line[:100]} {each.reason}"
        for (number, line), each in zip(lines, normal, strict=True)
        if isinstance(each, ListRefusal)
    ]
    if len(normal) > MAX_DOMAINS:
        faults = [f"a tenant can have at most {MAX_DOMAINS:,} domains"]
    if faults:
        return html_response(await _render_tenant(context, request, tenant, typed=typed, faults=faults), 400)
    keys = list(dict.fromkeys(each.key for each in normal if not isinstance(each, ListRefusal)))
    outcome = await context.store.tenants.set_domains(tenant.uid, keys, request.actor)
    if isinstance(outcome, NotFound):
        return NOT_VISIBLE
    if isinstance(outcome, NameTaken):
        faults = [f"{outcome.name} belongs to another tenant, {outcome.by}"]
        return html_response(await _render_tenant(context, request, tenant, typed=typed, faults=faults), 409)
    return redirect(f"/tenants/{tenant.uid}", notice="changed")


async def delete_tenant(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Delete a tenant, if the user has typed its name."""
    tenant = await _find_tenant(context, request)
    if isinstance(tenant, Failure):
        return tenant
    if request.form.text("name", MAX_NAME) != tenant.name:
        fault = "to delete the tenant, type its name exactly as shown"
        return html_response(await _render_tenant(context, request, tenant, faults=[fault]), 400)
    await context.store.tenants.delete(tenant.uid, request.actor)
    return redirect("/tenants", notice="tenant-deleted")


async def _find_tenant(context: WebContext, request: SignedInRequest) -> Tenant | Failure:
    uid = canonical(request.path_part("uid"))
    return (await context.store.tenants.find(uid) if uid else None) or NOT_VISIBLE


async def _render_tenants(context: WebContext, request: SignedInRequest, *, fault: str = "") -> str:
    tenants = await context.store.tenants.all()
    return await context.renderer.render_in_turns(
        "tenants.html", request, here="/tenants", tenants=tenants, fault=fault
    )


async def _render_tenant(
    context: WebContext,
    request: SignedInRequest,
    tenant: Tenant,
    *,
    typed: str | None = None,
    faults: Sequence[str] = (),
) -> str:
    return await context.renderer.render_in_turns(
        "tenant.html",
        request,
        here="/tenants",
        tenant=tenant,
        typed="\n".join(tenant.domains) if typed is None else typed,
        faults=faults,
        is_strict=context.sign_in.is_tenant_strict(tenant.uid),
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/tenants", show_tenants, "tenants.read"),
    PageRoute("POST", "/tenants", create_tenant, "tenants.change"),
    PageRoute("GET", "/tenants/{uid}", show_tenant, "tenants.read"),
    PageRoute("POST", "/tenants/{uid}/domains", set_domains, "tenants.change"),
    PageRoute("POST", "/tenants/{uid}/delete", delete_tenant, "tenants.change"),
)
