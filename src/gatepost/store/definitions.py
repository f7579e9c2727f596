"""Which lists a scope has: the usual ones, whether they have entries or not, and custom ones of the same kinds."""

from gatepost.lists.catalogue import BY_NAME, LISTS, Definition, counts_as
from gatepost.lists.custom import unused
from gatepost.lists.entry import Refused
from gatepost.store import shelves
from gatepost.store.auditing import noted
from gatepost.store.interface import Actor, ListState, Missing, Taken
from gatepost.store.work import Read, Work, Write, storable

_TENANT = "SELECT 1 FROM tenants WHERE uid = $1 FOR KEY SHARE"
# A tenant's list and a global one of the same name must mean the same: hits on both are judged by that name.
_OTHERWISE_GLOBAL = "SELECT 1 FROM lists WHERE name = $1 AND scope = '' AND (kind <> $2 OR category <> $3)"
_OTHERWISE_ANYWHERE = """SELECT 1 FROM lists
WHERE name = $1 AND scope <> '-' AND (kind <> $2 OR category <> $3) LIMIT 1"""
_EXPIRED = """SELECT lists.id, count(*) FROM lists JOIN entries ON list_id = lists.id
WHERE scope = $1 AND expires <= $2 GROUP BY lists.id"""
_DOOM = "UPDATE lists SET scope = '-', name = CAST(id AS TEXT) WHERE id = $1"


def states(scope: str | None, now: int) -> Work[tuple[ListState, ...]]:
    """Every list of a scope with its size. Needs one snapshot: what has expired and is still there does not count."""
    places = {place.name: place for place in (yield from shelves.in_scope(scope or ""))}
    expired = dict((yield Read(_EXPIRED, (scope or "", now))))
    sizes = {name: place.size - expired.get(place.id, 0) for name, place in places.items()}
    usual = [ListState(what, sizes.get(what.name, 0)) for what in LISTS]
    custom = [ListState(place.definition, sizes[name]) for name, place in places.items() if place.definition.custom]
    return (*usual, *custom)


def one(scope: str | None, name: str) -> Work[Definition | None]:
    """What a custom list is."""
    place = yield from shelves.find(scope or "", storable(name))
    return place.definition if place else None


def create(scope: str | None, what: Definition, by: Actor, now: int) -> Work[Definition | Taken | Missing | Refused]:
    """Make a custom list; one that nothing would ever ask is refused."""
    if not counts_as(what.kind, what.category):
        return Refused(unused(what.kind, what.category))
    if scope and not (yield Read(_TENANT, (scope,))):
        return Missing("tenant")
    stated = Definition(
        what.name,
        what.kind,
        what.category,
        storable(what.display_name),
        storable(what.description),
        what.max_size,
        custom=True,
    )
    clash = _OTHERWISE_GLOBAL if scope else _OTHERWISE_ANYWHERE
    if what.name in BY_NAME or (yield Read(clash, (what.name, what.kind, what.category))):
        return Taken(what.name)
    if not (yield from shelves.create(scope or "", stated)):
        return Taken(what.name)
    yield from shelves.announced(scope or "", now)
    yield from noted(now, by, "list.create", scope, what.name, 1, [what.kind, what.category])
    return stated


def delete(scope: str | None, name: str, by: Actor, now: int) -> Work[int | Missing]:
    """Take a custom list out of sight; its entries go afterwards, in small steps."""
    place = yield from shelves.find(scope or "", storable(name), lock=True)
    if place is None or not place.definition.custom:
        return Missing("list")
    yield Write(_DOOM, (place.id,))
    yield from shelves.announced(scope or "", now)
    yield from noted(now, by, "list.delete", scope, place.name, place.size)
    return place.size
