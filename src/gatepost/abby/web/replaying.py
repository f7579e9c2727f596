"""A message on record, judged again with the policy and the lists of today, line by line beside what was said then."""

from starlette.responses import Response

from gatepost.abby.rejudging import replayed
from gatepost.abby.web.answers import html
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.messages import find
from gatepost.abby.web.site import Page, Row
from gatepost.abby.web.visit import Visit
from gatepost.api.errors import Failure


async def show(desk: Desk, visit: Visit) -> Response | Failure:
    """Then and now."""
    found = await find(desk, visit)
    if isinstance(found, Failure):
        return found
    comparison = await replayed(desk.store, found.record, desk.policies)
    return html(desk.renderer.page("replay.html", visit, here="/messages", record=found.record, comparison=comparison))


ROWS: tuple[Row, ...] = (Page("GET", "/messages/{ggrid}/replay", show, "messages.read"),)
