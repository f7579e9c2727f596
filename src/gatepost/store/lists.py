"""Lists: the built-in ones, whether they have entries or not, and custom ones of the same kinds.

Readers cache which lists of a scope have entries (see `lookup`) and what is in those that are handed out whole. Both
caches ask for a version first, which a change increases. A version is a time, or one more than the last where that is
later, so that it never comes back, not even after an old backup was restored.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from gatepost.lists.catalogue import (
    BY_NAME,
    LISTS,
    MAX_CUSTOM_LISTS,
    ListDefinition,
    explain_unused,
    find_usual_list,
    make_custom_list,
)
from gatepost.lists.entries import NETWORK, ListRefusal
from gatepost.store.audit import Actor, write_audit
from gatepost.store.deferred_deletes import DeferredDeletes
from gatepost.store.engine import Many, Read, Row, Work, Write, change, normalize_scope, now, query, snapshot, storable
from gatepost.store.errors import ListFull, NameTaken, NotFound, TooManyLists
from gatepost.store.tenants import tenant_exists
from gatepost.store.unkeyed_bytes import find_excess, subtract_list, take_turn

_COLUMNS = "id, scope, name, kind, category, display_name, description, max_size, custom, size"
_SELECT = f"SELECT {_COLUMNS} FROM lists WHERE scope = $1 AND name = $2"  # noqa: S608
_LOCK = _SELECT + " FOR UPDATE"
_LOCK_IDS = f"SELECT {_COLUMNS} FROM lists WHERE id = ANY($1) ORDER BY id FOR UPDATE"  # noqa: S608
_SELECT_SCOPE = f"SELECT {_COLUMNS} FROM lists WHERE scope = $1 ORDER BY name"  # noqa: S608
_INSERT = """INSERT INTO lists (scope, name, kind, category, display_name, description, max_size, custom, size)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0) ON CONFLICT (scope, name) DO NOTHING"""
_CHANGE_SIZE = "UPDATE lists SET size = size + $2 WHERE id = $1"
_HIDE = "UPDATE lists SET scope = '-', name = CAST(id AS TEXT) WHERE id = $1"
_PREFIXES = "SELECT prefix FROM list_prefixes WHERE list_id = $1"
_COUNT_PREFIX = """INSERT INTO list_prefixes (list_id, prefix, entries) VALUES ($1, $2, $3)
ON CONFLICT (list_id, prefix) DO UPDATE SET entries = list_prefixes.entries + excluded.entries"""
_DROP_PREFIXES = "DELETE FROM list_prefixes WHERE list_id = $1 AND entries <= 0"
_NEW_DIRECTORY_VERSION = """INSERT INTO scopes (scope, directory, unkeyed) VALUES ($1, $2, $2)
ON CONFLICT (scope) DO UPDATE SET directory = GREATEST(scopes.directory + 1, excluded.directory)"""
# The sum of their bytes is kept with each change (`unkeyed_bytes`): where it was right, it is right for this version.
_NEW_UNKEYED_VERSION = """INSERT INTO scopes (scope, directory, unkeyed) VALUES ($1, $2, $2)
ON CONFLICT (scope) DO UPDATE SET unkeyed = GREATEST(scopes.unkeyed + 1, excluded.unkeyed), counted_version =
CASE WHEN scopes.counted_version = scopes.unkeyed THEN GREATEST(scopes.unkeyed + 1, excluded.unkeyed) ELSE 0 END"""
_COUNT_CUSTOM = "SELECT count(*) FROM lists WHERE scope = $1 AND custom = 1"
_COUNT_EXPIRED = """SELECT lists.id, count(*) FROM lists JOIN entries ON list_id = lists.id
WHERE scope = $1 AND expires <= $2 GROUP BY lists.id"""


class ListRow(msgspec.Struct, frozen=True):
    """A list in one scope, as it is stored. `scope` is "" for the global one."""

    id: int
    scope: str
    name: str
    kind: str
    size: int
    definition: ListDefinition

    @property
    def counts_prefixes(self) -> bool:
        """Whether the prefix lengths of its entries are counted."""
        return self.kind == NETWORK.name


class ListState(msgspec.Struct, frozen=True):
    """A list in one scope, and how many entries it holds there; expired ones do not count."""

    definition: ListDefinition
    size: int


class ListStore(DeferredDeletes):
    """Which lists there are. Every change is audited in the same transaction."""

    @snapshot
    def lists(self, scope: str | None) -> Work[tuple[ListState, ...]]:
        """Every list of a scope: the built-in ones in their order, then the custom ones by name."""
        where = normalize_scope(scope) or ""
        rows = {row.name: row for row in (yield from find_lists(where))}
        expired = dict((yield Read(_COUNT_EXPIRED, (where, now()))))
        sizes = {name: row.size - expired.get(row.id, 0) for name, row in rows.items()}
        custom = {name: ListState(row.definition, sizes[name]) for name, row in rows.items() if row.definition.custom}
        built_in = (ListState(each, sizes.get(each.name, 0)) for each in LISTS if each.name not in custom)
        return (*built_in, *custom.values())

    async def list_definition(self, scope: str | None, name: str) -> ListDefinition | None:
        """What a list of a scope is; None where there is none of that name. A custom list that is older than a built-in
        one of its name keeps the name."""
        return await self._stored_definition(scope, name) or BY_NAME.get(name)

    @change
    def create_list(
        self, scope: str | None, definition: ListDefinition, by: Actor
    ) -> Work[ListDefinition | NameTaken | NotFound | ListRefusal | TooManyLists]:
        """Make a custom list. Names are those of one scope: what another scope calls so does not matter. A kind and a
        category that together do nothing are `ListRefusal`."""
        name, kind, category = definition.name, definition.kind, definition.category
        if not find_usual_list(kind, category):
            return ListRefusal(explain_unused(kind, category))
        owner = normalize_scope(scope)
        if owner and not (yield from tenant_exists(owner)):
            return NotFound("tenant")
        texts = storable(definition.display_name), storable(definition.description)
        custom = make_custom_list(name, kind, category, *texts, definition.max_size)
        if name in BY_NAME:
            return NameTaken(name)
        ((count,),) = yield Read(_COUNT_CUSTOM, (owner or "",))
        if count >= MAX_CUSTOM_LISTS:
            return TooManyLists(MAX_CUSTOM_LISTS)
        if not (yield from insert_list(owner or "", custom)):
            return NameTaken(name)
        moment = now()
        yield from raise_versions(owner or "", moment)
        yield from write_audit(moment, by, "list.create", owner, name, 1, [kind, category])
        return custom

    async def delete_list(self, scope: str | None, name: str, by: Actor) -> int | NotFound:
        """Delete a custom list with its entries; returns how many it had."""
        deleted = await self._hide_list(scope, name, by)
        await self._delete_hidden()
        return deleted

    @query
    def _stored_definition(self, scope: str | None, name: str) -> Work[ListDefinition | None]:
        row = yield from find_list(normalize_scope(scope) or "", storable(name))
        return row.definition if row else None

    @change
    def _hide_list(self, scope: str | None, name: str, by: Actor) -> Work[int | NotFound]:
        owner, moment = normalize_scope(scope), now()
        row = yield from find_list(owner or "", storable(name), lock=True)
        if row is None or not row.definition.custom:
            return NotFound("list")
        if not row.definition.keyed and row.size:
            yield from subtract_list(row.scope, row.id)
        yield Write(_HIDE, (row.id,))
        yield from raise_versions(owner or "", moment)
        yield from write_audit(moment, by, "list.delete", owner, row.name, row.size)
        return row.size


def find_list(scope: str, name: str, *, lock: bool = False) -> Work[ListRow | None]:
    """The list of that name, if it has a row."""
    rows = yield Read(_LOCK if lock else _SELECT, (scope, name))
    return _list_row(rows[0]) if rows else None


def lock_lists(ids: tuple[int, ...]) -> Work[tuple[ListRow, ...]]:
    """These lists, locked in one order, so that two changes never wait for each other in a circle."""
    rows = yield Read(_LOCK_IDS, (Many(ids),))
    return tuple(map(_list_row, rows))


def find_lists(scope: str) -> Work[tuple[ListRow, ...]]:
    """Every list of a scope that has a row."""
    rows = yield Read(_SELECT_SCOPE, (scope,))
    return tuple(map(_list_row, rows))


def insert_list(scope: str, definition: ListDefinition) -> Work[bool]:
    """Give a list its row; False if it has one."""
    texts = (definition.display_name, definition.description)
    columns = (definition.name, definition.kind, definition.category, *texts, definition.max_size)
    return bool((yield Write(_INSERT, (scope, *columns, int(definition.custom)))))


def change_size(row: ListRow, by: int, keys: Iterable[str], now: int) -> Work[None]:
    """Count `by` entries more (or fewer), these keys. The version of the directory is raised where the list became
    empty or is no longer empty, or where prefix lengths appeared or vanished."""
    if not by:
        return
    yield Write(_CHANGE_SIZE, (row.id, by))
    is_news = not row.size or not row.size + by
    if row.counts_prefixes:
        is_news |= yield from _count_prefixes(row.id, 1 if by > 0 else -1, keys)
    if is_news:
        yield Write(_NEW_DIRECTORY_VERSION, (row.scope, now))


def raise_unkeyed_version(row: ListRow, now: int) -> Work[None]:
    """Raise the version of the lists that are handed out whole, if this is one of them: its entries changed."""
    if not row.definition.keyed:
        yield Write(_NEW_UNKEYED_VERSION, (row.scope, now))


def find_excess_bytes(
    scope: str, definition: ListDefinition, sizes: Mapping[str, int], now: int, *, count: bool = False
) -> Work[ListFull | None]:
    """`ListFull` where entries of a list, of which `sizes` has the bytes by key, would take the lists of the scope that
    are handed out whole past their bytes; with `count` they are counted if they would not."""
    if definition.keyed:
        return None
    if count:
        yield from take_turn(scope)
    lists = [row for row in (yield from find_lists(scope)) if not row.definition.keyed]
    own = next((row.id for row in lists if row.name == definition.name), 0)
    return (yield from find_excess(scope, [row.id for row in lists], own, sizes, now, count=count))


def prefix_length(key: str) -> str:
    """The prefix length of a network, with its family: `4/24`, `6/128`."""
    _, slash, length = key.partition("/")
    if ":" in key:
        return f"6/{length}" if slash else "6/128"
    return f"4/{length}" if slash else "4/32"


def raise_versions(scope: str, now: int) -> Work[None]:
    """Raise both versions of a scope: a list came or went, or recipients may have entries now."""
    yield Write(_NEW_DIRECTORY_VERSION, (scope, now))
    yield Write(_NEW_UNKEYED_VERSION, (scope, now))


def _list_row(row: Row) -> ListRow:
    """A row as a value. What a built-in list is, the program knows better than the row."""
    uid, scope, name, kind, category, display_name, description, max_size, custom, size = row
    built_in = None if custom else BY_NAME.get(name)
    stored = built_in or make_custom_list(name, kind, category, display_name, description, max_size)
    return ListRow(uid, scope, name, kind, size, stored)


def _count_prefixes(list_id: int, sign: int, keys: Iterable[str]) -> Work[bool]:
    """Count the prefix lengths of these keys; True if one appeared or vanished."""
    known = {row[0] for row in (yield Read(_PREFIXES, (list_id,)))}
    counts = Counter(map(prefix_length, keys))
    for length, count in sorted(counts.items()):
        yield Write(_COUNT_PREFIX, (list_id, length, sign * count))
    if sign > 0:
        return not counts.keys() <= known
    return bool((yield Write(_DROP_PREFIXES, (list_id,))))
