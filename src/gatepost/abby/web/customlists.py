"""Lists of one's own: made beside the usual ones, and deleted with all that is in them."""

from starlette.responses import Response

from gatepost.abby.web.answers import html, see
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.listplace import CATEGORIES, NO_LIST, place_of, scope_of
from gatepost.abby.web.scopes import scopes
from gatepost.abby.web.site import Page, Row
from gatepost.abby.web.visit import GLOBAL, NOT_HERE, Visit
from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.lists.catalogue import KINDS, Definition
from gatepost.lists.custom import MAX_DESCRIPTION, MAX_DISPLAY_NAME, MAX_SIZE, Unfit, defined
from gatepost.lists.entry import Refused
from gatepost.store.errors import NameTaken, NotFound

FIELDS = {
    "name": "The name",
    "kind": "The kind",
    "category": "The category",
    "display_name": "The name for people",
    "description": "The description",
    "max_size": "The most entries",
}
TAKEN = "There is a list of that name, here or of another kind in another scope. Choose another name."
USUAL = Failure(INVALID_REQUEST, "this list is always there; you can delete its entries, but not the list")


async def create(desk: Desk, visit: Visit) -> Response | Failure:
    """Make a list."""
    found = await scope_of(desk, visit, visit.part("scope"))
    if isinstance(found, Failure):
        return found
    scope, scope_name = found
    stated = _stated(visit)
    if isinstance(stated, Unfit):
        fault = f"{FIELDS[stated.field]} {stated.reason}."
        return html(await lists_page(desk, visit, scope, scope_name, fault=fault), 400)
    made = await desk.store.create_list(scope, stated, visit.actor)
    if isinstance(made, NotFound | Refused):
        return NOT_HERE
    if isinstance(made, NameTaken):
        return html(await lists_page(desk, visit, scope, scope_name, fault=TAKEN), 409)
    return see(f"/lists/{scope or GLOBAL}/{made.name}?done=list-created")


def _stated(visit: Visit) -> Definition | Unfit:
    form = visit.form
    size = form.text("max-size", 20).replace(",", "")
    if size and not (size.isascii() and size.isdigit()):
        return Unfit("max_size", "must be a whole number")
    return defined(
        form.text("name"),
        form.text("kind"),
        form.text("category"),
        form.text("display-name"),
        form.text("description", MAX_DESCRIPTION + 1),
        int(size) if size else None,
    )


async def lists_page(desk: Desk, visit: Visit, scope: str | None, scope_name: str, *, fault: str = "") -> str:
    """All lists of a scope, and the form for one more."""
    return desk.renderer.page(
        "lists.html",
        visit,
        here="/lists",
        states=await desk.store.lists(scope),
        scope=scope or GLOBAL,
        scope_name=scope_name,
        scopes=await scopes(desk, visit),
        kinds=KINDS,
        categories=CATEGORIES,
        fault=fault,
        form=visit.form,
        limits={"display": MAX_DISPLAY_NAME, "description": MAX_DESCRIPTION, "size": MAX_SIZE},
    )


async def ask(desk: Desk, visit: Visit) -> Response | Failure:
    """Are you sure?"""
    place = await place_of(desk, visit)
    if isinstance(place, Failure):
        return place
    if not place.definition.custom:
        return USUAL
    return html(desk.renderer.page("lists-remove.html", visit, here="/lists", place=place))


async def remove(desk: Desk, visit: Visit) -> Response | Failure:
    """Delete a list with its entries."""
    place = await place_of(desk, visit)
    if isinstance(place, Failure):
        return place
    if not place.definition.custom:
        return USUAL
    gone = await desk.store.delete_list(place.scope, place.definition.name, visit.actor)
    return NO_LIST if isinstance(gone, NotFound) else see(f"{place.home}&done=list-deleted")


ROWS: tuple[Row, ...] = (
    Page("POST", "/lists/{scope}", create, "lists.change"),
    Page("GET", "/lists/{scope}/{name}/remove", ask, "lists.change"),
    Page("POST", "/lists/{scope}/{name}/remove", remove, "lists.change"),
)
