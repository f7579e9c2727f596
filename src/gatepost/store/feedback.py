"""Reports of wrong decisions, kept in the audit trail."""

import msgspec

from gatepost.store import heldmail, messages
from gatepost.store.auditing import noted
from gatepost.store.feedbackstore import Feedback, Says
from gatepost.store.interface import Actor
from gatepost.store.work import Read, Row, Work

ACTION = "message.reported"
MAX_PAGE = 1_000

_PAGE = """SELECT id, time, actor_kind, actor_name, scope, sample FROM audit
WHERE id > $1 AND action = $2 ORDER BY id LIMIT $3"""


def report(ggrid: str, says: Says, by: Actor, tenant: str | None, now: int) -> Work[bool]:
    """Write down what somebody says of a message that is on record, or still held."""
    record = yield from messages.find(ggrid)
    if record is None:
        held = yield from heldmail.find(ggrid, tenant)
        record = held.record if held else None
    if record is None or tenant not in (None, record.envelope.tenant):
        return False
    yield from noted(now, by, ACTION, record.envelope.tenant, count=1, sample=(record.ggrid, says))
    return True


def page(after: int, limit: int) -> Work[tuple[Feedback, ...]]:
    """What was reported since, oldest first."""
    rows = yield Read(_PAGE, (after, ACTION, max(0, min(limit, MAX_PAGE))))
    return tuple(map(_feedback, rows))


def _feedback(row: Row) -> Feedback:
    uid, time, kind, name, scope, sample = row
    ggrid, says = msgspec.json.decode(sample, type=tuple[str, Says])
    return Feedback(uid, ggrid, says, Actor(kind, name).label, time, scope or None)
