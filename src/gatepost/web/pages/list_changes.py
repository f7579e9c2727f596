"""Adding entries to a list: those that were typed or pasted, after a preview of their effect, and those of a file.

In a form there is one entry in a line, with a comment after a tab, or after ` # ` where no phrase could mean that; a
tab is what comes from two columns of a spreadsheet. Every line gets its normal form or a reason why it has none, so
that the user can check them before anything is saved. The second step sends the text again, so nothing waits on the
server.

A file is read from the spool in bounded pieces, never more of it in memory than one call of 500 entries, and in a
thread, so that other requests do not wait. The whole file is checked before its first entry is saved, so an invalid
line changes nothing; then it is saved in calls of 500, and the answer says how much was applied.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec
from starlette.responses import Response

from gatepost.analysis.report import shown_sender
from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.http import end_with_client
from gatepost.api.lists import (
    FORMATS,
    MAX_COMMENT,
    DryRun,
    ListFileFormat,
    NewListEntry,
    TriedEntry,
    format_of,
    split_comment,
)
from gatepost.feeds.sealed_reading import (
    FILE_SECONDS,
    PIECE,
    Batch,
    FilePlan,
    ReadingFailed,
    RejectedLine,
    SealedReader,
    read_sealed,
)
from gatepost.lists.catalogue import KINDS, ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.process.background_work import background
from gatepost.rejudge.try_change import can_look_back, new_entry
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
    explain_refusal,
    find_list,
    find_list_of,
    find_warnings,
    for_list,
    take_back,
    undo_of,
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
# Lines that a thread parses before others have a turn.
LINES_AT_ONCE = 200
MAX_ROWS_SHOWN = 200
LOOK_BACK_DAYS = 7
# Messages whose senders can be blocked at once.
MAX_SENDERS = 500


class PastedLine(msgspec.Struct, frozen=True):
    """A line that is an entry. `again` is a later line with the same entry, which replaces this one; 0 for none."""

    number: int
    text: str
    entry: NewEntry
    again: int = 0


class Pasted(msgspec.Struct, frozen=True):
    """A pasted text: its entries, its rejected lines, and what is wrong with it as a whole."""

    lines: tuple[PastedLine, ...] = ()
    faults: tuple[RejectedLine, ...] = ()
    fault: str = ""

    @property
    def entries(self) -> tuple[NewEntry, ...]:
        """Every entry once, as its last line has it."""
        return tuple(line.entry for line in self.lines if not line.again)


async def parse_pasted(text: str, definition: ListDefinition, comment: str, expires: int | None) -> Pasted:
    """Parse the lines of a text; lines without a comment of their own get the given one."""
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n", MAX_LINES)
    if len(rows) > MAX_LINES and rows[-1].strip():
        return Pasted(fault=f"A form takes at most {MAX_LINES:,} lines. Import a file instead.")

    def parse(numbered: tuple[int, str]) -> PastedLine | RejectedLine | None:
        number, row = numbered
        stated = _parse_line(row, definition, comment)
        if stated is None:
            return None
        made = new_entry(stated, definition)
        if isinstance(made, ListRefusal):
            return RejectedLine(number, stated.entry, made.reason)
        return PastedLine(number, stated.entry, msgspec.structs.replace(made, expires=expires))

    found = await background.map(parse, tuple(enumerate(rows, 1)), LINES_AT_ONCE)
    lines = [each for each in found if isinstance(each, PastedLine)]
    faults = tuple(each for each in found if isinstance(each, RejectedLine))
    fault = "" if lines or faults else "Enter at least one entry."
    return Pasted(_mark_repeated(_share_comments(lines, comment)), faults, fault)


def _parse_line(row: str, definition: ListDefinition, comment: str) -> NewListEntry | None:
    text = row.strip()
    if not text or text.startswith("#"):
        return None
    entry, own = split_comment(text, is_free_text=KINDS[definition.kind].is_free_text)
    return NewListEntry(entry, own or comment)


def _share_comments(lines: list[PastedLine], default: str) -> list[PastedLine]:
    """The last line of an entry counts; where it has no comment of its own, the one before it is kept."""
    own: dict[str, str] = {}
    shared = []
    for line in lines:
        if line.entry.comment != default:
            own[line.entry.key] = line.entry.comment
        entry = msgspec.structs.replace(line.entry, comment=own.get(line.entry.key, default))
        shared.append(msgspec.structs.replace(line, entry=entry))
    return shared


def _mark_repeated(lines: list[PastedLine]) -> tuple[PastedLine, ...]:
    last = {line.entry.key: line.number for line in lines}
    return tuple(
        line
        if last[line.entry.key] == line.number
        else PastedLine(line.number, line.text, line.entry, last[line.entry.key])
        for line in lines
    )


class Preview(msgspec.Struct, frozen=True):
    """What adding the entries would do: together, each by its key, and which of them the list has already."""

    dry_run: DryRun | None = None
    each: Mapping[str, TriedEntry] = {}
    present: frozenset[str] = frozenset()
    fault: str = ""


@for_list
async def show_preview(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Show what adding the entries would do; nothing is saved."""

    async def work() -> Response:
        pasted = await _read_pasted(context, request, scoped_list)
        return with_status(await _render_preview(context, request, scoped_list, pasted), 400 if pasted.fault else 200)

    return await end_with_client(request.http.receive, work())


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
    fields = {
        "entries": "\n".join(lines.values()),
        "comment": "",
        "expires": default_end(context.now()),
        "back": back,
    }
    typed = Form({name: (value,) for name, value in fields.items()})
    with call:
        filled = msgspec.structs.replace(request, form=typed)
        pasted = await _read_pasted(context, filled, scoped_list)
        return await _render_preview(context, filled, scoped_list, pasted)


