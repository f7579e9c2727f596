"""Rows of a search as a file: CSV (RFC 4180) or JSON, at most ten thousand.

Every text in the rows may come from strangers, so cells that a spreadsheet would take for formulas are defused, as in
exports of lists. Ten thousand rows with a hundred recipients each take a second: they are written in a thread, some at
a time, which rests while the event loop is late.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.lists import csv_line
from gatepost.background_work import background
from gatepost.store.audit import AuditPage
from gatepost.store.messages import MessagePage
from gatepost.store.quarantine import HeldPage
from gatepost.web.context import WebContext
from gatepost.web.page_responses import download_response
from gatepost.web.request import SignedInRequest

MAX_EXPORTED = 10_000
EXPORT_PAGE = 1_000
UNKNOWN_FORMAT = Failure(INVALID_REQUEST, "format: choose csv or json")
# Rows that are written at once, in a few milliseconds.
PIECE = 50

FileFormat: TypeAlias = Literal["csv", "json"]
R = TypeVar("R")
Page = TypeVar("Page", MessagePage, HeldPage, AuditPage)


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
    read: Callable[[str | None], Awaitable[Page]],
    arrange: Callable[[Sequence[Any]], Sequence[Any]] = list,
) -> Response | Failure:
    """Send the rows of a search in the format that the address names, and put that on record. `read` returns the page
    behind a cursor; `arrange` puts the rows in another order."""
    kind = _parse_format(request)
    if isinstance(kind, Failure):
        return kind
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


def _parse_format(request: SignedInRequest) -> FileFormat | Failure:
    match request.query.text("format", 10):
        case "csv":
            return "csv"
        case "json":
            return "json"
    return UNKNOWN_FORMAT


async def export_rows(
    name: str,
    kind: FileFormat,
    columns: Sequence[str],
    rows: Sequence[R],
    values_of: Callable[[R], tuple[object, ...]],
) -> Response:
    """Return rows as a file that the browser saves; a value that is a list has its texts in one cell."""
    write = _write_csv if kind == "csv" else _write_json
    body = await asyncio.to_thread(write, columns, rows, values_of)
    return download_response(body, f"{name}.{kind}", "text/csv; charset=utf-8" if kind == "csv" else "application/json")


def _write_csv(columns: Sequence[str], rows: Sequence[R], values_of: Callable[[R], tuple[object, ...]]) -> bytes:
    def cells_of(row: R) -> Iterator[str]:
        return (" ".join(value) if isinstance(value, list | tuple) else str(value) for value in values_of(row))

    def write_piece(piece: Sequence[R]) -> bytes:
        return "".join(csv_line(cells_of(row)) for row in piece).encode("utf-8", "replace")

    pieces = [background.run(write_piece, rows[start : start + PIECE]) for start in range(0, len(rows), PIECE)]
    return csv_line(columns).encode() + b"".join(pieces)


def _write_json(columns: Sequence[str], rows: Sequence[R], values_of: Callable[[R], tuple[object, ...]]) -> bytes:
    def write_piece(piece: Sequence[R]) -> bytes:
        return msgspec.json.encode([dict(zip(columns, values_of(row), strict=True)) for row in piece])[1:-1]

    pieces = [background.run(write_piece, rows[start : start + PIECE]) for start in range(0, len(rows), PIECE)]
    return b"[" + b",".join(pieces) + b"]"
