"""Rows of a search as a file: CSV (RFC 4180) or JSON, at most ten thousand.

Every text in the rows may come from strangers, so cells that a spreadsheet would take for formulas are defused, as in
exports of lists. Ten thousand rows with a hundred recipients each take a second: they are written in a thread, some at
a time, which rests while the event loop is late.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.lists import csv_line
from gatepost.process.background_work import background
from gatepost.store.paging import Page
from gatepost.web.context import WebContext
from gatepost.web.page_responses import download_response
from gatepost.web.request import SignedInRequest

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
    name: str,
    kind: str,
    columns: Sequence[str],
    rows: Sequence[R],
    values_of: Callable[[R], tuple[object, ...]],
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
