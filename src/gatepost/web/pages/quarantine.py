"""The quarantine: held mail, with actions on one message, on all selected ones or on all that match.

A deletion can be taken back for some days. A release cannot, so it is confirmed on a page of its own, which says how
many messages of which verdicts it is about. Work on many messages goes on in the background (`quarantine_work`).
"""

from urllib.parse import urlencode

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.ids import canonical
from gatepost.names import normal_address
from gatepost.scanning.held_mail import DANGEROUS_VERDICTS, ReleaseOrder
from gatepost.store.bulk_actions import MAX_ITEMS
from gatepost.store.held_search import HeldFilter
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import LAST_PERIODS
from gatepost.web.held_places import SORTED_ROWS, find_neighbours, is_sorted, list_of, sort_held, tail_of
from gatepost.web.message_lines import MailGroup, group_campaigns
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.pages.list_changes import preview_senders
from gatepost.web.pages.messages import MessageOnRecord, find_message
from gatepost.web.pages.messages import render_message as message_page
from gatepost.web.pages.quarantine_work import ACTIONS, explain_failure, run_work
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute
from gatepost.web.search_fields import HELD_VERDICTS, MORE_FIELDS, SORTS, STATES, parse_held_filter

ROWS_ON_A_PAGE = 50
MAX_RECIPIENTS = 100
MAY_NOT_RELEASE = "releasing malware and phishing is a right of its own; ask an administrator"
# The action that leads to a list instead of changing messages.
BLOCK = "block"
NOTHING_SELECTED = "no message is selected"


