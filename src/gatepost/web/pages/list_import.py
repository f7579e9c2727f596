"""A file with entries, read from the spool in bounded pieces: never more of it in memory than one call of 500.

Files into a list. The whole file is looked at before its first entry is saved, so a line that is none changes
nothing; then it is saved in calls of 500, and the answer says what of it was applied.

The work on lines is done in a thread, one call at a time, so that other visitors do not wait for it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.api.list_files import FORMATS, Format, ListFileError, format_of, records
from gatepost.api.lists import MAX_ENTRIES, DryRun
from gatepost.lists.catalogue import ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.rejudge.dry_run import new_entry, try_adding
from gatepost.scanning.spool import SpooledBody
from gatepost.store.audit import Actor
from gatepost.store.entries import NewEntry
from gatepost.store.errors import ListFull
from gatepost.web.context import WebContext
from gatepost.web.list_access import Applied, ListInScope, add_all, find_list, refusal
from gatepost.web.rendering import ReportProgress, WatchedResponse, ignore_progress, is_watched
from gatepost.web.request import SignedInRequest
from gatepost.web.responses import html_response
from gatepost.web.site import Page, Row, Upload

CHUNK = 64 << 10
# An entry and a comment of 1,000 characters each take 12,000 bytes where JSON escapes them all.
MAX_LINE = 64 << 10


class FaultyLine(msgspec.Struct, frozen=True):
    """A line that is no entry of the list, and why."""

    number: int
    text: str
    reason: str


class Batch(msgspec.Struct, frozen=True):
    """Up to 500 entries of a file, in order. `stop` says why nothing after them can be read."""

    entries: tuple[NewEntry, ...]
    faults: tuple[FaultyLine, ...]
    last: int
    stop: str = ""


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file, none of them longer than a line may be."""
    rest, number = b"", 0
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            yield _bounded(line, number) + b"\n"
        _bounded(rest, number + 1)
    if rest:
        yield rest


def _bounded(line: bytes, number: int) -> bytes:
    if len(line) > MAX_LINE:
        raise ListFileError(number, f"is longer than {MAX_LINE:,} bytes")
    return line


def batches(chunks: Iterable[bytes], kind: Format, definition: ListDefinition) -> Iterator[Batch]:
    """The entries of a file in calls, each line with its normal form or its fault."""
    found = records(lines(chunks), kind)
    last = 0
    while True:
        entries: list[NewEntry] = []
        faults: list[FaultyLine] = []
        stop, seen = "", False
        try:
            for record in islice(found, MAX_ENTRIES):
                seen, last = True, record.last
                made = new_entry(record.entry, definition)
                if isinstance(made, ListRefusal):
                    faults.append(FaultyLine(record.first, record.entry.entry[:200], made.reason))
                else:
                    entries.append(made)
        except ListFileError as fault:
            stop = f"Line {fault.line:,} {fault.reason}."
        if seen or stop:
            yield Batch(tuple(entries), tuple(faults), last, stop)
        if stop or not seen:
            return


MAX_FILE = 64 << 20
FAULTS_SHOWN = 100
# A dry run knows its entries all at once.
TRIED = 20_000


class Checked(msgspec.Struct, frozen=True):
    """What a file has in it. `first` are its first entries, `stop` says why it could not be read to its end."""

    lines: int = 0
    entries: int = 0
    faults: int = 0
    shown: tuple[FaultyLine, ...] = ()
    first: tuple[NewEntry, ...] = ()
    stop: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """What came of an upload: a trial, or what was applied, or why neither."""

    checked: Checked = Checked()
    trial: DryRun | None = None
    applied: Applied | None = None
    fault: str = ""


