"""The audit trail: every change writes its own line, in its own transaction."""

from collections.abc import Iterable
from itertools import islice

import msgspec

from gatepost.store.interface import Actor, AuditRecord
from gatepost.store.work import Read, Row, Work, Write, storable

# Enough to recognise a call by; the entries themselves are in the lists.
SAMPLE = 5
MAX_PAGE = 1_000

_ADD = """INSERT INTO audit (time, actor_kind, actor_name, actor_id, action, scope, list, count, sample)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"""
_PAGE = """SELECT id, time, actor_kind, actor_name, actor_id, action, scope, list, count, sample FROM audit
WHERE {} ORDER BY id DESC LIMIT $1"""


def noted(
    now: int,
    by: Actor,
    action: str,
    scope: str | None = None,
    list_name: str = "",
    count: int = 0,
    sample: Iterable[str] = (),
) -> Work[None]:
    """Write who did what."""
    some = msgspec.json.encode(list(islice(sample, SAMPLE))).decode()
    who = (by.kind, storable(by.name), storable(by.id))
    yield Write(_ADD, (now, *who, action, scope or "", list_name, count, some))


def page(
    since: int | None, until: int | None, tenant: str | None, before: int | None, limit: int
) -> Work[tuple[AuditRecord, ...]]:
    """One page of the trail, newest first."""
    wanted = {"time >=": since, "time <": until, "scope =": tenant, "id <": before}
    given = {test: value for test, value in wanted.items() if value is not None}
    tests = " AND ".join(f"{test} ${place}" for place, test in enumerate(given, 2)) or "true"
    rows = yield Read(_PAGE.format(tests), (max(0, min(limit, MAX_PAGE)), *given.values()))
    return tuple(map(record, rows))


def record(row: Row) -> AuditRecord:
    """A line of the trail."""
    uid, time, kind, name, actor_id, action, scope, list_name, count, sample = row
    shown = msgspec.json.decode(sample, type=tuple[str, ...])
    return AuditRecord(uid, time, Actor(kind, name, actor_id), action, scope or None, list_name, count, shown)