async def show_quarantine(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Search held mail, newest first."""
    wanted = _parse_filter(context, request)
    return wanted if isinstance(wanted, Failure) else html_response(await _render_quarantine(context, request, wanted))


async def act_on_selected(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Apply one action to every selected message, or to all that match; a release is confirmed first."""
    wanted = _parse_filter(context, request)
    if isinstance(wanted, Failure):
        return wanted
    word, back = request.form.text("action"), request.query.with_field("again", "")
    if word == "none":
        return redirect(f"/quarantine?{back}".rstrip("?"))
    chosen = await _find_all(context, wanted) if request.form.has("all") else _parse_selected(request)
    if word not in (*ACTIONS, BLOCK) or not chosen:
        page = await _render_quarantine(context, request, wanted, fault=NOTHING_SELECTED)
        return html_response(page, 400)
    if word == BLOCK:
        return await preview_senders(context, request, chosen, wanted.tenant, back)
    work = await context.store.bulk_actions.create(request.user.uid, word, chosen)
    if word == "release" or request.form.has("all"):
        return redirect(f"/quarantine/work/{work.id}?{urlencode({'back': back})}")
    return await run_work(context, request, work, back)


def _parse_selected(request: SignedInRequest) -> list[str]:
    """The ids of the selected messages; the value of a group has several."""
    values = (each for value in request.form.all("ggrid")[:MAX_ITEMS] for each in value.split(",")[:SORTED_ROWS])
    return list(dict.fromkeys(filter(None, map(canonical, values))))[:MAX_ITEMS]


async def _find_all(context: WebContext, wanted: HeldFilter) -> list[str]:
    """The ids of all messages that match and can be acted on, at most as many as one work can have."""
    found: list[str] = []
    before: str | None = None
    while len(found) < MAX_ITEMS:
        page = await context.store.quarantine.search(wanted, before, 500)
        found += [row.record.ggrid for row in page.rows if row.state in ("held", "deleted")]
        before = page.next
        if before is None:
            break
    return found[:MAX_ITEMS]


async def release_message(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Release one message to its recipients, or to the addresses in the form, once the user has confirmed it."""
    found = await find_message(context, request)
    if isinstance(found, Failure):
        return found
    stated = request.form.text("recipients", 20_000).replace(",", " ").split()
    recipients = [normal_address(each) for each in stated]
    if len(recipients) > MAX_RECIPIENTS or any("@" not in each for each in recipients):
        return await _render_fault(context, request, found, "enter recipients as addresses such as ann@example.org")
    if found.record.report.verdict in DANGEROUS_VERDICTS and not request.may("quarantine.release-dangerous"):
        record = found.record
        await context.store.audit.note_failed_release(
            record.ggrid, record.envelope.tenant, request.actor, MAY_NOT_RELEASE
        )
        return await _render_fault(context, request, found, MAY_NOT_RELEASE)
    if not request.form.has("sure"):
        return html_response(
            await context.renderer.render_in_turns(
                "release.html",
                request,
                here="/quarantine",
                record=found.record,
                report=found.record.report,
                recipients=recipients or found.record.envelope.recipients,
                stated=" ".join(stated),
                place=tail_of(request),
            )
        )
    order = ReleaseOrder(
        found.record.ggrid,
        request.user.tenant,
        by=request.actor,
        recipients=tuple(recipients),
        anywhere=request.may("quarantine.release-anywhere"),
        dangerous=request.may("quarantine.release-dangerous"),
    )
    fault = explain_failure(await context.held_mail.carry_out(order), request)
    if fault:
        return await _render_fault(context, request, found, fault)
    return redirect(f"/messages/{found.record.ggrid}{tail_of(request)}", notice="released")


async def delete_message(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Delete one held message, and go on to the next one of the list that the user works on."""
    found = await find_message(context, request)
    if isinstance(found, Failure):
        return found
    beside = await find_neighbours(context, request, found.held) if found.held else None
    work = await context.store.bulk_actions.create(request.user.uid, "delete", [found.record.ggrid])
    following = beside.following if beside else None
    then = f"/messages/{following}{tail_of(request)}" if following else list_of(request)
    return await run_work(context, request, work, request.query.raw_text("in"), then=then)


async def _render_fault(context: WebContext, request: SignedInRequest, found: MessageOnRecord, fault: str) -> Response:
    return html_response(await message_page(context, request, found, fault=fault), 409)


def _parse_filter(context: WebContext, request: SignedInRequest) -> HeldFilter | Failure:
    tenant = request.parse_tenant()
    return tenant if isinstance(tenant, Failure) else parse_held_filter(request.query, tenant, context.now())


async def _render_quarantine(
    context: WebContext, request: SignedInRequest, wanted: HeldFilter, *, fault: str = ""
) -> str:
    query = request.query
    limit = SORTED_ROWS if query.has("group") or is_sorted(query) else ROWS_ON_A_PAGE
    page = await context.store.quarantine.search(wanted, query.text("before", 200) or None, limit)
    rows = sort_held(page.rows, query)
    groups = group_campaigns(rows) if query.has("group") else [MailGroup((row,)) for row in rows]
    return await context.renderer.render_in_turns(
        "quarantine.html",
        request,
        here="/quarantine",
        page=page,
        groups=groups,
        counts=await context.store.quarantine.counts(wanted.tenant),
        count=await context.store.quarantine.count(wanted) if query.is_filtered and page.rows else None,
        query=query,
        place=query.with_field("before", query.text("before", 200) if is_sorted(query) else ""),
        sorts=SORTS,
        is_sorted=is_sorted(query),
        sorted_rows=SORTED_ROWS,
        scopes=await find_scopes(context, request),
        verdicts=HELD_VERDICTS,
        states=STATES,
        periods=LAST_PERIODS,
        has_more=any(query.has(name) for name in MORE_FIELDS),
        searches=[
            each for each in await context.store.users.saved_searches(request.user.uid) if each.page == "/quarantine"
        ],
        now=context.now(),
        most=MAX_ITEMS,
        fault=fault,
        narrowed=query.is_filtered,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/quarantine", show_quarantine, "quarantine.read", "search"),
    PageRoute("POST", "/quarantine", act_on_selected, "quarantine.act", "search"),
    PageRoute("POST", "/messages/{ggrid}/release", release_message, "quarantine.act"),
    PageRoute("POST", "/messages/{ggrid}/delete", delete_message, "quarantine.act"),
)
