"""The audit trail: every change writes a record in its own transaction, and records are never changed or deleted.

The one exception is the erasure of an address, which puts a pseudonym into records that have it (see `privacy`).

A reader of the trail asks not only who changed a list, but also who has seen a message. So it also says who read or
exported mail, tried something, or failed (`Audit.note`). Each of these records is a transaction of its own, written
before its caller gets what it is about.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal, TypeAlias

import msgspec

from gatepost.store.engine import (
    AnnouncedWrite,
    Many,
    Operations,
    Read,
    Work,
    change,
    large_query,
    normalize_scope,
    now,
    query,
    storable,
)
from gatepost.store.paging import Page, PageQuery, SqlCondition, find_page, key_range, parse_time_cursor
from gatepost.store.sql import Row, sql

# Enough to recognise a call by; the entries themselves are in the lists.
SAMPLE = 5

# As many as a call of the interfaces can change; a feed or a file with more is on record by its number.
MAX_CHANGES = 1_000
MAX_VALUE = 500

_INSERT = sql("""INSERT INTO audit (time, actor_kind, actor_name, actor_id, action, scope, list, count, sample, changes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)""")
_SELECT = "SELECT id, time, actor_kind, actor_name, actor_id, action, scope, list, count, sample, changes IS NOT NULL"
_SELECT_IDS = sql(_SELECT + " FROM audit WHERE @one_of(id, $1)")
_SELECT_CHANGES = sql(_SELECT + ", changes FROM audit WHERE id = $1")


# What people report of a decision (see `feedback`), which the figures of the quarantine count.
MESSAGE_REPORTED, REPORT_TAKEN_BACK = "message.reported", "message.reportTakenBack"

ActorKind: TypeAlias = Literal["key", "token", "user", "cli", "feed", "mail", "recipient", "system"]


class Actor(msgspec.Struct, frozen=True):
    """Who makes a change: an API key, a static token, a user of the web interface, the command line, a feed,
    somebody who reports by mail, a recipient by a link of a digest, or Gatepost by itself."""

    kind: ActorKind
    name: str = ""
    id: str = ""

    @property
    def label(self) -> str:
        """Kind and name, as shown beside an entry: `key:playbook`."""
        return f"{self.kind}:{self.name}" if self.name else self.kind


CLI = Actor("cli")
SYSTEM = Actor("system")


class ChangedValue(msgspec.Struct, frozen=True, array_like=True):
    """What a change did to one entry or value: what it was before, and what it is since; None where it was not, or is
    no more."""

    what: str
    before: str | None = None
    after: str | None = None


class AuditRecord(msgspec.Struct, frozen=True):
    """One change: who, what, where, how many, with some of the entries. `scope` None is the global one. Where it
    `has_changes`, each of them is on record (`Audit.changes`)."""

    id: int
    time: int
    actor: Actor
    action: str
    scope: str | None = None
    list: str = ""
    count: int = 0
    sample: tuple[str, ...] = ()
    has_changes: bool = False


class AuditFilter(msgspec.Struct, frozen=True):
    """Which changes to show: `since` <= time < `until`. `actor` is a name or a label (`key:playbook`), `action` one
    action or a group (`entries.`). `scope` is a tenant's uid, "" for the global one, None for all of them."""

    scope: str | None = None
    since: int | None = None
    until: int | None = None
    actor: str | None = None
    action: str | None = None
    list: str | None = None


def write_audit(
    now: int,
    by: Actor,
    action: str,
    scope: str | None = None,
    list_name: str = "",
    count: int = 0,
    sample: Iterable[str] = (),
    limit: int = SAMPLE,
    changes: Iterable[ChangedValue] = (),
) -> Work[None]:
    """Add a record to the audit trail, as a part of the change that it is about, with the first `limit` of what it
    changed, and with the values before and after."""
    first = tuple(islice(sample, limit))
    some = msgspec.json.encode(first).decode()
    who = Actor(by.kind, storable(by.name), storable(by.id))
    row = (now, who.kind, who.name, who.id, action, scope or "", list_name, count, some, pack_changes(changes))
    record = AuditRecord(0, now, who, action, scope or None, list_name, count, first)
    yield AnnouncedWrite(_INSERT, row, news=record)


_changes = msgspec.msgpack.Decoder(tuple[ChangedValue, ...])


def pack_changes(changes: Iterable[ChangedValue]) -> bytes | None:
    """The first changes as they are stored; None where there are none."""
    cut = [
        ChangedValue(_cut(each.what) or "", _cut(each.before), _cut(each.after))
        for each in islice(changes, MAX_CHANGES)
    ]
    if not cut:
        return None
    from gatepost.store.record_packing import compress

    return compress(msgspec.msgpack.encode(cut))


