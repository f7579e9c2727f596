"""Many entries in calls of 500. Each call is atomic and may be repeated, so what came before a failure stands."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from gatepost.abby.web.desk import Desk
from gatepost.abby.web.listplace import ListPlace
from gatepost.api.lists import MAX_ENTRIES
from gatepost.store.audit import Actor
from gatepost.store.entries import NewEntry
from gatepost.store.errors import ListFull, NotFound

T = TypeVar("T")


class Applied(msgspec.Struct, frozen=True):
    """How many entries were changed, and why not all of them; "" where all were."""

    modified: int = 0
    fault: str = ""


def calls(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """At most 500 at a time."""
    return (items[start : start + MAX_ENTRIES] for start in range(0, len(items), MAX_ENTRIES))


async def add_all(desk: Desk, place: ListPlace, entries: Sequence[NewEntry], by: Actor) -> Applied:
    """Add or update entries until one call is refused."""
    done = 0
    for call in calls(entries):
        outcome = await desk.store.add_entries(place.scope, place.definition, call, by)
        if not isinstance(outcome, int):
            return Applied(done, refusal(outcome))
        done += outcome
    return Applied(done)


async def delete_all(desk: Desk, place: ListPlace, keys: Sequence[str], by: Actor) -> Applied:
    """Delete entries; those that are gone already do no harm."""
    done = 0
    for call in calls(keys):
        done += await desk.store.delete_entries(place.scope, place.definition.name, call, by)
    return Applied(done)


def refusal(outcome: ListFull | NotFound) -> str:
    """Why a call was not applied."""
    if isinstance(outcome, NotFound):
        return f"The {outcome.what} was deleted meanwhile."
    return (
        f"The list has {outcome.size:,} of at most {outcome.max_size:,} entries, and these do not fit. "
        "Delete some first, or add fewer."
    )
