"""Saved searches of messages and held mail, and the results of a search as a file.

A file has at most ten thousand messages, newest first. Cells that a spreadsheet would take for formulas are defused as
in exports of lists: every text in them comes from strangers.
"""

import csv
import io

import msgspec
from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.list_files import defuse
from gatepost.store.message_search import MessageSummary
from gatepost.store.saved_searches import MAX_NAME, MAX_QUERY, MAX_SEARCHES
from gatepost.times import date_time
from gatepost.web.context import WebContext
from gatepost.web.page_responses import download_response, redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute
from gatepost.web.search_fields import parse_message_filter

PAGES_WITH_SEARCHES = ("/messages", "/quarantine")
MAX_EXPORTED = 10_000
EXPORT_PAGE = 1_000
COLUMNS = ("ggrid", "completed", "verdict", "decision", "score", "sender", "recipients", "subject", "tags", "size")
NO_NAME = Failure(INVALID_REQUEST, "enter a name for the search")
TOO_MANY = Failure(INVALID_REQUEST, f"you have {MAX_SEARCHES} saved searches; delete one first")
UNKNOWN_FORMAT = Failure(INVALID_REQUEST, "format: choose csv or json")


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
    kind = request.query.text("format", 10)
    if kind not in ("csv", "json"):
        return UNKNOWN_FORMAT
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
    if kind == "csv":
        return download_response(_write_csv(rows[:MAX_EXPORTED]).encode(), "messages.csv", "text/csv; charset=utf-8")
    lines = [dict(zip(COLUMNS, _values(row), strict=True)) for row in rows[:MAX_EXPORTED]]
    return download_response(msgspec.json.encode(lines), "messages.json", "application/json")


def _values(row: MessageSummary) -> tuple[object, ...]:
    return (
        *(row.ggrid, date_time(row.completed), row.verdict, row.decision, row.score / 100, row.sender),
        *(list(row.recipients), row.subject, list(row.tags), row.size),
    )


def _write_csv(rows: list[MessageSummary]) -> str:
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(COLUMNS)
    for row in rows:
        cells = (" ".join(value) if isinstance(value, list) else str(value) for value in _values(row))
        write([defuse(cell) for cell in cells])
    return out.getvalue()


PAGES: tuple[WebRoute, ...] = (
    PageRoute("POST", "/searches", save_search, "messages.read"),
    PageRoute("POST", "/searches/{id}/delete", delete_search, "messages.read"),
    PageRoute("GET", "/messages/export", export_messages, "messages.read", "search"),
)
