"""The quarantine: held mail, actions on one message and on many, and requests for it.

A deletion can be taken back for some days. A release cannot, so it is confirmed on a page of its own.

Recipients ask for held mail, and people report mail by mail. To grant a request for a release sends the message to the
recipient who asked, and to nobody else; to grant a report says that it was right. Both are decided with a note, which
the audit trail keeps. Malware and phishing are granted by those who may release them.

Actions on many messages are for the selected ones, or for all that match. Deleting, releasing and restoring is for mail
that is held; of messages on record, those that are held are meant. A release and an action on all that match are not
begun at once: a page says first how many messages of which verdicts it is about. Work on many messages goes on in the
background, with progress, a result for each, and undo. A report is such work too, also that of one message: taken back,
what was said before holds again. Blocking leads to the preview of a list, with what the messages have as entries. Notes
are written at once, and taken back at once. Every step is one record of `bulk_actions`.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from gatepost.abby.cores import Down
from gatepost.abby.held_mail import explain_absence
from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.ids import canonical
from gatepost.mailboxes.removal import explain
from gatepost.names import normal_address
from gatepost.policy.rules import VERDICTS
from gatepost.scanning.held_mail import (
    DANGEROUS_VERDICTS,
    Busy,
    Deleted,
    DeleteOrder,
    NotHeld,
    NotSent,
    RecipientReleaseOrder,
    Released,
    ReleaseOrder,
)
from gatepost.store.bulk_actions import BEFORE, MAX_ITEMS, MAX_NOTE, BulkAction
from gatepost.store.feedback import Before
from gatepost.store.found_values import FoundValues
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.paging import MessageCount, Page
from gatepost.store.quarantine import HeldMessage
from gatepost.store.recipients import MAX_SAID, RecipientRequest, RequestFilter
from gatepost.store.search_language import STATES
from gatepost.web.charts import describe_found
from gatepost.web.context import AT_ONCE, WebContext, find_scopes
from gatepost.web.message_lines import MailGroup, group_campaigns
from gatepost.web.message_search import (
    SORTED_ROWS,
    Search,
    describe_search,
    find_neighbours,
    for_held,
    for_messages,
    is_sorted,
    list_of,
    sort_held,
    tail_of,
)
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.pages.list_changes import BLOCKED, preview_blocking
from gatepost.web.pages.messages import (
    MessageOnRecord,
    for_message,
    report_wrong_decision,
    show_message,
    take_report_back,
)
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

MAX_SHOWN = 100
# Pages of a search that are read for all that match: a search that finds little reads much for each.
MAX_PAGES = 50
NO_NOTE = Failure(INVALID_REQUEST, "write a note first; nothing was saved")


def list_path(back: str) -> str:
    """Return the address of the list that an action was taken on; a query alone is that of the quarantine."""
    is_whole = back.startswith(("/messages", "/quarantine"))
    return (back if is_whole else f"/quarantine?{back}").rstrip("?")


@for_held
async def act_on_held(context: WebContext, request: SignedInRequest, search: Search) -> PageResult:
    """Apply one action to every selected message of the quarantine, or to all that match."""
    return await _act(context, request, search, request.query.with_field("again", ""))


@for_messages
async def act_on_messages(context: WebContext, request: SignedInRequest, search: Search) -> PageResult:
    """Apply one action to every selected message on record, or to all that match."""
    return await _act(context, request, search, f"/messages?{request.query.with_field('again', '')}".rstrip("?"))


async def _act(context: WebContext, request: SignedInRequest, search: Search, back: str) -> PageResult:
    if search.fault:
        return Failure(INVALID_REQUEST, search.fault.message)
    word, is_all = request.form.text("action", 20), request.form.has("all")
    if word == "none" or (word in REMOVAL and not request.may("messages.remove")):
        return redirect(list_path(back))
    chosen = await (_find_all(context, search) if is_all else _find_selected(context, request))
    if word not in (*ACTIONS, *BLOCKED, "note", "compare") or word in UNDOING or not chosen:
        return redirect(list_path(back), notice="none-selected")
    if word == "compare":
        if len(chosen) != 2:
            return redirect(list_path(back), notice="two-needed")
        return redirect(f"/messages/{chosen[0]}/compare?with={chosen[1]}")
    if word in BLOCKED:
        return await preview_blocking(context, request, chosen, BLOCKED[word], list_path(back))
    if word == "note":
        return await _write_note(context, request, chosen, list_path(back))
    if word in OF_HELD and search.path == "/messages":
        held = await context.store.quarantine.needed_among(chosen)
        chosen = [ggrid for ggrid in chosen if ggrid in held]
        if not chosen:
            return redirect(list_path(back), notice="none-held")
    work = await context.store.bulk_actions.create(request.user.uid, word, chosen)
    if word in ("release", "remove") or is_all:
        return redirect(f"/quarantine/work/{work.id}?{urlencode({'back': back})}")
    return await run_work(context, request, work, back)


async def _find_selected(context: WebContext, request: SignedInRequest) -> list[str]:
    """The selected messages that the user may see, in the order of the form; the value of a group has several. No work
    is made of another id, whether or not a message has it."""
    values = (each for value in request.form.all("ggrid")[:MAX_ITEMS] for each in value.split(",")[:SORTED_ROWS])
    chosen = list(dict.fromkeys(filter(None, map(canonical, values))))[:MAX_ITEMS]
    visible = dict(await _find_visible(context, request, chosen)) if request.user.tenant else chosen
    return [ggrid for ggrid in chosen if ggrid in visible]


async def _find_all(context: WebContext, search: Search) -> list[str]:
    """The ids of all messages that match and can be acted on, at most as many as one work can have."""
    found: list[str] = []
    before: str | None = None
    for _ in range(MAX_PAGES):
        if search.path == "/quarantine":
            held = await context.store.quarantine.search(search.held, before, 500)
            found += [row.record.ggrid for row in held.rows if row.state in ("held", "deleted")]
            before = held.next
        else:
            page = await context.store.messages.search(search.messages, before, 1_000)
            found += [row.ggrid for row in page.rows]
            before = page.next
        if before is None or len(found) >= MAX_ITEMS:
            break
    return found[:MAX_ITEMS]


async def _write_note(context: WebContext, request: SignedInRequest, ggrids: Sequence[str], then: str) -> PageResult:
    """Write a note on messages, in one step that can be taken back."""
    said = request.form.text("note", MAX_NOTE)
    if not said:
        return NO_NOTE
    visible = await _find_visible(context, request, ggrids)
    if not visible:
        return redirect(then, notice="none-selected")
    work = await context.store.bulk_actions.create(request.user.uid, "note", [ggrid for ggrid, _ in visible])
    await context.store.message_notes.add(visible, said, request.actor, work.id)
    if await context.store.bulk_actions.claim(work.id):
        await context.store.bulk_actions.add_results(work.id, [""] * len(work.items))
    return redirect(then, len(visible), work.id, notice="mail-noted")


async def _find_visible(
    context: WebContext, request: SignedInRequest, ggrids: Sequence[str]
) -> list[tuple[str, str | None]]:
    """Those of the messages that the user may see, with their tenants; some are held and no longer on record."""
    own = request.user.tenant
    found = await context.store.quarantine.owners(ggrids)
    found |= {each.ggrid: each.tenant for each in await context.store.messages.lines(ggrids)}
    return [(ggrid, tenant) for ggrid, tenant in found.items() if own in (None, tenant)]


@for_message
async def write_on_message(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    path = f"/messages/{found.record.ggrid}{tail_of(request)}"
    return await _write_note(context, request, [found.record.ggrid], path)


@for_message
async def report_message(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Report that the decision on a message was wrong."""
    word = {"deliver": "report", "hold": "missed"}.get(request.form.text("says"))
    if word is None:
        return NOT_VISIBLE
    path = f"/messages/{found.record.ggrid}{tail_of(request)}"
    work = await context.store.bulk_actions.create(request.user.uid, word, [found.record.ggrid])
    return await run_work(context, request, work, path)


