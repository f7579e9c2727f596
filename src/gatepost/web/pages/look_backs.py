"""Delivered before it was known: mail that was delivered, and that entries which came later would have held.

Such a page is about people who received something that should have been held, so it needs the right to see messages.
What is shown of a message is read from its record, and is gone when that is.
"""

from starlette.responses import Response

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.store.look_backs import LookBack
from gatepost.store.message_records import MessageLine
from gatepost.web.context import WebContext
from gatepost.web.list_access import ListInScope, find_list
from gatepost.web.page_responses import html_response
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

NO_LOOK_BACK = Failure(NOT_FOUND, "this look back is no longer kept; the last 50 of a list are")


async def show_look_back(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show one look back with its messages, or the last ones of a list."""
    scoped_list = await find_list(context, request)
    if isinstance(scoped_list, Failure):
        return scoped_list
    scope, name = scoped_list.scope, scoped_list.definition.name
    number = request.query.text("id", 20)
    if not number:
        return html_response(
            await _render(context, request, scoped_list, await context.store.look_backs.of_list(scope, name))
        )
    is_number = number.isascii() and number.isdigit() and len(number) <= 18
    found = await context.store.look_backs.find(scope, name, int(number)) if is_number else None
    if found is None:
        return NO_LOOK_BACK
    lines = await context.store.messages.lines([ggrid for ggrid, _ in found.hits])
    return html_response(await _render(context, request, scoped_list, (found,), lines))


async def _render(
    context: WebContext,
    request: SignedInRequest,
    scoped_list: ListInScope,
    found: tuple[LookBack, ...],
    lines: tuple[MessageLine, ...] | None = None,
) -> str:
    return await context.renderer.render_in_turns(
        "lists-look-back.html",
        request,
        here="/lists",
        scoped_list=scoped_list,
        found=found,
        lines=lines,
        entries=dict(found[0].hits) if lines is not None else {},
    )


PAGES: tuple[WebRoute, ...] = (PageRoute("GET", "/lists/{scope}/{name}/look-back", show_look_back, "messages.read"),)
