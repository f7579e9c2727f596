"""Upgrading a storage: which schema it has and needs, and the normal forms of its list entries, on both engines.

A new storage gets the schema of `schema/postgres.sql` or `schema/sqlite.sql` as it is; its number is `gatepost.SCHEMA`.
A storage of schema 31, the last one of the versions before, is brought to it by `FROM_31`, in one transaction. An older
one is refused: its data have to pass through version 0.1.0 first. `read_state` returns how far a storage is, and
changes nothing.

A change of the schema is written into both files, and `FROM_31` says how a storage of schema 31 gets it; a test
compares the two. A table that goes is deleted from both files and gets `DROP TABLE IF EXISTS name` in `FROM_31`; its
indexes and triggers go with it. A column gets `ALTER TABLE name DROP COLUMN column`, after `DROP INDEX IF EXISTS` for
an index that has the column; an index by itself gets `DROP INDEX IF EXISTS`. These statements are the same on both
engines. A table that is new is named in `NEW_TABLES`, and is made as the files have it. A column of a primary key goes
with its table, whose rows wait in a table of another name (`REFILLED`). Once a version with schema 32 is released, the
next change is 33: it changes the baseline too, and its steps from 32 on stand beside `FROM_31`, or in
`schema/33.postgres.sql` and `schema/33.sqlite.sql` where they are long.

Entries of lists are compared by their normal form, so an entry that was stored under an older form would no longer be
found. A row in `meta` says which forms a storage has. Where they are older, every entry whose form may have changed is
normalised again, in the transaction that upgrades the schema. Entries that have become the same are merged as repeated
calls of `addEntries` would have merged them: comment and expiry are those of the last change, `created` is the first,
hits are added up. An entry that its list would refuse today keeps its form: it stays readable and can be deleted. The
normal forms themselves are loaded where something is to be done: nearly every opening of storage finds nothing.
"""

import re
from collections.abc import Callable, Sequence
from string import ascii_uppercase
from typing import TypeAlias

import msgspec

from gatepost import SCHEMA
from gatepost.store.engine import Many, Read, Script, Work, Write, now, storable
from gatepost.store.errors import StorageError
from gatepost.store.sql import Row, baseline, compose, insert_many, sql

# Called with how much is done, of how much.
Progress: TypeAlias = Callable[[int, int], None]
# The oldest schema that is upgraded, and the version that brings older ones to it.
OLDEST, PASS_THROUGH = 31, "0.1.0"
# What brings schema 31 to the baseline: statements for both engines, and tables that are made as the baseline has them.
FROM_31: tuple[str, ...] = (
    # Leases are not carried over: nobody works while storage is upgraded.
    """CREATE TABLE jobs_31 AS
SELECT 'feed' AS kind, name AS scope, '' AS holder, 0 AS locked_until, next_run, 0 AS finished, '' AS outcome, detail
FROM feeds UNION ALL
SELECT 'learning', scope, '', 0, next_run, finished, outcome, '{}' FROM learning_runs UNION ALL
SELECT 'digest', scope, '', 0, next_run, 0, '', detail FROM digest_runs""",
    *(f"DROP TABLE IF EXISTS {table}" for table in ("feeds", "learning_runs", "report_runs")),
    *(f"ALTER TABLE digest_runs DROP COLUMN {column}" for column in ("holder", "locked_until", "next_run", "detail")),
    *(f"ALTER TABLE rollout DROP COLUMN {column}" for column in ("holder", "held_until")),
    "ALTER TABLE look_back_queue DROP COLUMN taken_until",
    "DROP TABLE IF EXISTS domain_reports",
    "DROP TABLE IF EXISTS reported_domains",
    "DROP TABLE IF EXISTS reported_days",
    "DROP TABLE IF EXISTS reported_sources",
    "DROP TABLE IF EXISTS recipient_notices",
    "DELETE FROM bulk_actions WHERE action IN ('assign', 'notify')",
    "DELETE FROM message_notes WHERE kind = 'assign'",
    "DROP INDEX IF EXISTS message_notes_by_assignee",
    "ALTER TABLE message_notes DROP COLUMN kind",
    "DROP TABLE IF EXISTS greylist",
    "DROP INDEX IF EXISTS flow_counts_limited",
    "ALTER TABLE flow_counts DROP COLUMN label",
    "DROP TABLE IF EXISTS transport_policies",
    "CREATE TABLE report_counts_31 AS SELECT day, domain, detail, count FROM report_counts WHERE kind = 'dmarc'",
    "DROP TABLE IF EXISTS report_counts",
    """CREATE TABLE sent_reports_31 AS SELECT day, domain, state, attempts, next_try, messages, destinations, reason,
modified FROM sent_reports WHERE kind = 'dmarc'""",
    "DROP TABLE IF EXISTS sent_reports",
    """CREATE TABLE removed_mail_31 AS SELECT ggrid, mailbox, '1' AS copy, scope, state, folder, reason, by_name,
modified FROM removed_mail""",
    "DROP TABLE IF EXISTS removed_mail",
)
NEW_TABLES: tuple[str, ...] = ("jobs", "report_counts", "sent_reports", "removed_mail")
# New tables that get the rows which `FROM_31` has put into a table of this name with `_31` behind it.
REFILLED: tuple[str, ...] = NEW_TABLES
# What is to be done with a storage of schema 31 where tenants have their mail in several databases.
REUNITE = (
    f"bring every tenant back with `gatepost tenant move UID first` of version {PASS_THROUGH}, and delete its notes of"
    " other databases (docs/upgrading.md)"
)
# The schema that a program has to know to use a storage of this one. It is raised with the schema, unless the change
# only adds (tables, columns that have a default, indexes): then programs that know this number can use what it makes.
USABLE_FROM = 32