Action: TypeAlias = Callable[[WebContext, SignedInRequest, str], Awaitable[str]]


async def _release_one(context: WebContext, request: SignedInRequest, ggrid: str) -> str:
    may = request.may("quarantine.release-dangerous")
    order = ReleaseOrder(ggrid, request.user.tenant, by=request.actor, dangerous=may)
    return explain_failure(await context.held_mail.carry_out(order), request)


async def _delete_one(context: WebContext, request: SignedInRequest, ggrid: str) -> str:
    order = DeleteOrder(ggrid, request.user.tenant, by=request.actor, for_good=False)
    return explain_failure(await context.held_mail.carry_out(order), request)


async def _report(context: WebContext, request: SignedInRequest, ggrid: str, word: str) -> str:
    """Report a message; what was said before is kept with the result."""
    before = await report_wrong_decision(context, request, ggrid, word)
    if before is None:
        return "it is no longer on record"
    said = (before.mark, "" if before.taught is None else UNWANTED if before.taught else WANTED)
    return f"{BEFORE}{'/'.join(said).rstrip('/')}"


async def _take_back(context: WebContext, request: SignedInRequest, item: str, word: str) -> str:
    """Take back a report of one message, of which the item says what was before."""
    ggrid, _, said = item.partition(" ")
    mark, _, taught = said.partition("/")
    before = Before(mark, taught == UNWANTED if taught else None)
    return "" if await take_report_back(context, request, ggrid, word, before) else "it is no longer on record"