def unpack_changes(packed: bytes | None) -> tuple[ChangedValue, ...]:
    """What `pack_changes` packed."""
    if packed is None:
        return ()
    from gatepost.store.record_packing import decompress

    return _changes.decode(decompress(packed))


def _cut(text: str | None) -> str | None:
    return None if text is None else storable(text[:MAX_VALUE])


def _plan(wanted: AuditFilter, before: str | None) -> PageQuery:
    lead: dict[str, object] = {} if wanted.scope is None else {"scope": storable(wanted.scope.lower())}
    order = ("time", "id")
    start = () if wanted.since is None else (wanted.since,)
    within = key_range(lead, order, start, parse_time_cursor(before, wanted.until))
    tests = _tests(wanted)
    tested = ("actor_kind", "actor_name", "actor_id", "action", "list") if tests else ()
    return PageQuery("audit", order, within, tests, tested, tuple(lead))


def _tests(wanted: AuditFilter) -> list[SqlCondition]:
    tests = []
    if wanted.actor is not None:
        tests.append(_is_by(storable(wanted.actor)))
    if wanted.action is not None:
        action = "substr(action, 1, length({0}))" if wanted.action.endswith(".") else "action"
        tests.append(SqlCondition(f"{action} = {{0}}", (storable(wanted.action),)))
    if wanted.list is not None:
        tests.append(SqlCondition("list = {}", (storable(wanted.list),)))
    return tests


def _is_by(actor: str) -> SqlCondition:
    """`actor` is a name, an id, a kind (`cli`), or a label (`key:playbook`)."""
    kind, _, name = actor.partition(":")
    condition = "(actor_name = {} OR actor_id = {} OR (actor_kind = {} AND actor_name = {}))"
    return SqlCondition(condition, (actor, actor, kind, name))


def parse_audit(row: Row) -> AuditRecord:
    """The record of a row."""
    uid, time, kind, name, actor_id, action, scope, list_name, count, sample, has_changes = row
    entries = msgspec.json.decode(sample, type=tuple[str, ...])
    actor = Actor(kind, name, actor_id)
    return AuditRecord(uid, time, actor, action, scope or None, list_name, count, entries, bool(has_changes))


NotedAction: TypeAlias = Literal[
    "audit.export",
    "digest.rotateKey",
    "list.export",
    "message.trial",
    "messages.export",
    "policy.trial",
    "quarantine.export",
    "quarantine.releaseFailed",
    "quarantine.view",
    "system.examine",
    "system.testEvent",
    "user.lockedOut",
    "user.signIn",
    "user.signInFailed",
]
MAX_TEXT = 300


class Audit(Operations):
    """The audit trail: reading it, and records of what people did without a change."""

    @large_query
    def page(self, wanted: AuditFilter, before: str | None = None, limit: int = 100) -> Work[Page[AuditRecord]]:
        """A page of changes, newest first. `before` is the `next` of the page before; `limit` is at most 1,000."""
        keys = yield from find_page(_plan(wanted, before), limit)
        ids = tuple(uid for _, uid in keys.rows)
        found = {row[0]: row for row in ((yield Read(_SELECT_IDS, (Many(ids),))) if ids else ())}
        return Page(tuple(parse_audit(found[uid]) for uid in ids), keys.cursor, keys.reached)

    @query
    def changes(self, uid: int) -> Work[tuple[AuditRecord, tuple[ChangedValue, ...]] | None]:
        """One record with everything that it changed; None where there is none."""
        rows = yield Read(_SELECT_CHANGES, (uid,))
        return (parse_audit(rows[0][:11]), unpack_changes(rows[0][11])) if rows else None

    @change
    def note(
        self,
        action: NotedAction,
        by: Actor,
        tenant: str | None = None,
        *,
        sample: Sequence[str] = (),
        list_name: str = "",
        count: int = 1,
    ) -> Work[None]:
        """Write to the audit trail what somebody did; texts are cut."""
        texts = [storable(text[:MAX_TEXT]) for text in sample]
        yield from write_audit(now(), by, action, normalize_scope(tenant), list_name, count, texts)

    async def note_export(self, ggrid: str, tenant: str | None, by: Actor) -> None:
        """Write to the audit trail that the bytes of a message were exported."""
        await self.note("quarantine.export", by, tenant, sample=[ggrid.lower()])

    async def note_view(self, ggrid: str, tenant: str | None, by: Actor) -> None:
        """Write to the audit trail that the text or a picture of a held message was read."""
        await self.note("quarantine.view", by, tenant, sample=[ggrid.lower()])

    async def note_failed_release(self, ggrid: str, tenant: str | None, by: Actor, reason: str) -> None:
        """Write to the audit trail that somebody wanted to release a message, and why it was not sent."""
        await self.note("quarantine.releaseFailed", by, tenant, sample=[ggrid.lower(), reason])
