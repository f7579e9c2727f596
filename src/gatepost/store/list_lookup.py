"""Looking lists up: only lists that have entries, only the prefix lengths that occur, all in one statement.

Which lists a scope has is cached. Its version comes back with every look-up, from the same statement: where it is not
the cached one, the directory is read anew and the look-up repeated. So a change by any process holds for the next
message, and the usual look-up costs one round trip. Adding to a list that has entries already changes nothing here,
since entries themselves are never cached.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import msgspec

from gatepost.lists.addresses import RECIPIENT, SENDER, list_sender_keys
from gatepost.lists.catalogue import UNKEYED
from gatepost.lists.entries import NETWORK, UnkeyedEntry
from gatepost.lists.rulings import scoped_name
from gatepost.lists.unkeyed import UnkeyedLists
from gatepost.questions import Hit, Scope
from gatepost.store.engine import Engine, Many, Operations, Read, Work, normalize_scope, now, query, snapshot, storable
from gatepost.store.list_rows import ListRow, find_list, find_lists, lock_lists, prefix_length
from gatepost.store.recipients import find_recipient_hits, has_recipient_entries
from gatepost.store.sql import Row, compose, sql, update_many

# What a look-up for mail may cost: keys, times the lists that may have them. A scope may have a hundred lists of one
# kind, and a message tens of thousands of keys; all tenants wait for the same readers. So many are enough for the
# largest message where nobody has custom lists, and for 2,000 keys where there are a hundred.
MAX_PROBES = 200_000
# A look-up that meets a new version each time answers as of the last one.
ATTEMPTS = 3
MAX_SCOPES = 10_000

_VERSION = sql("SELECT directory FROM scopes WHERE scope = $1")
# An entry that has expired since the last change is no longer handed out: that is another version as well.
_UNKEYED = ", ".join(f"'{kind} {category}'" for kind, category in UNKEYED)
_UNKEYED_VERSIONS = sql(f"""SELECT scope, directory, unkeyed, (
    SELECT max(expires) FROM lists JOIN entries ON list_id = lists.id
    WHERE lists.scope = scopes.scope AND expires <= $2 AND kind || ' ' || category IN ({_UNKEYED})
) FROM scopes WHERE @one_of(scope, $1)""")  # noqa: S608
_PREFIXES = sql("""SELECT list_id, prefix FROM list_prefixes
WHERE list_id IN (SELECT id FROM lists WHERE scope = $1) ORDER BY list_id, prefix""")
_VERSION_ROWS = sql(
    "SELECT 0 AS list_id, scope AS key, '' AS comment, directory AS version FROM scopes WHERE @one_of(scope, $1)"
)
_HITS = """ UNION ALL SELECT list_id, key, comment, 0 FROM entries
WHERE @one_of(list_id, ${0}) AND @one_of(key, ${1}) AND (expires IS NULL OR expires > $2)"""
_CONTENT = sql("""SELECT list_id, key, shown, expires FROM entries
WHERE @one_of(list_id, $1) AND (expires IS NULL OR expires > $2) ORDER BY list_id, key""")
_COUNT_HITS = update_many(
    "entries",
    "list_id, key",
    "hits, last_hit",
    "hits = entries.hits + new.hits, last_hit = @larger(COALESCE(entries.last_hit, 0), new.last_hit)",
)


class HitCount(msgspec.Struct, frozen=True):
    """How often an entry was hit since the last report, and when last."""

    scope: str | None
    list: str
    key: str
    hits: int
    last_hit: int


class ScopeDirectory(msgspec.Struct, frozen=True):
    """What is cached of a scope: its lists that have entries, by kind and by id, the prefix lengths in them, and
    whether recipients have entries of their own."""

    version: int
    by_kind: dict[str, tuple[ListRow, ...]]
    by_id: dict[int, ListRow]
    prefixes: frozenset[str]
    has_recipient_entries: bool = False


Directories: TypeAlias = dict[str, ScopeDirectory]


class ListLookup(Operations):
    """What the analysis asks of lists, and the hits that it reports."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._directories: Directories = {}

    @query
    def find(
        self, tenant: str | None, keys: Sequence[tuple[str, Sequence[str]]], recipient: str = ""
    ) -> Work[tuple[Hit, ...]]:
        """What block, allow and policy lists of the global scope and of that tenant have, asked by kind and keys, and
        what the only recipient of a message says of its senders."""
        hits, _ = yield from self._find(tenant, keys, recipient, math.inf)
        return hits

    @query
    def find_for_mail(
        self, tenant: str | None, keys: Sequence[tuple[str, Sequence[str]]], recipient: str = ""
    ) -> Work[tuple[tuple[Hit, ...], bool]]:
        """The same within `MAX_PROBES`, and whether that was enough for all keys; if not, the first ones count."""
        return (yield from self._find(tenant, keys, recipient, MAX_PROBES))

    def _find(
        self, tenant: str | None, keys: Sequence[tuple[str, Sequence[str]]], recipient: str, most: float
    ) -> Work[tuple[tuple[Hit, ...], bool]]:
        scope = normalize_scope(tenant)
        hits, is_whole = yield from find_hits(self._directories, scope, keys, now(), most)
        directory = self._directories.get(scope or "")
        if not recipient or directory is None or not directory.has_recipient_entries:
            return hits, is_whole
        senders = [key for kind, several in keys if kind == SENDER.name for key in several]
        return (*hits, *(yield from find_recipient_hits(scope or "", recipient, senders))), is_whole

    @query
    def knows_recipient(self, tenant: str | None, addresses: Sequence[str]) -> Work[bool | None]:
        """Whether a list of known recipients, of the global scope or of that tenant, has one of these addresses; None
        where there is no entry at all, which is no reason to refuse all mail."""
        scope = normalize_scope(tenant)
        keys = tuple(dict.fromkeys(key for each in addresses for key in list_sender_keys(each)))
        hits, _ = yield from find_hits(self._directories, scope, [(RECIPIENT.name, keys)], now())
        if hits:
            return True
        known = (self._directories.get(name) for name in _scopes(scope))
        return False if any(each and each.by_kind.get(RECIPIENT.name) for each in known) else None

    @query
    def unkeyed_version(self, tenant: str | None) -> Work[str]:
        """The version of `unkeyed(tenant)` now; cheap."""
        return (yield from _read_version(normalize_scope(tenant), now()))

    @snapshot
    def unkeyed(self, tenant: str | None) -> Work[UnkeyedLists]:
        """Every list that is handed out whole, of the global scope and of that tenant."""
        scope, moment = normalize_scope(tenant), now()
        current = yield from _read_version(scope, moment)
        lists: dict[int, ListRow] = {}
        for name in _scopes(scope):
            lists.update((row.id, row) for row in (yield from find_lists(name)))
        custom = {
            scoped_name(_scope_name(row), row.name): row.definition.counts_as
            for row in lists.values()
            if row.definition.custom
        }
        keyed = {row.kind for row in lists.values() if _is_looked_up(row)}
        if (yield from has_recipient_entries(scope or "")):
            keyed.add(SENDER.name)
        wanted = tuple(sorted(row.id for row in lists.values() if not row.definition.keyed and row.size))
        rows = (yield Read(_CONTENT, (Many(wanted), moment))) if wanted else ()
        return UnkeyedLists(current, _group_by_list(rows, lists), custom, tuple(sorted(keyed)))

    async def record_hits(self, counts: Sequence[HitCount]) -> None:
        """Add to the counters of entries; those that are gone meanwhile are ignored."""
        if counts:
            await self._engine.change(partial(_count_hits, counts))