async def _restore_one(context: WebContext, request: SignedInRequest, ggrid: str) -> str:
    restored = await context.store.quarantine.restore(ggrid, request.actor, request.user.tenant)
    return "" if restored else "it can no longer be restored"


async def _find_removable(context: WebContext, request: SignedInRequest, ggrid: str) -> MessageRecord | str:
    """The message that the user may take out of mailboxes, or why there is none."""
    if context.remover is None or not request.may("messages.remove"):
        return "mail cannot be taken out of mailboxes here (remediation in abby.yml)"
    return await context.store.messages.find(ggrid, request.user.tenant) or "it is no longer on record"


async def _move(context: WebContext, request: SignedInRequest, ggrid: str, word: Literal["moved", "restored"]) -> str:
    """Take a message out of mailboxes, or put it back."""
    found = await _find_removable(context, request, ggrid)
    if isinstance(found, str) or context.remover is None:
        return str(found)
    carry_out = context.remover.remove if word == "moved" else context.remover.restore
    return explain(await carry_out(found, request.actor), wanted=word)


# What is done with one message after the other, with the notice of each.
ACTIONS: dict[str, tuple[Action, str]] = {
    "release": (_release_one, "mail-released"),
    "delete": (_delete_one, "mail-deleted"),
    "report": (partial(_report, word="deliver"), "mail-reported"),
    "missed": (partial(_report, word="hold"), "mail-reported"),
    "unreport": (partial(_take_back, word="deliver"), "mail-unreported"),
    "unmissed": (partial(_take_back, word="hold"), "mail-unreported"),
    "restore": (_restore_one, "mail-restored"),
    "remove": (partial(_move, word="moved"), "mail-removed"),
    "put-back": (partial(_move, word="restored"), "mail-put-back"),
}
# Actions on mailboxes, which need a permission of their own.
REMOVAL = frozenset({"remove", "put-back"})
# Actions on mail that is held, or was.
OF_HELD = frozenset({"release", "delete", "restore"})
UNDONE_BY = {"delete": "restore", "remove": "put-back", "report": "unreport", "missed": "unmissed"}
# What is begun by an undo alone.
UNDOING = frozenset({"unreport", "unmissed"})
# The names of what a report says, in the records of work.
WANTED, UNWANTED = "wanted", "unwanted"


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
) -> PageResult:
    """Begin or continue work. What ends soon and well leads back to the list; else its page shows the progress. Of work
    on many messages only so much goes on at once; what is refused can be started later, from its page."""

    async def act(ggrid: str) -> str:
        return await ACTIONS[work.action][0](context, request, ggrid)

    call = context.limits.begin("bulk action", request.party) if len(work.items) > AT_ONCE else None
    if isinstance(call, Failure):
        return call
    await context.bulk_work.start(context.store.bulk_actions, work, act, call)
    done = await context.store.bulk_actions.find(work.id, request.user.uid) or work
    if done.finished and not done.failed:
        return redirect(then or list_path(back), len(done.items), done.id, notice=ACTIONS[work.action][1])
    return redirect(f"/quarantine/work/{work.id}?{urlencode({'back': back})}")


async def _find_work(context: WebContext, request: SignedInRequest) -> BulkAction | Failure:
    uid = canonical(request.path_part("id"))
    return (await context.store.bulk_actions.find(uid, request.user.uid) if uid else None) or NOT_VISIBLE


