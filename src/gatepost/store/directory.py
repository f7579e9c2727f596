"""Looking lists up: only those that have entries, only the prefix lengths that occur, all in one statement.

Which lists a scope has is remembered. Its version comes back with every look-up, from the same statement: where it is
not the one that is remembered, the directory is read anew and the look-up repeated. So a change that any process made
holds for the next message, and the usual look-up costs one round trip. Adding to a list that has entries already
changes nothing here, since entries themselves are never remembered.
"""

from collections.abc import Sequence

import msgspec

from gatepost.lists.hit import Hit, Scope
from gatepost.lists.network import NETWORK
from gatepost.lists.unkeyed import Listed, Unkeyed
from gatepost.store import shelves
from gatepost.store.shelves import Shelf, prefix
from gatepost.store.work import Many, Read, Row, Work, storable

# Look-ups that meet a new version each time answer as of the last one.
ATTEMPTS = 3
MAX_SCOPES = 10_000
_LOOKED_UP = frozenset({"block", "allow", "policy"})

_VERSION = "SELECT directory FROM scopes WHERE scope = $1"
# What has expired since the last change is not in what is handed out: that is another version as well.
_UNKEYED_VERSIONS = """SELECT scope, directory, unkeyed, (
    SELECT max(expires) FROM lists JOIN entries ON list_id = lists.id
    WHERE lists.scope = scopes.scope AND expires <= $2
    AND (kind IN ('phrase', 'domain', 'person') OR (kind = 'network' AND category = 'trust'))
) FROM scopes WHERE scope = ANY($1)"""
_PREFIXES = """SELECT list_id, prefix FROM list_prefixes
WHERE list_id IN (SELECT id FROM lists WHERE scope = $1) ORDER BY list_id, prefix"""
_VERSION_ROWS = (
    "SELECT 0 AS list_id, scope AS key, '' AS comment, directory AS version FROM scopes WHERE scope = ANY($1)"
)
_HITS = """ UNION ALL SELECT list_id, key, comment, 0 FROM entries
WHERE list_id = ANY(${0}) AND key = ANY(${1}) AND (expires IS NULL OR expires > $2)"""
_CONTENT = """SELECT list_id, key, COALESCE(shown, key), comment, expires FROM entries
WHERE list_id = ANY($1) AND (expires IS NULL OR expires > $2) ORDER BY list_id, key"""


class Known(msgspec.Struct, frozen=True):
    """What is remembered of a scope: its lists that have entries, by kind, each with its prefix lengths."""

    version: int
    by_kind: dict[str, tuple[Shelf, ...]]
    by_id: dict[int, Shelf]
    prefixes: frozenset[str]


Directories = dict[str, Known]


def lookup(
    remembered: Directories, tenant: str | None, keys: Sequence[tuple[str, Sequence[str]]], now: int
) -> Work[tuple[Hit, ...]]:
    """The entries that have one of these keys, in the global scope and in the tenant's."""
    scopes = _scopes(tenant)
    known: dict[str, Known] = {}
    for scope in scopes:
        known[scope] = remembered.get(scope) or (yield from _learn(remembered, scope))
    hits: tuple[Hit, ...] = ()
    for _ in range(ATTEMPTS):
        asked = _asked(known, keys)
        rows = yield Read(_statement(len(asked)), _parameters(scopes, asked, now))
        hits = _hits([row for row in rows if row[0]], known)
        versions = {row[1]: row[3] for row in rows if not row[0]}
        stale = [scope for scope, what in known.items() if versions.get(scope, 0) != what.version]
        if not stale:
            break
        for scope in stale:
            known[scope] = yield from _learn(remembered, scope)
    return hits


def version(tenant: str | None, now: int) -> Work[str]:
    """The version of what is handed out whole to a tenant's messages."""
    scopes = _scopes(tenant)
    rows = yield Read(_UNKEYED_VERSIONS, (Many(scopes), now))
    versions = {scope: f"{lists}-{changed}-{expired or 0}" for scope, lists, changed, expired in rows}
    return ".".join(versions.get(scope, "0-0-0") for scope in scopes)


