"""Upgrading a storage: which schema it has and needs, and the normal forms of its list entries, on both engines.

Opening a storage upgrades it (`open_store`): the numbered files in `schema/` are applied in order, each once. Whoever
wants to know beforehand what an upgrade will do reads its `SchemaState`, which changes nothing.

Entries of lists are compared by their normal form, so an entry that was stored under an older form would no longer be
found. A row in `meta` says which forms a storage has. Where they are older, every entry whose form may have changed is
normalised again, in the transaction that upgrades the schema. Entries that have become the same are merged as repeated
calls of `addEntries` would have merged them: comment and expiry are those of the last change, `created` is the first,
hits are added up. An entry that its list would refuse today keeps its form: it stays readable and can be deleted. The
normal forms themselves are loaded where something is to be done: nearly every opening of storage finds nothing.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from string import ascii_uppercase
from typing import TypeAlias

import msgspec

from gatepost.store.engine import Many, Read, Row, Script, Work, Write, insert_many, now, storable
from gatepost.store.errors import StorageError

# Called with how much is done, of how much.
Progress: TypeAlias = Callable[[int, int], None]
# How a schema file begins that only adds to what is there.
ADDITIVE = "-- Additive:"
_META = "SELECT value FROM meta WHERE key = $1"
_SET_META = """INSERT INTO meta (key, value) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value"""


class SchemaState(msgspec.Struct, frozen=True):
    """The schema number that a storage has (0: there is no data yet), the newest that this program knows, the size of
    the data in bytes, and whether list entries have to be brought to the current normal forms. A program has to know
    the schema `needed` to use the storage as it is, and the schema `needed_after` once this program has upgraded it."""

    present: int
    newest: int
    size: int
    has_old_entries: bool = False
    needed: int = 0
    needed_after: int = 0

    @property
    def is_newer(self) -> bool:
        """Whether the storage was written by a newer program, which this one cannot use."""
        return self.present > self.newest and self.needed > self.newest

    @property
    def is_additive(self) -> bool:
        """Whether the upgrade only adds, so that programs which use the storage now can go on during and after it."""
        return not self.has_old_entries and 0 < self.needed_after <= self.present

    @property
    def needs_upgrade(self) -> bool:
        """Whether the next start changes the storage."""
        return 0 < self.present < self.newest or self.has_old_entries


@cache
def schema_files(engine: str = "sqlite") -> tuple[tuple[int, str], ...]:
    """Number and SQL of every schema file of an engine, in order."""
    found = (entry for entry in (files("gatepost.store") / "schema" / engine).iterdir() if entry.name.endswith(".sql"))
    return tuple(sorted((int(entry.name.split("_")[0]), entry.read_text("utf-8")) for entry in found))


def usable_from(known: tuple[tuple[int, str], ...]) -> int:
    """The number of the last of these files that changes what is there. Those after it only add (tables, columns that
    have a default, indexes), so that programs which know this number can use a storage of all of them."""
    return max(number for number, statements in known if not statements.startswith(ADDITIVE))


def read_state(engine: str, *, is_empty: bool, size: int = 0) -> Work[SchemaState]:
    """How far a storage is from the schema of this program; `is_empty` where it has no tables yet."""
    known = schema_files(engine)
    newest, after = known[-1][0], usable_from(known)
    if is_empty:
        return SchemaState(0, newest, size, needed_after=after)
    present = int((yield Read(_META, ("schema",)))[0][0])
    said = yield Read(_META, ("usable_from",))
    # Where nothing says what a program has to know, it is the schema of the storage.
    needed = int(said[0][0]) if said else present
    has_old_entries = present <= newest and not (yield from has_current_forms())
    return SchemaState(present, newest, size, has_old_entries, needed, after)


def upgrade(engine: str, shown: str, *, is_empty: bool) -> Work[None]:
    """Bring a storage to the schema of this program, under a lock of the caller. Raises `StorageError`, which names the
    storage as `shown`, where a newer program has made it one that this program cannot use."""
    state = yield from read_state(engine, is_empty=is_empty)
    if state.present > state.newest:
        if state.is_newer or not (yield from has_current_forms()):
            raise StorageError(
                f"{shown} was written by a newer Gatepost (schema {state.present}, this one knows {state.newest}); "
                "upgrade Gatepost."
            )
        return
    for number, statements in schema_files(engine):
        if number > state.present:
            yield Script(statements)
    yield from renew_normal_forms()
    if state.present < state.newest:
        yield Write(_SET_META, ("schema", str(state.newest)))
        yield Write(_SET_META, ("usable_from", str(state.needed_after)))


# 2: links as RFC 3986 section 6.2.2 compares them, senders without a display name. 3: phrases and names of people
# without capitals that come of letters in other forms.
NORMAL_FORMS = 3
BATCH = 2_000

# What an entry contains if its normal form may have changed, by kind. The others need not be looked at.
_CAPITALS = (*ascii_uppercase, "\u03a5", "\u03ab", "\u038e", "\u03c2")
_SUSPECT: dict[str, tuple[str, ...]] = {
    "phrase": _CAPITALS,
    "person": _CAPITALS,
    "url": ("%", "//", "*", "|", "[", "]", "(", "^", "`", "{", "}", "\\"),
    "sender": ("<", "[", "(", "{"),
}

_LISTS = "SELECT id, scope, name, kind FROM lists WHERE kind = ANY($1) AND scope <> '-' ORDER BY id FOR UPDATE"
_COLUMNS = "key, shown, comment, created, modified, modified_by, expires, hits, last_hit"
_SELECT = f"SELECT {_COLUMNS} FROM entries WHERE list_id = $1 AND "  # noqa: S608
_SELECT_KEYS = _SELECT + "key = ANY($2)"
_DELETE = "DELETE FROM entries WHERE list_id = $1 AND key = ANY($2)"
_INSERT = insert_many(
    "entries",
    "list_id bigint, key text, shown text, comment text, created bigint, modified bigint, modified_by text,"
    " expires bigint, hits bigint, last_hit bigint",
)
# Entries of another length: the bytes of all scopes are counted anew (see `list_rows`).
_FORGET_SUMS = "UPDATE scopes SET counted_version = 0"
_CHANGE_SIZE = "UPDATE lists SET size = size + $2 WHERE id = $1"


def has_current_forms() -> Work[bool]:
    """Whether the entries of a storage have the normal forms of this program."""
    known = yield Read(_META, ("normal_forms",))
    return bool(known) and int(known[0][0]) >= NORMAL_FORMS


def renew_normal_forms() -> Work[int]:
    """Bring all entries to the normal forms of this program; returns how many entries were changed or merged."""
    if (yield from has_current_forms()):
        return 0
    from gatepost.store.audit import SYSTEM, write_audit

    changed = 0
    for list_id, scope, name, kind in (yield Read(_LISTS, (Many(tuple(_SUSPECT)),))):
        renewed = yield from _renew_list(list_id, kind)
        if renewed:
            yield from write_audit(now(), SYSTEM, "entries.normalise", scope, name, len(renewed), sorted(renewed))
        changed += len(renewed)
    yield Write(_FORGET_SUMS)
    yield Write(_SET_META, ("normal_forms", str(NORMAL_FORMS)))
    return changed


def _renew_list(list_id: int, kind: str) -> Work[list[str]]:
    """Renew the entries of one list; returns the keys that changed, as they were."""
    signs = _SUSPECT[kind]
    suspect = " OR ".join(f"strpos(key, ${place}) > 0" for place in range(3, 3 + len(signs)))
    statement = f"{_SELECT}key > $2 AND ({suspect}) ORDER BY key LIMIT {BATCH}"
    renewed: list[str] = []
    after = ""
    while rows := (yield Read(statement, (list_id, after, *signs))):
        after = rows[-1][0]
        moved = {row[0]: form for row in rows if (form := _normalise(kind, row))[0] != row[0]}
        if moved:
            yield from _move(list_id, [tuple(row) for row in rows if row[0] in moved], moved)
            renewed += moved
    return renewed


def _normalise(kind: str, row: Row) -> tuple[str, str | None]:
    """Return the key that an entry has today and what is shown of it (None for the key); its own where it would be
    refused."""
    from gatepost.lists.catalogue import KINDS
    from gatepost.lists.entries import ListRefusal, limit_key

    key, shown = row[0], row[1]
    normal = KINDS[kind].normalise(shown or key)
    if isinstance(normal, ListRefusal):
        return key, shown
    today = storable(limit_key(normal.key))
    return today, None if today == normal.shown else storable(normal.shown)


def _move(list_id: int, rows: Sequence[Row], forms: dict[str, tuple[str, str | None]]) -> Work[None]:
    """Store entries under their new keys, merged with each other and with what is stored there."""
    targets = tuple(sorted({key for key, _ in forms.values()}))
    there = [tuple(row) for row in (yield Read(_SELECT_KEYS, (list_id, Many(targets))))]
    same: dict[tuple[str, str | None], list[Row]] = {}
    for row in (*there, *rows):
        same.setdefault(forms.get(row[0], (row[0], row[1])), []).append(row)
    moment = now()
    merged = [
        (list_id, key, shown, *_merge(rows, moment))
        for (key, shown), rows in sorted(same.items(), key=lambda item: item[0][0])
    ]
    gone = tuple(row[0] for row in (*there, *rows))
    deleted = yield Write(_DELETE, (list_id, Many(gone)))
    added = yield _INSERT.of(merged)
    yield Write(_CHANGE_SIZE, (list_id, added - deleted))


def _merge(rows: Sequence[Row], moment: int) -> Row:
    """Return the columns behind `shown` of one entry that was stored as several. Of those that have not expired, the
    one that was changed last counts."""
    last = max(rows, key=lambda row: (row[6] is None or row[6] > moment, row[4]))
    _, _, comment, _, modified, modified_by, expires, _, _ = last
    last_hit = max((row[8] for row in rows if row[8] is not None), default=None)
    return (
        *(comment, min(row[3] for row in rows), modified, modified_by, expires),
        *(sum(row[7] for row in rows), last_hit),
    )
