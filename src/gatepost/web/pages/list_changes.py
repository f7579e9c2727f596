"""Adding entries to a list: those that were typed or pasted, after a preview of their effect, and those of a file.

In a form there is one entry in a line, with a comment after a tab, or after ` # ` where no phrase could mean that; a
tab is what comes from two columns of a spreadsheet. Every line gets its normal form or a reason why it has none, so
that the user can check them before anything is saved. The second step sends the text again, so nothing waits on the
server.

A file is read from the spool in bounded pieces, never more of it in memory than one call of 500 entries, and in a
thread, so that other requests do not wait. The whole file is checked before its first entry is saved, so an invalid
line changes nothing; then it is saved in calls of 500, and the answer says how much was applied.
"""

from collections.abc import AsyncIterator, Sequence

import msgspec
from starlette.responses import Response

from gatepost.analysis.report import shown_sender
from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.http import end_with_client
from gatepost.api.lists import FORMATS, MAX_COMMENT, ListFileFormat, RejectedLine, format_of, plain_records
from gatepost.feeds.sealed_reading import FILE_SECONDS, PIECE, Batch, FilePlan, ReadingFailed, SealedReader, read_sealed
from gatepost.lists.catalogue import KINDS, ListDefinition
from gatepost.rejudge.list_plan import ListPlan, plan_lines
from gatepost.rejudge.try_change import can_look_back
from gatepost.scanning.spool import SpooledBody
from gatepost.store.errors import ListFull
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import Form, default_end, parse_expiry
from gatepost.web.list_access import (
    CHANGE_SET,
    Applied,
    ChangeSet,
    ListInScope,
    add_to_list,
    explain_refusal,
    find_list,
    find_list_of,
    find_warnings,
    for_list,
    take_back,
)
from gatepost.web.message_lines import entry_candidates
from gatepost.web.page_responses import (
    ProgressResponse,
    ReportProgress,
    html_response,
    ignore_progress,
    is_progress_wanted,
    redirect,
    with_status,
)
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, UploadRoute, WebRoute

MAX_LINES = 10_000
MAX_ROWS_SHOWN = 200
LOOK_BACK_DAYS = 7
# Messages whose senders can be blocked at once.
MAX_SENDERS = 500


async def _plan_typed(context: WebContext, form: Form, definition: ListDefinition) -> ListPlan:
    """Return the plan of adding the lines of a form; lines without a comment of their own get that of the form."""
    expires = parse_expiry(form.text("expires"), context.now())
    if isinstance(expires, Failure):
        return ListPlan(fault=f"Last day: {expires.message}.")
    text = form.raw_text("entries").replace("\r\n", "\n").replace("\r", "\n")
    rows = text.split("\n", MAX_LINES)
    if len(rows) > MAX_LINES and rows[-1].strip():
        return ListPlan(fault=f"A form takes at most {MAX_LINES:,} lines. Import a file instead.")
    records = plain_records(rows, is_free_text=KINDS[definition.kind].is_free_text)
    return await plan_lines(records, definition, form.text("comment", MAX_COMMENT), expires)