_MAKING = re.compile(
    r"^CREATE (?:TABLE (\w+) \(\n(?:    .*\n)+\)[^;]*|(?:UNIQUE )?INDEX \w+ ON (\w+) [^;]*);", re.MULTILINE
)
_META = sql("SELECT value FROM meta WHERE key = $1")
# What version 0.1.0 noted of several databases: the name of this one and the names of others, each with its number, and
# tenants whose mail was being moved to another one.
_PARTS = sql("SELECT key, value FROM meta WHERE key LIKE 'database%' OR key LIKE 'move.%' ORDER BY key")
_SET_META = sql("""INSERT INTO meta (key, value) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET value = excluded.value""")


class SchemaState(msgspec.Struct, frozen=True):
    """The schema number that a storage has (0: there is no data yet), the size of the data in bytes, and whether list
    entries have to be brought to the current normal forms. A program has to know the schema `needed` to use the
    storage as it is. `part` says that it is one of several databases, as the end of a sentence, where it is."""

    present: int
    size: int = 0
    has_old_entries: bool = False
    needed: int = 0
    part: str = ""

    @property
    def is_newer(self) -> bool:
        """Whether the storage was written by a newer program, which this one cannot use."""
        return self.present > SCHEMA and self.needed > SCHEMA

    @property
    def is_too_old(self) -> bool:
        """Whether this program cannot upgrade the storage."""
        return 0 < self.present < OLDEST

    @property
    def is_additive(self) -> bool:
        """Whether the upgrade only adds, so that programs which use the storage now can go on during and after it."""
        return not self.has_old_entries and self.present >= USABLE_FROM

    @property
    def needs_upgrade(self) -> bool:
        """Whether the next start changes the storage."""
        return OLDEST <= self.present < SCHEMA or self.has_old_entries

    def explain_refusal(self, shown: str) -> str:
        """Return why this program cannot use the storage, which is named as `shown`, and what to do, as a sentence; an
        empty text where it can."""
        if self.is_newer:
            written = f"was written by a newer Gatepost (schema {self.present}, this one knows {SCHEMA})"
            return f"{shown} {written}; upgrade Gatepost."
        if self.is_too_old:
            written = f"was written by an older Gatepost (schema {self.present}, this one upgrades {OLDEST} and later)"
            return f"{shown} {written}; upgrade to version {PASS_THROUGH} first, then to this one."
        return f"{shown} {self.part}; {REUNITE}." if self.part else ""


