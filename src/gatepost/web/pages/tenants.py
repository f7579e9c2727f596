"""Tenants: the customers of a deployment, and the domains whose mail is theirs."""

from collections.abc import Sequence

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.ids import canonical
from gatepost.lists.addresses import DOMAIN
from gatepost.lists.entries import ListRefusal
from gatepost.store.errors import NameTaken, NotFound
from gatepost.store.tenants import Tenant
from gatepost.web.context import WebContext
from gatepost.web.request import NOT_HERE, SignedInRequest
from gatepost.web.responses import html_response, redirect
from gatepost.web.site import Page, Row

LONGEST_NAME = 200
MAX_DOMAINS = 10_000


async def show(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """All tenants."""
    return html_response(await _page(desk, visit))


async def create(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Make a tenant."""
    name = visit.form.text("name", LONGEST_NAME)
    if not name or not name.isprintable():
        return html_response(await _page(desk, visit, fault="a tenant needs a name, of printable characters"), 400)
    made = await desk.store.create_tenant(name, visit.actor)
    if isinstance(made, NameTaken):
        return html_response(await _page(desk, visit, fault=f"there is a tenant called {made.name} already"), 409)
    return redirect(f"/tenants/{made.uid}?done=tenant-created")


async def one(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """One tenant and its domains."""
    tenant = await _tenant(desk, visit)
    return tenant if isinstance(tenant, Failure) else html_response(await _one(desk, visit, tenant))


async def set_domains(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Its domains from now on, one in a line."""
    tenant = await _tenant(desk, visit)
    if isinstance(tenant, Failure):
        return tenant
    typed = visit.form.whole("domains")
    normal = [DOMAIN.normalise(line) for line in typed.split()]
    faults = [
        f"{line[:100]} {each.reason}"
        for line, each in zip(typed.split(), normal, strict=True)
        if isinstance(each, ListRefusal)
    ]
    if len(normal) > MAX_DOMAINS:
        faults = [f"a tenant has at most {MAX_DOMAINS:,} domains"]
    if faults:
        return html_response(await _one(desk, visit, tenant, typed=typed, faults=faults), 400)
    keys = list(dict.fromkeys(each.key for each in normal if not isinstance(each, ListRefusal)))
    outcome = await desk.store.set_tenant_domains(tenant.uid, keys, visit.actor)
    if isinstance(outcome, NotFound):
        return NOT_HERE
    if isinstance(outcome, NameTaken):
        faults = [f"{outcome.name} is the domain of another tenant, {outcome.by}"]
        return html_response(await _one(desk, visit, tenant, typed=typed, faults=faults), 409)
    return redirect(f"/tenants/{tenant.uid}?done=changed")


async def delete(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Delete a tenant, for somebody who typed its name."""
    tenant = await _tenant(desk, visit)
    if isinstance(tenant, Failure):
        return tenant
    if visit.form.text("name", LONGEST_NAME) != tenant.name:
        fault = "to delete it, type its name exactly as it is shown"
        return html_response(await _one(desk, visit, tenant, faults=[fault]), 400)
    await desk.store.delete_tenant(tenant.uid, visit.actor)
    return redirect("/tenants?done=tenant-deleted")


async def _tenant(desk: WebContext, visit: SignedInRequest) -> Tenant | Failure:
    uid = canonical(visit.part("uid"))
    return (await desk.store.tenant(uid) if uid else None) or NOT_HERE


async def _page(desk: WebContext, visit: SignedInRequest, *, fault: str = "") -> str:
    tenants = await desk.store.tenants()
    return desk.renderer.page("tenants.html", visit, here="/tenants", tenants=tenants, fault=fault)


async def _one(
    desk: WebContext, visit: SignedInRequest, tenant: Tenant, *, typed: str | None = None, faults: Sequence[str] = ()
) -> str:
    return desk.renderer.page(
        "tenant.html",
        visit,
        here="/tenants",
        tenant=tenant,
        typed="\n".join(tenant.domains) if typed is None else typed,
        faults=faults,
    )


ROWS: tuple[Row, ...] = (
    Page("GET", "/tenants", show, "tenants.read"),
    Page("POST", "/tenants", create, "tenants.change"),
    Page("GET", "/tenants/{uid}", one, "tenants.read"),
    Page("POST", "/tenants/{uid}/domains", set_domains, "tenants.change"),
    Page("POST", "/tenants/{uid}/delete", delete, "tenants.change"),
)
