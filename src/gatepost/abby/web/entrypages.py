"""One entry with its comment and its end, and the deletion of chosen ones after a look at what that would do."""

from datetime import UTC, datetime

from starlette.responses import Response

from gatepost.abby.listtrials import try_deleting
from gatepost.abby.web.answers import html, see
from gatepost.abby.web.applying import add_all, delete_all
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.listplace import ListPlace, place_of
from gatepost.abby.web.site import Page, Row
from gatepost.abby.web.times import expiry
from gatepost.abby.web.visit import Visit
from gatepost.api.errors import INVALID_REQUEST, NOT_FOUND, Failure
from gatepost.api.lists import MAX_COMMENT
from gatepost.store.entries import ListEntry, NewEntry

LONGEST_KEY = 3_000
GONE = Failure(NOT_FOUND, "the entry is not in the list any more; somebody deleted it, or its time was over")
NONE_CHOSEN = Failure(INVALID_REQUEST, "no entry is chosen; go back and tick some")


async def show(desk: Desk, visit: Visit) -> Response | Failure:
    """An entry, with a form for those who may change it."""
    found = await _found(desk, visit, visit.query.whole("key"))
    return found if isinstance(found, Failure) else html(_page(desk, visit, *found))


async def change(desk: Desk, visit: Visit) -> Response | Failure:
    """Set comment and end. An end that the form gave back as it was stays to the millisecond."""
    found = await _found(desk, visit, visit.form.whole("key"))
    if isinstance(found, Failure):
        return found
    place, entry = found
    comment, stated = visit.form.text("comment", MAX_COMMENT + 1), visit.form.text("expires")
    expires = entry.expires if stated == minute(entry.expires) else expiry(stated, desk.now())
    if isinstance(expires, Failure):
        return html(_page(desk, visit, place, entry, f"The end: {expires.message}."), 400)
    if len(comment) > MAX_COMMENT:
        return html(_page(desk, visit, place, entry, f"A comment has at most {MAX_COMMENT:,} characters."), 400)
    applied = await add_all(desk, place, (NewEntry(entry.key, entry.shown, comment, expires),), visit.actor)
    if applied.fault:
        return html(_page(desk, visit, place, entry, applied.fault), 409)
    return see(f"{place.path}?done=changed")


async def delete(desk: Desk, visit: Visit) -> Response | Failure:
    """Delete what is chosen, or first show what that would do."""
    place = await place_of(desk, visit)
    if isinstance(place, Failure):
        return place
    keys = tuple(dict.fromkeys(key[:LONGEST_KEY] for key in visit.form.all("key")))
    if not keys:
        return NONE_CHOSEN
    if visit.form.has("sure"):
        await delete_all(desk, place, keys, visit.actor)
        return see(f"{place.path}?done=deleted")
    trial = await try_deleting(desk.store, desk.trials, place.scope, place.definition, keys)
    chosen = tuple(zip(keys, trial.entries, strict=True))
    return html(desk.renderer.page("lists-delete.html", visit, here="/lists", place=place, trial=trial, chosen=chosen))


async def _found(desk: Desk, visit: Visit, key: str) -> tuple[ListPlace, ListEntry] | Failure:
    place = await place_of(desk, visit)
    if isinstance(place, Failure):
        return place
    there = await desk.store.entries(place.scope, place.definition.name, (key[:LONGEST_KEY],))
    return (place, there[0]) if there else GONE


def minute(milliseconds: int | None) -> str:
    """A time as a browser's field for day and minute has it."""
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%dT%H:%M")


def _page(desk: Desk, visit: Visit, place: ListPlace, entry: ListEntry, fault: str = "") -> str:
    return desk.renderer.page(
        "lists-entry.html",
        visit,
        here="/lists",
        place=place,
        entry=entry,
        until=minute(entry.expires),
        fault=fault,
        longest=MAX_COMMENT,
    )


ROWS: tuple[Row, ...] = (
    Page("GET", "/lists/{scope}/{name}/entry", show, "lists.read"),
    Page("POST", "/lists/{scope}/{name}/entry", change, "lists.change"),
    Page("POST", "/lists/{scope}/{name}/delete", delete, "lists.change"),
)
