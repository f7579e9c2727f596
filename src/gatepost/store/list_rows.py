"""The rows of lists, the versions that readers ask for, and how many bytes the lists of a scope may have.

Readers cache which lists of a scope have entries (see `list_lookup`) and what is in those that are handed out whole.
Both caches ask for a version first, which a change increases. A version is a time, or one more than the last where that
is later, so that it never comes back, not even after an old backup was restored.

What the lists of a scope that are handed out whole may have together is bounded in bytes. The sum stands with the scope
and is changed with the entries: so a call costs what its own entries cost, however long the lists are. A program of a
version before this one changes entries without it, but raises the version of the lists (`scopes.unkeyed`) as every
change does: a sum that is of another version is not believed, and all entries are counted. Expired entries are part of
the sum until they are purged; where they would keep a call from its place, they are left out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from gatepost.lists.catalogue import BY_NAME, MAX_UNKEYED_BYTES, UNKEYED_ENTRY_BYTES, ListDefinition, make_custom_list
from gatepost.lists.entries import NETWORK
from gatepost.store.engine import Many, Read, Work, Write
from gatepost.store.errors import ListFull
from gatepost.store.sql import Row, sql

# Of one row of `entries`.
ENTRY_BYTES = f"{UNKEYED_ENTRY_BYTES} + @bytes(key) + COALESCE(@bytes(shown), 0)"
_SUM = f"SELECT CAST(COALESCE(sum({ENTRY_BYTES}), 0) AS BIGINT) FROM entries WHERE "  # noqa: S608
_ALL = sql(_SUM + "@one_of(list_id, $1)")
_OF_KEYS = sql(_SUM + "list_id = $1 AND @one_of(key, $2)")
_EXPIRED = sql(_SUM + "@one_of(list_id, $1) AND expires <= $2 AND NOT (list_id = $3 AND @one_of(key, $4))")
_COUNTED = sql("SELECT unkeyed_bytes FROM scopes WHERE scope = $1 AND counted_version = unkeyed")
_LOCK_SCOPE = sql("SELECT unkeyed FROM scopes WHERE scope = $1 @lock(UPDATE)")
_SET = sql("UPDATE scopes SET unkeyed_bytes = $2, counted_version = unkeyed WHERE scope = $1")
_SUBTRACT = sql("UPDATE scopes SET unkeyed_bytes = unkeyed_bytes - $2 WHERE scope = $1 AND counted_version = unkeyed")


def count_bytes(key: str, shown: str | None) -> int:
    """How many bytes an entry has for a worker, from its columns; `ENTRY_BYTES` says the same of its row."""
    size = UNKEYED_ENTRY_BYTES + len(key.encode())
    return size if shown is None else size + len(shown.encode())


def subtract_bytes(scope: str, size: int) -> Work[None]:
    """Count out entries that were deleted; the version of the scope is raised after this."""
    yield Write(_SUBTRACT, (scope, size))


def subtract_list(scope: str, list_id: int) -> Work[None]:
    """Count out all entries of a list that is about to be deleted."""
    ((total,),) = yield Read(_ALL, (Many((list_id,)),))
    yield from subtract_bytes(scope, total)


_COLUMNS = "id, scope, name, kind, category, display_name, description, max_size, custom, size"
_SELECT = sql(f"SELECT {_COLUMNS} FROM lists WHERE scope = $1 AND name = $2")  # noqa: S608
_LOCK = sql(_SELECT + " @lock(UPDATE)")
_LOCK_IDS = sql(f"SELECT {_COLUMNS} FROM lists WHERE @one_of(id, $1) ORDER BY id @lock(UPDATE)")  # noqa: S608
_SELECT_SCOPE = sql(f"SELECT {_COLUMNS} FROM lists WHERE scope = $1 ORDER BY name")  # noqa: S608
_INSERT = sql("""INSERT INTO lists (scope, name, kind, category, display_name, description, max_size, custom, size)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0) ON CONFLICT (scope, name) DO NOTHING""")
_CHANGE_SIZE = sql("UPDATE lists SET size = size + $2 WHERE id = $1")
_PREFIXES = sql("SELECT prefix FROM list_prefixes WHERE list_id = $1")
_COUNT_PREFIX = sql("""INSERT INTO list_prefixes (list_id, prefix, entries) VALUES ($1, $2, $3)
ON CONFLICT (list_id, prefix) DO UPDATE SET entries = list_prefixes.entries + excluded.entries""")
_DROP_PREFIXES = sql("DELETE FROM list_prefixes WHERE list_id = $1 AND entries <= 0")
_NEW_DIRECTORY_VERSION = sql("""INSERT INTO scopes (scope, directory, unkeyed) VALUES ($1, $2, $2)
ON CONFLICT (scope) DO UPDATE SET directory = @larger(scopes.directory + 1, excluded.directory)""")
# The sum of their bytes is kept with each change (`unkeyed_bytes`): where it was right, it is right for this version.
_NEW_UNKEYED_VERSION = sql("""INSERT INTO scopes (scope, directory, unkeyed) VALUES ($1, $2, $2)
ON CONFLICT (scope) DO UPDATE SET unkeyed = @larger(scopes.unkeyed + 1, excluded.unkeyed), counted_version =
CASE WHEN scopes.counted_version = scopes.unkeyed THEN @larger(scopes.unkeyed + 1, excluded.unkeyed) ELSE 0 END""")


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
        # Calls on several lists of a scope count one after the other.
        yield Read(_LOCK_SCOPE, (scope,))
    lists = {row.name: row.id for row in (yield from find_lists(scope)) if not row.definition.keyed}
    ids, own = Many(tuple(lists.values())), lists.get(definition.name, 0)
    keys, added, total, expired = Many(tuple(sizes)), sum(sizes.values()), 0, 0
    if lists and sizes:
        counted = (yield Read(_COUNTED, (scope,))) or (yield Read(_ALL, (ids,)))
        replaced = yield Read(_OF_KEYS, (own, keys))
        total = counted[0][0] - replaced[0][0]
        if total + added > MAX_UNKEYED_BYTES:
            expired = (yield Read(_EXPIRED, (ids, now, own, keys)))[0][0]
    if total - expired + added > MAX_UNKEYED_BYTES:
        return ListFull(total - expired, MAX_UNKEYED_BYTES, "bytes")
    if count:
        yield Write(_SET, (scope, total + added))
    return None


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
