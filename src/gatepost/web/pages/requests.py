"""The queue of what people ask for: recipients who want held mail, and reports that came by mail.

To grant a request for a release sends the message to the recipient who asked, and to nobody else; to grant a report
says that it was right. Both are decided with a note, which the audit trail keeps. Malware and phishing are granted by
those who may release them.
"""

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.ids import canonical
from gatepost.scanning.held_mail import DANGEROUS_VERDICTS, RecipientReleaseOrder
from gatepost.store.message_records import MessageRecord
from gatepost.store.quarantine import HeldMessage
from gatepost.store.recipients import MAX_SAID, RecipientRequest, RequestFilter
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import Form
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.pages.quarantine_work import explain_failure
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

ROWS_ON_A_PAGE = 50
STATES = ("open", "granted", "denied")
KINDS = ("release", "report")
NOTHING_SELECTED = "no request is selected"
MAY_NOT_GRANT = "releasing malware and phishing is a right of its own; ask an administrator"


class RequestLine(msgspec.Struct, frozen=True):
    """A request with the message that it is about, if that is still on record."""

    request: RecipientRequest
    record: MessageRecord | None
    is_held: bool


async def show_requests(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """List requests, newest first."""
    wanted = _parse_filter(request)
    return wanted if isinstance(wanted, Failure) else html_response(await _render(context, request, wanted))


async def decide_requests(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Grant or deny the selected requests, with a note."""
    wanted = _parse_filter(request)
    if isinstance(wanted, Failure):
        return wanted
    word, back = request.form.text("action", 20), f"/requests?{request.query.with_field('before', '')}".rstrip("?")
    chosen = list(dict.fromkeys(filter(None, map(canonical, request.form.all("id")[:ROWS_ON_A_PAGE]))))
    if word not in ("grant", "deny"):
        return redirect(back)
    if not chosen:
        return html_response(await _render(context, request, wanted, faults=[NOTHING_SELECTED]), 400)
    note = request.form.text("note", MAX_SAID)
    work = await context.store.bulk_actions.create(request.user.uid, word, chosen)

    async def act(uid: str) -> str:
        return await _decide(context, request, uid, word, note)

    await context.bulk_work.start(context.store.bulk_actions, work, act)
    done = await context.store.bulk_actions.find(work.id, request.user.uid) or work
    if done.failed:
        faults = list(dict.fromkeys(fault for _, fault in done.failed))
        said = [f"{len(done.succeeded)} decided, {len(done.failed)} not", *faults]
        return html_response(await _render(context, request, wanted, faults=said), 409)
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
            return MAY_NOT_GRANT
        order = RecipientReleaseOrder(
            found.ggrid, request.user.tenant, by=request.actor, recipient=found.address, dangerous=may
        )
        if fault := explain_failure(await context.held_mail.carry_out(order), request):
            return fault
    await context.store.recipients.decide(uid, "granted" if word == "grant" else "denied", request.actor, note)
    return ""


def _parse_filter(request: SignedInRequest) -> RequestFilter | Failure:
    tenant = request.parse_tenant()
    if isinstance(tenant, Failure):
        return tenant
    state, kind = _choice(request.query, "state", STATES), _choice(request.query, "kind", KINDS)
    return msgspec.convert(
        {"tenant": tenant, "state": state or "open", "kind": kind or None, "address": request.query.text("q", 300)},
        RequestFilter,
    )


def _choice(query: Form, name: str, known: tuple[str, ...]) -> str:
    word = query.text(name, 20)
    return word if word in known else ""


async def _render(
    context: WebContext, request: SignedInRequest, wanted: RequestFilter, *, faults: list[str] | None = None
) -> str:
    page = await context.store.recipients.requests(wanted, canonical(request.query.text("before", 40)) or "")
    lines = [await _describe(context, request, each) for each in page.rows]
    return await context.renderer.render_in_turns(
        "requests.html",
        request,
        here="/requests",
        lines=lines,
        page=page,
        query=request.query,
        wanted=wanted,
        states=STATES,
        kinds=KINDS,
        waiting=await context.store.recipients.count_open(request.user.tenant),
        scopes=await find_scopes(context, request),
        now=context.now(),
        faults=faults or [],
    )


async def _describe(context: WebContext, request: SignedInRequest, asked: RecipientRequest) -> RequestLine:
    mail: HeldMessage | None = await context.store.quarantine.find(asked.ggrid, request.user.tenant)
    if mail:
        return RequestLine(asked, mail.record, is_held=mail.state in ("held", "releasing"))
    record = await context.store.messages.find(asked.ggrid)
    is_visible = record is not None and request.user.tenant in (None, record.envelope.tenant)
    return RequestLine(asked, record if is_visible else None, is_held=False)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/requests", show_requests, "quarantine.read"),
    PageRoute("POST", "/requests", decide_requests, "quarantine.act"),
)
