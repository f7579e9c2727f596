"""Entries as people paste them: one a line, a comment behind a tab, or behind ` # ` where no phrase could mean that.

A tab is what comes from two columns of a spreadsheet. Every line gets its normal form or a reason why it has none, so
that somebody can look at them before anything is saved.

Adding entries that somebody typed or pasted: first what would happen, then the change itself.

The second step sends the text again, so nothing waits on the server, and going back to correct a line loses nothing.
"""

import asyncio
from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.api.lists import MAX_COMMENT, DryRun, NewListEntry, TriedEntry
from gatepost.lists.catalogue import ListDefinition
from gatepost.lists.entries import PHRASE, ListRefusal
from gatepost.rejudge.dry_run import new_entry, try_adding
from gatepost.store.entries import NewEntry
from gatepost.store.errors import ListFull
from gatepost.web.context import WebContext
from gatepost.web.forms import parse_expiry
from gatepost.web.list_access import Applied, ListInScope, add_all, find_list, refusal
from gatepost.web.request import SignedInRequest
from gatepost.web.responses import html_response, redirect
from gatepost.web.site import Page, Row

MAX_LINES = 10_000


class Line(msgspec.Struct, frozen=True):
    """A line that is an entry. `again` is the later line that says the same and counts instead; 0 for none."""

    number: int
    text: str
    entry: NewEntry
    again: int = 0


class Faulty(msgspec.Struct, frozen=True):
    """A line that is none, and why."""

    number: int
    text: str
    reason: str


class Pasted(msgspec.Struct, frozen=True):
    """What a text comes to."""

    lines: tuple[Line, ...] = ()
    faults: tuple[Faulty, ...] = ()

    @property
    def entries(self) -> tuple[NewEntry, ...]:
        """Every entry once, as its last line has it."""
        return tuple(line.entry for line in self.lines if not line.again)


class TooMany(msgspec.Struct, frozen=True):
    """More lines than a form takes."""


def read(text: str, definition: ListDefinition, comment: str, expires: int | None) -> Pasted | TooMany:
    """The lines of a text; those without a comment of their own get this one."""
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n", MAX_LINES)
    if len(rows) > MAX_LINES and rows[-1].strip():
        return TooMany()
    lines: list[Line] = []
    faults: list[Faulty] = []
    for number, row in enumerate(rows, 1):
        stated = _stated(row, definition, comment)
        if stated is None:
            continue
        made = new_entry(stated, definition)
        if isinstance(made, ListRefusal):
            faults.append(Faulty(number, stated.entry, made.reason))
        else:
            lines.append(Line(number, stated.entry, msgspec.structs.replace(made, expires=expires)))
    return Pasted(_once(lines), tuple(faults))


def _stated(row: str, definition: ListDefinition, comment: str) -> NewListEntry | None:
    text = row.strip()
    if not text or text.startswith("#"):
        return None
    entry, found, own = text.partition("\t")
    if not found and definition.kind != PHRASE.name:
        entry, _, own = text.partition(" # ")
    return NewListEntry(entry.strip(), own.strip() or comment)


def _once(lines: list[Line]) -> tuple[Line, ...]:
    last = {line.entry.key: line.number for line in lines}
    return tuple(
        line if last[line.entry.key] == line.number else Line(line.number, line.text, line.entry, last[line.entry.key])
        for line in lines
    )


ROWS_SHOWN = 200


class Typed(msgspec.Struct, frozen=True):
    """What the form says, and what is wrong with it as a whole."""

    pasted: Pasted
    fault: str = ""


class Looked(msgspec.Struct, frozen=True):
    """What adding the entries would do: what each alone would, by its key, and which of them the list has already."""

    trial: DryRun | None = None
    each: Mapping[str, TriedEntry] = {}
    there: frozenset[str] = frozenset()
    fault: str = ""


async def preview(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """What would happen."""
    place = await find_list(desk, visit)
    if isinstance(place, Failure):
        return place
    typed = await _typed(desk, visit, place)
    return html_response(await _page(desk, visit, place, typed), 400 if typed.fault else 200)


async def add(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Save the entries. Lines that are none stop it, unless somebody has seen them and goes on without."""
    place = await find_list(desk, visit)
    if isinstance(place, Failure):
        return place
    typed = await _typed(desk, visit, place)
    if typed.fault or (typed.pasted.faults and not visit.form.has("skip")):
        return html_response(await _page(desk, visit, place, typed), 400)
    applied = await add_all(desk, place, typed.pasted.entries, visit.actor)
    if applied.fault:
        return html_response(await _page(desk, visit, place, Typed(typed.pasted, _partly(applied))), 409)
    return redirect(f"{place.path}?done=added")


def _partly(applied: Applied) -> str:
    before = f"{applied.modified:,} entries are saved." if applied.modified else "Nothing was saved."
    return f"{before} {applied.fault}"


async def _typed(desk: WebContext, visit: SignedInRequest, place: ListInScope) -> Typed:
    form = visit.form
    expires = parse_expiry(form.text("expires"), desk.now())
    if isinstance(expires, Failure):
        return Typed(Pasted(), f"The last day: {expires.message}.")
    comment = form.text("comment", MAX_COMMENT)
    found = await asyncio.to_thread(read, form.whole("entries"), place.definition, comment, expires)
    if isinstance(found, TooMany):
        return Typed(Pasted(), f"A form takes at most {MAX_LINES:,} lines. Import a file instead.")
    if not found.lines and not found.faults:
        return Typed(found, "There is no entry in it.")
    return Typed(found)


async def _looked(desk: WebContext, place: ListInScope, found: Pasted) -> Looked:
    entries = found.entries
    if not entries:
        return Looked()
    trial = await try_adding(desk.store, desk.trials, place.scope, place.definition, entries)
    if isinstance(trial, ListFull):
        return Looked(fault=refusal(trial))
    keys = tuple(entry.key for entry in entries)
    there = frozenset(each.key for each in await desk.store.entries(place.scope, place.definition.name, keys))
    return Looked(trial, dict(zip(keys, trial.entries, strict=True)), there)


async def _page(desk: WebContext, visit: SignedInRequest, place: ListInScope, typed: Typed) -> str:
    looked = Looked() if typed.fault else await _looked(desk, place, typed.pasted)
    return desk.renderer.page(
        "lists-preview.html",
        visit,
        here="/lists",
        place=place,
        pasted=typed.pasted,
        trial=looked.trial,
        each=looked.each,
        there=looked.there,
        fault=typed.fault or looked.fault,
        form=visit.form,
        shown=ROWS_SHOWN,
        most=MAX_LINES,
    )


ROWS: tuple[Row, ...] = (
    Page("POST", "/lists/{scope}/{name}/preview", preview, "lists.change"),
    Page("POST", "/lists/{scope}/{name}/add", add, "lists.change"),
)