async def _find_record(context: WebContext, request: SignedInRequest, ggrid: str) -> MessageRecord | None:
    """A message on record or held, if the user may see it."""
    record = await context.store.messages.find(ggrid)
    if record is None:
        mail = await context.store.quarantine.find_or_deleted(ggrid, request.user.tenant)
        record = mail.record if mail else None
    return record if record and request.user.tenant in (None, record.envelope.tenant) else None


def _list_entries(record: MessageRecord, what: str) -> list[str]:
    """The entries that a message gives; its sender is the one that readers see, and a bounce has none."""
    if what != "sender":
        return [" ".join(entry.split()) for named, entry, _ in entry_candidates(record.report) if named == what]
    address = " ".join(shown_sender(record.report, record.envelope.sender).address.split())
    return [address] if address else []


@for_list
async def add_entries(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Save the entries. A rejected line stops that, unless the user has seen it and chose to skip it."""
    pasted = await _read_pasted(context, request, scoped_list)
    if pasted.fault or (pasted.faults and not request.form.has("skip")):
        return with_status(await _render_preview(context, request, scoped_list, pasted), 400)
    changed = ChangeSet(context, scoped_list, request.user, request.actor)
    applied = await changed.add(pasted.entries)
    kept = await changed.keep()
    if applied.fault:
        before = f"{applied.modified:,} entries were saved." if applied.modified else "Nothing was saved."
        refused = msgspec.structs.replace(pasted, fault=f"{before} {applied.fault}")
        return with_status(await _render_preview(context, request, scoped_list, refused), 409)
    number = await _look_back(context, request, scoped_list, pasted)
    back = request.form.text("back", 5_000)
    if back.startswith(("/messages", "/quarantine")) and back.isprintable():
        return redirect(back, applied.modified, *undo_of(kept), notice="blocked")
    path = f"{scoped_list.path}/look-back?id={number}" if number and request.may("messages.read") else scoped_list.path
    return redirect(path, applied.modified, *undo_of(kept), notice="added")


async def _look_back(
    context: WebContext, request: SignedInRequest, scoped_list: ListInScope, found: Pasted
) -> int | None:
    """Look for delivered mail that the new entries would have held, and keep what was found; returns its number.

    The entries are saved already: where too much of this sort is running, nothing is looked for.
    """
    definition, scope = scoped_list.definition, scoped_list.scope
    call = context.limits.begin("dry run", request.party) if can_look_back(definition) else None
    if call is None or isinstance(call, Failure):
        return None
    keys = tuple(entry.key for entry in found.entries)
    with call:
        delivered = await context.dry_runs.look_back(scope, definition, keys, LOOK_BACK_DAYS, request.actor)
    return await context.store.look_backs.record(scope, definition.name, delivered) if delivered.found else None


async def _read_pasted(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> Pasted:
    form = request.form
    expires = parse_expiry(form.text("expires"), context.now())
    if isinstance(expires, Failure):
        return Pasted(fault=f"Last day: {expires.message}.")
    comment = form.text("comment", MAX_COMMENT)
    return await parse_pasted(form.raw_text("entries"), scoped_list.definition, comment, expires)


async def _preview_effect(context: WebContext, scoped_list: ListInScope, found: Pasted) -> Preview:
    entries = found.entries
    if not entries:
        return Preview()
    dry_run = await context.dry_runs.try_adding(scoped_list.scope, scoped_list.definition, entries)
    if isinstance(dry_run, ListFull):
        return Preview(fault=explain_refusal(dry_run))
    keys = tuple(entry.key for entry in entries)
    present = frozenset(
        each.key for each in await context.store.lists.find(scoped_list.scope, scoped_list.definition.name, keys)
    )
    return Preview(dry_run, dict(zip(keys, dry_run.entries, strict=True)), present)


async def _render_preview(
    context: WebContext, request: SignedInRequest, scoped_list: ListInScope, pasted: Pasted
) -> Response:
    preview = Preview() if pasted.fault else await _preview_effect(context, scoped_list, pasted)
    keys = tuple(entry.key for entry in pasted.entries)
    scopes, definition = await find_scopes(context, request), scoped_list.definition
    return await context.page(
        request,
        "lists-preview.html",
        here="/lists",
        scoped_list=scoped_list,
        pasted=pasted,
        dry_run=preview.dry_run,
        each=preview.each,
        present=preview.present,
        warnings=await find_warnings(context, scopes, scoped_list.scope, definition, keys),
        fault=pasted.fault or preview.fault,
        form=request.form,
        shown=MAX_ROWS_SHOWN,
        most=MAX_LINES,
    )


MAX_FILE = 64 << 20
MAX_FAULTS_SHOWN = 100
# A dry run knows its entries all at once.
MAX_DRY_RUN = 20_000


class CheckedFile(msgspec.Struct, frozen=True):
    """The content of a file. `first` are its first entries, `stop` says why it could not be read to its end."""

    lines: int = 0
    entries: int = 0
    faults: int = 0
    shown: tuple[RejectedLine, ...] = ()
    first: tuple[NewEntry, ...] = ()
    stop: str = ""


class ImportOutcome(msgspec.Struct, frozen=True):
    """The result of an upload: a dry run, or what was applied, or the fault that prevented both. `undo` is the change
    set that can be taken back, "" where there is none."""

    checked: CheckedFile = CheckedFile()
    dry_run: DryRun | None = None
    applied: Applied | None = None
    fault: str = ""
    undo: str = ""


@for_list
async def show_import(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """Show the form for a file."""
    return html_response(await _render_import(context, request, scoped_list, None))


async def import_file(context: WebContext, request: SignedInRequest, body: SpooledBody) -> PageResult:
    """Dry-run a file, or save its entries."""
    scoped_list = await find_list(context, request)
    if isinstance(scoped_list, Failure):
        return scoped_list
    if is_progress_wanted(request.http):

        async def work(report_progress: ReportProgress) -> str:
            return await _render_import(
                context, request, scoped_list, await _process_file(context, request, scoped_list, body, report_progress)
            )

        return ProgressResponse(work)
    outcome = await _process_file(context, request, scoped_list, body, ignore_progress)
    return html_response(await _render_import(context, request, scoped_list, outcome), 400 if outcome.fault else 200)


async def _process_file(
    context: WebContext,
    request: SignedInRequest,
    scoped_list: ListInScope,
    body: SpooledBody,
    report_progress: ReportProgress,
) -> ImportOutcome:
    plan = FilePlan(scoped_list.definition, _choose_format(request))
    try:
        async with read_sealed(plan, body.size, FILE_SECONDS) as reader:
            await reader.put(body.chunks(PIECE))
            return await _process_entries(context, request, scoped_list, reader, report_progress)
    except ReadingFailed as fault:
        return ImportOutcome(fault=f"The file {fault}. Lines before that may have been saved; see the list.")


async def _process_entries(
    context: WebContext,
    request: SignedInRequest,
    scoped_list: ListInScope,
    reader: SealedReader,
    report_progress: ReportProgress,
) -> ImportOutcome:
    # Whoever leaves before anything is saved ends the reading; what is being saved is saved to its end.
    checked = await end_with_client(request.http.receive, check_file(reader))
    if checked.stop:
        return ImportOutcome(checked, fault=f"Nothing was saved. {checked.stop}")
    if not checked.entries and not checked.faults:
        return ImportOutcome(checked, fault="Nothing was saved: the file has no entries.")
    if request.form.text("what") != "save":
        return await _dry_run_file(context, scoped_list, checked)
    if checked.faults and not request.form.has("skip"):
        return ImportOutcome(checked, fault="Nothing was saved: some lines are invalid.")
    changed = ChangeSet(context, scoped_list, request.user, request.actor)
    applied = await save_batches(changed, reader.batches(), checked.lines, report_progress)
    return ImportOutcome(checked, applied=applied, fault=applied.fault, undo=await changed.keep())


def _choose_format(request: SignedInRequest) -> ListFileFormat:
    """Return the format that the user chose, or the one of the file name's extension."""
    chosen = request.form.text("format")
    return next((each for each in FORMATS if each == chosen), format_of(request.form.file))


async def check_file(reader: SealedReader) -> CheckedFile:
    """Read a file to its end without changing the list."""
    last = entries = faults = 0
    shown: list[RejectedLine] = []
    first: list[NewEntry] = []
    stop = ""
    async for batch in reader.batches():
        last, entries, faults = batch.last, entries + len(batch.entries), faults + len(batch.faults)
        shown += batch.faults[: MAX_FAULTS_SHOWN - len(shown)]
        first += batch.entries[: MAX_DRY_RUN - len(first)]
        stop = batch.stop
    return CheckedFile(last, entries, faults, tuple(shown), tuple(first), stop)


async def _dry_run_file(context: WebContext, scoped_list: ListInScope, checked: CheckedFile) -> ImportOutcome:
    dry_run = await context.dry_runs.try_adding(scoped_list.scope, scoped_list.definition, checked.first)
    if isinstance(dry_run, ListFull):
        return ImportOutcome(checked, fault=explain_refusal(dry_run))
    return ImportOutcome(checked, dry_run=dry_run)


async def save_batches(
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
    context: WebContext, request: SignedInRequest, scoped_list: ListInScope, outcome: ImportOutcome | None
) -> str:
    return await context.renderer.render_in_turns(
        "lists-import.html",
        request,
        scoped_list=scoped_list,
        outcome=outcome,
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
    done = await take_back(context, scoped_list, changed, request.user, request.actor)
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
