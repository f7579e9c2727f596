"""The audit trail: who changed what and when, in all, and of one list. It can only be read."""

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.store.audit import AuditFilter
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import parse_period
from gatepost.web.list_access import find_list
from gatepost.web.page_responses import html_response
from gatepost.web.request import GLOBAL, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

ROWS_ON_A_PAGE = 100
LIST_ACTIONS = {
    "entries.add": "added or changed",
    "entries.delete": "deleted",
    "entries.expire": "expired",
    "entries.vanish": "vanished from the feed, expire later",
    "feed.run": "read the feed",
    "feed.refused": "refused the feed",
    "feed.failed": "could not read the feed",
    "entries.normalise": "stored in today's normal form",
    "list.create": "created the list",
    "list.delete": "deleted the list",
}


async def show_audit_trail(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """List all changes, newest first."""
    query, named = request.query, request.query.text("scope")
    scope = request.parse_scope(named) if named else request.user.tenant
    if isinstance(scope, Failure):
        return scope
    when = parse_period(query, context.now())
    if isinstance(when, Failure):
        return when
    wanted = AuditFilter(
        scope="" if named == GLOBAL else scope,
        since=when.since,
        until=when.until,
        actor=query.text("actor", 200) or None,
        action=query.text("action", 100) or None,
        list=query.text("list", 200) or None,
    )
    page = await context.store.audit_page(wanted, query.text("before", 200) or None, ROWS_ON_A_PAGE)
    return html_response(
        await context.renderer.render_in_turns(
            "audit.html", request, here="/audit", page=page, query=query, scopes=await find_scopes(context, request)
        )
    )


async def show_list_history(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """List the changes of one list, newest first."""
    scoped_list = await find_list(context, request)
    if isinstance(scoped_list, Failure):
        return scoped_list
    wanted = AuditFilter(scope=scoped_list.scope or "", list=scoped_list.definition.name)
    before = request.query.text("before", 200) or None
    page = await context.store.audit_page(wanted, before, ROWS_ON_A_PAGE)
    return html_response(
        await context.renderer.render_in_turns(
            "lists-history.html", request, here="/lists", scoped_list=scoped_list, page=page, actions=LIST_ACTIONS
        )
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/lists/{scope}/{name}/history", show_list_history, "lists.read", "search"),
    PageRoute("GET", "/audit", show_audit_trail, "audit.read", "search"),
)
