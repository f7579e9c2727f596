"""The quarantine: held mail, actions on one message, and requests for it. `mail_actions` has those on many.

A deletion can be taken back for some days. A release cannot, so it is confirmed on a page of its own.

Recipients ask for held mail, and people report mail by mail. To grant a request for a release sends the message to the
recipient who asked, and to nobody else; to grant a report says that it was right. Both are decided with a note, which
the audit trail keeps. Malware and phishing are granted by those who may release them.
"""

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.ids import canonical
from gatepost.names import normal_address
from gatepost.policy.rules import VERDICTS
from gatepost.scanning.held_mail import (
    DANGEROUS_VERDICTS,
    RecipientReleaseOrder,
    ReleaseOrder,
)
from gatepost.store.found_values import FoundValues
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.paging import MessageCount, Page
from gatepost.store.quarantine import HeldMessage
from gatepost.store.recipients import MAX_SAID, RecipientRequest, RequestFilter
from gatepost.store.search_language import STATES
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.found_mail import describe_found
from gatepost.web.message_lines import MailGroup, group_campaigns
from gatepost.web.message_search import (
    SORTED_ROWS,
    Search,
    describe_search,
    find_neighbours,
    for_held,
    is_sorted,
    list_of,
    sort_held,
    tail_of,
)
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.pages.mail_actions import explain_failure, run_work
from gatepost.web.pages.messages import MessageOnRecord, for_message, show_message
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

ROWS_ON_A_PAGE = 50
HELD_VERDICTS = tuple(verdict for verdict in VERDICTS if verdict != "clean")
MAX_RECIPIENTS = 100
MAY_NOT_RELEASE = "releasing malware and phishing is a right of its own; ask an administrator"