def unkeyed(tenant: str | None, now: int) -> Work[Unkeyed]:
    """Every list that is handed out whole, of both scopes. Needs one snapshot for all its statements."""
    current = yield from version(tenant, now)
    places: dict[int, Shelf] = {}
    for scope in _scopes(tenant):
        places.update((place.id, place) for place in (yield from shelves.in_scope(scope)))
    custom = {place.name: place.definition.counts_as for place in places.values() if place.definition.custom}
    keyed = {place.kind for place in places.values() if _is_looked_up(place)}
    wanted = tuple(sorted(place.id for place in places.values() if place.unkeyed and place.size))
    rows = (yield Read(_CONTENT, (Many(wanted), now))) if wanted else ()
    shelved: dict[str, list[Listed]] = {}
    for list_id, key, shown, comment, expires in rows:
        place = places[list_id]
        entry = Listed(place.name, _scope(place), key, shown, comment, expires)
        shelved.setdefault(_FIELDS.get(place.definition.counts_as, ""), []).append(entry)
    return msgspec.structs.replace(
        Unkeyed(current, custom=custom, keyed=tuple(sorted(keyed))),
        **{field: tuple(entries) for field, entries in shelved.items() if field},
    )


# Where the entries of a list stand in `Unkeyed`, by the usual list that it counts for.
_FIELDS = {
    "blocked-phrases": "phrases",
    "own-domains": "own_domains",
    "partner-domains": "partner_domains",
    "protected-people": "people",
    "trusted-relays": "trusted_relays",
}


def _scopes(tenant: str | None) -> tuple[str, ...]:
    return ("", tenant) if tenant else ("",)


def _scope(place: Shelf) -> Scope:
    return "tenant" if place.scope else "global"


def _is_looked_up(place: Shelf) -> bool:
    return bool(place.size) and place.definition.category in _LOOKED_UP and not place.unkeyed


def _learn(remembered: Directories, scope: str) -> Work[Known]:
    """Read which lists a scope has. The version first: what changes meanwhile is then noticed the next time."""
    versions = yield Read(_VERSION, (scope,))
    prefixes = yield Read(_PREFIXES, (scope,))
    places = yield from shelves.in_scope(scope)
    useful = [place for place in places if _is_looked_up(place)]
    if len(remembered) >= MAX_SCOPES:
        remembered.clear()
    ids = {place.id for place in useful}
    known = remembered[scope] = Known(
        versions[0][0] if versions else 0,
        {kind: tuple(p for p in useful if p.kind == kind) for kind in {p.kind for p in useful}},
        {place.id: place for place in useful},
        frozenset(name for list_id, name in prefixes if list_id in ids),
    )
    return known


def _asked(known: dict[str, Known], keys: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[Many, Many]]:
    """For each kind that some list has entries of: those lists, and the keys that can be in them."""
    asked = []
    lengths = frozenset[str]().union(*(what.prefixes for what in known.values()))
    for kind, all_keys in keys:
        places = [place.id for what in known.values() for place in what.by_kind.get(kind, ())]
        possible = [key for key in all_keys if prefix(key) in lengths] if kind == NETWORK.name else all_keys
        if places and possible:
            asked.append((Many(tuple(places)), Many(tuple(map(storable, possible)))))
    return asked


def _statement(kinds: int) -> str:
    return _VERSION_ROWS + "".join(_HITS.format(place, place + 1) for place in range(3, 3 + 2 * kinds, 2))


def _parameters(scopes: tuple[str, ...], asked: Sequence[tuple[Many, Many]], now: int) -> Row:
    if not asked:
        return (Many(scopes),)
    return (Many(scopes), now, *(part for pair in asked for part in pair))


def _hits(rows: Sequence[Row], known: dict[str, Known]) -> tuple[Hit, ...]:
    places = {uid: place for what in known.values() for uid, place in what.by_id.items()}
    hits = (Hit(places[list_id].name, _scope(places[list_id]), key, comment) for list_id, key, comment, _ in rows)
    return tuple(sorted(hits, key=lambda hit: (hit.list, hit.scope, hit.key)))
