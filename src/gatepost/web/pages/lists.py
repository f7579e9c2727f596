"""The lists of a scope, the entries of a list page by page, and the history of its changes.

A whole list as a file, streamed: the same lines that the List API and the command line write.

One entry with its comment and its end, and the deletion of chosen ones after a look at what that would do.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from starlette.responses import Response

from gatepost.abby.lists import Lines
from gatepost.api.errors import INVALID_REQUEST, NOT_FOUND, Failure
from gatepost.api.list_files import FORMATS, Format, heading, lines_of
from gatepost.api.lists import MAX_COMMENT
from gatepost.api.operations import NDJSON
from gatepost.lists.addresses import PERSON
from gatepost.lists.entries import NormalForm
from gatepost.rejudge.dry_run import try_deleting
from gatepost.store.audit import AuditFilter
from gatepost.store.entries import EntryRow, ListEntry, NewEntry
from gatepost.web.context import WebContext
from gatepost.web.forms import parse_expiry
from gatepost.web.list_access import ListInScope, add_all, delete_all, find_list, scope_of
from gatepost.web.pages.custom_lists import lists_page
from gatepost.web.pages.list_changes import MAX_LINES
from gatepost.web.request import SignedInRequest
from gatepost.web.responses import PAGE_HEADERS, html_response, redirect
from gatepost.web.site import Page, Row

ROWS_ON_A_PAGE = 100
LONGEST_CURSOR = 20_000

ACTIONS = {
    "entries.add": "added or changed",
    "entries.delete": "deleted",
    "entries.expire": "ended by themselves",
    "list.create": "made the list",
    "list.delete": "deleted the list",
}


async def overview(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Every list of a scope; the visitor's own where none is named."""
    scope = await scope_of(desk, visit, visit.query.text("scope") or visit.user.tenant or "")
    if isinstance(scope, Failure):
        return scope
    return html_response(await lists_page(desk, visit, scope[0], scope[1]))


