"""Adding entries that somebody typed or pasted: first what would happen, then the change itself.

The second step sends the text again, so nothing waits on the server, and going back to correct a line loses nothing.
"""

import asyncio
from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from gatepost.abby.listtrials import try_adding
from gatepost.abby.web import pasted
from gatepost.abby.web.answers import html, see
from gatepost.abby.web.applying import Applied, add_all, refusal
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.listplace import ListPlace, place_of
from gatepost.abby.web.pasted import MAX_LINES, Pasted, TooMany
from gatepost.abby.web.site import Page, Row
from gatepost.abby.web.times import expiry
from gatepost.abby.web.visit import Visit
from gatepost.api.errors import Failure
from gatepost.api.lists import MAX_COMMENT, DryRun, TriedEntry
from gatepost.store.errors import ListFull

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


async def preview(desk: Desk, visit: Visit) -> Response | Failure:
    """What would happen."""
    place = await place_of(desk, visit)
    if isinstance(place, Failure):
        return place
    typed = await _typed(desk, visit, place)
    return html(await _page(desk, visit, place, typed), 400 if typed.fault else 200)


async def add(desk: Desk, visit: Visit) -> Response | Failure:
    """Save the entries. Lines that are none stop it, unless somebody has seen them and goes on without."""
    place = await place_of(desk, visit)
    if isinstance(place, Failure):
        return place
    typed = await _typed(desk, visit, place)
    if typed.fault or (typed.pasted.faults and not visit.form.has("skip")):
        return html(await _page(desk, visit, place, typed), 400)
    applied = await add_all(desk, place, typed.pasted.entries, visit.actor)
    if applied.fault:
        return html(await _page(desk, visit, place, Typed(typed.pasted, _partly(applied))), 409)
    return see(f"{place.path}?done=added")


def _partly(applied: Applied) -> str:
    before = f"{applied.modified:,} entries are saved." if applied.modified else "Nothing was saved."
    return f"{before} {applied.fault}"


async def _typed(desk: Desk, visit: Visit, place: ListPlace) -> Typed:
    form = visit.form
    expires = expiry(form.text("expires"), desk.now())
    if isinstance(expires, Failure):
        return Typed(Pasted(), f"The last day: {expires.message}.")
    comment = form.text("comment", MAX_COMMENT)
    found = await asyncio.to_thread(pasted.read, form.whole("entries"), place.definition, comment, expires)
    if isinstance(found, TooMany):
        return Typed(Pasted(), f"A form takes at most {MAX_LINES:,} lines. Import a file instead.")
    if not found.lines and not found.faults:
        return Typed(found, "There is no entry in it.")
    return Typed(found)


async def _looked(desk: Desk, place: ListPlace, found: Pasted) -> Looked:
    entries = found.entries
    if not entries:
        return Looked()
    trial = await try_adding(desk.store, desk.trials, place.scope, place.definition, entries)
    if isinstance(trial, ListFull):
        return Looked(fault=refusal(trial))
    keys = tuple(entry.key for entry in entries)
    there = frozenset(each.key for each in await desk.store.entries(place.scope, place.definition.name, keys))
    return Looked(trial, dict(zip(keys, trial.entries, strict=True)), there)


async def _page(desk: Desk, visit: Visit, place: ListPlace, typed: Typed) -> str:
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
