"""The search for messages, and its index: a narrow row beside each long one, and a row for each recipient.

A result is kilobytes long, and reading through a hundred thousand of them would read gigabytes. The narrow row has what
filters ask for, folded and cut: a subject of 250 characters, 20 recipients and the domains of the others. Whole
addresses of all recipients have an index of their own, because "where is my mail?" is asked most. Messages that were
stored by a version without a search are indexed afterwards, in small steps, from the newest on.

Which index serves a search is the subject of `message_plans`.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import apsw
import msgspec

from gatepost.ids import canonical, id_prefix
from gatepost.mail.message import Envelope
from gatepost.policy.rules import Decision, Verdict
from gatepost.store import traffic
from gatepost.store.deliveries import delete_deliveries
from gatepost.store.engine import Bulk, Many, Operations, Read, Row, Work, Write, insert_rows, query, search, storable
from gatepost.store.message_evidence import Evidence, has_evidence
from gatepost.store.message_plans import MessageFilter, plan_by_prefix, plan_search
from gatepost.store.message_terms import Term, domain_of, fits_record, fold, fold_address, parse_term
from gatepost.store.paging import count_any, find_any, find_page, parse_time_cursor
from gatepost.store.record_packing import Detail, decompress, unpack

MAX_ADDRESS = 254
MAX_SUBJECT = 250
MAX_TAGS = 40
MAX_TESTED_RECIPIENTS = 20
MAX_RECIPIENTS = 1_000
# Recipients that a summary shows.
MAX_SHOWN_RECIPIENTS = 100
# How far results are counted.
MAX_COUNTED = 10_000
STEP = 500
# How many records are read for a page where their evidence matters: hostile ones can be long.
EXAMINED = 100

COLUMNS = (
    *("completed", "id", "tenant", "verdict", "decision"),
    *("sender_domain", "sender", "subject", "recipients", "tags", "evidence"),
)
RECIPIENT_COLUMNS = ("address", "completed", "id")

_TYPES = ("bigint", "bigint", *("text",) * (len(COLUMNS) - 2))
_UNNEST = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_TYPES, 1))
_INSERT = Bulk(
    f"INSERT OR IGNORE INTO message_search ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})",  # noqa: S608
    f"INSERT INTO message_search ({', '.join(COLUMNS)}) SELECT * FROM unnest({_UNNEST}) ON CONFLICT DO NOTHING",  # noqa: S608
    (),
)
_INSERT_RECIPIENTS = Bulk(
    "INSERT OR IGNORE INTO message_recipients (address, completed, id) VALUES (?, ?, ?)",
    """INSERT INTO message_recipients (address, completed, id)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]) ON CONFLICT DO NOTHING""",
    (),
)
_DELETE = Bulk(
    "DELETE FROM message_search WHERE completed = ? AND id = ?",
    """DELETE FROM message_search USING unnest($1::bigint[], $2::bigint[]) AS gone (completed, id)
    WHERE message_search.completed = gone.completed AND message_search.id = gone.id""",
    (),
)
_DELETE_RECIPIENTS = Bulk(
    "DELETE FROM message_recipients WHERE address = ? AND completed = ? AND id = ?",
    """DELETE FROM message_recipients
    USING unnest($1::text[], $2::bigint[], $3::bigint[]) AS gone (address, completed, id)
    WHERE message_recipients.address = gone.address AND message_recipients.completed = gone.completed
    AND message_recipients.id = gone.id""",
    (),
)
_UNINDEXED = "SELECT upto FROM unsearched FOR UPDATE"
_OLD_MESSAGES = """SELECT id, created, completed, tenant, verdict, decision, sender, recipients, subject, tags, size
FROM messages WHERE id <= $1 ORDER BY id DESC LIMIT $2 FOR UPDATE"""
_SET_UNINDEXED = "UPDATE unsearched SET upto = $1"
_ALL_INDEXED = "DELETE FROM unsearched"

_strings = msgspec.json.Decoder(tuple[str, ...])


class IndexedTexts(msgspec.Struct, frozen=True):
    """The texts of a message that filters are compared with. `addresses` are whole, each once; `evidence` is that of
    `message_evidence`, None where it has to be looked for in the record."""

    sender_domain: str
    sender: str
    subject: str
    recipients: str
    tags: str
    evidence: str | None
    addresses: tuple[str, ...]


# Completed, id, tenant, verdict, decision and texts of a message.
IndexedMessage: TypeAlias = tuple[int, int, str | None, str, str, IndexedTexts]


def index_texts(
    sender: str, recipients: Sequence[str], subject: str, tags: Sequence[str], evidence: str | None = None
) -> IndexedTexts:
    """Fold and cut the texts of a message."""
    address = fold_address(sender)
    addresses = tuple(dict.fromkeys(map(fold_address, recipients[:MAX_RECIPIENTS])))
    return IndexedTexts(
        domain_of(address),
        address,
        fold(subject[:MAX_SUBJECT]),
        _join_lines((*addresses[:MAX_TESTED_RECIPIENTS], *_other_domains(addresses))),
        _join_lines(tags[:MAX_TAGS]),
        evidence,
        addresses,
    )


def _other_domains(addresses: Sequence[str]) -> list[str]:
    """The domains of recipients that the narrow row does not have, each once, as ends of addresses."""
    if len(addresses) <= MAX_TESTED_RECIPIENTS:
        return []
    known = {domain_of(each) for each in addresses[:MAX_TESTED_RECIPIENTS]}
    others = dict.fromkeys(domain_of(each) for each in addresses[MAX_TESTED_RECIPIENTS:])
    return [f"@{domain}" for domain in others if domain and domain not in known][:MAX_TESTED_RECIPIENTS]


def insert_in_sqlite(connection: apsw.Connection, messages: Sequence[IndexedMessage]) -> None:
    """Index messages that SQLite is just writing."""
    insert_rows(connection, "message_search", COLUMNS, [_row(*message) for message in messages])
    insert_rows(connection, "message_recipients", RECIPIENT_COLUMNS, _recipient_rows(messages))


def insert(messages: Sequence[IndexedMessage]) -> Work[None]:
    """Index messages that are stored already; those that are indexed stay as they are."""
    yield msgspec.structs.replace(_INSERT, rows=[_row(*message) for message in messages])
    if recipients := _recipient_rows(messages):
        yield msgspec.structs.replace(_INSERT_RECIPIENTS, rows=recipients)


def delete(messages: Iterable[Row]) -> Work[None]:
    """Take deleted messages out of the index, with their deliveries: id, completed and recipients (as JSON) of each."""
    rows = list(messages)
    yield from remove_from_index(rows)
    yield from delete_deliveries((completed, uid) for uid, completed, _ in rows)


def remove_from_index(messages: Iterable[Row]) -> Work[None]:
    """Take messages out of the index, whose records stay: id, completed and recipients (as JSON) of each."""
    keys, addresses = [], []
    for uid, completed, recipients in messages:
        keys.append((completed, uid))
        distinct = dict.fromkeys(map(fold_address, _strings.decode(recipients)[:MAX_RECIPIENTS]))
        addresses += [(address, completed, uid) for address in distinct]
    if keys:
        yield msgspec.structs.replace(_DELETE, rows=keys)
    if addresses:
        yield msgspec.structs.replace(_DELETE_RECIPIENTS, rows=addresses)


def index_old_messages() -> Work[int]:
    """Index and count some messages that were stored by a version without a search; 0 when none are left."""
    unindexed = yield Read(_UNINDEXED)
    if not unindexed:
        return 0
    rows = yield Read(_OLD_MESSAGES, (unindexed[0][0], STEP))
    if not rows:
        yield Write(_ALL_INDEXED)
        return 0
    messages = [(row[2], row[0], row[3], row[4], row[5], _texts_of(row)) for row in rows]
    yield from insert(messages)
    yield from traffic.count([(row[3], row[4], row[5], row[1], row[2], row[10]) for row in rows])
    yield Write(_SET_UNINDEXED, (rows[-1][0] - 1,))
    return len(rows)


def _row(completed: int, uid: int, tenant: str | None, verdict: str, decision: str, texts: IndexedTexts) -> Row:
    return (completed, uid, tenant, verdict, decision, *searched_texts(texts))


def searched_texts(texts: IndexedTexts) -> Row:
    """The texts in the order of the columns."""
    return (texts.sender_domain, texts.sender, texts.subject, texts.recipients, texts.tags, texts.evidence)


def _recipient_rows(messages: Sequence[IndexedMessage]) -> list[Row]:
    return [(address, message[0], message[1]) for message in messages for address in message[5].addresses]


def _texts_of(row: Row) -> IndexedTexts:
    _, _, _, _, _, _, sender, recipients, subject, tags, _ = row
    return index_texts(sender, _strings.decode(recipients), subject, _strings.decode(tags))


def _join_lines(texts: Iterable[str]) -> str:
    joined = storable("\n".join(texts))
    return f"\n{joined}\n" if joined else ""


_SELECT = """SELECT id, ggrid, completed, tenant, sender, recipients, subject, verdict, decision, score, tags, size
FROM messages"""
_SELECT_IDS = _SELECT + " WHERE id = ANY($1)"
_SELECT_DETAILS = "SELECT id, detail FROM messages WHERE id = ANY($1)"
_SELECT_PACKED = "SELECT ggrid, detail FROM messages WHERE ggrid = ANY($1)"
_SELECT_GGRID = _SELECT + " WHERE ggrid = $1"
_SELECT_GGRID_OF = "SELECT ggrid FROM messages WHERE id = $1"
_DELIVERED_AS = "SELECT id FROM deliveries WHERE queue_id = $1 AND id = ANY($2)"


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


class MessageCount(msgspec.Struct, frozen=True):
    """How many results fit; with `more`, at least so many."""

    messages: int
    more: bool = False


class MessageSearch(Operations):
    """Searching results."""

    @search
    def search_messages(self, wanted: MessageFilter, before: str | None = None, limit: int = 100) -> Work[MessagePage]:
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
    def message_heads(self, ggrids: Sequence[str]) -> Work[dict[str, ShownHead]]:
        """What a list shows of these records, by ggrid; of each packed value only the few fields are decoded."""
        rows = (yield Read(_SELECT_PACKED, (Many(tuple(map(storable, ggrids))),))) if ggrids else ()
        return {ggrid: _head(packed) for ggrid, packed in rows}

    @search
    def count_messages(self, wanted: MessageFilter) -> Work[MessageCount]:
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
