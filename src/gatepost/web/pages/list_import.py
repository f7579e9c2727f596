"""Importing a file into a list.

The file is read from the spool in bounded pieces, never more of it in memory than one call of 500 entries, and in a
thread, so that other requests do not wait. The whole file is checked before its first entry is saved, so an invalid
line changes nothing; then it is saved in calls of 500, and the answer says how much was applied.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.api.list_files import FORMATS, ListFileError, ListFileFormat, format_of, records
from gatepost.api.lists import MAX_ENTRIES, DryRun
from gatepost.lists.catalogue import ListDefinition
from gatepost.lists.entries import PHRASE, ListRefusal
from gatepost.rejudge.dry_run import new_entry, try_adding
from gatepost.scanning.spool import SpooledBody
from gatepost.store.audit import Actor
from gatepost.store.errors import ListFull
from gatepost.store.lists import NewEntry
from gatepost.web.context import WebContext
from gatepost.web.list_access import Applied, ListInScope, RejectedLine, add_all, explain_refusal, find_list
from gatepost.web.page_responses import (
    ProgressResponse,
    ReportProgress,
    html_response,
    ignore_progress,
    is_progress_wanted,
)
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageRoute, UploadRoute, WebRoute

CHUNK = 64 << 10
# An entry and a comment of 1,000 characters each take 12,000 bytes where JSON escapes them all.
MAX_LINE = 64 << 10


class Batch(msgspec.Struct, frozen=True):
    """Up to 500 entries of a file, in order. `stop` says why nothing after them can be read."""

    entries: tuple[NewEntry, ...]
    faults: tuple[RejectedLine, ...]
    last: int
    stop: str = ""


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Split a file into lines; raise `ListFileError` for a line that is too long."""
    rest, number = b"", 0
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            yield _check_length(line, number) + b"\n"
        _check_length(rest, number + 1)
    if rest:
        yield rest


def _check_length(line: bytes, number: int) -> bytes:
    if len(line) > MAX_LINE:
        raise ListFileError(number, f"is longer than {MAX_LINE:,} bytes")
    return line


def read_batches(chunks: Iterable[bytes], kind: ListFileFormat, definition: ListDefinition) -> Iterator[Batch]:
    """Read the entries of a file in batches of one call, with the rejected lines."""
    found = records(split_lines(chunks), kind, phrases=definition.kind == PHRASE.name)
    last = 0
    while True:
        entries: list[NewEntry] = []
        faults: list[RejectedLine] = []
        stop, seen = "", False
        try:
            for record in islice(found, MAX_ENTRIES):
                seen, last = True, record.last
                made = new_entry(record.entry, definition)
                if isinstance(made, ListRefusal):
                    faults.append(RejectedLine(record.first, record.entry.entry[:200], made.reason))
                else:
                    entries.append(made)
        except ListFileError as fault:
            stop = f"Line {fault.line:,} {fault.reason}."
        if seen or stop:
            yield Batch(tuple(entries), tuple(faults), last, stop)
        if stop or not seen:
            return


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
    """The result of an upload: a dry run, or what was applied, or the fault that prevented both."""

    checked: CheckedFile = CheckedFile()
    dry_run: DryRun | None = None
    applied: Applied | None = None
    fault: str = ""


async def show_import(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show the form for a file."""
    scoped_list = await find_list(context, request)
    return (
        scoped_list
        if isinstance(scoped_list, Failure)
        else html_response(await _render_import(context, request, scoped_list, None))
    )


async def import_file(context: WebContext, request: SignedInRequest, body: SpooledBody) -> Response | Failure:
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
    kind = _choose_format(request)
    checked = await check_file(body, kind, scoped_list)
    if checked.stop:
        return ImportOutcome(checked, fault=f"Nothing was saved. {checked.stop}")
    if not checked.entries and not checked.faults:
        return ImportOutcome(checked, fault="Nothing was saved: the file has no entries.")
    if request.form.text("what") != "save":
        return await _dry_run_file(context, scoped_list, checked)
    if checked.faults and not request.form.has("skip"):
        return ImportOutcome(checked, fault="Nothing was saved: some lines are invalid.")
    applied = await save_batches(
        context,
        scoped_list,
        _read_batches_in_thread(body, kind, scoped_list),
        request.actor,
        checked.lines,
        report_progress,
    )
    return ImportOutcome(checked, applied=applied, fault=applied.fault)


def _choose_format(request: SignedInRequest) -> ListFileFormat:
    """Return the format that the user chose, or the one of the file name's extension."""
    chosen = request.form.text("format")
    return next((each for each in FORMATS if each == chosen), format_of(request.form.file))


async def check_file(body: SpooledBody, kind: ListFileFormat, scoped_list: ListInScope) -> CheckedFile:
    """Read a file to its end without changing the list."""
    last = entries = faults = 0
    shown: list[RejectedLine] = []
    first: list[NewEntry] = []
    stop = ""
    async for batch in _read_batches_in_thread(body, kind, scoped_list):
        last, entries, faults = batch.last, entries + len(batch.entries), faults + len(batch.faults)
        shown += batch.faults[: MAX_FAULTS_SHOWN - len(shown)]
        first += batch.entries[: MAX_DRY_RUN - len(first)]
        stop = batch.stop
    return CheckedFile(last, entries, faults, tuple(shown), tuple(first), stop)


async def _dry_run_file(context: WebContext, scoped_list: ListInScope, checked: CheckedFile) -> ImportOutcome:
    dry_run = await try_adding(
        context.store, context.dry_runs, scoped_list.scope, scoped_list.definition, checked.first
    )
    if isinstance(dry_run, ListFull):
        return ImportOutcome(checked, fault=explain_refusal(dry_run))
    return ImportOutcome(checked, dry_run=dry_run)


async def save_batches(
    context: WebContext,
    scoped_list: ListInScope,
    found: AsyncIterator[Batch],
    by: Actor,
    lines: int,
    report_progress: ReportProgress,
) -> Applied:
    """Save the entries of a file, without its rejected lines. `report_progress` is called with the percentage done."""
    done = last = 0
    async for batch in found:
        applied = await add_all(context, scoped_list, batch.entries, by)
        if applied.fault:
            where = f"Lines up to {last:,} were saved, the rest was not" if last else "Nothing was saved"
            return Applied(done, f"{where}. {applied.fault}")
        done, last = done + applied.modified, batch.last
        await report_progress(100 * last // lines)
    return Applied(done)


async def _read_batches_in_thread(
    body: SpooledBody, kind: ListFileFormat, scoped_list: ListInScope
) -> AsyncIterator[Batch]:
    found = read_batches(body.chunks(CHUNK), kind, scoped_list.definition)
    while (batch := await asyncio.to_thread(next, found, None)) is not None:
        yield batch


async def _render_import(
    context: WebContext, request: SignedInRequest, scoped_list: ListInScope, outcome: ImportOutcome | None
) -> str:
    return await context.renderer.render_in_turns(
        "lists-import.html",
        request,
        here="/lists",
        scoped_list=scoped_list,
        outcome=outcome,
        form=request.form,
        limit=MAX_FILE,
        tried=MAX_DRY_RUN,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/lists/{scope}/{name}/import", show_import, "lists.change"),
    UploadRoute("/lists/{scope}/{name}/import", import_file, "lists.change", MAX_FILE, "dry run"),
)
