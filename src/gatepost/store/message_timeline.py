"""What is on record of the way of one message: how it came, what was decided, what became of it, who did what since.

The parts lie in several places: the record of the analysis, the deliveries, the quarantine, and the audit trail. A
message that a next hop or this gateway put off comes again and is analysed anew, so other attempts are searched for:
messages to the same recipient with the same Message-ID. All reads are bounded, as every search is.
"""

from typing import Final

import msgspec

from gatepost.store.audit import AuditRecord, parse_audit
from gatepost.store.deliveries import Delivery, find_deliveries
from gatepost.store.engine import Many, Operations, Read, Work, normalize_scope, search
from gatepost.store.held_mail import HeldMessage, find_held
from gatepost.store.message_evidence import Evidence
from gatepost.store.message_plans import MessageFilter, plan_search
from gatepost.store.messages import MessageRecord, find_message
from gatepost.store.paging import Condition, PageQuery, find_page, key_range
from gatepost.store.record_packing import decompress

# Actions of the audit trail that belong to the way of a message. Who looked at it is the audit trail's own subject.
ACTIONS: Final = (
    "lookBack.found",
    "message.reported",
    "quarantine.delete",
    "quarantine.release",
    "quarantine.releaseFailed",
    "quarantine.restore",
)
MAX_ACTIONS = 50
# How long mail servers go on trying (RFC 5321 section 4.5.4.1: at least four to five days).
ATTEMPTS_MILLISECONDS = 7 * 86_400_000
MAX_ATTEMPTS = 20
# A page of one message must not cost what a search does: 6,000 rows of the audit trail, 3,000 of the recipient's mail.
ACTIONS_REACH, ATTEMPTS_REACH = 0.2, 0.1

_SELECT_AUDIT = """SELECT id, time, actor_kind, actor_name, actor_id, action, scope, list, count, sample,
changes IS NOT NULL FROM audit WHERE id = ANY($1) ORDER BY time, id"""
_SELECT_ATTEMPTS = """SELECT messages.ggrid, messages.created, messages.completed, decision, sha256, detail,
(SELECT max(code) FROM deliveries WHERE deliveries.completed = messages.completed AND deliveries.id = messages.id)
FROM messages WHERE id = ANY($1) ORDER BY messages.created"""


class _Report(msgspec.Struct, frozen=True):
    message_id: str = ""


class _Detail(msgspec.Struct, frozen=True):
    report: _Report


_ids = msgspec.msgpack.Decoder(_Detail)


class Attempt(msgspec.Struct, frozen=True):
    """Another analysis of the same message: the client sent it again, or a copy of it. `code` is the next hop's reply,
    None where none is on record; `is_same` says that every byte is the same."""

    ggrid: str
    created: int
    completed: int
    decision: str
    code: int | None
    is_same: bool


class MessageTimeline(msgspec.Struct, frozen=True):
    """Everything on record of the way of a message. With `is_cut` there may be more actions or attempts than these."""

    record: MessageRecord
    held: HeldMessage | None = None
    deliveries: tuple[Delivery, ...] = ()
    actions: tuple[AuditRecord, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    is_cut: bool = False


class TimelineStore(Operations):
    """The way of one message."""

    @search
    def message_timeline(self, ggrid: str, tenant: str | None = None) -> Work[MessageTimeline | None]:
        """What is on record of a message; None where there is none, or it is not that tenant's."""
        owner = normalize_scope(tenant)
        held = yield from find_held(ggrid, owner)
        record = (yield from find_message(ggrid)) or (held.record if held else None)
        if record is None or owner not in (None, record.envelope.tenant):
            return None
        actions: list[AuditRecord] = []
        is_cut = False
        for scope in dict.fromkeys((record.envelope.tenant or "", "")):
            found, more = yield from _find_actions(record, scope)
            actions, is_cut = actions + found, is_cut or more
        attempts, more = yield from _find_attempts(record)
        deliveries = yield from find_deliveries(record.ggrid)
        return MessageTimeline(record, held, deliveries, tuple(actions), attempts, is_cut or more)


def _find_actions(record: MessageRecord, scope: str) -> Work[tuple[list[AuditRecord], bool]]:
    """What people did with a message, as the audit trail of one scope has it, and whether there may be more."""
    order = ("time", "id")
    within = key_range({"scope": scope}, order, (record.created,), ())
    names = ", ".join(["{}"] * len(ACTIONS))
    tests = [Condition(f"action IN ({names})", ACTIONS), Condition("strpos(sample, {}) > 0", (record.ggrid,))]
    plan = PageQuery(
        "audit", order, within, tests, ("action", "sample"), ("scope",), descending=False, reach=ACTIONS_REACH
    )
    keys = yield from find_page(plan, MAX_ACTIONS)
    ids = tuple(row[1] for row in keys.rows)
    rows = (yield Read(_SELECT_AUDIT, (Many(ids),))) if ids else ()
    return [parse_audit(row) for row in rows], keys.next is not None


def _find_attempts(record: MessageRecord) -> Work[tuple[tuple[Attempt, ...], bool]]:
    """Other analyses of the same message to its first recipient, oldest first, and whether there may be more."""
    envelope, message_id = record.envelope, record.report.message_id
    if not message_id or not envelope.recipients:
        return (), False
    wanted = MessageFilter(
        tenant=envelope.tenant,
        recipient=envelope.recipients[0],
        since=record.completed - ATTEMPTS_MILLISECONDS,
        until=record.completed + ATTEMPTS_MILLISECONDS,
        evidence=Evidence(message_id=message_id),
    )
    (plan,) = plan_search(wanted, None, None, exact=True)
    keys = yield from find_page(msgspec.structs.replace(plan, reach=ATTEMPTS_REACH), MAX_ATTEMPTS)
    ids = tuple(row[1] for row in keys.rows)
    rows = (yield Read(_SELECT_ATTEMPTS, (Many(ids),))) if ids else ()
    others = [row for row in rows if row[0] != record.ggrid and _is_of(row[5], message_id)]
    return tuple(_attempt(record, *row) for row in others), keys.next is not None


def _attempt(
    record: MessageRecord,
    ggrid: str,
    created: int,
    completed: int,
    decision: str,
    sha256: str,
    _: bytes,
    code: int | None,
) -> Attempt:
    return Attempt(ggrid, created, completed, decision, code, sha256 == record.sha256)


def _is_of(packed: bytes, message_id: str) -> bool:
    """Whether a packed record has this Message-ID; digests say so only nearly."""
    return _ids.decode(decompress(packed)).report.message_id == message_id