def make_table(engine: str, table: str) -> str:
    """Return the statements that make a table and its indexes, as the baseline has them."""
    return "\n".join(found[0] for found in _MAKING.finditer(baseline(engine)) if table in found.groups())


def read_state(*, is_empty: bool, size: int = 0) -> Work[SchemaState]:
    """How far a storage is from the schema of this program; `is_empty` where it has no tables yet."""
    if is_empty:
        return SchemaState(0, size)
    present = int((yield Read(_META, ("schema",)))[0][0])
    said = yield Read(_META, ("usable_from",))
    # Where nothing says what a program has to know, it is the schema of the storage.
    needed = int(said[0][0]) if said else present
    has_old_entries = OLDEST <= present <= SCHEMA and not (yield from has_current_forms())
    part = (yield from _describe_part()) if present == OLDEST else ""
    return SchemaState(present, size, has_old_entries, needed, part)


def _describe_part() -> Work[str]:
    """Say which of several databases this one is; an empty text where it has everything."""
    noted: dict[str, str] = dict((yield Read(_PARTS)))
    name = noted.pop("database", "first").partition(" ")[0]
    if name != "first":
        return f"is the database {name} of several, and not that of storage.url"
    others = ", ".join(key.partition(".")[2] for key in noted if not key.startswith("move."))
    also = f" (also {others})" if others else ""
    return f"is the first of several databases{also}" if noted else ""


def upgrade(engine: str, shown: str, *, is_empty: bool) -> Work[None]:
    """Bring a storage to the schema of this program, under a lock of the caller. Raises `StorageError`, which names the
    storage as `shown`, where this program cannot use or upgrade it."""
    state = yield from read_state(is_empty=is_empty)
    if refusal := state.explain_refusal(shown):
        raise StorageError(refusal)
    if state.present > SCHEMA:
        if not (yield from has_current_forms()):
            raise StorageError(msgspec.structs.replace(state, needed=state.present).explain_refusal(shown))
        return
    if is_empty:
        yield Script(baseline(engine))
    elif state.present < SCHEMA:
        for statement in (*FROM_31, *(make_table(engine, table) for table in NEW_TABLES)):
            yield Script(statement)
        for table in REFILLED:
            yield Script(f"INSERT INTO {table} SELECT * FROM {table}_31")  # noqa: S608
            yield Script(f"DROP TABLE {table}_31")
    yield from renew_normal_forms()
    if state.present < SCHEMA:
        yield Write(_SET_META, ("schema", str(SCHEMA)))
        yield Write(_SET_META, ("usable_from", str(USABLE_FROM)))


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

_LISTS = sql(
    "SELECT id, scope, name, kind FROM lists WHERE @one_of(kind, $1) AND scope <> '-' ORDER BY id @lock(UPDATE)"
)
_COLUMNS = "key, shown, comment, created, modified, modified_by, expires, hits, last_hit"
_SELECT = f"SELECT {_COLUMNS} FROM entries WHERE list_id = $1 AND "  # noqa: S608
_SELECT_KEYS = sql(_SELECT + "@one_of(key, $2)")
_DELETE = sql("DELETE FROM entries WHERE list_id = $1 AND @one_of(key, $2)")
_INSERT = insert_many("entries", f"list_id, {_COLUMNS}")
# Entries of another length: the bytes of all scopes are counted anew (see `list_rows`).
_FORGET_SUMS = sql("UPDATE scopes SET counted_version = 0")
_CHANGE_SIZE = sql("UPDATE lists SET size = size + $2 WHERE id = $1")


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
    suspect = " OR ".join(f"@holds(key, ${place})" for place in range(3, 3 + len(signs)))
    statement = compose(f"{_SELECT}key > $2 AND ({suspect}) ORDER BY key LIMIT {BATCH}")
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
