"""What is on record of the way of one message: how it came, what was decided, what became of it, who did what since.

The parts lie in several places: the record of the analysis, the deliveries, the quarantine, and the audit trail. A
message that a next hop or this gateway put off comes again and is analysed anew, so other attempts are searched for:
messages to the same recipient with the same Message-ID. All reads are bounded, as every search is.
"""

from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from gatepost.ids import canonical, id_prefix
from gatepost.mail.message import Envelope
from gatepost.policy.rules import Decision, Verdict
from gatepost.store import message_index, traffic
from gatepost.store.audit import AuditRecord, parse_audit
from gatepost.store.deliveries import Delivery, find_deliveries, insert_deliveries
from gatepost.store.engine import (
    Many,
    Operations,
    Read,
    Row,
    Work,
    change,
    convert_each,
    large_query,
    normalize_scope,
    now,
    query,
    storable,
)
from gatepost.store.message_index import Evidence, Term, domain_of, fits_record, fold_address, has_evidence, parse_term
from gatepost.store.message_plans import MAX_COUNTED, MessageCount, MessageFilter, plan_by_prefix, plan_search
from gatepost.store.message_records import (
    MessageLine,
    MessageRecord,
    find_lines,
    find_message,
    insert_all,
    insert_one,
    parse_record,
    parse_release,
)
from gatepost.store.paging import Condition, PageQuery, count_any, find_any, find_page, key_range, parse_time_cursor
from gatepost.store.quarantine import HeldMessage, find_held
from gatepost.store.record_packing import Detail, decompress, unpack

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

PURGE_BATCH = 500
STREAM_BATCH = 100
_SELECT_RELEASE = "SELECT released, released_by, released_to FROM held WHERE ggrid = $1 AND released IS NOT NULL"
_SELECT_RECENT = """SELECT ggrid, created, messages.completed, size, sha256, detail
FROM message_search AS s CROSS JOIN messages WHERE messages.id = s.id{} ORDER BY s.completed DESC, s.id DESC LIMIT $1"""
_DELETE_OLD = """DELETE FROM messages
WHERE id IN (SELECT id FROM message_search WHERE completed < $1 ORDER BY completed, id LIMIT $2)
RETURNING id, completed, recipients"""
_DELETE_OLD_OF_TENANT = """DELETE FROM messages
WHERE id IN (SELECT id FROM message_search WHERE tenant = $1 AND completed < $2 LIMIT $3)
RETURNING id, completed, recipients"""
_OLD_IN_ORDER = """SELECT completed, id, tenant FROM message_search
WHERE completed < $1 AND (completed, id) > ($2, $3) ORDER BY completed, id LIMIT $4"""
_DELETE_IDS = "DELETE FROM messages WHERE id = ANY($1) RETURNING id, completed, recipients"
_SELECT_HEADER = "SELECT header FROM messages WHERE ggrid = $1"
# Recipients that a summary shows.
MAX_SHOWN_RECIPIENTS = 100
# How many records are read for a page where their evidence matters: hostile ones can be long.
EXAMINED = 100
_SELECT = """SELECT id, ggrid, completed, tenant, sender, recipients, subject, verdict, decision, score, tags, size
FROM messages"""
_SELECT_IDS = _SELECT + " WHERE id = ANY($1)"
_SELECT_DETAILS = "SELECT id, detail FROM messages WHERE id = ANY($1)"
_SELECT_PACKED = "SELECT ggrid, detail FROM messages WHERE ggrid = ANY($1)"
_SELECT_GGRID = _SELECT + " WHERE ggrid = $1"
_SELECT_GGRID_OF = "SELECT ggrid FROM messages WHERE id = $1"
_DELIVERED_AS = "SELECT id FROM deliveries WHERE queue_id = $1 AND id = ANY($2)"


class _Report(msgspec.Struct, frozen=True):
    message_id: str = ""


class _Detail(msgspec.Struct, frozen=True):
    report: _Report


_ids = msgspec.msgpack.Decoder(_Detail)
_strings = msgspec.json.Decoder(tuple[str, ...])


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


