"""The list that a path names, for who may see it, and what it does in words that teach."""

import msgspec

from gatepost.abby.web.desk import Desk
from gatepost.abby.web.scopes import WHOLE
from gatepost.abby.web.visit import GLOBAL, NOT_HERE, Visit
from gatepost.api.errors import LIST_NOT_FOUND, Failure
from gatepost.lists.catalogue import KINDS, Definition
from gatepost.lists.entry import Category, EntryKind

NO_LIST = Failure(LIST_NOT_FOUND, "there is no such list in this scope; it may have been deleted")

CATEGORIES: dict[Category, str] = {
    "block": "A hit holds the mail: it gets at least the verdict policy.",
    "allow": "A hit speaks for the mail. Malware and forgery stay what they are, but for files that you know by hash.",
    "policy": "A hit breaks a rule of yours: the mail gets at least the verdict policy.",
    "trust": "A hit makes a host one of your own on the way of a message.",
    "protect": "Whoever imitates one of these is found out.",
}


class ListPlace(msgspec.Struct, frozen=True):
    """A list in one scope."""

    scope: str | None
    scope_name: str
    definition: Definition
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


async def scope_of(desk: Desk, visit: Visit, named: str) -> tuple[str | None, str] | Failure:
    """A scope that there is and that is the visitor's to see, with its name."""
    scope = visit.scope(named)
    if isinstance(scope, Failure):
        return scope
    if scope is None:
        return None, WHOLE
    tenant = await desk.store.tenant(scope)
    return (scope, tenant.name) if tenant else NOT_HERE


async def place_of(desk: Desk, visit: Visit) -> ListPlace | Failure:
    """The list of the path's `scope` and `name`."""
    found = await scope_of(desk, visit, visit.part("scope"))
    if isinstance(found, Failure):
        return found
    scope, scope_name = found
    for state in await desk.store.lists(scope):
        if state.definition.name == visit.part("name"):
            return ListPlace(scope, scope_name, state.definition, state.size)
    return NO_LIST
