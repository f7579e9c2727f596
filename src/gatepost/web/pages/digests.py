"""Digests of a tenant: whether recipients get them, when and in which words, what came of them, and the senders that
recipients allow and block for themselves."""

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.digests.languages import list_languages
from gatepost.lists.addresses import normalise_tenant_domain
from gatepost.lists.entries import ListRefusal
from gatepost.store.digests import MAX_DOMAINS, MAX_INTRO, DigestPreferences, DigestScope
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import Form
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute
from gatepost.web.time_zones import zone_names

ENTRIES_ON_A_PAGE = 100
NO_TENANT = "Mail without a tenant"


async def show_digests(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """List the scopes that the user may see, with the state of their digests."""
    scopes = await find_scopes(context, request)
    known = {each.scope: each for each in await context.store.digests.scopes()}
    runs = {run.scope: run for run in await context.store.digests.runs()}
    uids = [*([None] if scopes.has_all_tenants else []), *(tenant.uid for tenant in scopes.tenants)]
    lines = [(uid, _name(scopes.name(uid), uid), known.get(uid), runs.get(uid)) for uid in uids]
    return html_response(await context.renderer.render_in_turns("digests.html", request, here="/digests", lines=lines))


async def show_scope(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show the preferences of a scope, and the entries of its recipients."""
    scope = await _find_scope(context, request)
    if isinstance(scope, Failure):
        return scope
    found = await context.store.digests.scope(scope)
    return html_response(await _render(context, request, found, "\n".join(found.preferences.domains)))


async def save_scope(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Save the preferences of a scope."""
    scope = await _find_scope(context, request)
    if isinstance(scope, Failure):
        return scope
    typed = request.form.raw_text("domains")
    seen = request.form.text("seen", 18)
    wanted = _read_preferences(request.form)
    faults = _find_faults(scope, wanted, typed)
    if faults:
        shown = DigestScope(scope, wanted, int(seen) if seen.isdigit() else 0)
        return html_response(await _render(context, request, shown, typed, faults), 400)
    saved = await context.store.digests.put_preferences(
        scope, wanted, int(seen) if seen.isdigit() else -1, request.actor
    )
    return redirect(f"/digests/{scope or GLOBAL}", notice="digests-saved" if saved else "digests-changed")


async def remove_entry(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Remove an entry of a recipient."""
    scope = await _find_scope(context, request)
    if isinstance(scope, Failure):
        return scope
    form = request.form
    removed = await context.store.recipients.delete_entries(
        scope, form.text("address", 500), [form.text("sender", 500)], request.actor
    )
    return redirect(f"/digests/{scope or GLOBAL}", removed, notice="entries-removed")


async def _find_scope(context: WebContext, request: SignedInRequest) -> str | Failure | None:
    scope = request.parse_scope(request.path_part("scope"))
    if isinstance(scope, str) and await context.store.tenants.find(scope) is None:
        return NOT_VISIBLE
    return scope


def _name(name: str, uid: str | None) -> str:
    return name if uid else NO_TENANT


def _read_preferences(form: Form) -> DigestPreferences:
    hour = form.text("hour", 2)
    domains = [normalise_tenant_domain(line.strip()) for line in form.raw_text("domains").splitlines() if line.strip()]
    return DigestPreferences(
        enabled=form.has("enabled"),
        language=form.text("language", 20),
        hour=int(hour) if hour.isascii() and hour.isdigit() else 24,
        zone=form.text("zone", 60),
        intro=form.raw_text("intro").strip(),
        own_entries=form.has("own_entries"),
        domains=tuple(dict.fromkeys(each.key for each in domains if not isinstance(each, ListRefusal))),
    )


def _find_faults(scope: str | None, wanted: DigestPreferences, typed: str) -> list[str]:
    faults = [
        f"line {number}: {line.strip()[:100]} {refused.reason}"
        for number, line in enumerate(typed.splitlines(), 1)
        if line.strip() and isinstance(refused := normalise_tenant_domain(line.strip()), ListRefusal)
    ]
    if wanted.hour > 23:
        faults.append("the hour must be a number from 0 to 23")
    if wanted.language not in dict(list_languages()):
        faults.append("this language is not known")
    if wanted.zone not in ("", *zone_names()):
        faults.append("this time zone is not known")
    if len(wanted.intro) > MAX_INTRO:
        faults.append(f"the introduction may have at most {MAX_INTRO:,} characters")
    if len(wanted.domains) > MAX_DOMAINS:
        faults.append(f"at most {MAX_DOMAINS:,} domains can be named")
    if scope is None and wanted.enabled and not wanted.domains:
        faults.append("name the domains whose recipients get digests; such mail can be addressed to anybody")
    return faults[:20]


async def _render(
    context: WebContext, request: SignedInRequest, shown: DigestScope, typed: str, faults: list[str] | None = None
) -> str:
    scopes = await find_scopes(context, request)
    after = (request.query.text("after", 500), request.query.text("sender", 500))
    entries = await context.store.recipients.entries(shown.scope, after, ENTRIES_ON_A_PAGE + 1)
    runs = {run.scope: run for run in await context.store.digests.runs()}
    return await context.renderer.render_in_turns(
        "digest-scope.html",
        request,
        here="/digests",
        name=_name(scopes.name(shown.scope), shown.scope),
        path=f"/digests/{shown.scope or GLOBAL}",
        shown=shown,
        preferences=msgspec.structs.replace(shown.preferences),
        typed=typed,
        run=runs.get(shown.scope),
        counts=await context.store.digests.counts(shown.scope),
        languages=list_languages(),
        zones=zone_names(),
        entries=entries[:ENTRIES_ON_A_PAGE],
        has_more=len(entries) > ENTRIES_ON_A_PAGE,
        faults=faults or [],
        most=MAX_INTRO,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/digests", show_digests, "digests.read"),
    PageRoute("GET", "/digests/{scope}", show_scope, "digests.read"),
    PageRoute("POST", "/digests/{scope}", save_scope, "digests.change"),
    PageRoute("POST", "/digests/{scope}/entries", remove_entry, "digests.change"),
)
