"""The audit trail: who changed what, where and when. It can only be read."""

from starlette.responses import Response

from gatepost.abby.web.answers import html
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.scopes import scopes
from gatepost.abby.web.site import Page, Row
from gatepost.abby.web.times import period
from gatepost.abby.web.visit import GLOBAL, Visit
from gatepost.api.errors import Failure
from gatepost.store.audit import AuditFilter

ROWS_ON_A_PAGE = 100


async def show(desk: Desk, visit: Visit) -> Response | Failure:
    """Changes, newest first."""
    asked, named = visit.query, visit.query.text("scope")
    scope = visit.scope(named) if named else visit.user.tenant
    if isinstance(scope, Failure):
        return scope
    when = period(asked)
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
    return html(
        desk.renderer.page("audit.html", visit, here="/audit", page=page, asked=asked, scopes=await scopes(desk, visit))
    )


ROWS: tuple[Row, ...] = (Page("GET", "/audit", show, "audit.read"),)