@for_list
async def show_preview(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Show what adding the entries would do; nothing is saved."""

    async def work() -> Response:
        plan = await _plan_typed(context, request.form, scoped_list.definition)
        page = await _render_preview(context, request, scoped_list, plan, request.form)
        return with_status(page, 400 if plan.fault else 200)

    return await end_with_client(request.http.receive, work())


async def _render_preview(
    context: WebContext, request: SignedInRequest, scoped_list: ListInScope, plan: ListPlan, form: Form
) -> Response:
    scope, definition = scoped_list.scope, scoped_list.definition
    tried = plan if plan.fault else await context.dry_runs.try_plan(scope, definition, plan)
    if isinstance(tried, ListFull):
        tried = msgspec.structs.replace(plan, fault=explain_refusal(tried))
    keys = tuple(entry.key for entry in tried.entries)
    return await context.page(
        request,
        "lists-preview.html",
        here="/lists",
        scoped_list=scoped_list,
        plan=tried,
        warnings=await find_warnings(context, await find_scopes(context, request), scope, definition, keys),
        form=form,
        shown=MAX_ROWS_SHOWN,
        most=MAX_LINES,
    )


# What of messages is blocked by an action on many: what entries are called that can be made of a message, and the list.
BLOCKED = {
    "block": ("sender", "blocked-senders"),
    "block-domains": ("sender's domain", "blocked-senders"),
    "block-hosts": ("link host", "blocked-urls"),
    "block-files": ("file", "blocked-files"),
    "block-ips": ("sending host", "blocked-ips"),
}


async def preview_blocking(
    context: WebContext, request: SignedInRequest, ggrids: Sequence[str], what: tuple[str, str], back: str
) -> PageResult:
    """Show what blocking something of messages would do, each entry with a comment that names its message. The list is
    that of their tenant if they have one in common; `back` is the list of messages."""
    if not request.may("lists.change"):
        return NOT_VISIBLE
    records = [each for ggrid in ggrids[:MAX_SENDERS] if (each := await _find_record(context, request, ggrid))]
    owners = {record.envelope.tenant for record in records}
    owner = request.user.tenant or (owners.pop() if len(owners) == 1 else None)
    named, name = what
    scoped_list = await find_list_of(context, request, owner or GLOBAL, name)
    if isinstance(scoped_list, Failure):
        return scoped_list
    call = context.limits.begin("dry run", request.party)
    if isinstance(call, Failure):
        return call
    lines: dict[str, str] = {}
    for record in records:
        said = f"from message {record.ggrid}, {record.report.verdict}, {request.user.name}"
        for entry in _list_entries(record, named):
            lines.setdefault(entry, f"{entry}\t{said}")
    fields = {"entries": "\n".join(lines.values()), "expires": default_end(context.now()), "back": back}
    form = Form({name: (value,) for name, value in fields.items()})
    with call:
        plan = await _plan_typed(context, form, scoped_list.definition)
        return await _render_preview(context, request, scoped_list, plan, form)


async def _find_record(context: WebContext, request: SignedInRequest, ggrid: str) -> MessageRecord | None:
    """A message on record or held, if the user may see it."""
    if record := await context.store.messages.find(ggrid, request.user.tenant):
        return record
    mail = await context.store.quarantine.find_or_deleted(ggrid, request.user.tenant)
    return mail.record if mail else None


def _list_entries(record: MessageRecord, what: str) -> list[str]:
    """The entries that a message gives; its sender is the one that readers see, and a bounce has none."""
    if what != "sender":
        return [" ".join(entry.split()) for named, entry, _ in entry_candidates(record.report) if named == what]
    address = " ".join(shown_sender(record.report, record.envelope.sender).address.split())
    return [address] if address else []


@for_list
async def add_entries(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Save the entries. A rejected line stops that, unless the user has seen it and chose to skip it."""
    form = request.form
    plan = await _plan_typed(context, form, scoped_list.definition)
    if plan.fault or (plan.faults and not form.has("skip")):
        return with_status(await _render_preview(context, request, scoped_list, plan, form), 400)
    applied = await add_to_list(context, request, scoped_list, plan.entries)
    if applied.fault:
        before = f"{applied.modified:,} entries were saved." if applied.modified else "Nothing was saved."
        refused = msgspec.structs.replace(plan, fault=f"{before} {applied.fault}")
        return with_status(await _render_preview(context, request, scoped_list, refused, form), 409)
    number = await _look_back(context, request, scoped_list, plan)
    back = form.text("back", 5_000)
    if back.startswith(("/messages", "/quarantine")) and back.isprintable():
        return redirect(back, applied.modified, *applied.undo, notice="blocked")
    path = f"{scoped_list.path}/look-back?id={number}" if number and request.may("messages.read") else scoped_list.path
    return redirect(path, applied.modified, *applied.undo, notice="added")


async def _look_back(
    context: WebContext, request: SignedInRequest, scoped_list: ListInScope, plan: ListPlan
) -> int | None:
    """Look for delivered mail that the new entries would have held, and keep what was found; returns its number.

    The entries are saved already: where too much of this sort is running, nothing is looked for.
    """
    definition, scope = scoped_list.definition, scoped_list.scope
    call = context.limits.begin("dry run", request.party) if can_look_back(definition) else None
    if call is None or isinstance(call, Failure):
        return None
    keys = tuple(entry.key for entry in plan.entries)
    with call:
        delivered = await context.dry_runs.look_back(scope, definition, keys, LOOK_BACK_DAYS, request.actor)
    return await context.store.look_backs.record(scope, definition.name, delivered) if delivered.found else None


MAX_FILE = 64 << 20
MAX_FAULTS_SHOWN = 100
# A dry run knows its entries all at once.
MAX_DRY_RUN = 20_000


class Imported(msgspec.Struct, frozen=True):
    """What a file would do, or did: `applied` is None as long as nothing was saved. `fault` says what prevented it."""

    plan: ListPlan = ListPlan()
    applied: Applied | None = None
    fault: str = ""


@for_list
async def show_import(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Show the form for a file."""
    return html_response(await _render_import(context, request, scoped_list, None))


async def import_file(context: WebContext, request: SignedInRequest, body: SpooledBody) -> PageResult:
    """Dry-run a file, or save its entries."""
    scoped_list = await find_list(context, request)
    if isinstance(scoped_list, Failure):
        return scoped_list

    async def work(report_progress: ReportProgress) -> tuple[str, int]:
        imported = await _process_file(context, request, scoped_list, body, report_progress)
        return await _render_import(context, request, scoped_list, imported), 400 if imported.fault else 200

    if is_progress_wanted(request.http):
        return ProgressResponse(work)
    return html_response(*await work(ignore_progress))


async def _process_file(
    context: WebContext,
    request: SignedInRequest,
    scoped_list: ListInScope,
    body: SpooledBody,
    report_progress: ReportProgress,
) -> Imported:
    chosen = request.form.text("format")
    kind: ListFileFormat = next((each for each in FORMATS if each == chosen), format_of(request.form.file))
    try:
        async with read_sealed(FilePlan(scoped_list.definition, kind), body.size, FILE_SECONDS) as reader:
            await reader.put(body.chunks(PIECE))
            return await _process_entries(context, request, scoped_list, reader, report_progress)
    except ReadingFailed as fault:
        return Imported(fault=f"The file {fault}. Lines before that may have been saved; see the list.")


async def _process_entries(
    context: WebContext,
    request: SignedInRequest,
    scoped_list: ListInScope,
    reader: SealedReader,
    report_progress: ReportProgress,
) -> Imported:
    # Whoever leaves before anything is saved ends the reading; what is being saved is saved to its end.
    plan = await end_with_client(request.http.receive, _plan_file(reader))
    if plan.fault:
        return Imported(plan, fault=f"Nothing was saved. {plan.fault}")
    if not plan.count and not plan.fault_count:
        return Imported(plan, fault="Nothing was saved: the file has no entries.")
    if request.form.text("what") != "save":
        tried = await context.dry_runs.try_plan(scoped_list.scope, scoped_list.definition, plan)
        return Imported(plan, fault=explain_refusal(tried)) if isinstance(tried, ListFull) else Imported(tried)
    if plan.fault_count and not request.form.has("skip"):
        return Imported(plan, fault="Nothing was saved: some lines are invalid.")
    changed = ChangeSet(context, request, scoped_list)
    applied = await _save_batches(changed, reader.batches(), plan.last, report_progress)
    return Imported(plan, msgspec.structs.replace(applied, undo=await changed.keep()), applied.fault)


async def _plan_file(reader: SealedReader) -> ListPlan:
    """Read a file to its end without changing the list."""
    count = fault_count = last = 0
    faults: list[RejectedLine] = []
    entries: list[NewEntry] = []
    stop = ""
    async for batch in reader.batches():
        count, fault_count = count + len(batch.entries), fault_count + len(batch.faults)
        last, stop = batch.last, batch.stop
        faults += batch.faults[: MAX_FAULTS_SHOWN - len(faults)]
        entries += batch.entries[: MAX_DRY_RUN - len(entries)]
    return ListPlan(tuple(entries), (), tuple(faults), stop, count, fault_count, last)


async def _save_batches(
    changed: ChangeSet, found: AsyncIterator[Batch], lines: int, report_progress: ReportProgress
) -> Applied:
    """Save the entries of a file, without its rejected lines. `report_progress` is called with the percentage done."""
    done = last = 0
    async for batch in found:
        applied = await changed.add(batch.entries)
        if applied.fault:
            where = f"Lines up to {last:,} were saved, the rest was not" if last else "Nothing was saved"
            return Applied(done, f"{where}. {applied.fault}")
        done, last = done + applied.modified, batch.last
        await report_progress(100 * last // lines)
    return Applied(done)


async def _render_import(
    context: WebContext, request: SignedInRequest, scoped_list: ListInScope, imported: Imported | None
) -> str:
    return await context.renderer.render_in_turns(
        "lists-import.html",
        request,
        scoped_list=scoped_list,
        imported=imported,
        form=request.form,
        limit=MAX_FILE,
        tried=MAX_DRY_RUN,
    )


async def undo_change(context: WebContext, request: SignedInRequest) -> PageResult:
    """Take a change of a list back that the user has made."""
    changed = await context.store.bulk_actions.find(request.path_part("id"), request.user.uid)
    parts = changed.action.split(":") if changed else []
    if changed is None or len(parts) != 4 or parts[0] != CHANGE_SET:
        return NOT_VISIBLE
    _, scope, name, _ = parts
    scoped_list = await find_list_of(context, request, scope, name)
    if isinstance(scoped_list, Failure):
        return scoped_list
    done = await take_back(context, request, scoped_list, changed)
    if isinstance(done, str):
        return Failure(INVALID_REQUEST, done)
    notice = "change-undone-in-part" if done.left else "change-undone"
    return redirect(scoped_list.path, done.done, *([done.left] if done.left else ()), notice=notice)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("POST", "/list-changes/{id}/undo", undo_change, "lists.change"),
    PageRoute("POST", "/lists/{scope}/{name}/preview", show_preview, "lists.change", "dry run", has_long_text=True),
    PageRoute("POST", "/lists/{scope}/{name}/add", add_entries, "lists.change", has_long_text=True),
    PageRoute("GET", "/lists/{scope}/{name}/import", show_import, "lists.change"),
    UploadRoute("/lists/{scope}/{name}/import", import_file, "lists.change", MAX_FILE, "dry run"),
)
