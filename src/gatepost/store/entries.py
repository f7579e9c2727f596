"""Adding and deleting entries, counting hits, and taking out what has expired.

The row of the list is locked first. So calls on one list come one after the other, its size is exact, and nobody waits
for each other in a circle. New entries are the usual case and cost one statement each; only where some were there
already does a second pass update them.

An entry is gone at the moment in which it expires: it is not shown, not counted, and adding it again makes a new one.
Where a call meets some that are still in the table, they go first.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from gatepost.lists.catalogue import KINDS, Definition
from gatepost.store import shelves
from gatepost.store.auditing import noted
from gatepost.store.interface import SYSTEM, Actor, HitCount, ListEntry, ListFull, Missing, NewEntry
from gatepost.store.shelves import Shelf
from gatepost.store.work import Bulk, Many, Read, Row, Work, storable

PURGE_BATCH = 500

_COLUMNS = "list_id, key, shown, comment, created, modified, modified_by, expires"
_ARRAYS = """unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
$8::bigint[])"""
INSERT = f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608
_INSERT_ALL = f"INSERT INTO entries ({_COLUMNS}) SELECT * FROM {_ARRAYS} ON CONFLICT DO NOTHING"  # noqa: S608
_UPDATE = """UPDATE entries SET shown = ?3, comment = ?4, modified = ?6, modified_by = ?7, expires = ?8
WHERE list_id = ?1 AND key = ?2"""
_UPDATE_ALL = f"""UPDATE entries SET shown = new.shown, comment = new.comment, modified = new.modified,
modified_by = new.modified_by, expires = new.expires FROM {_ARRAYS} AS new ({_COLUMNS})
WHERE entries.list_id = new.list_id AND entries.key = new.key"""  # noqa: S608
_EXISTING = "SELECT key FROM entries WHERE list_id = $1 AND key = ANY($2)"
_DELETE = "DELETE FROM entries WHERE list_id = $1 AND key = ANY($2) RETURNING key"
_ANY_EXPIRED = "SELECT 1 FROM entries WHERE list_id = $1 AND expires <= $2 LIMIT 1"
_EXPIRED_AMONG = "SELECT key FROM entries WHERE list_id = $1 AND key = ANY($2) AND expires <= $3"
_COUNT_EXPIRED = "SELECT count(*) FROM entries WHERE list_id = $1 AND expires <= $2"
_TENANT = "SELECT 1 FROM tenants WHERE uid = $1 FOR KEY SHARE"
_READ = """SELECT key, COALESCE(shown, key), comment, created, modified, modified_by, expires, hits, last_hit
FROM entries WHERE list_id = """
_LIVE = " AND (expires IS NULL OR expires > $3)"
_SOME = _READ + "$1 AND key = ANY($2)" + _LIVE
_ALL = _READ + "(SELECT id FROM lists WHERE scope = $1 AND name = $2)" + _LIVE + " ORDER BY "  # noqa: S608
_HIT = """UPDATE entries SET hits = hits + ?3, last_hit = max(COALESCE(last_hit, 0), ?4)
WHERE list_id = ?1 AND key = ?2"""
_HIT_ALL = """UPDATE entries SET hits = entries.hits + seen.hits,
last_hit = GREATEST(COALESCE(entries.last_hit, 0), seen.last_hit)
FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) AS seen (list_id, key, hits, last_hit)
WHERE entries.list_id = seen.list_id AND entries.key = seen.key"""
_DUE = """SELECT id FROM lists
WHERE scope <> '-' AND EXISTS (SELECT 1 FROM entries WHERE list_id = lists.id AND expires <= $1) ORDER BY id LIMIT 1"""
_EXPIRED = "SELECT key FROM entries WHERE list_id = $1 AND expires <= $2 ORDER BY expires LIMIT $3"


def add(
    scope: str | None, definition: Definition, entries: Sequence[NewEntry], by: Actor, now: int
) -> Work[int | ListFull | Missing]:
    """Add or update entries, all or none."""
    if scope and not (yield Read(_TENANT, (scope,))):
        return Missing("tenant")
    final = {storable(entry.key): entry for entry in entries}
    place = yield from _opened(scope or "", definition, make=bool(final))
    if place is None:
        return Missing("list") if definition.custom else 0
    if not final:
        return 0
    place = yield from _without_expired(place, tuple(final), now)
    known = yield from _known(place, tuple(final))
    if known is not None:
        place = yield from _with_room(place, len(final) - len(known), now)
        if place.size + len(final) - len(known) > place.definition.max_size:
            return ListFull(place.size, place.definition.max_size)
    label = storable(by.label)
    rows = [_row(place.id, key, entry, label, now) for key, entry in sorted(final.items())]
    added = yield Bulk(INSERT, _INSERT_ALL, rows)
    if added < len(rows):
        yield Bulk(_UPDATE, _UPDATE_ALL, rows)
    yield from shelves.resized(place, added, final.keys() - (known or ()), now)
    yield from shelves.told(place, now)
    yield from noted(now, by, "entries.add", scope, place.name, len(rows), final)
    return len(rows)


def delete(scope: str | None, list_name: str, keys: Sequence[str], by: Actor, now: int) -> Work[int]:
    """Delete those of these entries that there are."""
    asked = tuple(sorted({storable(key) for key in keys}))
    place = (yield from shelves.find(scope or "", storable(list_name), lock=True)) if asked else None
    if place is None:
        return 0
    place = yield from _without_expired(place, asked, now)
    gone = yield from _deleted(place, asked, now)
    if gone:
        yield from noted(now, by, "entries.delete", scope, place.name, len(gone), sorted(gone))
    return len(gone)


def some(scope: str | None, list_name: str, keys: Sequence[str], now: int) -> Work[tuple[ListEntry, ...]]:
    """Those of these keys that the list has."""
    asked = tuple(dict.fromkeys(map(storable, keys)))
    place = (yield from shelves.find(scope or "", storable(list_name))) if asked else None
    if place is None:
        return ()
    rows = yield Read(_SOME, (place.id, Many(asked), now))
    found = {row[0]: ListEntry(*row) for row in rows}
    return tuple(found[key] for key in asked if key in found)


def everything(scope: str | None, definition: Definition, now: int) -> Read:
    """All entries of a list, ordered as they are shown.

    People are shown otherwise than they are compared, and the keys of long phrases are cut. These lists are small; the
    others are read in the order of their keys, which is the same but for entries that agree in 2,600 bytes.
    """
    order = "key" if KINDS[definition.kind].keyed else "COALESCE(shown, key), key"
    return Read(_ALL + order, (scope or "", definition.name, now))


def hit(counts: Sequence[HitCount]) -> Work[None]:
    """Add to the counters of entries."""
    places: dict[tuple[str | None, str], Shelf | None] = {}
    for count in counts:
        if (named := (count.scope, count.list)) not in places:
            places[named] = yield from shelves.find(count.scope or "", count.list)
    ids = {named: place.id for named, place in places.items() if place}
    rows = [
        (ids[count.scope, count.list], storable(count.key), count.hits, count.last_hit)
        for count in _merged(counts)
        if (count.scope, count.list) in ids
    ]
    if rows:
        yield from shelves.lock_all(tuple(sorted(ids.values())))
        yield Bulk(_HIT, _HIT_ALL, sorted(rows))


def purge(now: int) -> Work[int]:
    """Delete some entries whose time has come, of one list; 0 when there are no more."""
    due = yield Read(_DUE, (now,))
    places = (yield from shelves.lock_all((due[0][0],))) if due else ()
    if not places:
        return 0
    (place,) = places
    keys = tuple(row[0] for row in (yield Read(_EXPIRED, (place.id, now, PURGE_BATCH))))
    return place.size - (yield from _expired(place, keys, now)).size


def _without_expired(place: Shelf, keys: tuple[str, ...], now: int) -> Work[Shelf]:
    """The list after those of these keys have gone whose time has come. Most lists have none, and one look tells."""
    if not place.size or not (yield Read(_ANY_EXPIRED, (place.id, now))):
        return place
    due = tuple(row[0] for row in (yield Read(_EXPIRED_AMONG, (place.id, Many(keys), now))))
    return (yield from _expired(place, due, now))


def _with_room(place: Shelf, more: int, now: int) -> Work[Shelf]:
    """The list after as many have gone that have expired as it takes to have room, if there are enough."""
    missing = place.size + more - place.definition.max_size
    if missing <= 0:
        return place
    ((count,),) = yield Read(_COUNT_EXPIRED, (place.id, now))
    if count < missing:
        # Nothing of the call will be applied, so nothing goes; but those that expired do not count.
        return replace(place, size=place.size - count)
    due = tuple(row[0] for row in (yield Read(_EXPIRED, (place.id, now, missing))))
    return (yield from _expired(place, due, now))


def _expired(place: Shelf, keys: tuple[str, ...], now: int) -> Work[Shelf]:
    """The list without these entries, whose time has come."""
    gone = yield from _deleted(place, keys, now)
    if gone:
        yield from noted(now, SYSTEM, "entries.expire", place.scope, place.name, len(gone), sorted(gone))
    return replace(place, size=place.size - len(gone))


def _deleted(place: Shelf, keys: tuple[str, ...], now: int) -> Work[list[str]]:
    """Delete entries; those that there were."""
    gone = [row[0] for row in (yield Read(_DELETE, (place.id, Many(keys))))] if keys else []
    if gone:
        yield from shelves.resized(place, -len(gone), gone, now)
        yield from shelves.told(place, now)
    return gone


def _opened(scope: str, definition: Definition, *, make: bool) -> Work[Shelf | None]:
    """The list's row, locked; a usual list gets one when its first entry comes."""
    place = yield from shelves.find(scope, definition.name, lock=True)
    if place is None and make and not definition.custom:
        yield from shelves.create(scope, definition)
        place = yield from shelves.find(scope, definition.name, lock=True)
    return place if place is None or place.kind == definition.kind else None


def _known(place: Shelf, keys: tuple[str, ...]) -> Work[set[str] | None]:
    """Which of these keys the list has already, where that must be known beforehand."""
    if not place.counts_prefixes and place.size + len(keys) <= place.definition.max_size:
        return None
    return {row[0] for row in (yield Read(_EXISTING, (place.id, Many(keys))))}


def _row(list_id: int, key: str, entry: NewEntry, label: str, now: int) -> Row:
    shown = None if entry.shown == entry.key else storable(entry.shown)
    return (list_id, key, shown, storable(entry.comment), now, now, label, entry.expires)


def _merged(counts: Sequence[HitCount]) -> list[HitCount]:
    """One count for each entry: PostgreSQL updates a row once, whatever is joined to it."""
    merged: dict[tuple[str | None, str, str], HitCount] = {}
    for count in counts:
        named = (count.scope, count.list, count.key)
        before = merged.get(named, HitCount(*named, 0, 0))
        merged[named] = HitCount(*named, before.hits + count.hits, max(before.last_hit, count.last_hit))
    return list(merged.values())