@for_message
async def release_message(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Release one message to its recipients, or to the addresses in the form, once the user has confirmed it."""
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
        return await context.page(
            request,
            "release.html",
            here="/quarantine",
            record=found.record,
            report=found.record.report,
            recipients=recipients or found.record.envelope.recipients,
            stated=" ".join(stated),
            place=tail_of(request),
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


@for_message
async def delete_message(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Delete one held message, and go on to the next one of the list that the user works on."""
    beside = await find_neighbours(context, request, found.held) if found.held else None
    work = await context.store.bulk_actions.create(request.user.uid, "delete", [found.record.ggrid])
    following = beside.following if beside else None
    then = f"/messages/{following}{tail_of(request)}" if following else list_of(request)
    return await run_work(context, request, work, request.query.raw_text("in"), then=then)


async def _render_fault(context: WebContext, request: SignedInRequest, found: MessageOnRecord, fault: str) -> Response:
    return with_status(await show_message(context, request, found, fault=fault), 409)


@for_held
async def show_quarantine(context: WebContext, request: SignedInRequest, search: Search) -> PageResult:
    """Search held mail, newest first. Controls of the form lead to the address that has the search as text."""
    if request.query.has("refine"):
        return redirect(f"/quarantine?{search.form.with_field('before', '')}".rstrip("?"))
    query, wanted = search.form, search.held
    limit = SORTED_ROWS if query.has("group") or is_sorted(query) else ROWS_ON_A_PAGE
    page: Page[HeldMessage] = Page(())
    found = FoundValues()
    if not search.fault:
        page = await context.store.quarantine.search(wanted, query.text("before", 200) or None, limit)
        if page.rows and not query.has("before"):
            # Where one page has all that fit, nothing else has to be looked for.
            only = () if page.next else [row.record.ggrid for row in page.rows]
            found = await context.store.quarantine.explore(wanted, only)
    rows = sort_held(page.rows, query)
    groups = group_campaigns(rows) if query.has("group") else [MailGroup((row,)) for row in rows]
    shown = await context.page(
        request,
        "quarantine.html",
        page=page,
        groups=groups,
        counts=await context.store.quarantine.counts(wanted.tenant),
        count=await _count_found(context, wanted, found) if search.text and page.rows else None,
        place=query.with_field("before", query.text("before", 200) if is_sorted(query) else ""),
        is_sorted=is_sorted(query),
        sorted_rows=SORTED_ROWS,
        verdicts=HELD_VERDICTS,
        states=STATES,
        now=context.now(),
        **await describe_search(context, request, search),
        **await describe_found(context, request, search, found),
    )
    return with_status(shown, 400) if search.fault else shown


async def _count_found(context: WebContext, wanted: HeldFilter, found: FoundValues) -> MessageCount:
    """Return how many messages fit; those that were counted for the chart need not be counted again. With more than the
    chart has, the page says that there are more, which is no reason to look through all of them once again."""
    if found.counted:
        return MessageCount(found.counted, found.more)
    return await context.store.quarantine.count(wanted)


REQUEST_CHOICES = {"state": ("open", "granted", "denied"), "kind": ("release", "report")}
NO_REQUEST_SELECTED = "no request is selected"


class RequestLine(msgspec.Struct, frozen=True):
    """A request with the message that it is about, if that is still on record."""

    request: RecipientRequest
    record: MessageRecord | None
    is_held: bool


async def _find_request_filter(_context: WebContext, request: SignedInRequest) -> RequestFilter | Failure:
    tenant, query = request.parse_tenant(), request.query
    if isinstance(tenant, Failure):
        return tenant
    state, kind = (word if (word := query.text(name, 20)) in known else "" for name, known in REQUEST_CHOICES.items())
    stated = {"tenant": tenant, "state": state or "open", "kind": kind or None, "address": query.text("q", 300)}
    return msgspec.convert(stated, RequestFilter)


for_request_filter = about(_find_request_filter)


@for_request_filter
async def decide_requests(context: WebContext, request: SignedInRequest, wanted: RequestFilter) -> PageResult:
    """Grant or deny the selected requests, with a note."""
    word, back = request.form.text("action", 20), f"/requests?{request.query.with_field('before', '')}".rstrip("?")
    chosen = list(dict.fromkeys(filter(None, map(canonical, request.form.all("id")[:ROWS_ON_A_PAGE]))))
    if word not in ("grant", "deny"):
        return redirect(back)
    if not chosen:
        return with_status(await show_requests(context, request, wanted, faults=[NO_REQUEST_SELECTED]), 400)
    note = request.form.text("note", MAX_SAID)
    work = await context.store.bulk_actions.create(request.user.uid, word, chosen)

    async def act(uid: str) -> str:
        return await _decide(context, request, uid, word, note)

    await context.bulk_work.start(context.store.bulk_actions, work, act)
    done = await context.store.bulk_actions.find(work.id, request.user.uid) or work
    if done.failed:
        faults = list(dict.fromkeys(fault for _, fault in done.failed))
        said = [f"{len(done.succeeded)} decided, {len(done.failed)} not", *faults]
        return with_status(await show_requests(context, request, wanted, faults=said), 409)
    return redirect(back, len(done.succeeded), notice="requests-granted" if word == "grant" else "requests-denied")


async def _decide(context: WebContext, request: SignedInRequest, uid: str, word: str, note: str) -> str:
    """Decide about one request; return why that failed, "" if it succeeded."""
    found = await context.store.recipients.find_request(uid, request.user.tenant)
    if found is None:
        return "the request is gone"
    if found.state != "open":
        return "the request was decided meanwhile"
    if word == "grant" and found.kind == "release":
        may = request.may("quarantine.release-dangerous")
        mail = await context.store.quarantine.find(found.ggrid, request.user.tenant)
        if mail and mail.record.report.verdict in DANGEROUS_VERDICTS and not may:
            return MAY_NOT_RELEASE
        order = RecipientReleaseOrder(
            found.ggrid, request.user.tenant, by=request.actor, recipient=found.address, dangerous=may
        )
        if fault := explain_failure(await context.held_mail.carry_out(order), request):
            return fault
    await context.store.recipients.decide(uid, "granted" if word == "grant" else "denied", request.actor, note)
    return ""


async def show_requests(
    context: WebContext, request: SignedInRequest, wanted: RequestFilter, *, faults: Sequence[str] = ()
) -> Response:
    """List requests, newest first; `faults` say what could not be decided."""
    page = await context.store.recipients.requests(wanted, canonical(request.query.text("before", 40)) or "")
    lines = [await _describe(context, request, each) for each in page.rows]
    return await context.page(
        request,
        "requests.html",
        lines=lines,
        page=page,
        query=request.query,
        wanted=wanted,
        states=REQUEST_CHOICES["state"],
        kinds=REQUEST_CHOICES["kind"],
        waiting=await context.store.recipients.count_open(request.user.tenant),
        scopes=await find_scopes(context, request),
        now=context.now(),
        faults=faults,
    )


async def _describe(context: WebContext, request: SignedInRequest, asked: RecipientRequest) -> RequestLine:
    mail: HeldMessage | None = await context.store.quarantine.find(asked.ggrid, request.user.tenant)
    if mail:
        return RequestLine(asked, mail.record, is_held=mail.state in ("held", "releasing"))
    record = await context.store.messages.find(asked.ggrid)
    is_visible = record is not None and request.user.tenant in (None, record.envelope.tenant)
    return RequestLine(asked, record if is_visible else None, is_held=False)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/quarantine", show_quarantine, "quarantine.read", "search"),
    PageRoute("POST", "/messages/{ggrid}/release", release_message, "quarantine.act"),
    PageRoute("POST", "/messages/{ggrid}/delete", delete_message, "quarantine.act"),
    PageRoute("GET", "/requests", for_request_filter(show_requests), "quarantine.read"),
    PageRoute("POST", "/requests", decide_requests, "quarantine.act"),
)
