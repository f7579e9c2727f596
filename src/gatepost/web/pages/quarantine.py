"""The quarantine: a queue to work through, with the keyboard if one likes, one message or many at a time."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec
from starlette.responses import Response

from gatepost.abby.core_state import Down
from gatepost.api.errors import Failure
from gatepost.ids import canonical
from gatepost.names import normal_address
from gatepost.policy.rules import VERDICTS
from gatepost.scanning.held_mail import Busy, Deleted, NotHeld, NotSent, Released
from gatepost.store.held_search import HeldFilter
from gatepost.web.context import WebContext, scopes
from gatepost.web.forms import parse_period
from gatepost.web.pages.messages import Found, find, reported
from gatepost.web.pages.messages import page as message_page
from gatepost.web.request import SignedInRequest
from gatepost.web.responses import html_response, redirect
from gatepost.web.site import Page, Row

ROWS_ON_A_PAGE = 50
MAX_RECIPIENTS = 100
HELD_VERDICTS = tuple(verdict for verdict in VERDICTS if verdict != "clean")


class Done(msgspec.Struct, frozen=True):
    """What became of one message: nothing in `fault` means that it went well."""

    ggrid: str
    fault: str = ""


Action: TypeAlias = Callable[[WebContext, SignedInRequest, str], Awaitable[Done]]


async def show(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Held mail that fits, newest first."""
    wanted = _filter(visit)
    return wanted if isinstance(wanted, Failure) else html_response(await _page(desk, visit, wanted))


async def act(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Do the same with every chosen message. Each is tried, and what did not work is told."""
    wanted = _filter(visit)
    if isinstance(wanted, Failure):
        return wanted
    word = visit.form.text("action")
    action = ACTIONS.get(word)
    chosen = list(dict.fromkeys(filter(None, map(canonical, visit.form.all("ggrid")[:ROWS_ON_A_PAGE]))))
    if action is None or not chosen:
        return html_response(await _page(desk, visit, wanted, faults=[Done("", "no message was chosen")]), 400)
    done = [await action(desk, visit, ggrid) for ggrid in chosen]
    faults = [each for each in done if each.fault]
    if faults:
        return html_response(await _page(desk, visit, wanted, faults=faults, succeeded=len(done) - len(faults)), 409)
    return redirect(f"/quarantine?{visit.query.with_field('done', NOTICE[word])}")


async def release(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Send one message on, to whom it was meant or to somebody else."""
    found = await find(desk, visit)
    if isinstance(found, Failure):
        return found
    stated = visit.form.text("recipients", 20_000).replace(",", " ").split()
    recipients = [normal_address(each) for each in stated]
    if len(recipients) > MAX_RECIPIENTS or any("@" not in each for each in recipients):
        return await _refused(desk, visit, found, "a recipient is an address such as ann@example.org")
    outcome = await desk.held_mail.release(found.record.ggrid, visit.actor, tuple(recipients), visit.user.tenant)
    fault = _said(outcome)
    return await _refused(desk, visit, found, fault) if fault else redirect(f"{_path(found)}?done=released")


async def delete(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Delete one message."""
    found = await find(desk, visit)
    if isinstance(found, Failure):
        return found
    done = await _delete(desk, visit, found.record.ggrid)
    return await _refused(desk, visit, found, done.fault) if done.fault else redirect("/quarantine?done=deleted")


async def _refused(desk: WebContext, visit: SignedInRequest, found: Found, fault: str) -> Response:
    return html_response(await message_page(desk, visit, found, fault=fault), 409)


def _path(found: Found) -> str:
    return f"/messages/{found.record.ggrid}"


async def _release(desk: WebContext, visit: SignedInRequest, ggrid: str) -> Done:
    return Done(ggrid, _said(await desk.held_mail.release(ggrid, visit.actor, (), visit.user.tenant)))


async def _delete(desk: WebContext, visit: SignedInRequest, ggrid: str) -> Done:
    return Done(ggrid, _said(await desk.held_mail.delete(ggrid, visit.actor, visit.user.tenant)))


async def _report(desk: WebContext, visit: SignedInRequest, ggrid: str) -> Done:
    known = await reported(desk, visit, ggrid, "deliver")
    return Done(ggrid, "" if known else _said(NotHeld()))


ACTIONS: dict[str, Action] = {"release": _release, "delete": _delete, "report": _report}
NOTICE = {"release": "released", "delete": "deleted", "report": "reported"}


def _said(outcome: Released | Deleted | NotHeld | NotSent | Busy | Down) -> str:
    """Why it did not work; nothing where it did."""
    if isinstance(outcome, NotHeld):
        return "it is not held any more"
    if isinstance(outcome, NotSent):
        return f"{outcome.reason}; it is held as before"
    if isinstance(outcome, Busy):
        return "somebody else is releasing it at this moment"
    if isinstance(outcome, Down):
        return "the core that has it does not answer; try again in a moment"
    return ""


def _filter(visit: SignedInRequest) -> HeldFilter | Failure:
    asked, tenant = visit.query, visit.tenant()
    if isinstance(tenant, Failure):
        return tenant
    when = parse_period(asked)
    if isinstance(when, Failure):
        return when
    return HeldFilter(
        tenant=tenant,
        verdict=asked.text("verdict", 40) or None,
        sender=asked.text("sender", 320) or None,
        recipient=asked.text("recipient", 320) or None,
        subject=asked.text("subject", 200) or None,
        since=when.since,
        until=when.until,
        released=asked.has("released"),
    )


async def _page(
    desk: WebContext,
    visit: SignedInRequest,
    wanted: HeldFilter,
    *,
    faults: list[Done] | None = None,
    succeeded: int = 0,
) -> str:
    asked = visit.query
    return desk.renderer.page(
        "quarantine.html",
        visit,
        here="/quarantine",
        page=await desk.store.search_held(wanted, asked.text("before", 200) or None, ROWS_ON_A_PAGE),
        counts=await desk.store.held_counts(wanted.tenant),
        asked=asked,
        scopes=await scopes(desk, visit),
        verdicts=HELD_VERDICTS,
        faults=faults or [],
        succeeded=succeeded,
        narrowed=asked.narrows,
    )


ROWS: tuple[Row, ...] = (
    Page("GET", "/quarantine", show, "quarantine.read"),
    Page("POST", "/quarantine", act, "quarantine.act"),
    Page("POST", "/messages/{ggrid}/release", release, "quarantine.act"),
    Page("POST", "/messages/{ggrid}/delete", delete, "quarantine.act"),
)