class MessageSummary(msgspec.Struct, frozen=True):
    """A result in one line. Long texts and long lists of recipients are cut."""

    ggrid: str
    completed: int
    tenant: str | None
    sender: str
    recipients: tuple[str, ...]
    subject: str
    verdict: Verdict
    decision: Decision
    score: int
    tags: tuple[str, ...]
    size: int


class ShownHead(msgspec.Struct, frozen=True):
    """What a list of messages shows of a record besides the summary: the first sender of From, with the display name,
    as the reader saw it, and whether the message was a trial."""

    address: str = ""
    name: str = ""
    is_trial: bool = False


class MessagePage(msgspec.Struct, frozen=True):
    """Results, newest first. `next` is the cursor of the next page; `reached` is the time back to which messages were
    read where the budget ended before the page was full."""

    rows: tuple[MessageSummary, ...]
    next: str | None = None
    reached: int | None = None


class Messages(Operations):
    """Results and ledgers, searched and counted, and what is on record of the way of one message."""

    def record(self, record: MessageRecord) -> Coroutine[Any, Any, MessageRecord]:
        """Store a result. A stored one never changes: the first of a ggrid stays and is returned."""
        return self._engine.change_together(insert_all, insert_one, record)

    @query
    def find(self, ggrid: str) -> Work[MessageRecord | None]:
        """The record of one analysis, with its release where there was one."""
        record = yield from find_message(ggrid)
        if record is None:
            return None
        rows = yield Read(_SELECT_RELEASE, (record.ggrid,))
        return msgspec.structs.replace(record, release=parse_release(*rows[0])) if rows else record

    def recent(self, tenant: str | None, limit: int) -> AsyncGenerator[Sequence[MessageRecord], None]:
        """The last `limit` results of a tenant (None: of all tenants), newest first, in batches of one snapshot.
        Trials among them are left out."""
        if scope := normalize_scope(tenant):
            read = Read(_SELECT_RECENT.format(" AND s.tenant = $2"), (limit, scope))
        else:
            read = Read(_SELECT_RECENT.format(""), (limit,))
        return self._engine.stream(read, _parse_mail, STREAM_BATCH, STREAM_BATCH)

    async def purge(self, before: int, tenants: Mapping[str, int] | None = None) -> int:
        """Delete results that were completed before that time, or before the time of their own tenant, and traffic
        counts older than all of these; returns how many results."""
        await self._repeat(message_index.index_old_messages)
        if not tenants:
            deleted = await self._repeat(partial(_delete_old, before))
        else:
            deleted = await self._purge_except(before, frozenset(tenants))
            for tenant, limit in tenants.items():
                deleted += await self._repeat(partial(_delete_old_of_tenant, tenant, limit))
        await self._repeat(partial(traffic.delete_old, min((before, *(tenants or {}).values())), PURGE_BATCH))
        await self._repeat(partial(traffic.merge_parts, now()))
        await self._repeat(partial(traffic.merge_hour, now()))
        return deleted

    @query
    def header(self, ggrid: str) -> Work[bytes | None]:
        """The raw header section of a message; None where it was not kept."""
        rows = yield Read(_SELECT_HEADER, (storable(ggrid.lower()),))
        return decompress(rows[0][0]) if rows and rows[0][0] is not None else None

    @large_query
    def search(self, wanted: MessageFilter, before: str | None = None, limit: int = 100) -> Work[MessagePage]:
        """A page of results, newest first. `before` is the `next` of the page before; `limit` is at most 1,000."""
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        if term and term.ggrid:
            wanted = msgspec.structs.replace(wanted, ggrid=term.ggrid)
        if wanted.ggrid is not None and canonical(wanted.ggrid.strip()):
            return (yield from _find_by_ggrid(wanted, before))
        if wanted.ggrid is not None or (term and term.id_prefix):
            found_by_id = yield from _find_by_prefix(wanted, term, before, limit)
            if found_by_id:
                return found_by_id
        is_examined = bool(wanted.evidence.wanted or (term and term.values))
        keys = yield from find_any(plan_search(wanted, before, term), min(limit, EXAMINED) if is_examined else limit)
        # A message is there twice where a next hop gave it the same id twice.
        ids = yield from _select_by_record(tuple({row[1]: None for row in keys.rows}), wanted.evidence, term)
        found = {row[0]: row for row in ((yield Read(_SELECT_IDS, (Many(ids),))) if ids else ())}
        return MessagePage(tuple(_summary(found[uid]) for uid in ids if uid in found), keys.cursor, keys.reached)

    @query
    def heads(self, ggrids: Sequence[str]) -> Work[dict[str, ShownHead]]:
        """What a list shows of these records, by ggrid; of each packed value only the few fields are decoded."""
        rows = (yield Read(_SELECT_PACKED, (Many(tuple(map(storable, ggrids))),))) if ggrids else ()
        return {ggrid: _head(packed) for ggrid, packed in rows}

    @large_query
    def count(self, wanted: MessageFilter) -> Work[MessageCount]:
        """How many results fit, up to 10,000. Where the budget ends before, and of messages whose evidence is only in
        their records, the others are not counted: then there may be more."""
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        if (term and term.ggrid) or canonical((wanted.ggrid or "").strip()):
            return MessageCount(1)
        if prefix := _prefix_of(wanted, term):
            plan = plan_by_prefix(_without_text(wanted), prefix, "")
            found = MessageCount(*(yield from count_any((plan,), MAX_COUNTED)))
            if found.messages or wanted.ggrid is not None:
                return found
        return MessageCount(*(yield from count_any(plan_search(wanted, None, term, exact=True), MAX_COUNTED)))

    @large_query
    def lines(self, ggrids: Sequence[str]) -> Work[tuple[MessageLine, ...]]:
        """Those of these messages that are still on record, the newest first."""
        return (yield from find_lines(ggrids))

    @large_query
    def timeline(self, ggrid: str, tenant: str | None = None) -> Work[MessageTimeline | None]:
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

    @change
    def record_deliveries(self, deliveries: Sequence[Delivery]) -> Work[None]:
        """Add what next hops answered; doing it again changes nothing."""
        yield from insert_deliveries(deliveries)

    async def _purge_except(self, before: int, tenants: frozenset[str]) -> int:
        """Delete results of all tenants but these. Rows that stay are passed over once, a few at a time."""
        deleted, after = 0, (-(1 << 62), 0)
        while True:
            count, end = await self._engine.change(partial(_delete_except, before, after, tenants))
            deleted += count
            if end is None:
                return deleted
            after = end


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


