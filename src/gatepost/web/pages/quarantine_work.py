"""Work on many held messages: confirmed on a page, done in the background, with progress, a result for each, and undo.

The actions themselves are here too, each for one message. Deleted mail can be restored for some days.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import urlencode

from starlette.responses import Response

from gatepost.abby.core_state import Down
from gatepost.abby.held_mail import explain_absence
from gatepost.api.errors import Failure
from gatepost.ids import canonical
from gatepost.scanning.held_mail import (
    DANGEROUS_VERDICTS,
    Busy,
    Deleted,
    DeleteOrder,
    NotHeld,
    NotSent,
    Released,
    ReleaseOrder,
)
from gatepost.store.bulk_actions import BulkAction
from gatepost.store.quarantine import HeldMessage
from gatepost.web.bulk_work import AT_ONCE
from gatepost.web.context import WebContext
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.pages.messages import report_wrong_decision
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

MAX_SHOWN = 100

Action: TypeAlias = Callable[[WebContext, SignedInRequest, str], Awaitable[str]]


async def _release_one(context: WebContext, request: SignedInRequest, ggrid: str) -> str:
    may = request.may("quarantine.release-dangerous")
    order = ReleaseOrder(ggrid, request.user.tenant, by=request.actor, dangerous=may)
    return explain_failure(await context.held_mail.carry_out(order), request)


async def _delete_one(context: WebContext, request: SignedInRequest, ggrid: str) -> str:
    order = DeleteOrder(ggrid, request.user.tenant, by=request.actor, for_good=False)
    return explain_failure(await context.held_mail.carry_out(order), request)


async def _report_one(context: WebContext, request: SignedInRequest, ggrid: str) -> str:
    reported = await report_wrong_decision(context, request, ggrid, "deliver")
    return "" if reported else explain_failure(NotHeld(), request)


async def _restore_one(context: WebContext, request: SignedInRequest, ggrid: str) -> str:
    restored = await context.store.quarantine.restore(ggrid, request.actor, request.user.tenant)
    return "" if restored else "it can no longer be restored"


ACTIONS: dict[str, Action] = {
    "release": _release_one,
    "delete": _delete_one,
    "report": _report_one,
    "restore": _restore_one,
}
NOTICE_OF_ACTION = {
    "release": "mail-released",
    "delete": "mail-deleted",
    "report": "mail-reported",
    "restore": "mail-restored",
}


def explain_failure(outcome: Released | Deleted | NotHeld | NotSent | Busy | Down, request: SignedInRequest) -> str:
    """Return why an action failed, "" where it succeeded."""
    if isinstance(outcome, NotHeld):
        return "it is no longer held"
    if isinstance(outcome, NotSent):
        return f"{outcome.reason}; the message is still held"
    if isinstance(outcome, Busy):
        return "another release of this message is in progress"
    if isinstance(outcome, Down):
        return f"{explain_absence(outcome, named=request.may('system.read'))}; try again in a moment"
    return ""


async def run_work(
    context: WebContext, request: SignedInRequest, work: BulkAction, back: str, *, then: str = ""
) -> Response | Failure:
    """Begin or continue work. What ends soon and well leads back to the list; else its page shows the progress. Of work
    on many messages only so much goes on at once; what is refused can be started later, from its page."""

    async def act(ggrid: str) -> str:
        return await ACTIONS[work.action](context, request, ggrid)

    call = context.limits.begin("bulk action", request.party) if len(work.items) > AT_ONCE else None
    if isinstance(call, Failure):
        return call
    await context.bulk_work.start(context.store.bulk_actions, work, act, call)
    done = await context.store.bulk_actions.find(work.id, request.user.uid) or work
    if done.finished and not done.failed:
        path = then or f"/quarantine?{back}".rstrip("?")
        return redirect(path, len(done.items), done.id, notice=NOTICE_OF_ACTION[work.action])
    return redirect(f"/quarantine/work/{work.id}?{urlencode({'back': back})}")


async def show_work(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show what is about to be done, how far it is, or what became of it."""
    work = await _find_work(context, request)
    if work is None:
        return NOT_VISIBLE
    return html_response(await _render_work(context, request, work, "work.html"))


async def show_live_work(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show the part of the page that changes while the work goes on."""
    work = await _find_work(context, request)
    if work is None:
        return NOT_VISIBLE
    return html_response(await _render_work(context, request, work, "work-live.html"))


async def start_work(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Begin work that was confirmed, or continue work that was interrupted."""
    work = await _find_work(context, request)
    if work is None:
        return NOT_VISIBLE
    return await run_work(context, request, work, request.query.raw_text("back"))


async def undo_work(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Restore the messages that a work has deleted."""
    work = await _find_work(context, request)
    if work is None or work.action != "delete":
        return NOT_VISIBLE
    restoring = await context.store.bulk_actions.create(request.user.uid, "restore", work.succeeded)
    return await run_work(context, request, restoring, request.query.raw_text("back"))


async def _find_work(context: WebContext, request: SignedInRequest) -> BulkAction | None:
    uid = canonical(request.path_part("id"))
    return await context.store.bulk_actions.find(uid, request.user.uid) if uid else None


async def _render_work(context: WebContext, request: SignedInRequest, work: BulkAction, template: str) -> str:
    begun, now = work.lease > 0, context.now()
    shown = [ggrid for ggrid, _ in work.failed] if begun else list(work.items)
    mails: dict[str, HeldMessage] = {}
    for ggrid in shown[:MAX_SHOWN]:
        if mail := await context.store.quarantine.find_or_deleted(ggrid, request.user.tenant):
            mails[ggrid] = mail
    verdicts = await context.store.quarantine.verdicts(work.items, request.user.tenant) if not begun else {}
    return await context.renderer.render_in_turns(
        template,
        request,
        here="/quarantine",
        work=work,
        begun=begun,
        is_running=begun and not work.finished and work.lease >= now,
        mails=mails,
        verdicts=verdicts,
        dangerous=sum(verdicts.get(verdict, 0) for verdict in DANGEROUS_VERDICTS),
        back=request.query.raw_text("back"),
        most=MAX_SHOWN,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/quarantine/work/{id}", show_work, "quarantine.act"),
    PageRoute("GET", "/quarantine/work/{id}/live", show_live_work, "quarantine.act", is_polled=True),
    PageRoute("POST", "/quarantine/work/{id}/start", start_work, "quarantine.act"),
    PageRoute("POST", "/quarantine/work/{id}/undo", undo_work, "quarantine.act"),
)
