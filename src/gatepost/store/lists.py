"""Lists and their entries: adding, deleting, reading and searching them, and deleting those that have expired.

For each change the row of the list is locked first. So calls on one list come one after the other, its size is exact,
and two calls never wait for each other in a circle. New entries are the usual case and cost one statement each; only
where some were there already does a second pass update them.

An entry is gone at the moment in which it expires: it is not shown, not counted, and adding it again makes a new one.
Where a call meets expired entries that are still in the table, it deletes them first.

Pages of entries are read by an index. Entries of lists that may be large are shown as they are compared, so the primary
key has them in order. People and phrases are shown otherwise; such a list has at most 100,000 entries, and they are put
in order for each page.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from gatepost.lists.catalogue import (
    BY_NAME,
    LISTS,
    MAX_CUSTOM_LISTS,
    ListDefinition,
    explain_unused,
    find_usual_list,
    make_custom_list,
)
from gatepost.lists.entries import ListRefusal
from gatepost.store.audit import MAX_CHANGES, SYSTEM, Actor, ChangedValue, write_audit
from gatepost.store.engine import (
    Many,
    Operations,
    Read,
    Work,
    Write,
    change,
    convert_each,
    large_query,
    normalize_scope,
    now,
    query,
    snapshot,
    storable,
)
from gatepost.store.errors import ListFull, NameTaken, NotFound, TooManyLists
from gatepost.store.list_rows import (
    ENTRY_BYTES,
    ListRow,
    change_size,
    count_bytes,
    find_excess_bytes,
    find_list,
    find_lists,
    insert_list,
    lock_lists,
    raise_unkeyed_version,
    raise_versions,
    subtract_bytes,
    subtract_list,
)
from gatepost.store.look_backs import queue_look_back
from gatepost.store.paging import Page, PageQuery, SqlCondition, find_page
from gatepost.store.sql import Row, insert_many, sql, update_many
from gatepost.store.tenants import delete_some_hidden, tenant_exists
from gatepost.times import date_time

_ENTRIES = "entries"
_SORTED_ENTRIES = "(SELECT list_id, COALESCE(shown, key) AS shown, key, comment FROM entries) AS people"

_cursors = msgspec.json.Decoder(tuple[str, str])


def plan_entries(row: ListRow, prefix: str, part: str, cursor: str | None) -> PageQuery:
    """How to find a page of entries that begin with `prefix` and contain `part`, after a cursor."""
    after = _parse_cursor(cursor)
    sort_by_shown = not row.definition.keyed
    within = [SqlCondition("list_id = {}", (row.id,))]
    order = ("shown", "key") if sort_by_shown else ("key",)
    if after is not None:
        within.append(
            SqlCondition("(shown, key) > ({}, {})", after) if sort_by_shown else SqlCondition("key > {}", after[1:])
        )
    if prefix:
        within += _starts_with(order[0], storable(prefix))
    tests = [_contains(storable(part))] if part else []
    if sort_by_shown:
        # All of the list is read for its order anyway.
        return PageQuery(_SORTED_ENTRIES, order, [*within, *tests], descending=False)
    return PageQuery(_ENTRIES, order, within, tests, ("shown", "comment") if part else (), descending=False)


def _parse_cursor(text: str | None) -> tuple[str, str] | None:
    try:
        shown, key = _cursors.decode(text or "")
    except msgspec.DecodeError:
        return None
    return storable(shown), storable(key)


def _starts_with(column: str, prefix: str) -> list[SqlCondition]:
    """A range, as an index has it: up to the next text of the same length."""
    conditions = [SqlCondition(f"{column} >= {{}}", (prefix,))]
    end = _next_text(prefix)
    return [*conditions, SqlCondition(f"{column} < {{}}", (end,))] if end else conditions


def _next_text(prefix: str) -> str:
    """The least text that is greater than all that begin with `prefix`; "" where there is none."""
    shortened = prefix.rstrip("\U0010ffff")
    if not shortened:
        return ""
    following = ord(shortened[-1]) + 1
    return shortened[:-1] + chr(0xE000 if following == 0xD800 else following)


def _contains(part: str) -> SqlCondition:
    texts = ("key", "lower(COALESCE(shown, ''))", "lower(comment)")
    return SqlCondition(f"({' OR '.join(f'@holds({text}, {{}})' for text in texts)})", (part.lower(),) * len(texts))


T = TypeVar("T")

PURGE_BATCH = 500
# The first batch of a stream is small, so that its bytes leave at once.
FIRST_BATCH, BATCH = 50, 2_000

_HIDE = sql("UPDATE lists SET scope = '-', name = CAST(id AS TEXT) WHERE id = $1")
_COUNT_CUSTOM = sql("SELECT count(*) FROM lists WHERE scope = $1 AND custom = 1")
_COUNT_ALL_EXPIRED = sql("""SELECT lists.id, count(*) FROM lists JOIN entries ON list_id = lists.id
WHERE scope = $1 AND expires <= $2 GROUP BY lists.id""")
_KEYS, _COLUMNS = "list_id, key", "shown, comment, created, modified, modified_by, expires"
_INSERT = insert_many("entries", f"{_KEYS}, {_COLUMNS}")
_UPDATE = update_many(
    "entries",
    _KEYS,
    _COLUMNS,
    """shown = new.shown, comment = new.comment, modified = new.modified, modified_by = new.modified_by,
    expires = new.expires""",
)
_EXISTING = sql("SELECT key FROM entries WHERE list_id = $1 AND @one_of(key, $2)")
_OF_OTHERS = sql("SELECT key FROM entries WHERE list_id = $1 AND @one_of(key, $2) AND modified_by <> $3")
_BEFORE = sql("SELECT key, comment, expires FROM entries WHERE list_id = $1 AND @one_of(key, $2) AND created < $3")
_DELETE = sql(f"""DELETE FROM entries WHERE list_id = $1 AND @one_of(key, $2)
RETURNING key, COALESCE(shown, key), comment, expires, {ENTRY_BYTES}""")  # noqa: S608
_ANY_EXPIRED = sql("SELECT 1 FROM entries WHERE list_id = $1 AND expires <= $2 LIMIT 1")
_EXPIRED_AMONG = sql("SELECT key FROM entries WHERE list_id = $1 AND @one_of(key, $2) AND expires <= $3")
_COUNT_EXPIRED = sql("SELECT count(*) FROM entries WHERE list_id = $1 AND expires <= $2")
_SELECT = """SELECT key, COALESCE(shown, key), comment, created, modified, modified_by, expires, hits, last_hit
FROM entries WHERE list_id = """
_UNEXPIRED = " AND (expires IS NULL OR expires > $3)"
_SELECT_KEYS = sql(_SELECT + "$1 AND @one_of(key, $2)")
_SELECT_UNEXPIRED_KEYS = sql(_SELECT_KEYS + _UNEXPIRED)
_SELECT_LIST = _SELECT + "(SELECT id FROM lists WHERE scope = $1 AND name = $2)" + _UNEXPIRED + " ORDER BY "  # noqa: S608
_BY_KEY, _AS_SHOWN = sql(_SELECT_LIST + "key"), sql(_SELECT_LIST + "COALESCE(shown, key), key")
_LIST_WITH_EXPIRED = sql("""SELECT id FROM lists
WHERE scope <> '-' AND EXISTS (SELECT 1 FROM entries WHERE list_id = lists.id AND expires <= $1) ORDER BY id LIMIT 1""")
_EXPIRED = sql("SELECT key FROM entries WHERE list_id = $1 AND expires <= $2 ORDER BY expires LIMIT $3")


class NewEntry(msgspec.Struct, frozen=True):
    """An entry to add, in its normal form."""

    key: str
    shown: str
    comment: str = ""
    expires: int | None = None


class ListEntry(msgspec.Struct, frozen=True):
    """An entry as it is stored. `shown` is what people read, `key` what entries are compared by."""

    key: str
    shown: str
    comment: str
    created: int
    modified: int
    modified_by: str
    expires: int | None = None
    hits: int = 0
    last_hit: int | None = None


# The fields of a `ListEntry` in their order, as the database returns them.
EntryRow: TypeAlias = tuple[str, str, str, int, int, str, int | None, int, int | None]


class ListState(msgspec.Struct, frozen=True):
    """A list in one scope, and how many entries it holds there; expired ones do not count."""

    definition: ListDefinition
    size: int


class Lists(Operations):
    """Lists and their entries. A call is applied whole or not at all, and audited in the same transaction."""

    @snapshot
    def all(self, scope: str | None) -> Work[tuple[ListState, ...]]:
        """Every list of a scope: the built-in ones in their order, then the custom ones by name."""
        where = normalize_scope(scope) or ""
        rows = {row.name: row for row in (yield from find_lists(where))}
        expired = dict((yield Read(_COUNT_ALL_EXPIRED, (where, now()))))
        sizes = {name: row.size - expired.get(row.id, 0) for name, row in rows.items()}
        custom = {name: ListState(row.definition, sizes[name]) for name, row in rows.items() if row.definition.custom}
        built_in = (ListState(each, sizes.get(each.name, 0)) for each in LISTS if each.name not in custom)
        return (*built_in, *custom.values())

    async def definition(self, scope: str | None, name: str) -> ListDefinition | None:
        """What a list of a scope is; None where there is none of that name. A custom list that is older than a built-in
        one of its name keeps the name."""
        return await self._stored_definition(scope, name) or BY_NAME.get(name)

    @change
    def create(
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

    async def delete(self, scope: str | None, name: str, by: Actor) -> int | NotFound:
        """Delete a custom list with its entries; returns how many it had."""
        deleted = await self._hide_list(scope, name, by)
        await self._repeat(delete_some_hidden)
        return deleted

    @change
    def add(
        self,
        scope: str | None,
        definition: ListDefinition,
        entries: Sequence[NewEntry],
        by: Actor,
        *,
        look_back: bool = False,
    ) -> Work[int | ListFull | NotFound]:
        """Add or update entries; returns how many distinct ones. Of the same key the last wins.

        An update sets comment and expiry, and keeps `created` and `hits`. With `look_back` the entries wait for a look
        back into delivered mail.
        """
        outcome = yield from add_to_list(scope, definition, entries, by)
        if look_back and isinstance(outcome, int) and outcome:
            yield from queue_look_back(scope, definition.name, [entry.key for entry in entries], by)
        return outcome

    @query
    def bytes_left(
        self, scope: str | None, definition: ListDefinition, entries: Sequence[NewEntry]
    ) -> Work[ListFull | None]:
        """`ListFull` where these entries would take the lists of the scope that are handed out whole past their
        bytes."""
        sizes = _sizes({storable(entry.key): entry for entry in entries})
        return (yield from find_excess_bytes(normalize_scope(scope) or "", definition, sizes, now()))

    @change
    def remove(self, scope: str | None, list_name: str, keys: Sequence[str], by: Actor) -> Work[int]:
        """Delete entries; returns how many of them there were."""
        wanted = tuple(sorted({storable(key) for key in keys}))
        row = (yield from find_list(normalize_scope(scope) or "", storable(list_name), lock=True)) if wanted else None
        return (yield from delete_from_list(row, wanted, by)) if row else 0

    def stream(self, scope: str | None, list_name: str) -> AsyncGenerator[Sequence[ListEntry], None]:
        """All entries as one consistent snapshot, ordered by `shown` (code points), in batches, the first one small.

        Close the iterator (`contextlib.aclosing`) where it is not read to its end.
        """
        return self.stream_rows(scope, list_name, partial(convert_each, ListEntry))

    async def stream_rows(
        self, scope: str | None, list_name: str, convert: Callable[[Sequence[EntryRow]], T]
    ) -> AsyncGenerator[T, None]:
        """The same, each batch as `convert` returns it. It may run in another thread, where it blocks no event loop."""
        definition = await self.definition(scope, list_name)
        if definition is None:
            return
        read = _select_all(normalize_scope(scope), definition)
        async with aclosing(self._engine.stream(read, convert, FIRST_BATCH, BATCH)) as batches:
            async for batch in batches:
                yield batch

    @query
    def find(self, scope: str | None, list_name: str, keys: Sequence[str]) -> Work[tuple[ListEntry, ...]]:
        """Those of these keys that the list has, in the order of the keys."""
        wanted = tuple(dict.fromkeys(map(storable, keys)))
        row = (yield from find_list(normalize_scope(scope) or "", storable(list_name))) if wanted else None
        if row is None:
            return ()
        rows = yield Read(_SELECT_UNEXPIRED_KEYS, (row.id, Many(wanted), now()))
        found = {row[0]: ListEntry(*row) for row in rows}
        return tuple(found[key] for key in wanted if key in found)

    @large_query
    def page(
        self,
        scope: str | None,
        list_name: str,
        *,
        prefix: str = "",
        part: str = "",
        after: str | None = None,
        limit: int = 100,
    ) -> Work[Page[ListEntry]]:
        """Entries that begin with `prefix` (exactly so) and have `part` in them or in their comment (in any case).

        `after` is the `next` of the page before; `limit` is at most 1,000.
        """
        row = yield from find_list(normalize_scope(scope) or "", storable(list_name))
        if row is None:
            return Page(())
        keys = yield from find_page(plan_entries(row, prefix, part, after), limit)
        wanted = tuple(key[-1] for key in keys.rows)
        rows = (yield Read(_SELECT_KEYS, (row.id, Many(wanted)))) if wanted else ()
        found = {row[0]: ListEntry(*row) for row in rows}
        cursor = msgspec.json.encode((keys.next[0], keys.next[-1])).decode() if keys.next else None
        return Page(tuple(found[key] for key in wanted), cursor, keys.reached)

    async def purge_expired(self, now: int) -> int:
        """Delete expired entries, and finish what a deletion left behind; returns how many entries."""
        deleted = await self._repeat(partial(_delete_some_expired, now))
        await self._repeat(delete_some_hidden)
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


def add_to_list(
    scope: str | None, definition: ListDefinition, entries: Sequence[NewEntry], by: Actor, *, spare_others: bool = False
) -> Work[int | ListFull | NotFound]:
    """Add or update entries as `Lists.add` does; with `spare_others` only those that nobody else wrote."""
    owner, moment = normalize_scope(scope), now()
    if owner and not (yield from tenant_exists(owner)):
        return NotFound("tenant")
    final = {storable(entry.key): entry for entry in entries}
    row = yield from _lock_or_create(owner or "", definition, create=bool(final))
    if row is None:
        return NotFound("list") if definition.custom else 0
    if not final:
        return 0
    row = yield from _delete_expired_among(row, tuple(final), moment)
    if spare_others and (final := (yield from _without_others(row, final, by))) == {}:
        return 0
    known = yield from _find_existing(row, tuple(final))
    if known is not None:
        row = yield from _make_room(row, len(final) - len(known), moment)
        if row.size + len(final) - len(known) > row.definition.max_size:
            return ListFull(row.size, row.definition.max_size)
    if full := (yield from find_excess_bytes(owner or "", row.definition, _sizes(final), moment, count=True)):
        return full
    label = storable(by.label)
    rows = [
        (row.id, key, _shown(entry), storable(entry.comment), moment, moment, label, entry.expires)
        for key, entry in sorted(final.items())
    ]
    added = yield _INSERT.of(rows)
    before: dict[str, str] = {}
    if added < len(rows):
        # Those that were there are still what they were; the new ones are of this moment.
        found = yield Read(_BEFORE, (row.id, Many(tuple(sorted(final)[:MAX_CHANGES])), moment))
        before = {key: describe_entry(comment, expires) for key, comment, expires in found}
        yield _UPDATE.of(rows)
    yield from change_size(row, added, final.keys() - (known or ()), moment)
    yield from raise_unkeyed_version(row, moment)
    changes = _describe_additions(final, before)
    yield from write_audit(moment, by, "entries.add", owner, row.name, len(rows), final, changes=changes)
    return len(rows)


def describe_entry(comment: str, expires: int | None) -> str:
    """What can be changed of an entry, as the audit trail says it."""
    end = f" (until {date_time(expires)})" if expires is not None else ""
    return f"{comment or 'no comment'}{end}"


def _describe_additions(entries: Mapping[str, NewEntry], before: Mapping[str, str]) -> list[ChangedValue]:
    """Every entry of a call with what it was; entries that were the same before are no change."""
    values = ((key, entry, describe_entry(entry.comment, entry.expires)) for key, entry in sorted(entries.items()))
    return [
        ChangedValue(entry.shown, before.get(key), after)
        for key, entry, after in islice(values, MAX_CHANGES)
        if before.get(key) != after
    ]


def _without_others(row: ListRow, entries: dict[str, NewEntry], by: Actor) -> Work[dict[str, NewEntry]]:
    """Those of these entries that the list does not have, or has from the same actor."""
    others = {found[0] for found in (yield Read(_OF_OTHERS, (row.id, Many(tuple(entries)), storable(by.label))))}
    return {key: entry for key, entry in entries.items() if key not in others}


def delete_from_list(row: ListRow, keys: tuple[str, ...], by: Actor) -> Work[int]:
    """Delete entries of a locked list, as a change by somebody; returns how many of them there were."""
    moment = now()
    row = yield from _delete_expired_among(row, keys, moment)
    deleted = yield from _delete(row, keys, moment)
    if deleted:
        yield from _audit_deletion(moment, by, "entries.delete", row, deleted)
    return len(deleted)


def _audit_deletion(moment: int, by: Actor, action: str, row: ListRow, deleted: Sequence[Row]) -> Work[None]:
    """Put deleted entries on record, with what they were."""
    ordered = sorted(deleted)
    changes = [ChangedValue(shown, describe_entry(comment, expires)) for _, shown, comment, expires, _ in ordered]
    keys = [key for key, *_ in ordered]
    yield from write_audit(moment, by, action, row.scope, row.name, len(keys), keys, changes=changes)


def _sizes(entries: Mapping[str, NewEntry]) -> dict[str, int]:
    """How many bytes each entry has for a worker, by its key."""
    return {key: count_bytes(key, _shown(entry)) for key, entry in entries.items()}


def _select_all(scope: str | None, definition: ListDefinition) -> Read:
    """All entries of a list, ordered as they are shown.

    People are shown otherwise than they are compared, and the keys of long phrases are cut. These lists are small; the
    others are read in the order of their keys, which is the same but for entries that agree in 2,600 bytes.
    """
    return Read(_BY_KEY if definition.keyed else _AS_SHOWN, (scope or "", definition.name, now()))


def _delete_some_expired(now: int) -> Work[int]:
    """Delete some expired entries of one list; 0 when there are no more."""
    lists = yield Read(_LIST_WITH_EXPIRED, (now,))
    rows = (yield from lock_lists((lists[0][0],))) if lists else ()
    if not rows:
        return 0
    (row,) = rows
    keys = tuple(row[0] for row in (yield Read(_EXPIRED, (row.id, now, PURGE_BATCH))))
    return row.size - (yield from _delete_expired(row, keys, now)).size


def _delete_expired_among(row: ListRow, keys: tuple[str, ...], now: int) -> Work[ListRow]:
    """Delete those of these keys that have expired; returns the list after that. Most lists have none."""
    if not row.size or not (yield Read(_ANY_EXPIRED, (row.id, now))):
        return row
    expired = tuple(found[0] for found in (yield Read(_EXPIRED_AMONG, (row.id, Many(keys), now))))
    return (yield from _delete_expired(row, expired, now))


def _make_room(row: ListRow, more: int, now: int) -> Work[ListRow]:
    """Delete as many expired entries as it takes to have room for `more`, if there are enough; returns the list."""
    missing = row.size + more - row.definition.max_size
    if missing <= 0:
        return row
    ((count,),) = yield Read(_COUNT_EXPIRED, (row.id, now))
    if count < missing:
        # Nothing of the call will be applied, so nothing is deleted; but expired entries do not count.
        return replace(row, size=row.size - count)
    expired = tuple(found[0] for found in (yield Read(_EXPIRED, (row.id, now, missing))))
    return (yield from _delete_expired(row, expired, now))


def _delete_expired(row: ListRow, keys: tuple[str, ...], now: int) -> Work[ListRow]:
    """Delete these entries, which have expired; returns the list after that."""
    deleted = yield from _delete(row, keys, now)
    if deleted:
        yield from _audit_deletion(now, SYSTEM, "entries.expire", row, deleted)
    return replace(row, size=row.size - len(deleted))


def _delete(row: ListRow, keys: tuple[str, ...], now: int) -> Work[Sequence[Row]]:
    """Delete entries; returns key, spelling, comment, end and bytes of those that there were."""
    deleted: Sequence[Row] = (yield Read(_DELETE, (row.id, Many(keys)))) if keys else ()
    if deleted:
        yield from change_size(row, -len(deleted), [found[0] for found in deleted], now)
        if not row.definition.keyed:
            yield from subtract_bytes(row.scope, sum(found[-1] for found in deleted))
        yield from raise_unkeyed_version(row, now)
    return deleted


def _lock_or_create(scope: str, definition: ListDefinition, *, create: bool) -> Work[ListRow | None]:
    """The list's row, locked; a built-in list gets one when its first entry comes."""
    row = yield from find_list(scope, definition.name, lock=True)
    if row is None and create and not definition.custom:
        yield from insert_list(scope, definition)
        row = yield from find_list(scope, definition.name, lock=True)
    return row if row is None or row.kind == definition.kind else None


def _find_existing(row: ListRow, keys: tuple[str, ...]) -> Work[set[str] | None]:
    """Which of these keys the list has already; None where that need not be known beforehand."""
    if not row.counts_prefixes and row.size + len(keys) <= row.definition.max_size:
        return None
    return {found[0] for found in (yield Read(_EXISTING, (row.id, Many(keys))))}


def _shown(entry: NewEntry) -> str | None:
    """What is shown of an entry, as it is stored: None where that is its key."""
    return None if entry.shown == entry.key else storable(entry.shown)