for_work = about(_find_work)


@for_work
async def show_work(context: WebContext, request: SignedInRequest, work: BulkAction) -> PageResult:
    """Show what is about to be done, how far it is, or what became of it."""
    return await _render_work(context, request, work, "work.html")


@for_work
async def show_live_work(context: WebContext, request: SignedInRequest, work: BulkAction) -> PageResult:
    """Show the part of the page that changes while the work goes on."""
    return await _render_work(context, request, work, "work-live.html")


@for_work
async def start_work(context: WebContext, request: SignedInRequest, work: BulkAction) -> PageResult:
    """Begin work that was confirmed, or continue work that was interrupted."""
    return await run_work(context, request, work, request.query.raw_text("back"))


@for_work
async def undo_work(context: WebContext, request: SignedInRequest, work: BulkAction) -> PageResult:
    """Restore the messages that a work has deleted, put back those that it took out of mailboxes, or take back what it
    has reported or written down."""
    if work.action == "note":
        number = await context.store.message_notes.take_back(work.id, request.actor)
        return redirect(list_path(request.query.raw_text("back") or "/messages"), number, notice="mail-written-back")
    if work.action not in UNDONE_BY:
        return NOT_VISIBLE
    undoing = UNDONE_BY[work.action]
    restoring = await context.store.bulk_actions.create(request.user.uid, undoing, work.undone_items)
    begun = f"/messages/{work.items[0]}" if len(work.items) == 1 else "/messages"
    back = request.query.raw_text("back") or (begun if undoing in UNDOING else "")
    return await run_work(context, request, restoring, back)


async def _render_work(context: WebContext, request: SignedInRequest, work: BulkAction, template: str) -> Response:
    begun, now = work.lease > 0, context.now()
    shown = [ggrid for ggrid, _ in work.failed] if begun else list(work.items)
    mails: dict[str, HeldMessage] = {}
    for ggrid in shown[:MAX_SHOWN]:
        if mail := await context.store.quarantine.find_or_deleted(ggrid, request.user.tenant):
            mails[ggrid] = mail
    verdicts = await context.store.quarantine.verdicts(work.items, request.user.tenant) if not begun else {}
    return await context.page(
        request,
        template,
        work=work,
        begun=begun,
        is_running=begun and not work.finished and work.lease >= now,
        mails=mails,
        verdicts=verdicts,
        dangerous=sum(verdicts.get(verdict, 0) for verdict in DANGEROUS_VERDICTS),
        back=request.query.raw_text("back"),
        list_path=list_path(request.query.raw_text("back")),
        most=MAX_SHOWN,
    )


ROWS_ON_A_PAGE = 50
HELD_VERDICTS = tuple(verdict for verdict in VERDICTS if verdict != "clean")
MAX_RECIPIENTS = 100
MAY_NOT_RELEASE = "releasing malware and phishing is a right of its own; ask an administrator"


