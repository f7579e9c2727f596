"""The lists of a scope, the entries of a list page by page, and the history of its changes."""

import msgspec
from starlette.responses import Response

from gatepost.abby.web.answers import html
from gatepost.abby.web.customlists import lists_page
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.listplace import ListPlace, place_of, scope_of
from gatepost.abby.web.pasted import MAX_LINES
from gatepost.abby.web.site import Page, Row
from gatepost.abby.web.visit import Visit
from gatepost.api.errors import Failure
from gatepost.lists.entry import Normal
from gatepost.lists.person import PERSON
from gatepost.store.audit import AuditFilter

ROWS_ON_A_PAGE = 100
LONGEST_CURSOR = 20_000

ACTIONS = {
    "entries.add": "added or changed",
    "entries.delete": "deleted",
    "entries.expire": "ended by themselves",
    "list.create": "made the list",
    "list.delete": "deleted the list",
}


async def overview(desk: Desk, visit: Visit) -> Response | Failure:
    """Every list of a scope; the visitor's own where none is named."""
    scope = await scope_of(desk, visit, visit.query.text("scope") or visit.user.tenant or "")
    if isinstance(scope, Failure):
        return scope
    return html(await lists_page(desk, visit, scope[0], scope[1]))


async def entries(desk: Desk, visit: Visit) -> Response | Failure:
    """One page of a list's entries."""
    place = await place_of(desk, visit)
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
    return html(
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


def beginning(text: str, place: ListPlace) -> str:
    """What entries begin with that somebody looks for like this. Entries are kept in their normal forms, so a text that
    has one is looked for by it; names of people are kept as they were written."""
    if place.kind is PERSON:
        return text
    normal = place.definition.normalise(text)
    return normal.shown if isinstance(normal, Normal) else text.lower()


async def history(desk: Desk, visit: Visit) -> Response | Failure:
    """Who changed a list, newest first."""
    place = await place_of(desk, visit)
    if isinstance(place, Failure):
        return place
    wanted = AuditFilter(scope=place.scope or "", list=place.definition.name)
    before = visit.query.text("before", 200) or None
    page = await desk.store.audit_page(wanted, before, ROWS_ON_A_PAGE)
    return html(desk.renderer.page("lists-history.html", visit, here="/lists", place=place, page=page, actions=ACTIONS))


ROWS: tuple[Row, ...] = (
    Page("GET", "/lists", overview, "lists.read"),
    Page("GET", "/lists/{scope}/{name}", entries, "lists.read"),
    Page("GET", "/lists/{scope}/{name}/history", history, "lists.read"),
)