def find_hits(
    directories: Directories,
    tenant: str | None,
    keys: Sequence[tuple[str, Sequence[str]]],
    now: int,
    most: float = math.inf,
) -> Work[tuple[tuple[Hit, ...], bool]]:
    """The entries that have one of these keys, in the global scope and in the tenant's, found with so many probes at
    most; and whether those were enough."""
    scopes = _scopes(tenant)
    known: dict[str, ScopeDirectory] = {}
    for scope in scopes:
        known[scope] = directories.get(scope) or (yield from _read_directory(directories, scope))
    hits: tuple[Hit, ...] = ()
    is_whole = True
    for _ in range(ATTEMPTS):
        asked, is_whole = _select_lists(known, keys, most)
        rows = yield _read_hits(scopes, asked, now)
        hits = _hits([row for row in rows if row[0]], known)
        versions = {row[1]: row[3] for row in rows if not row[0]}
        stale = [scope for scope, directory in known.items() if versions.get(scope, 0) != directory.version]
        if not stale:
            break
        for scope in stale:
            known[scope] = yield from _read_directory(directories, scope)
    return hits, is_whole


def _read_version(tenant: str | None, now: int) -> Work[str]:
    """The version of what is handed out whole to a tenant's messages."""
    scopes = _scopes(tenant)
    rows = yield Read(_UNKEYED_VERSIONS, (Many(scopes), now))
    versions = {scope: f"{lists}-{changed}-{expired or 0}" for scope, lists, changed, expired in rows}
    return ".".join(versions.get(scope, "0-0-0") for scope in scopes)


