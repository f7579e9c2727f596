"""The list that a path names, for who may see it, and what it does in words that teach.

Many entries in calls of 500. Each call is atomic and may be repeated, so what came before a failure stands.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from gatepost.api.errors import LIST_NOT_FOUND, Failure
from gatepost.api.lists import MAX_ENTRIES
from gatepost.lists.catalogue import KINDS, ListDefinition
from gatepost.lists.entries import Category, EntryKind
from gatepost.store.audit import Actor
from gatepost.store.entries import NewEntry
from gatepost.store.errors import ListFull, NotFound
from gatepost.web.context import WHOLE, WebContext
from gatepost.web.request import GLOBAL, NOT_HERE, SignedInRequest

NO_LIST = Failure(LIST_NOT_FOUND, "there is no such list in this scope; it may have been deleted")

CATEGORIES: dict[Category, str] = {
    "block": "A hit holds the mail: it gets at least the verdict policy.",
    "allow": "A hit speaks for the mail. Malware and forgery stay what they are, but for files that you know by hash.",
    "policy": "A hit breaks a rule of yours: the mail gets at least the verdict policy.",
    "trust": "A hit makes a host one of your own on the way of a message.",
    "protect": "Whoever imitates one of these is found out.",
}


class ListInScope(msgspec.Struct, frozen=True):
    """A list in one scope."""

    scope: str | None
    scope_name: str
    definition: ListDefinition
    size: int

    @property
    def path(self) -> str:
        """Where its pages are."""
        return f"/lists/{self.scope or GLOBAL}/{self.definition.name}"

    @property
    def home(self) -> str:
        """The lists beside it."""
        return f"/lists?scope={self.scope or GLOBAL}"

    @property
    def kind(self) -> EntryKind:
        return KINDS[self.definition.kind]

    @property
    def effect(self) -> str:
        """What a hit does."""
        return CATEGORIES[self.definition.category]


async def scope_of(desk: WebContext, visit: SignedInRequest, named: str) -> tuple[str | None, str] | Failure:
    """A scope that there is and that is the visitor's to see, with its name."""
    scope = visit.scope(named)
    if isinstance(scope, Failure):
        return scope
    if scope is None:
        return None, WHOLE
    tenant = await desk.store.tenant(scope)
    return (scope, tenant.name) if tenant else NOT_HERE


async def find_list(desk: WebContext, visit: SignedInRequest) -> ListInScope | Failure:
    """The list of the path's `scope` and `name`."""
    found = await scope_of(desk, visit, visit.part("scope"))
    if isinstance(found, Failure):
        return found
    scope, scope_name = found
    for state in await desk.store.lists(scope):
        if state.definition.name == visit.part("name"):
            return ListInScope(scope, scope_name, state.definition, state.size)
    return NO_LIST


T = TypeVar("T")


class Applied(msgspec.Struct, frozen=True):
    """How many entries were changed, and why not all of them; "" where all were."""

    modified: int = 0
    fault: str = ""


def calls(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """At most 500 at a time."""
    return (items[start : start + MAX_ENTRIES] for start in range(0, len(items), MAX_ENTRIES))


async def add_all(desk: WebContext, place: ListInScope, entries: Sequence[NewEntry], by: Actor) -> Applied:
    """Add or update entries until one call is refused."""
    done = 0
    for call in calls(entries):
        outcome = await desk.store.add_entries(place.scope, place.definition, call, by)
        if not isinstance(outcome, int):
            return Applied(done, refusal(outcome))
        done += outcome
    return Applied(done)


async def delete_all(desk: WebContext, place: ListInScope, keys: Sequence[str], by: Actor) -> Applied:
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