async def entries(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """One page of a list's entries."""
    place = await find_list(desk, visit)
    if isinstance(place, Failure):
        return place
    asked = visit.query
    text, inside = asked.text("q"), asked.text("how") == "contains"
    found = await desk.store.entries_page(
        place.scope,
        place.definition.name,
        prefix="" if inside else beginning(text, place),
        part=text if inside else "",
        after=asked.text("after", LONGEST_CURSOR) or None,
        limit=ROWS_ON_A_PAGE,
    )
    # One whose time is over is gone, whether somebody has tidied up or not.
    lasting = tuple(row for row in found.rows if row.expires is None or row.expires > desk.now())
    return html_response(
        desk.renderer.page(
            "lists-entries.html",
            visit,
            here="/lists",
            place=place,
            page=msgspec.structs.replace(found, rows=lasting),
            text=text,
            inside=inside,
            later=asked.has("after"),
            typed=asked.text("add"),
            most=MAX_LINES,
        )
    )


def beginning(text: str, place: ListInScope) -> str:
    """What entries begin with that somebody looks for like this. Entries are kept in their normal forms, so a text that
    has one is looked for by it; names of people are kept as they were written."""
    if place.kind is PERSON:
        return text
    normal = place.definition.normalise(text)
    return normal.shown if isinstance(normal, NormalForm) else text.lower()


async def history(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Who changed a list, newest first."""
    place = await find_list(desk, visit)
    if isinstance(place, Failure):
        return place
    wanted = AuditFilter(scope=place.scope or "", list=place.definition.name)
    before = visit.query.text("before", 200) or None
    page = await desk.store.audit_page(wanted, before, ROWS_ON_A_PAGE)
    return html_response(
        desk.renderer.page("lists-history.html", visit, here="/lists", place=place, page=page, actions=ACTIONS)
    )


LIST_PAGES: tuple[Row, ...] = (
    Page("GET", "/lists", overview, "lists.read"),
    Page("GET", "/lists/{scope}/{name}", entries, "lists.read"),
    Page("GET", "/lists/{scope}/{name}/history", history, "lists.read"),
)


MEDIA_TYPES: dict[Format, str] = {
    "ndjson": NDJSON,
    "csv": "text/csv; charset=utf-8",
    "plain": "text/plain; charset=utf-8",
}
ENDINGS: dict[Format, str] = {"ndjson": "ndjson", "csv": "csv", "plain": "txt"}
UNKNOWN_FORMAT = Failure(INVALID_REQUEST, f"format: choose one of {', '.join(FORMATS)}")


class FileLines:
    """Writes the rows of one stream as lines of a file, in the thread that reads them."""

    def __init__(self, kind: Format) -> None:
        self._kind = kind
        self._lines = Lines()

    def __call__(self, rows: Sequence[EntryRow]) -> bytes:
        if self._kind == "ndjson":
            return self._lines(rows)
        return "".join(lines_of(self._lines.entries(rows), self._kind)).encode()


async def export_list(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """All entries, for the browser to save."""
    place = await find_list(desk, visit)
    if isinstance(place, Failure):
        return place
    kind = next((each for each in FORMATS if each == (visit.query.text("format") or "ndjson")), None)
    if kind is None:
        return UNKNOWN_FORMAT
    name = place.definition.name
    stream = await desk.exports.stream(place.scope, name, FileLines(kind), heading(kind).encode())
    if not isinstance(stream, Failure):
        stream.headers.update(PAGE_HEADERS)
        stream.headers["Content-Type"] = MEDIA_TYPES[kind]
        stream.headers["Content-Disposition"] = f'attachment; filename="{name}.{ENDINGS[kind]}"'
    return stream


EXPORT_PAGES: tuple[Row, ...] = (Page("GET", "/lists/{scope}/{name}/export", export_list, "lists.read"),)


LONGEST_KEY = 3_000
GONE = Failure(NOT_FOUND, "the entry is not in the list any more; somebody deleted it, or its time was over")
NONE_CHOSEN = Failure(INVALID_REQUEST, "no entry is chosen; go back and tick some")


async def show_entry(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """An entry, with a form for those who may change it."""
    found = await _found(desk, visit, visit.query.whole("key"))
    return found if isinstance(found, Failure) else html_response(_entry_page(desk, visit, *found))


async def change_entry(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Set comment and end. An end that the form gave back as it was stays to the millisecond."""
    found = await _found(desk, visit, visit.form.whole("key"))
    if isinstance(found, Failure):
        return found
    place, entry = found
    comment, stated = visit.form.text("comment", MAX_COMMENT + 1), visit.form.text("expires")
    expires = entry.expires if stated == minute(entry.expires) else parse_expiry(stated, desk.now())
    if isinstance(expires, Failure):
        return html_response(_entry_page(desk, visit, place, entry, f"The end: {expires.message}."), 400)
    if len(comment) > MAX_COMMENT:
        return html_response(
            _entry_page(desk, visit, place, entry, f"A comment has at most {MAX_COMMENT:,} characters."), 400
        )
    applied = await add_all(desk, place, (NewEntry(entry.key, entry.shown, comment, expires),), visit.actor)
    if applied.fault:
        return html_response(_entry_page(desk, visit, place, entry, applied.fault), 409)
    return redirect(f"{place.path}?done=changed")


async def delete_entries(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Delete what is chosen, or first show what that would do."""
    place = await find_list(desk, visit)
    if isinstance(place, Failure):
        return place
    keys = tuple(dict.fromkeys(key[:LONGEST_KEY] for key in visit.form.all("key")))
    if not keys:
        return NONE_CHOSEN
    if visit.form.has("sure"):
        await delete_all(desk, place, keys, visit.actor)
        return redirect(f"{place.path}?done=deleted")
    trial = await try_deleting(desk.store, desk.trials, place.scope, place.definition, keys)
    chosen = tuple(zip(keys, trial.entries, strict=True))
    return html_response(
        desk.renderer.page("lists-delete.html", visit, here="/lists", place=place, trial=trial, chosen=chosen)
    )


async def _found(desk: WebContext, visit: SignedInRequest, key: str) -> tuple[ListInScope, ListEntry] | Failure:
    place = await find_list(desk, visit)
    if isinstance(place, Failure):
        return place
    there = await desk.store.entries(place.scope, place.definition.name, (key[:LONGEST_KEY],))
    return (place, there[0]) if there else GONE


def minute(milliseconds: int | None) -> str:
    """A time as a browser's field for day and minute has it."""
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%dT%H:%M")


def _entry_page(desk: WebContext, visit: SignedInRequest, place: ListInScope, entry: ListEntry, fault: str = "") -> str:
    return desk.renderer.page(
        "lists-entry.html",
        visit,
        here="/lists",
        place=place,
        entry=entry,
        until=minute(entry.expires),
        fault=fault,
        longest=MAX_COMMENT,
    )


ENTRY_PAGES: tuple[Row, ...] = (
    Page("GET", "/lists/{scope}/{name}/entry", show_entry, "lists.read"),
    Page("POST", "/lists/{scope}/{name}/entry", change_entry, "lists.change"),
    Page("POST", "/lists/{scope}/{name}/delete", delete_entries, "lists.change"),
)
