"""Saved searches of messages and held mail, and the results of a search as a file, newest first."""

from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.store.message_search import MessageSummary
from gatepost.store.saved_searches import MAX_NAME, MAX_QUERY, MAX_SEARCHES
from gatepost.times import date_time
from gatepost.web.context import WebContext
from gatepost.web.exported_rows import EXPORT_PAGE, MAX_EXPORTED, export_rows, parse_format
from gatepost.web.page_responses import redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute
from gatepost.web.search_fields import parse_message_filter

PAGES_WITH_SEARCHES = ("/messages", "/quarantine")
COLUMNS = ("ggrid", "completed", "verdict", "decision", "score", "sender", "recipients", "subject", "tags", "size")
NO_NAME = Failure(INVALID_REQUEST, "enter a name for the search")
TOO_MANY = Failure(INVALID_REQUEST, f"you have {MAX_SEARCHES} saved searches; delete one first")


async def save_search(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Save the search of a page under a name."""
    page, name = request.form.text("page", 40), request.form.text("name", MAX_NAME)
    query = request.form.text("query", MAX_QUERY)
    if page not in PAGES_WITH_SEARCHES or not name:
        return NO_NAME
    if not await context.store.save_search(request.user.uid, page, name, query):
        return TOO_MANY
    return redirect(f"{page}?{query}", notice="search-saved")


async def delete_search(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Delete a saved search of the user."""
    page = request.form.text("page", 40)
    if not await context.store.delete_search(request.path_part("id"), request.user.uid):
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
        page = await context.store.search_messages(wanted, before, EXPORT_PAGE)
        rows += page.rows
        before = page.next
        # Where the budget of one call was spent, the file ends: the page says how far a search came, and so does this.
        if before is None or page.reached is not None:
            break
    await context.store.note(
        "messages.export", request.actor, wanted.tenant, count=len(rows[:MAX_EXPORTED]), sample=[request.http.url.query]
    )
    return await export_rows("messages", kind, COLUMNS, rows[:MAX_EXPORTED], _values)


def _values(row: MessageSummary) -> tuple[object, ...]:
    return (
        *(row.ggrid, date_time(row.completed), row.verdict, row.decision, row.score / 100, row.sender),
        *(list(row.recipients), row.subject, list(row.tags), row.size),
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("POST", "/searches", save_search, "messages.read"),
    PageRoute("POST", "/searches/{id}/delete", delete_search, "messages.read"),
    PageRoute("GET", "/messages/export", export_messages, "messages.read", "search"),
)
