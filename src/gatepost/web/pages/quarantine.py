"""The quarantine: held mail, with actions on one message or on all selected ones, also by keyboard."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec
from starlette.responses import Response

from gatepost.abby.core_state import Down
from gatepost.api.errors import Failure
from gatepost.ids import canonical
from gatepost.names import normal_address
from gatepost.policy.rules import VERDICTS
from gatepost.scanning.held_mail import Busy, Deleted, DeleteOrder, NotHeld, NotSent, Released, ReleaseOrder
from gatepost.store.held_search import HeldFilter
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import parse_period
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.pages.messages import MessageOnRecord, find_message, parse_evidence, report_wrong_decision
from gatepost.web.pages.messages import render_message as message_page
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

ROWS_ON_A_PAGE = 50
MAX_RECIPIENTS = 100
HELD_VERDICTS = tuple(verdict for verdict in VERDICTS if verdict != "clean")


class ActionResult(msgspec.Struct, frozen=True):
    """The result of an action on one message; `fault` is "" where it succeeded."""

    ggrid: str
    fault: str = ""


Action: TypeAlias = Callable[[WebContext, SignedInRequest, str], Awaitable[ActionResult]]


async def show_quarantine(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Search held mail, newest first."""
    wanted = _parse_filter(request)
    return wanted if isinstance(wanted, Failure) else html_response(await _render_quarantine(context, request, wanted))


async def act_on_selected(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Apply one action to every selected message; the failed ones are listed with their faults."""
    wanted = _parse_filter(request)
    if isinstance(wanted, Failure):
        return wanted
    word = request.form.text("action")
    action = ACTIONS.get(word)
    chosen = list(dict.fromkeys(filter(None, map(canonical, request.form.all("ggrid")[:ROWS_ON_A_PAGE]))))
    if action is None or not chosen:
        return html_response(
            await _render_quarantine(context, request, wanted, faults=[ActionResult("", "no message is selected")]), 400
        )
    done = [await action(context, request, ggrid) for ggrid in chosen]
    faults = [each for each in done if each.fault]
    if faults:
        return html_response(
            await _render_quarantine(context, request, wanted, faults=faults, succeeded=len(done) - len(faults)), 409
        )
    return redirect(f"/quarantine?{request.query.with_field('done', NOTICE_OF_ACTION[word])}")


async def release_message(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Release one message to its recipients, or to the addresses in the form."""
    found = await find_message(context, request)
    if isinstance(found, Failure):
        return found
    stated = request.form.text("recipients", 20_000).replace(",", " ").split()
    recipients = [normal_address(each) for each in stated]
    if len(recipients) > MAX_RECIPIENTS or any("@" not in each for each in recipients):
        return await _render_fault(context, request, found, "enter recipients as addresses such as ann@example.org")
    order = ReleaseOrder(
        found.record.ggrid,
        request.user.tenant,
        by=request.actor,
        recipients=tuple(recipients),
        anywhere=request.may("quarantine.release-anywhere"),
    )
    outcome = await context.held_mail.carry_out(order)
    fault = _explain_failure(outcome)
    return (
        await _render_fault(context, request, found, fault)
        if fault
        else redirect(f"{_message_path(found)}?done=released")
    )


async def delete_message(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Delete one held message."""
    found = await find_message(context, request)
    if isinstance(found, Failure):
        return found
    done = await _delete_one(context, request, found.record.ggrid)
    return (
        await _render_fault(context, request, found, done.fault) if done.fault else redirect("/quarantine?done=deleted")
    )


async def _render_fault(context: WebContext, request: SignedInRequest, found: MessageOnRecord, fault: str) -> Response:
    return html_response(await message_page(context, request, found, fault=fault), 409)


def _message_path(found: MessageOnRecord) -> str:
    return f"/messages/{found.record.ggrid}"


async def _release_one(context: WebContext, request: SignedInRequest, ggrid: str) -> ActionResult:
    order = ReleaseOrder(ggrid, request.user.tenant, by=request.actor)
    return ActionResult(ggrid, _explain_failure(await context.held_mail.carry_out(order)))


async def _delete_one(context: WebContext, request: SignedInRequest, ggrid: str) -> ActionResult:
    order = DeleteOrder(ggrid, request.user.tenant, by=request.actor)
    return ActionResult(ggrid, _explain_failure(await context.held_mail.carry_out(order)))


async def _report_one(context: WebContext, request: SignedInRequest, ggrid: str) -> ActionResult:
    known = await report_wrong_decision(context, request, ggrid, "deliver")
    return ActionResult(ggrid, "" if known else _explain_failure(NotHeld()))


ACTIONS: dict[str, Action] = {"release": _release_one, "delete": _delete_one, "report": _report_one}
NOTICE_OF_ACTION = {"release": "released", "delete": "deleted", "report": "reported"}


def _explain_failure(outcome: Released | Deleted | NotHeld | NotSent | Busy | Down) -> str:
    """Return why an action failed, "" where it succeeded."""
    if isinstance(outcome, NotHeld):
        return "it is no longer held"
    if isinstance(outcome, NotSent):
        return f"{outcome.reason}; the message is still held"
    if isinstance(outcome, Busy):
        return "another release of this message is in progress"
    if isinstance(outcome, Down):
        return "the core that stores it is not answering; try again in a moment"
    return ""


def _parse_filter(request: SignedInRequest) -> HeldFilter | Failure:
    query, tenant = request.query, request.parse_tenant()
    if isinstance(tenant, Failure):
        return tenant
    when = parse_period(query)
    if isinstance(when, Failure):
        return when
    return HeldFilter(
        tenant=tenant,
        verdict=query.text("verdict", 40) or None,
        sender=query.text("sender", 320) or None,
        recipient=query.text("recipient", 320) or None,
        subject=query.text("subject", 200) or None,
        since=when.since,
        until=when.until,
        released=query.has("released"),
        evidence=parse_evidence(query),
    )


async def _render_quarantine(
    context: WebContext,
    request: SignedInRequest,
    wanted: HeldFilter,
    *,
    faults: list[ActionResult] | None = None,
    succeeded: int = 0,
) -> str:
    query = request.query
    return context.renderer.render(
        "quarantine.html",
        request,
        here="/quarantine",
        page=await context.store.search_held(wanted, query.text("before", 200) or None, ROWS_ON_A_PAGE),
        counts=await context.store.held_counts(wanted.tenant),
        query=query,
        scopes=await find_scopes(context, request),
        verdicts=HELD_VERDICTS,
        faults=faults or [],
        succeeded=succeeded,
        narrowed=query.is_filtered,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/quarantine", show_quarantine, "quarantine.read", "search"),
    PageRoute("POST", "/quarantine", act_on_selected, "quarantine.act"),
    PageRoute("POST", "/messages/{ggrid}/release", release_message, "quarantine.act"),
    PageRoute("POST", "/messages/{ggrid}/delete", delete_message, "quarantine.act"),
)
