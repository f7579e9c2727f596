"""Alerts: which events alert whom, by mail and by signed calls, and from how many messages on.

Alerts of events concern the deployment. An alert with a threshold counts what a search finds; a tenant has its own,
whose searches see its mail alone and whose mail goes to addresses of its domains.

They are outputs of events as those of a file are, which the page of settings in force shows.
"""

import asyncio
from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.events.schema import EVENTS
from gatepost.process.hiding import hide_path
from gatepost.settings.events import ALERT_KINDS, MAX_ALERTS, MAX_TENANT_ALERTS, SEVERITIES, WebAlert, build_alert
from gatepost.settings.feeds import WebSettingsError
from gatepost.store.alerts import AlertDefinition, key_of
from gatepost.store.search_language import SearchFault
from gatepost.web.context import WebContext
from gatepost.web.forms import whole_number
from gatepost.web.message_search import find_place
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute

MAX_NAME = 63
NO_ALERT = Failure(NOT_FOUND, "there is no such alert here")
# The first sentence of each kind's description.
MEANINGS = {
    each.__struct_config__.tag: " ".join((each.__doc__ or "").split()).partition(". ")[0].rstrip(".").replace("`", "")
    for each in EVENTS
}
LABELS = {
    "name": "The name",
    "kinds": "The events",
    "recipients": "Recipients",
    "url": "The address",
    "max_per_hour": "The number in an hour",
    "min_severity": "The severity",
    "count": "The number of messages",
    "minutes": "The minutes",
    "quiet": "Quiet hours",
}
REFUSALS = {
    "changed": "The alert was changed meanwhile, or the name is taken. Look at it, and try again.",
    "full": f"There are as many alerts as there may be: {MAX_ALERTS}, and {MAX_TENANT_ALERTS} of each tenant. "
    "Delete one first.",
}


class AlertForm(msgspec.Struct, frozen=True):
    """What was typed. `seen` is when the alert that the author has seen was changed; 0 for a new one."""

    name: str = ""
    alert: WebAlert = WebAlert(kinds=("health.changed", "node.state", "user.signInFailed"))
    seen: int = 0


