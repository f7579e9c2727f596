"""Searches of messages and held mail: what can be written next, saved ones, and the results as a file, newest first.

A file is CSV (RFC 4180) or JSON, with at most ten thousand rows. Every text in the rows may come from strangers, so
cells that a spreadsheet would take for formulas are defused, as in exports of lists. Ten thousand rows with a hundred
recipients each take a second: they are written in a thread, some at a time, which rests while the event loop is late.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec
from starlette.responses import Response

from gatepost.analysis.report import shown_sender
from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.lists import csv_line
from gatepost.findings.kinds import TITLES
from gatepost.process.background_work import background
from gatepost.store.messages import MessageSummary, ShownHead
from gatepost.store.paging import Page
from gatepost.store.quarantine import HeldMessage
from gatepost.store.search_language import MAX_LENGTH, complete, parse_search
from gatepost.store.users import MAX_NAME, MAX_QUERY, MAX_SEARCHES, MAX_SHARED
from gatepost.times import date_time
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import whole_number
from gatepost.web.message_lines import attachments, links_by_host, name_tag
from gatepost.web.message_search import ListPath, Search, find_place, for_held, for_messages, sort_held
from gatepost.web.page_responses import download_response, html_response, redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute

MAX_EXPORTED = 10_000
EXPORT_PAGE = 1_000
UNKNOWN_FORMAT = Failure(INVALID_REQUEST, "format: choose csv or json")
# Rows that are written at once, in a few milliseconds.
PIECE = 50

R = TypeVar("R")


class Export(msgspec.Struct, frozen=True):
    """What is exported: the name of the file, what the audit trail calls the export, and the columns of a row with
    their values. With `beyond_budget` the search goes on where the budget of one call was spent; else the file ends
    there, as the page does that says how far a search came."""

    name: str
    action: Literal["messages.export", "audit.export"]
    columns: tuple[str, ...]
    values_of: Callable[[Any], tuple[object, ...]]
    beyond_budget: bool = False


async def export_search(
    context: WebContext,
    request: SignedInRequest,
    export: Export,
    scope: str | None,
    read: Callable[[str | None], Awaitable[Page[Any]]],
    arrange: Callable[[Sequence[Any]], Sequence[Any]] = list,
) -> Response | Failure:
    """Send the rows of a search in the format that the address names, and put that on record. `read` returns the page
    behind a cursor; `arrange` puts the rows in another order."""
    kind = request.query.text("format", 10)
    if kind not in ("csv", "json"):
        return UNKNOWN_FORMAT
    rows: list[Any] = []
    before: str | None = None
    while len(rows) < MAX_EXPORTED:
        page = await read(before)
        rows += page.rows
        before = page.next
        if before is None or (page.reached is not None and not export.beyond_budget):
            break
    del rows[MAX_EXPORTED:]
    await context.store.audit.note(
        export.action, request.actor, scope, count=len(rows), sample=[request.http.url.query]
    )
    return await export_rows(export.name, kind, export.columns, arrange(rows), export.values_of)


async def export_rows(
    name: str, kind: str, columns: Sequence[str], rows: Sequence[R], values_of: Callable[[R], tuple[object, ...]]
) -> Response:
    """Return rows as a file that the browser saves, `csv` or `json`; a value that is a list has its texts in one cell
    of CSV."""

    def write_csv(piece: Sequence[R]) -> bytes:
        return "".join(csv_line(_write_cells(values_of(row))) for row in piece).encode("utf-8", "replace")

    def write_json(piece: Sequence[R]) -> bytes:
        return msgspec.json.encode([dict(zip(columns, values_of(row), strict=True)) for row in piece])[1:-1]

    def write_pieces(write: Callable[[Sequence[R]], bytes]) -> list[bytes]:
        return [background.run(write, rows[start : start + PIECE]) for start in range(0, len(rows), PIECE)]

    if kind == "csv":
        body = csv_line(columns).encode() + b"".join(await asyncio.to_thread(write_pieces, write_csv))
        return download_response(body, f"{name}.csv", "text/csv; charset=utf-8")
    body = b"[" + b",".join(await asyncio.to_thread(write_pieces, write_json)) + b"]"
    return download_response(body, f"{name}.json", "application/json")


def _write_cells(values: tuple[object, ...]) -> Iterator[str]:
    return (" ".join(value) if isinstance(value, list | tuple) else str(value) for value in values)


PAGES_WITH_SEARCHES = ("/messages", "/quarantine")
# Held mail is read with its whole records.
HELD_EXPORT_PAGE = 200
NO_NAME = Failure(INVALID_REQUEST, "enter a name for the search")
TOO_MANY = Failure(
    INVALID_REQUEST, f"you have {MAX_SEARCHES} saved searches, or {MAX_SHARED} are shared with you; delete one first"
)


async def show_hint(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show what is wrong with a search that is being written, and what can be written at the cursor."""
    path: ListPath = "/quarantine" if request.query.text("path", 20) == "/quarantine" else "/messages"
    place, names = await find_place(context, request, path)
    text, at = request.query.raw_text("q")[: MAX_LENGTH + 1], whole_number(request.query.text("at", 6), MAX_LENGTH)
    found = parse_search(text, place)
    tags = {tag: name_tag(tag, context.policies.deployment.policy) for tag in TITLES}
    options = complete(text, at, place, {"tag": tags, "tenant": dict.fromkeys(names.values(), "")})
    search = Search(path, text, found, request.query, request.user.tenant)
    return html_response(context.renderer.render_public("search-hint.html", search=search, options=options))


