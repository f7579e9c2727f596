"""The lists of a scope: built-in and custom ones, their entries page by page, one entry, deletion, export, looking
back.

Custom lists are created beside the built-in ones, and deleted with all their entries. Entries are deleted after a
preview of the effect. The export streams the same lines that the List API and the command line write.

A look back shows mail that was delivered, and that entries which came later would have held. Such a page is about
people who received something that should have been held, so it needs the right to see messages. What is shown of a
message is read from its record, and is gone when that is.
"""

from collections.abc import Callable, Sequence

import msgspec
from starlette.responses import Response

from gatepost.abby.lists import EntryLineEncoder
from gatepost.api.errors import INVALID_REQUEST, NOT_FOUND, Failure
from gatepost.api.lists import FORMATS, MAX_COMMENT, ListFileFormat, heading, lines_of
from gatepost.api.openapi import NDJSON
from gatepost.lists.addresses import NAME, PERSON
from gatepost.lists.catalogue import (
    KINDS,
    MAX_DESCRIPTION,
    MAX_DISPLAY_NAME,
    MAX_SIZE,
    ListDefinition,
    define_custom_list,
)
from gatepost.lists.entries import ListRefusal, NormalForm
from gatepost.store.errors import NameTaken, NotFound, TooManyLists
from gatepost.store.lists import EntryRow, ListEntry, NewEntry
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import parse_expiry, whole_number
from gatepost.web.list_access import (
    CATEGORIES,
    NO_LIST,
    ChangeSet,
    ListInScope,
    add_to_list,
    find_feeds,
    find_list,
    find_scope,
    for_list,
)
from gatepost.web.page_responses import PAGE_HEADERS, redirect, with_status
from gatepost.web.pages.list_changes import MAX_LINES
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about
from gatepost.web.time_zones import local_time

ROWS_ON_A_PAGE = 100
MAX_CURSOR = 20_000


async def _find_scope(context: WebContext, request: SignedInRequest) -> tuple[str | None, str] | Failure:
    """Return the scope that the path or the query names, with its label; the user's own where none is named."""
    named = request.path_part("scope") or request.query.text("scope")
    return await find_scope(context, request, named or request.user.tenant or "")


for_scope = about(_find_scope)


