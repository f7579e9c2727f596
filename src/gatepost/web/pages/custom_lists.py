"""The lists of a scope, and custom lists: created beside the built-in ones, and deleted with all their entries."""

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
from gatepost.store.errors import NameTaken, NotFound, TooManyLists
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.list_access import CATEGORIES, NO_LIST, find_feeds, find_list, find_scope
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

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


async def create_list(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Create a custom list."""
    found = await find_scope(context, request, request.path_part("scope"))
    if isinstance(found, Failure):
        return found
    scope, scope_name = found
    definition = _parse_definition(request)
    if isinstance(definition, UnfitList):
        fault = f"{FIELD_LABELS[definition.field]} {definition.reason}."
        return html_response(await render_lists(context, request, scope, scope_name, fault=fault), 400)
    created = await context.store.lists.create(scope, definition, request.actor)
    if isinstance(created, NotFound | ListRefusal):
        return NOT_VISIBLE
    if isinstance(created, NameTaken | TooManyLists):
        fault = NAME_TAKEN if isinstance(created, NameTaken) else TOO_MANY.format(created.limit)
        return html_response(await render_lists(context, request, scope, scope_name, fault=fault), 409)
    return redirect(f"/lists/{scope or GLOBAL}/{created.name}", notice="list-created")


def _parse_definition(request: SignedInRequest) -> ListDefinition | UnfitList:
    form = request.form
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


async def render_lists(
    context: WebContext, request: SignedInRequest, scope: str | None, scope_name: str, *, fault: str = ""
) -> str:
    """Render all lists of a scope, and the form for a custom list."""
    return await context.renderer.render_in_turns(
        "lists.html",
        request,
        here="/lists",
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


async def confirm_list_deletion(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Ask before a custom list is deleted."""
    scoped_list = await find_list(context, request)
    if isinstance(scoped_list, Failure):
        return scoped_list
    if not scoped_list.definition.custom:
        return BUILT_IN
    return html_response(
        await context.renderer.render_in_turns("lists-remove.html", request, here="/lists", scoped_list=scoped_list)
    )


async def delete_list(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Delete a custom list with its entries."""
    scoped_list = await find_list(context, request)
    if isinstance(scoped_list, Failure):
        return scoped_list
    if not scoped_list.definition.custom:
        return BUILT_IN
    gone = await context.store.lists.delete(scoped_list.scope, scoped_list.definition.name, request.actor)
    return NO_LIST if isinstance(gone, NotFound) else redirect(scoped_list.home, notice="list-deleted")


PAGES: tuple[WebRoute, ...] = (
    PageRoute("POST", "/lists/{scope}", create_list, "lists.change"),
    PageRoute("GET", "/lists/{scope}/{name}/remove", confirm_list_deletion, "lists.change"),
    PageRoute("POST", "/lists/{scope}/{name}/remove", delete_list, "lists.change"),
)