async def edit_alert(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show the form of an alert: a new one, or one that there is."""
    name, form = request.query.text("name", MAX_NAME), AlertForm()
    if request.query.has("q") or request.user.tenant:
        form = AlertForm(alert=WebAlert(search=request.query.text("q", 2_000), count=20, minutes=10))
    if name:
        found = await _find(context, request, name)
        if found is None:
            return NO_ALERT
        form = AlertForm(found.shown_name, found.alert, found.modified)
    return await _render_form(context, request, form)


async def save_alert(context: WebContext, request: SignedInRequest) -> PageResult:
    """Check and save an alert."""
    form = _read_form(request)
    mistakes = await _check_scope(context, request, form.alert)
    if not form.name or not form.name.isprintable():
        mistakes.append("The name must be printable characters")
    try:
        build_alert(form.alert)
    except WebSettingsError as fault:
        mistakes += [f"{LABELS.get(field, field)} {sentence}" for field, sentence in fault.mistakes]
    if mistakes:
        return with_status(await _render_form(context, request, form, mistakes), 400)
    name = key_of(form.name, request.user.tenant)
    saved = await context.store.alerts.put(name, form.alert, form.seen, request.actor)
    if isinstance(saved, str):
        return with_status(await _render_form(context, request, form, [REFUSALS[saved]]), 409)
    return redirect("/alerts", notice="alert-saved")


async def delete_alert(context: WebContext, request: SignedInRequest) -> PageResult:
    """Delete an alert."""
    name = request.form.text("name", MAX_NAME)
    refused = await context.store.alerts.delete(name, request.actor, request.user.tenant)
    return NO_ALERT if refused else redirect("/alerts", notice="alert-deleted")


async def test_alert(context: WebContext, request: SignedInRequest) -> PageResult:
    """Send one alert to all receivers now, and show what came of it."""
    found = await _find(context, request, request.form.text("name", MAX_NAME))
    send = context.installation.test_alert
    if found is None or send is None:
        return NO_ALERT
    await context.store.audit.note("system.testEvent", request.actor, request.user.tenant, sample=[found.shown_name])
    async with context.examining:
        fault = await asyncio.to_thread(send, found.alert)
    return await show_alerts(context, request, tried=(found.name, fault))


async def _list_own(context: WebContext, request: SignedInRequest) -> list[AlertDefinition]:
    """The alerts of the user's tenant, or those of the deployment."""
    own = request.user.tenant or ""
    return [each for each in await context.store.alerts.all() if each.alert.tenant == own]


async def _find(context: WebContext, request: SignedInRequest, name: str) -> AlertDefinition | None:
    return next((each for each in await _list_own(context, request) if each.shown_name == name), None)


async def _check_scope(context: WebContext, request: SignedInRequest, alert: WebAlert) -> list[str]:
    """Return what the author may not have: a search that cannot be read, events of the deployment for a tenant, mail to
    strangers."""
    mistakes: list[str] = []
    if alert.has_threshold:
        place, _ = await find_place(context, request, "/messages")
        found = await context.store.messages.read_search(alert.search, place, request.user.tenant)
        if isinstance(found, SearchFault):
            mistakes.append(f"The search cannot be read: {found.message}")
    elif request.user.tenant:
        mistakes.append("Alerts of a tenant have a threshold: enter a number of messages")
    if request.user.tenant and alert.recipients:
        own = await context.store.tenants.find(request.user.tenant)
        domains = set(own.domains) if own else set()
        if any(each.rpartition("@")[2].lower() not in domains for each in alert.recipients):
            mistakes.append("Recipients must be addresses in the domains of your tenant")
    return mistakes


def _read_form(request: SignedInRequest) -> AlertForm:
    form = request.form
    recipients = form.raw_text("recipients").replace(",", " ").split()
    alert = WebAlert(
        kinds=tuple(kind for kind in ALERT_KINDS if kind in form.all("kinds")),
        min_severity=form.text("min_severity", 20),
        max_per_hour=whole_number(form.text("max_per_hour", 4)),
        recipients=tuple(dict.fromkeys(recipients)),
        url=form.text("url", 3_000),
        search=form.text("search", 2_000),
        count=whole_number(form.text("count", 6)),
        minutes=whole_number(form.text("minutes", 5)),
        tenant=request.user.tenant or "",
        quiet=form.text("quiet", 20),
        zone=request.user.zone,
    )
    return AlertForm(form.text("name", MAX_NAME), alert, whole_number(form.text("seen", 18)))


async def show_alerts(
    context: WebContext, request: SignedInRequest, *, tried: tuple[str, str] | None = None
) -> Response:
    """List all alerts; `tried` is one that was sent now, and why that failed."""
    may_know = request.may("alerts.change")
    return await context.page(
        request,
        "alerts.html",
        alerts=[
            (each, each.alert.url if may_know else hide_path(each.alert.url) if each.alert.url else "")
            for each in await _list_own(context, request)
        ],
        can_test=context.installation.test_alert is not None,
        tried=tried,
    )


async def _render_form(
    context: WebContext, request: SignedInRequest, form: AlertForm, mistakes: Sequence[str] = ()
) -> Response:
    return await context.page(
        request,
        "alert-form.html",
        form=form,
        alert=form.alert,
        kinds=[(kind, MEANINGS[kind]) for kind in ALERT_KINDS],
        zone_name=request.user.zone or "UTC",
        severities=SEVERITIES,
        mistakes=mistakes,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/alerts", show_alerts, "alerts.read"),
    PageRoute("GET", "/alerts/edit", edit_alert, "alerts.change"),
    PageRoute("POST", "/alerts/edit", save_alert, "alerts.change"),
    PageRoute("POST", "/alerts/delete", delete_alert, "alerts.change"),
    PageRoute("POST", "/alerts/test", test_alert, "alerts.change", "dry run"),
)