@for_list
async def show_entries(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Show one page of a list's entries."""
    query = request.query
    text, inside = query.text("q"), query.text("how") == "contains"
    found = await context.store.lists.page(
        scoped_list.scope,
        scoped_list.definition.name,
        prefix="" if inside else search_prefix(text, scoped_list),
        part=text if inside else "",
        after=query.text("after", MAX_CURSOR) or None,
        limit=ROWS_ON_A_PAGE,
    )
    # An entry that has expired is gone, whether it was purged from storage or not.
    lasting = tuple(row for row in found.rows if row.expires is None or row.expires > context.now())
    return await context.page(
        request,
        "lists-entries.html",
        scoped_list=scoped_list,
        page=msgspec.structs.replace(found, rows=lasting),
        text=text,
        inside=inside,
        later=query.has("after"),
        typed=query.text("add"),
        most=MAX_LINES,
        feeds=await find_feeds(context, scoped_list.scope, scoped_list.definition.name),
        look_backs=await context.store.look_backs.of_list(scoped_list.scope, scoped_list.definition.name, 3),
    )


def search_prefix(text: str, scoped_list: ListInScope) -> str:
    """Return the prefix to search entries by. Entries are stored in their normal forms, so a text that has one is
    searched by it; names are stored as they were written."""
    if scoped_list.kind in (NAME, PERSON):
        return text
    normal = scoped_list.definition.normalise(text)
    return normal.shown if isinstance(normal, NormalForm) else text.lower()


MEDIA_TYPES: dict[ListFileFormat, str] = {
    "ndjson": NDJSON,
    "csv": "text/csv; charset=utf-8",
    "plain": "text/plain; charset=utf-8",
}
FILE_ENDINGS: dict[ListFileFormat, str] = {"ndjson": "ndjson", "csv": "csv", "plain": "txt"}
UNKNOWN_FORMAT = Failure(INVALID_REQUEST, f"format: choose one of {', '.join(FORMATS)}")


def write_lines(kind: ListFileFormat) -> Callable[[Sequence[EntryRow]], bytes]:
    """Return what writes the rows of one stream as lines of a file, in the thread that reads them."""
    encoder = EntryLineEncoder()
    if kind == "ndjson":
        return encoder
    return lambda rows: "".join(lines_of(encoder.entries(rows), kind)).encode()


@for_list
async def export_list(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Stream all entries as a file."""
    kind = next((each for each in FORMATS if each == (request.query.text("format") or "ndjson")), None)
    if kind is None:
        return UNKNOWN_FORMAT
    name = scoped_list.definition.name
    stream = await context.exports.stream(
        request.party, scoped_list.scope, name, write_lines(kind), heading(kind).encode()
    )
    if not isinstance(stream, Failure):
        await context.store.audit.note(
            "list.export", request.actor, scoped_list.scope, list_name=name, count=scoped_list.size, sample=[kind]
        )
        stream.headers.update(PAGE_HEADERS)
        stream.headers["Content-Type"] = MEDIA_TYPES[kind]
        stream.headers["Content-Disposition"] = f'attachment; filename="{name}.{FILE_ENDINGS[kind]}"'
    return stream


MAX_KEY = 3_000
ENTRY_GONE = Failure(NOT_FOUND, "the entry is no longer in the list; it was deleted or has expired")


async def _find_entry(context: WebContext, request: SignedInRequest) -> tuple[ListInScope, ListEntry] | Failure:
    scoped_list = await find_list(context, request)
    if isinstance(scoped_list, Failure):
        return scoped_list
    key = request.form.raw_text("key") or request.query.raw_text("key")
    there = await context.store.lists.find(scoped_list.scope, scoped_list.definition.name, (key[:MAX_KEY],))
    return (scoped_list, there[0]) if there else ENTRY_GONE


for_entry = about(_find_entry)


@for_entry
async def change_entry(
    context: WebContext, request: SignedInRequest, found: tuple[ListInScope, ListEntry]
) -> PageResult:
    """Set comment and expiry. An expiry that the form sent back unchanged stays as it is, to the millisecond."""
    scoped_list, entry = found
    comment, stated = request.form.text("comment", MAX_COMMENT + 1), request.form.text("expires")
    expires = entry.expires if stated == format_minute(entry.expires) else parse_expiry(stated, context.now())
    if isinstance(expires, Failure):
        return with_status(await show_entry(context, request, found, f"Expires: {expires.message}."), 400)
    if len(comment) > MAX_COMMENT:
        fault = f"A comment can have at most {MAX_COMMENT:,} characters."
        return with_status(await show_entry(context, request, found, fault), 400)
    changed = NewEntry(entry.key, entry.shown, comment, expires)
    applied = await add_to_list(context, request, scoped_list, [changed])
    if applied.fault:
        return with_status(await show_entry(context, request, found, applied.fault), 409)
    return redirect(scoped_list.path, applied.modified, *applied.undo, notice="entry-saved")


@for_list
async def delete_entries(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Delete the selected entries, or first show what that would do."""
    keys = tuple(dict.fromkeys(key[:MAX_KEY] for key in request.form.all("key")))
    if not keys:
        return redirect(scoped_list.path, notice="none-selected")
    if request.form.has("sure"):
        changed = ChangeSet(context, request, scoped_list)
        done = await changed.remove(keys)
        return redirect(scoped_list.path, done, *await changed.keep(), notice="deleted")
    dry_run = await context.dry_runs.try_deleting(scoped_list.scope, scoped_list.definition, keys)
    chosen = tuple(zip(keys, dry_run.entries, strict=True))
    return await context.page(request, "lists-delete.html", scoped_list=scoped_list, dry_run=dry_run, chosen=chosen)


def format_minute(milliseconds: int | None) -> str:
    """Format a time as the value of a datetime-local field."""
    if milliseconds is None:
        return ""
    return local_time(milliseconds // 1000 * 1000).strftime("%Y-%m-%dT%H:%M")


async def show_entry(
    context: WebContext, request: SignedInRequest, found: tuple[ListInScope, ListEntry], fault: str = ""
) -> Response:
    """Show an entry, with a form for users who may change it."""
    scoped_list, entry = found
    return await context.page(
        request,
        "lists-entry.html",
        scoped_list=scoped_list,
        entry=entry,
        can_hit=request.may("messages.read") and scoped_list.definition.is_countable,
        until=format_minute(entry.expires),
        fault=fault,
        longest=MAX_COMMENT,
    )


FIELD_LABELS = {
    "name": "The name",
    "kind": "The entry type",
    "category": "The category",
    "display_name": "The display name",
    "description": "The description",
    "max_size": "Maximum entries",
}
NAME_TAKEN = "A list with this name exists here. Choose another name."
TOO_MANY = "There are as many custom lists here as there may be: {0:,}. Delete one first."
BUILT_IN = Failure(INVALID_REQUEST, "a built-in list cannot be deleted; you can delete its entries")


@for_scope
async def create_list(context: WebContext, request: SignedInRequest, named: tuple[str | None, str]) -> PageResult:
    """Create a custom list."""
    scope, definition = named[0], _parse_definition(request)
    if isinstance(definition, ListRefusal):
        fault = f"{FIELD_LABELS[definition.field]} {definition.reason}."
        return with_status(await show_lists(context, request, named, fault=fault), 400)
    created = await context.store.lists.create(scope, definition, request.actor)
    if isinstance(created, NotFound | ListRefusal):
        return NOT_VISIBLE
    if isinstance(created, NameTaken | TooManyLists):
        fault = NAME_TAKEN if isinstance(created, NameTaken) else TOO_MANY.format(created.limit)
        return with_status(await show_lists(context, request, named, fault=fault), 409)
    return redirect(f"/lists/{scope or GLOBAL}/{created.name}", notice="list-created")


def _parse_definition(request: SignedInRequest) -> ListDefinition | ListRefusal:
    form = request.form
    size = form.text("max-size", 20).replace(",", "")
    if size and not (size.isascii() and size.isdigit()):
        return ListRefusal("must be a whole number", "max_size")
    return define_custom_list(
        form.text("name"),
        form.text("kind"),
        form.text("category"),
        form.text("display-name"),
        form.text("description", MAX_DESCRIPTION + 1),
        int(size) if size else None,
    )


async def show_lists(
    context: WebContext, request: SignedInRequest, named: tuple[str | None, str], *, fault: str = ""
) -> Response:
    """Show all lists of a scope, and the form for a custom list."""
    scope, scope_name = named
    return await context.page(
        request,
        "lists.html",
        states=await context.store.lists.all(scope),
        scope=scope or GLOBAL,
        scope_name=scope_name,
        scopes=await find_scopes(context, request),
        feeds=await find_feeds(context, scope),
        kinds=KINDS,
        categories=CATEGORIES,
        fault=fault,
        form=request.form,
        limits={"display": MAX_DISPLAY_NAME, "description": MAX_DESCRIPTION, "size": MAX_SIZE},
    )


@for_list
async def confirm_list_deletion(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Ask before a custom list is deleted."""
    if not scoped_list.definition.custom:
        return BUILT_IN
    return await context.page(request, "lists-remove.html", scoped_list=scoped_list)


@for_list
async def delete_list(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Delete a custom list with its entries."""
    if not scoped_list.definition.custom:
        return BUILT_IN
    gone = await context.store.lists.delete(scoped_list.scope, scoped_list.definition.name, request.actor)
    return NO_LIST if isinstance(gone, NotFound) else redirect(scoped_list.home, notice="list-deleted")


NO_LOOK_BACK = Failure(NOT_FOUND, "this look back is no longer kept; the last 50 of a list are")


@for_list
async def show_look_back(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Show one look back with its messages, or the last ones of a list."""
    scope, name = scoped_list.scope, scoped_list.definition.name
    stated, one = request.query.text("id", 20), None
    if stated:
        one = await context.store.look_backs.find(scope, name, whole_number(stated))
        if one is None:
            return NO_LOOK_BACK
    return await context.page(
        request,
        "lists-look-back.html",
        scoped_list=scoped_list,
        found=(one,) if one else await context.store.look_backs.of_list(scope, name),
        lines=await context.store.messages.lines([ggrid for ggrid, _ in one.hits]) if one else None,
        entries=dict(one.hits) if one else {},
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/lists", for_scope(show_lists), "lists.read"),
    PageRoute("GET", "/lists/{scope}/{name}", show_entries, "lists.read", "search"),
    PageRoute("GET", "/lists/{scope}/{name}/entry", for_entry(show_entry), "lists.read"),
    PageRoute("POST", "/lists/{scope}/{name}/entry", change_entry, "lists.change"),
    PageRoute("POST", "/lists/{scope}/{name}/delete", delete_entries, "lists.change", "dry run", has_long_text=True),
    PageRoute("GET", "/lists/{scope}/{name}/export", export_list, "lists.read"),
    PageRoute("POST", "/lists/{scope}", create_list, "lists.change"),
    PageRoute("GET", "/lists/{scope}/{name}/remove", confirm_list_deletion, "lists.change"),
    PageRoute("POST", "/lists/{scope}/{name}/remove", delete_list, "lists.change"),
    PageRoute("GET", "/lists/{scope}/{name}/look-back", show_look_back, "messages.read"),
)
