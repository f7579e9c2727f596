"""Pages of the audit trail, by actor, action, list and scope."""

from gatepost.store import auditing, scanning
from gatepost.store.scanning import Scan, Test, between, moment
from gatepost.store.searchstore import AuditFilter, AuditPage
from gatepost.store.work import Many, Read, Work, storable

_SOME = """SELECT id, time, actor_kind, actor_name, actor_id, action, scope, list, count, sample
FROM audit WHERE id = ANY($1)"""


def page(wanted: AuditFilter, before: str | None, limit: int) -> Work[AuditPage]:
    """A page, newest first."""
    looked = yield from scanning.look(_scan(wanted, before), limit)
    ids = tuple(uid for _, uid in looked.rows)
    found = {row[0]: row for row in ((yield Read(_SOME, (Many(ids),))) if ids else ())}
    return AuditPage(tuple(auditing.record(found[uid]) for uid in ids), looked.cursor, looked.reached)


def _scan(wanted: AuditFilter, before: str | None) -> Scan:
    lead: dict[str, object] = {} if wanted.scope is None else {"scope": storable(wanted.scope.lower())}
    place = ("time", "id")
    within = between(lead, place, () if wanted.since is None else (wanted.since,), moment(before, wanted.until))
    tests = _tests(wanted)
    looked = ("actor_kind", "actor_name", "actor_id", "action", "list") if tests else ()
    return Scan("audit", place, within, tests, looked, tuple(lead))


def _tests(wanted: AuditFilter) -> list[Test]:
    tests = []
    if wanted.actor is not None:
        tests.append(_by(storable(wanted.actor)))
    if wanted.action is not None:
        group = wanted.action.endswith(".")
        tests.append(Test("strpos(action, {}) = 1" if group else "action = {}", (storable(wanted.action),)))
    if wanted.list is not None:
        tests.append(Test("list = {}", (storable(wanted.list),)))
    return tests


def _by(actor: str) -> Test:
    """A name, an id, a kind (`cli`), or a label (`key:playbook`)."""
    kind, _, name = actor.partition(":")
    condition = "(actor_name = {} OR actor_id = {} OR (actor_kind = {} AND actor_name = {}))"
    return Test(condition, (actor, actor, kind, name))
