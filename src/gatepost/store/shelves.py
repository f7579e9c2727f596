"""One list in one scope, as it lies in the database: found, locked, resized, and others told.

Whoever looks lists up remembers which of them have entries (see `directory`); whoever compiles phrases and people
remembers those. Both ask for a version first. A version is a time, or one more than the last where that is later, so
that it never comes back, not even after an old backup was restored.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from gatepost.lists.catalogue import BY_NAME, Definition
from gatepost.lists.domain import DOMAIN
from gatepost.lists.network import NETWORK
from gatepost.lists.person import PERSON
from gatepost.lists.phrase import PHRASE
from gatepost.store.work import Many, Read, Row, Work, Write

_COLUMNS = "id, scope, name, kind, category, display_name, description, max_size, custom, size"
_FIND = f"SELECT {_COLUMNS} FROM lists WHERE scope = $1 AND name = $2"  # noqa: S608
_LOCK = _FIND + " FOR UPDATE"
_LOCK_IDS = f"SELECT {_COLUMNS} FROM lists WHERE id = ANY($1) ORDER BY id FOR UPDATE"  # noqa: S608
_IN_SCOPE = f"SELECT {_COLUMNS} FROM lists WHERE scope = $1 ORDER BY name"  # noqa: S608
_CREATE = """INSERT INTO lists (scope, name, kind, category, display_name, description, max_size, custom, size)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0) ON CONFLICT (scope, name) DO NOTHING"""
_RESIZE = "UPDATE lists SET size = size + $2 WHERE id = $1"
_PREFIXES = "SELECT prefix FROM list_prefixes WHERE list_id = $1"
_COUNT_PREFIX = """INSERT INTO list_prefixes (list_id, prefix, entries) VALUES ($1, $2, $3)
ON CONFLICT (list_id, prefix) DO UPDATE SET entries = list_prefixes.entries + excluded.entries"""
_DROP_PREFIXES = "DELETE FROM list_prefixes WHERE list_id = $1 AND entries <= 0"
_NEW_DIRECTORY = """INSERT INTO scopes (scope, directory, unkeyed) VALUES ($1, $2, $2)
ON CONFLICT (scope) DO UPDATE SET directory = GREATEST(scopes.directory + 1, excluded.directory)"""
_NEW_UNKEYED = """INSERT INTO scopes (scope, directory, unkeyed) VALUES ($1, $2, $2)
ON CONFLICT (scope) DO UPDATE SET unkeyed = GREATEST(scopes.unkeyed + 1, excluded.unkeyed)"""

_UNKEYED_KINDS = frozenset({PHRASE.name, DOMAIN.name, PERSON.name})


class Shelf(msgspec.Struct, frozen=True):
    """A list's row. `scope` is "" for the global one."""

    id: int
    scope: str
    name: str
    kind: str
    size: int
    definition: Definition

    @property
    def counts_prefixes(self) -> bool:
        """Is it known which prefix lengths it has?"""
        return self.kind == NETWORK.name

    @property
    def unkeyed(self) -> bool:
        """Is it handed out whole instead of being looked up?"""
        return is_unkeyed(self.kind, self.definition.category)


def is_unkeyed(kind: str, category: str) -> bool:
    """Is a list of this kind and category handed out whole?"""
    return kind in _UNKEYED_KINDS or (kind == NETWORK.name and category == "trust")


def shelf(row: Row) -> Shelf:
    """A row as a value; what a usual list is, the program knows best."""
    uid, scope, name, kind, category, display_name, description, max_size, custom, size = row
    usual = None if custom else BY_NAME.get(name)
    stated = Definition(name, kind, category, display_name, description, max_size, custom=bool(custom))
    return Shelf(uid, scope, name, kind, size, usual or stated)


def find(scope: str, name: str, *, lock: bool = False) -> Work[Shelf | None]:
    """The list of that name, if it has a row."""
    rows = yield Read(_LOCK if lock else _FIND, (scope, name))
    return shelf(rows[0]) if rows else None


def lock_all(ids: tuple[int, ...]) -> Work[tuple[Shelf, ...]]:
    """Those lists, locked in one order, so that nobody waits for each other in a circle."""
    rows = yield Read(_LOCK_IDS, (Many(ids),))
    return tuple(map(shelf, rows))


def in_scope(scope: str) -> Work[tuple[Shelf, ...]]:
    """Every list of a scope that has a row."""
    rows = yield Read(_IN_SCOPE, (scope,))
    return tuple(map(shelf, rows))


def create(scope: str, what: Definition) -> Work[bool]:
    """Give a list its row; False if it has one."""
    fixed = (what.name, what.kind, what.category, what.display_name, what.description, what.max_size)
    made = yield Write(_CREATE, (scope, *fixed, int(what.custom)))
    return bool(made)


def resized(place: Shelf, by: int, keys: Iterable[str], now: int) -> Work[None]:
    """Count `by` entries more (or fewer), these keys, and tell others what they must know of it."""
    if not by:
        return
    yield Write(_RESIZE, (place.id, by))
    fresh = not place.size or not place.size + by
    if place.counts_prefixes:
        fresh |= yield from _recounted(place.id, 1 if by > 0 else -1, keys)
    if fresh:
        yield Write(_NEW_DIRECTORY, (place.scope, now))


def told(place: Shelf, now: int) -> Work[None]:
    """The entries of a list that is handed out whole are not what they were."""
    if place.unkeyed:
        yield Write(_NEW_UNKEYED, (place.scope, now))


def announced(scope: str, now: int) -> Work[None]:
    """A list came or went."""
    yield Write(_NEW_DIRECTORY, (scope, now))
    yield Write(_NEW_UNKEYED, (scope, now))


def prefix(key: str) -> str:
    """The prefix length of a network, with its family: `4/24`, `6/128`."""
    _, slash, length = key.partition("/")
    if ":" in key:
        return f"6/{length}" if slash else "6/128"
    return f"4/{length}" if slash else "4/32"


def _recounted(list_id: int, sign: int, keys: Iterable[str]) -> Work[bool]:
    """Keep count of prefix lengths; True if one appeared or vanished."""
    known = {row[0] for row in (yield Read(_PREFIXES, (list_id,)))}
    counts = Counter(map(prefix, keys))
    for name, count in sorted(counts.items()):
        yield Write(_COUNT_PREFIX, (list_id, name, sign * count))
    if sign > 0:
        return not counts.keys() <= known
    return bool((yield Write(_DROP_PREFIXES, (list_id,))))