async def ask(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """The form."""
    place = await find_list(desk, visit)
    return place if isinstance(place, Failure) else html_response(_page(desk, visit, place, None))


async def take(desk: WebContext, visit: SignedInRequest, body: SpooledBody) -> Response | Failure:
    """Try a file, or save it."""
    place = await find_list(desk, visit)
    if isinstance(place, Failure):
        return place
    if is_watched(visit.request):

        async def work(told: ReportProgress) -> str:
            return _page(desk, visit, place, await _outcome(desk, visit, place, body, told))

        return WatchedResponse(work)
    outcome = await _outcome(desk, visit, place, body, ignore_progress)
    return html_response(_page(desk, visit, place, outcome), 400 if outcome.fault else 200)


async def _outcome(
    desk: WebContext, visit: SignedInRequest, place: ListInScope, body: SpooledBody, told: ReportProgress
) -> Outcome:
    kind = _format(visit)
    checked = await check(body, kind, place)
    if checked.stop:
        return Outcome(checked, fault=f"Nothing was saved. {checked.stop}")
    if not checked.entries and not checked.faults:
        return Outcome(checked, fault="Nothing was saved: there is no entry in the file.")
    if visit.form.text("what") != "save":
        return await _tried(desk, place, checked)
    if checked.faults and not visit.form.has("skip"):
        return Outcome(checked, fault="Nothing was saved: some lines are no entries of this list.")
    applied = await apply(desk, place, _batches(body, kind, place), visit.actor, checked.lines, told)
    return Outcome(checked, applied=applied, fault=applied.fault)


def _format(visit: SignedInRequest) -> Format:
    """The one that was chosen, or the one that the file's name promises."""
    chosen = visit.form.text("format")
    return next((each for each in FORMATS if each == chosen), format_of(visit.form.file))


async def check(body: SpooledBody, kind: Format, place: ListInScope) -> Checked:
    """Read a file to its end and change nothing."""
    last = entries = faults = 0
    shown: list[FaultyLine] = []
    first: list[NewEntry] = []
    stop = ""
    async for batch in _batches(body, kind, place):
        last, entries, faults = batch.last, entries + len(batch.entries), faults + len(batch.faults)
        shown += batch.faults[: FAULTS_SHOWN - len(shown)]
        first += batch.entries[: TRIED - len(first)]
        stop = batch.stop
    return Checked(last, entries, faults, tuple(shown), tuple(first), stop)


async def _tried(desk: WebContext, place: ListInScope, checked: Checked) -> Outcome:
    trial = await try_adding(desk.store, desk.trials, place.scope, place.definition, checked.first)
    if isinstance(trial, ListFull):
        return Outcome(checked, fault=refusal(trial))
    return Outcome(checked, trial=trial)


async def apply(
    desk: WebContext, place: ListInScope, found: AsyncIterator[Batch], by: Actor, lines: int, told: ReportProgress
) -> Applied:
    """Save the entries of a file; lines that are none are left out. `told` hears how much of the lines is done."""
    done = last = 0
    async for batch in found:
        applied = await add_all(desk, place, batch.entries, by)
        if applied.fault:
            where = f"Lines up to {last:,} are saved, those after it are not" if last else "Nothing was saved"
            return Applied(done, f"{where}. {applied.fault}")
        done, last = done + applied.modified, batch.last
        await told(100 * last // lines)
    return Applied(done)


async def _batches(body: SpooledBody, kind: Format, place: ListInScope) -> AsyncIterator[Batch]:
    found = batches(body.chunks(CHUNK), kind, place.definition)
    while (batch := await asyncio.to_thread(next, found, None)) is not None:
        yield batch


def _page(desk: WebContext, visit: SignedInRequest, place: ListInScope, outcome: Outcome | None) -> str:
    return desk.renderer.page(
        "lists-import.html",
        visit,
        here="/lists",
        place=place,
        outcome=outcome,
        form=visit.form,
        limit=MAX_FILE,
        tried=TRIED,
    )


ROWS: tuple[Row, ...] = (
    Page("GET", "/lists/{scope}/{name}/import", ask, "lists.change"),
    Upload("/lists/{scope}/{name}/import", take, "lists.change", MAX_FILE),
)
