"""Files into a list. The whole file is looked at before its first entry is saved, so a line that is none changes
nothing; then it is saved in calls of 500, and the answer says what of it was applied.

The work on lines is done in a thread, one call at a time, so that other visitors do not wait for it.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response

from gatepost.abby.listtrials import try_adding
from gatepost.abby.web.answers import html
from gatepost.abby.web.applying import Applied, add_all, refusal
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.entryfiles import CHUNK, Batch, FaultyLine, batches
from gatepost.abby.web.listplace import ListPlace, place_of
from gatepost.abby.web.site import Page, Row, Upload
from gatepost.abby.web.visit import Visit
from gatepost.abby.web.watched import Told, Watched, is_watched, nobody
from gatepost.api.errors import Failure
from gatepost.api.listfiles import FORMATS, Format, format_of
from gatepost.api.lists import DryRun
from gatepost.guard.spool import SpooledBody
from gatepost.store.audit import Actor
from gatepost.store.entries import NewEntry
from gatepost.store.errors import ListFull

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


async def ask(desk: Desk, visit: Visit) -> Response | Failure:
    """The form."""
    place = await place_of(desk, visit)
    return place if isinstance(place, Failure) else html(_page(desk, visit, place, None))


async def take(desk: Desk, visit: Visit, body: SpooledBody) -> Response | Failure:
    """Try a file, or save it."""
    place = await place_of(desk, visit)
    if isinstance(place, Failure):
        return place
    if is_watched(visit.request):

        async def work(told: Told) -> str:
            return _page(desk, visit, place, await _outcome(desk, visit, place, body, told))

        return Watched(work)
    outcome = await _outcome(desk, visit, place, body, nobody)
    return html(_page(desk, visit, place, outcome), 400 if outcome.fault else 200)


async def _outcome(desk: Desk, visit: Visit, place: ListPlace, body: SpooledBody, told: Told) -> Outcome:
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


def _format(visit: Visit) -> Format:
    """The one that was chosen, or the one that the file's name promises."""
    chosen = visit.form.text("format")
    return next((each for each in FORMATS if each == chosen), format_of(visit.form.file))


async def check(body: SpooledBody, kind: Format, place: ListPlace) -> Checked:
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


async def _tried(desk: Desk, place: ListPlace, checked: Checked) -> Outcome:
    trial = await try_adding(desk.store, desk.trials, place.scope, place.definition, checked.first)
    if isinstance(trial, ListFull):
        return Outcome(checked, fault=refusal(trial))
    return Outcome(checked, trial=trial)


async def apply(
    desk: Desk, place: ListPlace, found: AsyncIterator[Batch], by: Actor, lines: int, told: Told
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


async def _batches(body: SpooledBody, kind: Format, place: ListPlace) -> AsyncIterator[Batch]:
    found = batches(body.chunks(CHUNK), kind, place.definition)
    while (batch := await asyncio.to_thread(next, found, None)) is not None:
        yield batch


def _page(desk: Desk, visit: Visit, place: ListPlace, outcome: Outcome | None) -> str:
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