@for_message
async def release_message(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Release one message to its recipients, or to the addresses in the form, once the user has confirmed it."""
    stated = request.form.text("recipients", 20_000).replace(",", " ").split()
    recipients = [normal_address(each) for each in stated]
    if len(recipients) > MAX_RECIPIENTS or any("@" not in each for each in recipients):
        return await _render_fault(context, request, found, "enter recipients as addresses such as ann@example.org")
    if found.record.report.verdict in DANGEROUS_VERDICTS and not request.may("quarantine.release-dangerous"):
        record = found.record
        await context.store.audit.note_failed_release(
            record.ggrid, record.envelope.tenant, request.actor, MAY_NOT_RELEASE
        )
        return await _render_fault(context, request, found, MAY_NOT_RELEASE)
    if not request.form.has("sure"):
        return await context.page(
            request,
            "release.html",
            here="/quarantine",
            record=found.record,
            report=found.record.report,
            recipients=recipients or found.record.envelope.recipients,
            stated=" ".join(stated),
            place=tail_of(request),
        )
    order = ReleaseOrder(
        found.record.ggrid,
        request.user.tenant,
        by=request.actor,
        recipients=tuple(recipients),
        anywhere=request.may("quarantine.release-anywhere"),
        dangerous=request.may("quarantine.release-dangerous"),
    )
    fault = explain_failure(await context.held_mail.carry_out(order), request)
    if fault:
        return await _render_fault(context, request, found, fault)
    return redirect(f"/messages/{found.record.ggrid}{tail_of(request)}", notice="released")


@for_message
async def delete_message(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Delete one held message, and go on to the next one of the list that the user works on."""
    beside = await find_neighbours(context, request, found.held) if found.held else None
    work = await context.store.bulk_actions.create(request.user.uid, "delete", [found.record.ggrid])
    following = beside.following if beside else None
    then = f"/messages/{following}{tail_of(request)}" if following else list_of(request)
    return await run_work(context, request, work, request.query.raw_text("in"), then=then)


async def _render_fault(context: WebContext, request: SignedInRequest, found: MessageOnRecord, fault: str) -> Response:
    return with_status(await show_message(context, request, found, fault=fault), 409)


@for_held
async def show_quarantine(context: WebContext, request: SignedInRequest, search: Search) -> PageResult:
    """Search held mail, newest first. Controls of the form lead to the address that has the search as text."""
    if request.query.has("refine"):
        return redirect(f"/quarantine?{search.form.with_field('before', '')}".rstrip("?"))
    query, wanted = search.form, search.held
    limit = SORTED_ROWS if query.has("group") or is_sorted(query) else ROWS_ON_A_PAGE
    page: Page[HeldMessage] = Page(())
    found = FoundValues()
    if not search.fault:
        page = await context.store.quarantine.search(wanted, query.text("before", 200) or None, limit)
        if page.rows and not query.has("before"):
            # Where one page has all that fit, nothing else has to be looked for.
            only = () if page.next else [row.record.ggrid for row in page.rows]
            found = await context.store.quarantine.explore(wanted, only)
    rows = sort_held(page.rows, query)
    groups = group_campaigns(rows) if query.has("group") else [MailGroup((row,)) for row in rows]
    shown = await context.page(
        request,
        "quarantine.html",
        page=page,
        groups=groups,
        counts=await context.store.quarantine.counts(wanted.tenant),
        count=await _count_found(context, wanted, found) if search.text and page.rows else None,
        place=query.with_field("before", query.text("before", 200) if is_sorted(query) else ""),
        is_sorted=is_sorted(query),
        sorted_rows=SORTED_ROWS,
        verdicts=HELD_VERDICTS,
        states=STATES,
        now=context.now(),
        **await describe_search(context, request, search),
        **await describe_found(context, request, search, found),
    )
    return with_status(shown, 400) if search.fault else shown


async def _count_found(context: WebContext, wanted: HeldFilter, found: FoundValues) -> MessageCount:
    """Return how many messages fit; those that were counted for the chart need not be counted again. With more than the
    chart has, the page says that there are more, which is no reason to look through all of them once again."""
    if found.counted:
        return MessageCount(found.counted, found.more)
    return await context.store.quarantine.count(wanted)


REQUEST_CHOICES = {"state": ("open", "granted", "denied"), "kind": ("release", "report")}
NO_REQUEST_SELECTED = "no request is selected that is still there"


class RequestLine(msgspec.Struct, frozen=True):
    """A request with the message that it is about, if that is still on record."""

    request: RecipientRequest
    record: MessageRecord | None
    is_held: bool


async def _find_request_filter(_context: WebContext, request: SignedInRequest) -> RequestFilter | Failure:
    tenant, query = request.parse_tenant(), request.query
    if isinstance(tenant, Failure):
        return tenant
    state, kind = (word if (word := query.text(name, 20)) in known else "" for name, known in REQUEST_CHOICES.items())
    stated = {"tenant": tenant, "state": state or "open", "kind": kind or None, "address": query.text("q", 300)}
    return msgspec.convert(stated, RequestFilter)


for_request_filter = about(_find_request_filter)


@for_request_filter
async def decide_requests(context: WebContext, request: SignedInRequest, wanted: RequestFilter) -> PageResult:
    """Grant or deny the selected requests, with a note."""
    word, back = request.form.text("action", 20), f"/requests?{request.query.with_field('before', '')}".rstrip("?")
    stated = dict.fromkeys(filter(None, map(canonical, request.form.all("id")[:ROWS_ON_A_PAGE])))
    find = context.store.recipients.find_request
    chosen = [uid for uid in stated if await find(uid, request.user.tenant)]
    if word not in ("grant", "deny"):
        return redirect(back)
    if not chosen:
        return with_status(await show_requests(context, request, wanted, faults=[NO_REQUEST_SELECTED]), 400)
    note = request.form.text("note", MAX_SAID)
    work = await context.store.bulk_actions.create(request.user.uid, word, chosen)

    async def act(uid: str) -> str:
        return await _decide(context, request, uid, word, note)

    await context.bulk_work.start(context.store.bulk_actions, work, act)
    done = await context.store.bulk_actions.find(work.id, request.user.uid) or work
    if done.failed:
        faults = list(dict.fromkeys(fault for _, fault in done.failed))
        said = [f"{len(done.succeeded)} decided, {len(done.failed)} not", *faults]
        return with_status(await show_requests(context, request, wanted, faults=said), 409)
    return redirect(back, len(done.succeeded), notice="requests-granted" if word == "grant" else "requests-denied")


async def _decide(context: WebContext, request: SignedInRequest, uid: str, word: str, note: str) -> str:
    """Decide about one request; return why that failed, "" if it succeeded."""
    found = await context.store.recipients.find_request(uid, request.user.tenant)
    if found is None:
        return "the request is gone"
    if found.state != "open":
        return "the request was decided meanwhile"
    if word == "grant" and found.kind == "release":
        may = request.may("quarantine.release-dangerous")
        mail = await context.store.quarantine.find(found.ggrid, request.user.tenant)
        if mail and mail.record.report.verdict in DANGEROUS_VERDICTS and not may:
            return MAY_NOT_RELEASE
        order = RecipientReleaseOrder(
            found.ggrid, request.user.tenant, by=request.actor, recipient=found.address, dangerous=may
        )
        if fault := explain_failure(await context.held_mail.carry_out(order), request):
            return fault
    await context.store.recipients.decide(uid, "granted" if word == "grant" else "denied", request.actor, note)
    return ""


async def show_requests(
    context: WebContext, request: SignedInRequest, wanted: RequestFilter, *, faults: Sequence[str] = ()
) -> Response:
    """List requests, newest first; `faults` say what could not be decided."""
    page = await context.store.recipients.requests(wanted, canonical(request.query.text("before", 40)) or "")
    lines = [await _describe(context, request, each) for each in page.rows]
    return await context.page(
        request,
        "requests.html",
        lines=lines,
        page=page,
        query=request.query,
        wanted=wanted,
        states=REQUEST_CHOICES["state"],
        kinds=REQUEST_CHOICES["kind"],
        waiting=await context.store.recipients.count_open(request.user.tenant),
        scopes=await find_scopes(context, request),
        now=context.now(),
        faults=faults,
    )


async def _describe(context: WebContext, request: SignedInRequest, asked: RecipientRequest) -> RequestLine:
    mail: HeldMessage | None = await context.store.quarantine.find(asked.ggrid, request.user.tenant)
    if mail:
        return RequestLine(asked, mail.record, is_held=mail.state in ("held", "releasing"))
    record = await context.store.messages.find(asked.ggrid, request.user.tenant)
    return RequestLine(asked, record, is_held=False)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("POST", "/quarantine", act_on_held, "quarantine.act", "search"),
    PageRoute("POST", "/messages", act_on_messages, "quarantine.act", "search"),
    PageRoute("POST", "/messages/{ggrid}/notes", write_on_message, "messages.report"),
    PageRoute("POST", "/messages/{ggrid}/report", report_message, "messages.report"),
    PageRoute("GET", "/quarantine/work/{id}", show_work, "quarantine.act"),
    PageRoute("GET", "/quarantine/work/{id}/live", show_live_work, "quarantine.act", is_polled=True),
    PageRoute("POST", "/quarantine/work/{id}/start", start_work, "quarantine.act"),
    PageRoute("POST", "/quarantine/work/{id}/undo", undo_work, "messages.report"),
    PageRoute("GET", "/quarantine", show_quarantine, "quarantine.read", "search"),
    PageRoute("POST", "/messages/{ggrid}/release", release_message, "quarantine.act"),
    PageRoute("POST", "/messages/{ggrid}/delete", delete_message, "quarantine.act"),
    PageRoute("GET", "/requests", for_request_filter(show_requests), "quarantine.read"),
    PageRoute("POST", "/requests", decide_requests, "quarantine.act"),
)
