"""The audit trail: who changed what, where and when. It can only be read."""

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.store.audit import AuditFilter
from gatepost.web.context import WebContext, scopes
from gatepost.web.forms import parse_period
from gatepost.web.request import GLOBAL, SignedInRequest
from gatepost.web.responses import html_response
from gatepost.web.site import Page, Row

ROWS_ON_A_PAGE = 100


async def show(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Changes, newest first."""
    asked, named = visit.query, visit.query.text("scope")
    scope = visit.scope(named) if named else visit.user.tenant
    if isinstance(scope, Failure):
        return scope
    when = parse_period(asked)
    if isinstance(when, Failure):
        return when
    wanted = AuditFilter(
        scope="" if named == GLOBAL else scope,
        since=when.since,
        until=when.until,
        actor=asked.text("actor", 200) or None,
        action=asked.text("action", 100) or None,
        list=asked.text("list", 200) or None,
    )
    page = await desk.store.audit_page(wanted, asked.text("before", 200) or None, ROWS_ON_A_PAGE)
    return html_response(
        desk.renderer.page("audit.html", visit, here="/audit", page=page, asked=asked, scopes=await scopes(desk, visit))
    )


ROWS: tuple[Row, ...] = (Page("GET", "/audit", show, "audit.read"),)
