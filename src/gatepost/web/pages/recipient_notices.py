"""Notifying the recipients of messages that were found: who would get what, the words of the analyst, and what became
of the notices.

A step is confirmed on a page that shows the mail as one recipient gets it. A minute later a node sends the notices; up
to then the step can be taken back. The page of the step says how many were sent, wait or could not be sent. Messages of
the scan page are left out, since nobody got them. A tenant has a number of notices for 24 hours, over all steps.
"""

from collections.abc import Sequence

from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.digests.notices import build_notice, find_told
from gatepost.store.bulk_actions import BulkAction
from gatepost.store.recipient_notices import (
    MAX_LISTED,
    MAX_RECIPIENTS,
    MAX_SAID,
    REST_MILLISECONDS,
    DayLimit,
    MessageToTell,
    RecipientNotice,
    group_by_recipient,
)
from gatepost.web.context import WebContext
from gatepost.web.page_responses import redirect
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult

# Held messages that are no longer on record and are looked up one by one.
MAX_LOOKED_UP = 500
TOO_MANY = Failure(
    INVALID_REQUEST, f"more than {MAX_RECIPIENTS:,} recipients would be notified; narrow the search. Nothing was sent"
)
NOBODY = Failure(INVALID_REQUEST, "none of these messages is mail that is on record, so there is nobody to notify")


async def find_messages(
    context: WebContext, request: SignedInRequest, ggrids: Sequence[str]
) -> tuple[list[MessageToTell], int]:
    """Return those of the messages that the user may see, with their recipients, and how many were left out, since they
    came through the scan page."""
    own, found = request.user.tenant, {}
    for line in await context.store.messages.lines(ggrids):
        found[line.ggrid] = MessageToTell(line.ggrid, line.tenant, line.recipients)
    trials = set(await context.store.messages.trials(tuple(found)))
    for ggrid in [each for each in ggrids if each not in found][:MAX_LOOKED_UP]:
        if mail := await context.store.quarantine.find_or_deleted(ggrid, own):
            record = mail.record
            found[record.ggrid] = MessageToTell(record.ggrid, record.envelope.tenant, record.envelope.recipients)
            if record.is_trial:
                trials.add(record.ggrid)
    seen = [each for each in found.values() if own in (None, each.tenant)]
    mails = [each for each in seen if each.ggrid not in trials]
    return mails, len(seen) - len(mails)


async def _explain_limit(context: WebContext, request: SignedInRequest, limit: DayLimit) -> str:
    """Say what of the notices of a day is left."""
    owner = await context.store.tenants.find(limit.scope) if limit.scope else None
    whose = "Your tenant" if request.user.tenant else f"The tenant {owner.name}" if owner else "Mail without a tenant"
    return (
        f"{whose} can have {context.notices_per_day:,} notices within 24 hours (notices.perDay in abby.yml), over all"
        f" steps of all users, and {limit.left:,} of them are left; this step has {limit.wanted:,}"
    )


async def show_notices(
    context: WebContext, request: SignedInRequest, work: BulkAction, back: str, list_path: str
) -> Response:
    """Show what would be sent, or what became of it."""
    counts = await context.store.recipient_notices.counts(work.id)
    is_open = not counts.all and not work.finished
    messages, trials = await find_messages(context, request, work.items) if is_open else ([], 0)
    grouped = group_by_recipient(messages)
    limit = await context.store.recipient_notices.find_limit(messages, context.notices_per_day)
    return await context.page(
        request,
        "notify.html",
        here="/messages",
        work=work,
        counts=counts,
        messages=len(messages),
        recipients=list(dict.fromkeys(address for _, address in grouped)),
        most=MAX_RECIPIENTS,
        trials=trials,
        per_day=context.notices_per_day,
        limit=await _explain_limit(context, request, limit) if limit else "",
        reasons=sorted({result for result in work.results if result}),
        sample=await _write_sample(context, grouped) if grouped else "",
        max_said=MAX_SAID,
        rest=REST_MILLISECONDS // 1_000,
        back=back,
        list_path=list_path,
    )


async def _write_sample(context: WebContext, grouped: dict[tuple[str, str], list[str]]) -> str:
    """The text that the first recipient gets, without the words of the analyst."""
    (scope, address), ggrids = next(iter(grouped.items()))
    notice = RecipientNotice("preview", "", scope or None, address, tuple(ggrids[:MAX_LISTED]), len(ggrids), "", "", 0)
    told = await find_told(context.store, notice.items, notice.scope)
    if not told:
        return ""
    preferences = (await context.store.digests.scope(notice.scope)).preferences
    body = build_notice(notice, told, preferences, "preview@example.org").get_body(("plain",))
    return str(body.get_content()) if body else ""


async def plan_notices(context: WebContext, request: SignedInRequest, work: BulkAction, page: str) -> PageResult:
    """Plan the notices of a step that was confirmed. A second click finds it planned and plans nothing."""
    if await context.store.bulk_actions.claim(work.id):
        messages, _ = await find_messages(context, request, work.items)
        grouped = group_by_recipient(messages)
        fault = NOBODY if not grouped else TOO_MANY if len(grouped) > MAX_RECIPIENTS else None
        if fault is None:
            said, most = request.form.text("said", MAX_SAID), context.notices_per_day
            planned = await context.store.recipient_notices.plan(messages, said, request.actor, work.id, most)
            if isinstance(planned, DayLimit):
                reason = await _explain_limit(context, request, planned)
                fault = Failure(INVALID_REQUEST, f"{reason}. Nothing was sent")
        results = [fault.message if fault else ""] * len(work.items)
        await context.store.bulk_actions.add_results(work.id, results)
        if fault:
            return fault
    return redirect(page)