def _find_by_ggrid(wanted: MessageFilter, before: str | None) -> Work[MessagePage]:
    """A page of at most one result. Other conditions are ignored but for the tenant: an id names the message."""
    rows = yield Read(_SELECT_GGRID, (storable((wanted.ggrid or "").strip().lower()),))
    found = (_summary(row) for row in rows) if before is None else ()
    return MessagePage(tuple(each for each in found if wanted.tenant in (None, each.tenant)))


def _prefix_of(wanted: MessageFilter, term: Term | None) -> str | None:
    return id_prefix(wanted.ggrid.strip()) if wanted.ggrid is not None else term.id_prefix if term else None


def _without_text(wanted: MessageFilter) -> MessageFilter:
    """The other conditions; a text that is the beginning of an id has no other meaning beside it."""
    return wanted if wanted.ggrid is not None else msgspec.structs.replace(wanted, anywhere=None)


def _find_by_prefix(
    wanted: MessageFilter, term: Term | None, before: str | None, limit: int
) -> Work[MessagePage | None]:
    """A page of the messages whose ids begin so; None where there are none and the text may mean something else."""
    prefix, is_only = _prefix_of(wanted, term), wanted.ggrid is not None
    if prefix is None:
        return MessagePage(())
    last = ""
    if before:
        _, uid = parse_time_cursor(before, None)
        rows = yield Read(_SELECT_GGRID_OF, (uid,))
        last = rows[0][0] if rows else ""
        if not last.startswith(prefix):
            return MessagePage(()) if is_only else None
    keys = yield from find_page(plan_by_prefix(_without_text(wanted), prefix, last), min(limit, EXAMINED))
    if not (keys.rows or keys.next or is_only or last):
        return None
    ids = yield from _select_by_record(tuple(row[2] for row in keys.rows), wanted.evidence, None)
    found = {row[0]: row for row in ((yield Read(_SELECT_IDS, (Many(ids),))) if ids else ())}
    following = ".".join(map(str, keys.next[1:])) if keys.next else None
    reached = keys.next[1] if keys.next and keys.is_spent else None
    return MessagePage(tuple(_summary(found[uid]) for uid in ids if uid in found), following, reached)


