"""Lists of one's own: made beside the usual ones, and deleted with all that is in them."""

from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.lists.catalogue import (
    KINDS,
    MAX_DESCRIPTION,
    MAX_DISPLAY_NAME,
    MAX_SIZE,
    ListDefinition,
    UnfitList,
    define_custom_list,
)
from gatepost.lists.entries import ListRefusal
from gatepost.store.errors import NameTaken, NotFound
from gatepost.web.context import WebContext, scopes
from gatepost.web.list_access import CATEGORIES, NO_LIST, find_list, scope_of
from gatepost.web.request import GLOBAL, NOT_HERE, SignedInRequest
from gatepost.web.responses import html_response, redirect
from gatepost.web.site import Page, Row

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


async def create(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Make a list."""
    found = await scope_of(desk, visit, visit.part("scope"))
    if isinstance(found, Failure):
        return found
    scope, scope_name = found
    stated = _stated(visit)
    if isinstance(stated, UnfitList):
        fault = f"{FIELDS[stated.field]} {stated.reason}."
        return html_response(await lists_page(desk, visit, scope, scope_name, fault=fault), 400)
    made = await desk.store.create_list(scope, stated, visit.actor)
    if isinstance(made, NotFound | ListRefusal):
        return NOT_HERE
    if isinstance(made, NameTaken):
        return html_response(await lists_page(desk, visit, scope, scope_name, fault=TAKEN), 409)
    return redirect(f"/lists/{scope or GLOBAL}/{made.name}?done=list-created")


def _stated(visit: SignedInRequest) -> ListDefinition | UnfitList:
    form = visit.form
    size = form.text("max-size", 20).replace(",", "")
    if size and not (size.isascii() and size.isdigit()):
        return UnfitList("max_size", "must be a whole number")
    return define_custom_list(
        form.text("name"),
        form.text("kind"),
        form.text("category"),
        form.text("display-name"),
        form.text("description", MAX_DESCRIPTION + 1),
        int(size) if size else None,
    )


async def lists_page(
    desk: WebContext, visit: SignedInRequest, scope: str | None, scope_name: str, *, fault: str = ""
) -> str:
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


async def ask(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Are you sure?"""
    place = await find_list(desk, visit)
    if isinstance(place, Failure):
        return place
    if not place.definition.custom:
        return USUAL
    return html_response(desk.renderer.page("lists-remove.html", visit, here="/lists", place=place))


async def remove(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Delete a list with its entries."""
    place = await find_list(desk, visit)
    if isinstance(place, Failure):
        return place
    if not place.definition.custom:
        return USUAL
    gone = await desk.store.delete_list(place.scope, place.definition.name, visit.actor)
    return NO_LIST if isinstance(gone, NotFound) else redirect(f"{place.home}&done=list-deleted")


ROWS: tuple[Row, ...] = (
    Page("POST", "/lists/{scope}", create, "lists.change"),
    Page("GET", "/lists/{scope}/{name}/remove", ask, "lists.change"),
    Page("POST", "/lists/{scope}/{name}/remove", remove, "lists.change"),
)