async def save_search(context: WebContext, request: SignedInRequest) -> PageResult:
    page, name = request.form.text("page", 40), request.form.text("name", MAX_NAME)
    query = request.form.text("query", MAX_QUERY)
    if page not in PAGES_WITH_SEARCHES or not name:
        return NO_NAME
    is_shared, tenant = request.form.has("shared"), request.user.tenant
    if not await context.store.users.save_search(request.user.uid, page, name, query, shared=is_shared, tenant=tenant):
        return TOO_MANY
    return redirect(f"{page}?{query}", notice="search-saved")


async def delete_search(context: WebContext, request: SignedInRequest) -> PageResult:
    """Delete a saved search of the user; administrators delete what others share with them as well."""
    page = request.form.text("page", 40)
    scope = (request.user.tenant or "") if request.may("users.change") else None
    if not await context.store.users.delete_search(request.path_part("id"), request.user.uid, scope):
        return NOT_VISIBLE
    return redirect(page if page in PAGES_WITH_SEARCHES else "/messages", notice="search-deleted")


@for_messages
async def export_messages(context: WebContext, request: SignedInRequest, found: Search) -> PageResult:
    if found.fault:
        return Failure(INVALID_REQUEST, found.fault.message)
    wanted = found.messages
    names = {tenant.uid: tenant.name for tenant in (await find_scopes(context, request)).tenants}

    async def search(before: str | None) -> Page[tuple[MessageSummary, ShownHead, str]]:
        page = await context.store.messages.search(wanted, before, limit=EXPORT_PAGE)
        heads = await context.store.messages.heads([row.ggrid for row in page.rows])
        rows = ((row, heads.get(row.ggrid, ShownHead()), names.get(row.tenant or "", "")) for row in page.rows)
        return Page(tuple(rows), page.next, page.reached)

    return await export_search(context, request, MESSAGES, wanted.tenant, search)


@for_held
async def export_held(context: WebContext, request: SignedInRequest, found: Search) -> PageResult:
    """Send the result of a search in the quarantine as CSV or JSON, in the order of the page."""
    if found.fault:
        return Failure(INVALID_REQUEST, found.fault.message)
    wanted = found.held
    search = partial(context.store.quarantine.search, wanted, limit=HELD_EXPORT_PAGE)
    arrange = partial(sort_held, query=request.query)
    names = {tenant.uid: tenant.name for tenant in (await find_scopes(context, request)).tenants}
    export = Export("quarantine", "messages.export", HELD_COLUMNS, partial(_held_values, names), beyond_budget=True)
    return await export_search(context, request, export, wanted.tenant, search, arrange)


def _values(found: tuple[MessageSummary, ShownHead, str]) -> tuple[object, ...]:
    row, head, tenant = found
    return (
        *(row.ggrid, date_time(row.completed), row.verdict, row.decision, row.score / 100, row.sender),
        *(list(row.recipients), row.subject, list(row.tags), row.size),
        *(f"{head.name} <{head.address}>" if head.name else head.address, head.host, list(head.hosts), tenant),
    )


def _held_values(names: Mapping[str, str], mail: HeldMessage) -> tuple[object, ...]:
    record, report = mail.record, mail.record.report
    sender = shown_sender(report, record.envelope.sender)
    return (
        *(record.ggrid, date_time(mail.kept), mail.state, report.verdict, report.score / 100),
        *(f"{sender.name} <{sender.address}>" if sender.name else sender.address, record.envelope.sender),
        *(list(record.envelope.recipients), report.subject, attachments(report)),
        *([group.host for group in links_by_host(report) if group.host], list(report.tags), record.size),
        *(report.authentication.host, names.get(record.envelope.tenant or "", "")),
    )


HELD_COLUMNS = (
    *("ggrid", "kept", "state", "verdict", "score", "from", "sender", "recipients", "subject", "attachments"),
    *("linkHosts", "tags", "size", "ip", "tenant"),
)
COLUMNS = (
    *("ggrid", "completed", "verdict", "decision", "score", "sender", "recipients", "subject", "tags", "size"),
    *("from", "ip", "linkHosts", "tenant"),
)
MESSAGES = Export("messages", "messages.export", COLUMNS, _values)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/searches/hint", show_hint, "messages.read", is_polled=True),
    PageRoute("POST", "/searches", save_search, "messages.read"),
    PageRoute("POST", "/searches/{id}/delete", delete_search, "messages.read"),
    PageRoute("GET", "/messages/export", export_messages, "messages.read", "search"),
    PageRoute("GET", "/quarantine/export", export_held, "quarantine.read", "search"),
)