def _select_by_record(ids: tuple[int, ...], evidence: Evidence, term: Term | None) -> Work[tuple[int, ...]]:
    """Those of the messages whose record fits; digests say so only nearly. What a next hop called a message is not in
    its record."""
    if not ids or not (evidence.wanted or (term and term.values)):
        return ids
    details = dict((yield Read(_SELECT_DETAILS, (Many(ids),))))
    delivered = (yield Read(_DELIVERED_AS, (term.next_id, Many(ids)))) if term and term.next_id else ()
    known = {row[0] for row in delivered}
    unpacked = ((uid, unpack(details[uid])) for uid in ids if uid in details)
    return tuple(uid for uid, detail in unpacked if _fits(detail, evidence, None if uid in known else term))


def _fits(detail: Detail, evidence: Evidence, term: Term | None) -> bool:
    envelope, report, queue_id = detail.envelope, detail.report, detail.queue_id
    if not has_evidence(envelope, report, evidence, queue_id):
        return False
    return term is None or _has_address(term, envelope) or fits_record(term, envelope, report, queue_id)


def _has_address(term: Term, envelope: Envelope) -> bool:
    sender = fold_address(envelope.sender)
    if term.address and (term.address == sender or term.address in map(fold_address, envelope.recipients)):
        return True
    return bool(term.domain) and term.domain == domain_of(sender)


class _HeadReport(msgspec.Struct, frozen=True):
    senders: tuple[str, ...] = ()
    sender_names: tuple[str, ...] = ()


class _HeadDetail(msgspec.Struct, frozen=True):
    report: _HeadReport
    source: str = ""


_heads = msgspec.msgpack.Decoder(_HeadDetail)


def _head(packed: bytes) -> ShownHead:
    detail = _heads.decode(decompress(packed))
    senders, names = detail.report.senders, detail.report.sender_names
    name = names[0] if names else ""
    address = senders[0] if senders else ""
    return ShownHead(address, name if name != address else "", detail.source == "page")


def _summary(row: Row) -> MessageSummary:
    _, ggrid, completed, tenant, sender, recipients, subject, verdict, decision, score, tags, size = row
    addresses, tag_names = _strings.decode(recipients)[:MAX_SHOWN_RECIPIENTS], _strings.decode(tags)
    return MessageSummary(
        ggrid, completed, tenant, sender, addresses, subject, verdict, decision, score, tag_names, size
    )


def _parse_mail(rows: Sequence[Row]) -> list[MessageRecord]:
    """The records of rows that are no trials."""
    return [record for record in convert_each(parse_record, rows) if not record.is_trial]


def _delete_old(before: int) -> Work[int]:
    rows = yield Read(_DELETE_OLD, (before, PURGE_BATCH))
    yield from message_index.delete(rows)
    return len(rows)


def _delete_old_of_tenant(tenant: str, before: int) -> Work[int]:
    rows = yield Read(_DELETE_OLD_OF_TENANT, (tenant, before, PURGE_BATCH))
    yield from message_index.delete(rows)
    return len(rows)


def _delete_except(
    before: int, after: tuple[int, int], tenants: frozenset[str]
) -> Work[tuple[int, tuple[int, int] | None]]:
    """Look at some old results in their order, and delete those of other tenants; returns how many, and the last."""
    rows = yield Read(_OLD_IN_ORDER, (before, *after, PURGE_BATCH))
    ids = tuple(uid for _, uid, tenant in rows if tenant not in tenants)
    deleted = (yield Read(_DELETE_IDS, (Many(ids),))) if ids else ()
    yield from message_index.delete(deleted)
    return len(deleted), (rows[-1][0], rows[-1][1]) if len(rows) == PURGE_BATCH else None
