"""The audit trail: every change writes a record in its own transaction, and records are never changed or deleted.

The one exception is the erasure of an address, which puts a pseudonym into records that have it (see `privacy`).
"""

from collections.abc import Iterable
from itertools import islice
from typing import Literal, TypeAlias

import msgspec

from gatepost.store.engine import AnnouncedWrite, Many, Operations, Read, Row, Work, search, storable
from gatepost.store.paging import Condition, PageQuery, find_page, key_range, parse_time_cursor

# Enough to recognise a call by; the entries themselves are in the lists.
SAMPLE = 5

_INSERT = """INSERT INTO audit (time, actor_kind, actor_name, actor_id, action, scope, list, count, sample)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"""
_SELECT_IDS = """SELECT id, time, actor_kind, actor_name, actor_id, action, scope, list, count, sample
FROM audit WHERE id = ANY($1)"""


ActorKind: TypeAlias = Literal["key", "token", "user", "cli", "feed", "mail", "system"]


class Actor(msgspec.Struct, frozen=True):
    """Who makes a change: an API key, a static token, a user of the web interface, the command line, a feed,
    somebody who reports by mail, or Gatepost by itself."""

    kind: ActorKind
    name: str = ""
    id: str = ""

    @property
    def label(self) -> str:
        """Kind and name, as shown beside an entry: `key:playbook`."""
        return f"{self.kind}:{self.name}" if self.name else self.kind


CLI = Actor("cli")
SYSTEM = Actor("system")


class AuditRecord(msgspec.Struct, frozen=True):
    """One change: who, what, where, how many, with some of the entries. `scope` None is the global one."""

    id: int
    time: int
    actor: Actor
    action: str
    scope: str | None = None
    list: str = ""
    count: int = 0
    sample: tuple[str, ...] = ()


class AuditFilter(msgspec.Struct, frozen=True):
    """Which changes to show: `since` <= time < `until`. `actor` is a name or a label (`key:playbook`), `action` one
    action or a group (`entries.`). `scope` is a tenant's uid, "" for the global one, None for all of them."""

    scope: str | None = None
    since: int | None = None
    until: int | None = None
    actor: str | None = None
    action: str | None = None
    list: str | None = None


class AuditPage(msgspec.Struct, frozen=True):
    """Changes, newest first. `next` is the cursor of the next page; `reached` is the time back to which the trail was
    read where the budget ended before the page was full."""

    rows: tuple[AuditRecord, ...]
    next: str | None = None
    reached: int | None = None


class AuditStore(Operations):
    """Reading the audit trail."""

    @search
    def audit_page(self, wanted: AuditFilter, before: str | None = None, limit: int = 100) -> Work[AuditPage]:
        """A page of changes, newest first. `before` is the `next` of the page before; `limit` is at most 1,000."""
        keys = yield from find_page(_plan(wanted, before), limit)
        ids = tuple(uid for _, uid in keys.rows)
        found = {row[0]: row for row in ((yield Read(_SELECT_IDS, (Many(ids),))) if ids else ())}
        return AuditPage(tuple(parse_audit(found[uid]) for uid in ids), keys.cursor, keys.reached)


def write_audit(
    now: int,
    by: Actor,
    action: str,
    scope: str | None = None,
    list_name: str = "",
    count: int = 0,
    sample: Iterable[str] = (),
    limit: int = SAMPLE,
) -> Work[None]:
    """Add a record to the audit trail, as a part of the change that it is about, with the first `limit` of what it
    changed."""
    first = tuple(islice(sample, limit))
    some = msgspec.json.encode(first).decode()
    who = Actor(by.kind, storable(by.name), storable(by.id))
    row = (now, who.kind, who.name, who.id, action, scope or "", list_name, count, some)
    record = AuditRecord(0, now, who, action, scope or None, list_name, count, first)
    yield AnnouncedWrite(_INSERT, row, news=record)


def _plan(wanted: AuditFilter, before: str | None) -> PageQuery:
    lead: dict[str, object] = {} if wanted.scope is None else {"scope": storable(wanted.scope.lower())}
    order = ("time", "id")
    start = () if wanted.since is None else (wanted.since,)
    within = key_range(lead, order, start, parse_time_cursor(before, wanted.until))
    tests = _tests(wanted)
    tested = ("actor_kind", "actor_name", "actor_id", "action", "list") if tests else ()
    return PageQuery("audit", order, within, tests, tested, tuple(lead))


def _tests(wanted: AuditFilter) -> list[Condition]:
    tests = []
    if wanted.actor is not None:
        tests.append(_is_by(storable(wanted.actor)))
    if wanted.action is not None:
        is_group = wanted.action.endswith(".")
        tests.append(Condition("strpos(action, {}) = 1" if is_group else "action = {}", (storable(wanted.action),)))
    if wanted.list is not None:
        tests.append(Condition("list = {}", (storable(wanted.list),)))
    return tests


def _is_by(actor: str) -> Condition:
    """`actor` is a name, an id, a kind (`cli`), or a label (`key:playbook`)."""
    kind, _, name = actor.partition(":")
    condition = "(actor_name = {} OR actor_id = {} OR (actor_kind = {} AND actor_name = {}))"
    return Condition(condition, (actor, actor, kind, name))


def parse_audit(row: Row) -> AuditRecord:
    """The record of a row."""
    uid, time, kind, name, actor_id, action, scope, list_name, count, sample = row
    entries = msgspec.json.decode(sample, type=tuple[str, ...])
    return AuditRecord(uid, time, Actor(kind, name, actor_id), action, scope or None, list_name, count, entries)