def _group_by_list(rows: Sequence[Row], lists: dict[int, ListRow]) -> dict[str, tuple[UnkeyedEntry, ...]]:
    """Entries by the built-in list that they count for."""
    grouped: dict[str, list[UnkeyedEntry]] = {}
    for list_id, key, shown, expires in rows:
        row = lists[list_id]
        entry = UnkeyedEntry(row.name, _scope_name(row), key, shown or key, expires)
        grouped.setdefault(row.definition.counts_as, []).append(entry)
    return {name: tuple(entries) for name, entries in grouped.items()}


def _scopes(tenant: str | None) -> tuple[str, ...]:
    return ("", tenant) if tenant else ("",)


def _scope_name(row: ListRow) -> Scope:
    return "tenant" if row.scope else "global"


def _is_looked_up(row: ListRow) -> bool:
    return bool(row.size) and row.definition.is_looked_up


def _read_directory(directories: Directories, scope: str) -> Work[ScopeDirectory]:
    """Read and cache which lists a scope has. The version first: a change meanwhile is then noticed the next time."""
    versions = yield Read(_VERSION, (scope,))
    prefixes = yield Read(_PREFIXES, (scope,))
    lists = [row for row in (yield from find_lists(scope)) if _is_looked_up(row)]
    if len(directories) >= MAX_SCOPES:
        directories.clear()
    ids = {row.id for row in lists}
    directory = directories[scope] = ScopeDirectory(
        versions[0][0] if versions else 0,
        {kind: tuple(row for row in lists if row.kind == kind) for kind in {row.kind for row in lists}},
        {row.id: row for row in lists},
        frozenset(length for list_id, length in prefixes if list_id in ids),
        (yield from has_recipient_entries(scope)),
    )
    return directory


def _select_lists(
    known: dict[str, ScopeDirectory], keys: Sequence[tuple[str, Sequence[str]]], most: float
) -> tuple[list[tuple[Many, Many]], bool]:
    """For each kind that a list has entries of: those lists, and the keys that can be in them, as many as `most` allows
    for all kinds together; and whether these are all. The kinds with few keys come first."""
    asked = []
    is_whole = True
    lengths = frozenset[str]().union(*(directory.prefixes for directory in known.values()))
    for kind, all_keys in sorted(keys, key=lambda each: len(each[1])):
        ids = [row.id for directory in known.values() for row in directory.by_kind.get(kind, ())]
        possible = [key for key in all_keys if prefix_length(key) in lengths] if kind == NETWORK.name else all_keys
        if not ids or not possible:
            continue
        if len(ids) * len(possible) > most:
            possible, is_whole = possible[: int(most) // len(ids)], False
        most -= len(ids) * len(possible)
        asked.append((Many(tuple(ids)), Many(tuple(map(storable, possible)))))
    return asked, is_whole


def _read_hits(scopes: tuple[str, ...], asked: Sequence[tuple[Many, Many]], now: int) -> Read:
    if not asked:
        return Read(_VERSION_ROWS, (Many(scopes),))
    hits = (_HITS.format(number, number + 1) for number in range(3, 3 + 2 * len(asked), 2))
    return Read(compose(_VERSION_ROWS + "".join(hits)), (Many(scopes), now, *(part for pair in asked for part in pair)))


def _hits(rows: Sequence[Row], known: dict[str, ScopeDirectory]) -> tuple[Hit, ...]:
    lists = {uid: row for directory in known.values() for uid, row in directory.by_id.items()}
    hits = (Hit(lists[list_id].name, _scope_name(lists[list_id]), key, comment) for list_id, key, comment, _ in rows)
    return tuple(sorted(hits, key=lambda hit: (hit.list, hit.scope, hit.key)))


def _count_hits(counts: Sequence[HitCount]) -> Work[None]:
    lists: dict[tuple[str | None, str], ListRow | None] = {}
    for count in counts:
        if (name := (count.scope, count.list)) not in lists:
            lists[name] = yield from find_list(count.scope or "", count.list)
    ids = {name: row.id for name, row in lists.items() if row}
    rows = [
        (ids[count.scope, count.list], storable(count.key), count.hits, count.last_hit)
        for count in _merge_counts(counts)
        if (count.scope, count.list) in ids
    ]
    if rows:
        yield from lock_lists(tuple(sorted(ids.values())))
        yield _COUNT_HITS.of(sorted(rows))


def _merge_counts(counts: Sequence[HitCount]) -> list[HitCount]:
    """One count for each entry: PostgreSQL updates a row once, whatever is joined to it."""
    merged: dict[tuple[str | None, str, str], HitCount] = {}
    for count in counts:
        name = (count.scope, count.list, count.key)
        before = merged.get(name, HitCount(*name, 0, 0))
        merged[name] = HitCount(*name, before.hits + count.hits, max(before.last_hit, count.last_hit))
    return list(merged.values())
