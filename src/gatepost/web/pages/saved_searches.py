"""Saved searches of messages and held mail, and the results of a search as a file, newest first."""

from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.report import shown_sender
from gatepost.store.messages import MessageSummary
from gatepost.store.quarantine import HeldMessage
from gatepost.store.users import MAX_NAME, MAX_QUERY, MAX_SEARCHES
from gatepost.times import date_time
from gatepost.web.context import WebContext
from gatepost.web.message_lines import attachments, links_by_host
from gatepost.web.message_search import parse_held_filter, parse_message_filter, sort_held
from gatepost.web.page_responses import EXPORT_PAGE, MAX_EXPORTED, export_rows, parse_format, redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

PAGES_WITH_SEARCHES = ("/messages", "/quarantine")
# Held mail is read with its whole records.
HELD_EXPORT_PAGE = 200
HELD_COLUMNS = (
    *("ggrid", "kept", "state", "verdict", "score", "from", "sender", "recipients", "subject", "attachments"),
    *("linkHosts", "tags", "size"),
)
COLUMNS = ("ggrid", "completed", "verdict", "decision", "score", "sender", "recipients", "subject", "tags", "size")
NO_NAME = Failure(INVALID_REQUEST, "enter a name for the search")
TOO_MANY = Failure(INVALID_REQUEST, f"you have {MAX_SEARCHES} saved searches; delete one first")


async def save_search(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Save the search of a page under a name."""
    page, name = request.form.text("page", 40), request.form.text("name", MAX_NAME)
    query = request.form.text("query", MAX_QUERY)
    if page not in PAGES_WITH_SEARCHES or not name:
        return NO_NAME
    if not await context.store.users.save_search(request.user.uid, page, name, query):
        return TOO_MANY
    return redirect(f"{page}?{query}", notice="search-saved")


async def delete_search(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Delete a saved search of the user."""
    page = request.form.text("page", 40)
    if not await context.store.users.delete_search(request.path_part("id"), request.user.uid):
        return NOT_VISIBLE
    return redirect(page if page in PAGES_WITH_SEARCHES else "/messages", notice="search-deleted")


async def export_messages(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Send the result of a search as CSV or JSON."""
    wanted = parse_message_filter(request, context.now())
    if isinstance(wanted, Failure):
        return wanted
    kind = parse_format(request)
    if isinstance(kind, Failure):
        return kind
    rows: list[MessageSummary] = []
    before: str | None = None
    while len(rows) < MAX_EXPORTED:
        page = await context.store.messages.search(wanted, before, EXPORT_PAGE)
        rows += page.rows
        before = page.next
        # Where the budget of one call was spent, the file ends: the page says how far a search came, and so does this.
        if before is None or page.reached is not None:
            break
    await context.store.audit.note(
        "messages.export", request.actor, wanted.tenant, count=len(rows[:MAX_EXPORTED]), sample=[request.http.url.query]
    )
    return await export_rows("messages", kind, COLUMNS, rows[:MAX_EXPORTED], _values)


async def export_held(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Send the result of a search in the quarantine as CSV or JSON, in the order of the page."""
    tenant, kind = request.parse_tenant(), parse_format(request)
    if isinstance(tenant, Failure):
        return tenant
    wanted = parse_held_filter(request.query, tenant, context.now())
    if isinstance(wanted, Failure):
        return wanted
    if isinstance(kind, Failure):
        return kind
    rows: list[HeldMessage] = []
    before: str | None = None
    while len(rows) < MAX_EXPORTED:
        page = await context.store.quarantine.search(wanted, before, HELD_EXPORT_PAGE)
        rows += page.rows
        before = page.next
        if before is None:
            break
    await context.store.audit.note(
        "messages.export", request.actor, tenant, count=len(rows[:MAX_EXPORTED]), sample=[request.http.url.query]
    )
    ordered = sort_held(rows[:MAX_EXPORTED], request.query)
    return await export_rows("quarantine", kind, HELD_COLUMNS, ordered, _held_values)


def _values(row: MessageSummary) -> tuple[object, ...]:
    return (
        *(row.ggrid, date_time(row.completed), row.verdict, row.decision, row.score / 100, row.sender),
        *(list(row.recipients), row.subject, list(row.tags), row.size),
    )


def _held_values(mail: HeldMessage) -> tuple[object, ...]:
    record, report = mail.record, mail.record.report
    sender = shown_sender(report, record.envelope.sender)
    return (
        *(record.ggrid, date_time(mail.kept), mail.state, report.verdict, report.score / 100),
        *(f"{sender.name} <{sender.address}>" if sender.name else sender.address, record.envelope.sender),
        *(list(record.envelope.recipients), report.subject, attachments(report)),
        *([group.host for group in links_by_host(report) if group.host], list(report.tags), record.size),
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("POST", "/searches", save_search, "messages.read"),
    PageRoute("POST", "/searches/{id}/delete", delete_search, "messages.read"),
    PageRoute("GET", "/messages/export", export_messages, "messages.read", "search"),
    PageRoute("GET", "/quarantine/export", export_held, "quarantine.read", "search"),
)
