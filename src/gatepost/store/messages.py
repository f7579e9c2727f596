"""Results: one row for each analysis, with columns for searching and envelope and report whole as one packed value."""

from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import apsw
import msgspec

from gatepost.mail.message import Envelope, Receipt
from gatepost.report import Report
from gatepost.store import message_search, traffic
from gatepost.store.deliveries import blank_replies
from gatepost.store.engine import (
    Many,
    Read,
    Row,
    Work,
    Write,
    convert_each,
    in_sqlite,
    normalize_scope,
    now,
    query,
    storable,
)
from gatepost.store.header_sections import HeaderStore, pack_header
from gatepost.store.message_evidence import index_evidence
from gatepost.store.message_search import IndexedMessage, IndexedTexts, MessageSearch, index_texts
from gatepost.store.record_packing import Detail, pack, unpack
from gatepost.store.traffic import BINS, CountedMessage

# What the columns for searching hold of hostile strings; the packed value has them whole.
MAX_TEXT = 1_000
# As many as SMTP and the API take: every recipient can be found.
MAX_RECIPIENTS = 1_000
# The source of a scan that is a trial and no mail (`scanning.request.Source`).
TRIAL = "page"
TRIAL_TAG = "trial"
PURGE_BATCH = 500
STREAM_BATCH = 100

COLUMNS = (
    "ggrid",
    "created",
    "completed",
    "tenant",
    "verdict",
    "decision",
    "score",
    "tags",
    "sender",
    "recipients",
    "subject",
    "size",
    "sha256",
    "detail",
    "header",
)
_SELECT = "SELECT ggrid, created, completed, size, sha256, detail FROM messages WHERE ggrid = $1"
_SELECT_ID = "SELECT id FROM messages WHERE ggrid = ?"
_SELECT_RELEASE = "SELECT released, released_by, released_to FROM held WHERE ggrid = $1 AND released IS NOT NULL"
_PLACEHOLDERS = ", ".join(f"${number}" for number in range(1, len(COLUMNS) + 1))
_INSERT = f"""WITH kept AS (
    INSERT INTO messages ({", ".join(COLUMNS)}) VALUES ({_PLACEHOLDERS})
    ON CONFLICT (ggrid) DO NOTHING RETURNING id, completed, tenant, verdict, decision, size
), found AS (
    INSERT INTO message_search ({", ".join(message_search.COLUMNS)})
    SELECT completed, id, tenant, verdict, decision, $16::text, $17::text, $18::text, $19::text, $20::text,
    $21::text FROM kept
), addressed AS (
    INSERT INTO message_recipients (address, completed, id) SELECT unnest($22::text[]), completed, id FROM kept
), counted AS (
    {traffic.INSERT_INTO}
    SELECT whose, $23::bigint, verdict, decision, pg_backend_pid() % {traffic.PARTS}, 1, size, $24::bigint, $24::bigint,
    {", ".join(f"CASE $25::bigint WHEN {number} THEN 1 ELSE 0 END" for number in range(BINS))}
    FROM kept CROSS JOIN LATERAL unnest(ARRAY['', tenant]) AS whose WHERE whose IS NOT NULL AND NOT $26::boolean
    {traffic.ADD_ON_CONFLICT}
) SELECT id FROM kept"""  # noqa: S608
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
_REWRITE = "UPDATE messages SET sender = $2, recipients = $3, subject = $4, detail = $5, header = NULL WHERE id = $1"
_DELETE_TENANT = """DELETE FROM messages WHERE id IN (SELECT id FROM message_search WHERE tenant = $1 LIMIT $2)
RETURNING id, completed, recipients"""


class Release(msgspec.Struct, frozen=True):
    """A held message that was sent on: when, by whose order, and to whom."""

    time: int
    by: str
    recipients: tuple[str, ...]


class MessageRecord(msgspec.Struct, frozen=True):
    """One analysis as it is stored. A release is added to it, and an address can be erased from it; nothing else ever
    changes. `source` is that of the scan request; "" where the record is older than this field, as `receipt` is None.
    `header` is the raw header section of a new record; records that are read come without it (`message_header`)."""

    ggrid: str
    created: int
    completed: int
    envelope: Envelope
    size: int
    sha256: str
    report: Report
    release: Release | None = None
    source: str = ""
    header: bytes | None = None
    receipt: Receipt | None = None

    @property
    def is_trial(self) -> bool:
        """Did a person upload it on the scan page? Then it is no mail: it is neither counted nor held nor learnt."""
        return self.source == TRIAL

    @property
    def queue_id(self) -> str:
        """The queue id of the message at the client that sent it."""
        return self.receipt.queue_id if self.receipt else ""


class RecordRow(msgspec.Struct, frozen=True):
    """A record as SQLite gets it: the values of its row, its texts for searching, and what is counted of it, unless it
    `is_trial`.

    Where another process writes, rows are made by those who ask, so that it has only the database to wait for.
    """

    values: tuple[Any, ...]
    texts: IndexedTexts
    counted: CountedMessage
    is_trial: bool = False


R = TypeVar("R", MessageRecord, RecordRow)


_json = msgspec.json.Encoder()
_strings = msgspec.json.Decoder(tuple[str, ...])


class MessageStore(MessageSearch, HeaderStore):
    """Results and ledgers."""

    def record_message(self, record: MessageRecord) -> Coroutine[Any, Any, MessageRecord]:
        """Store a result. A stored one never changes: the first of a ggrid stays and is returned."""
        return self._engine.change_together(insert_all, _insert, record)

    @query
    def message(self, ggrid: str) -> Work[MessageRecord | None]:
        """The record of one analysis, with its release where there was one."""
        record = yield from find_message(ggrid)
        if record is None:
            return None
        rows = yield Read(_SELECT_RELEASE, (record.ggrid,))
        return msgspec.structs.replace(record, release=parse_release(*rows[0])) if rows else record

    def recent_messages(self, tenant: str | None, limit: int) -> AsyncGenerator[Sequence[MessageRecord], None]:
        """The last `limit` results of a tenant (None: of all tenants), newest first, in batches of one snapshot.
        Trials among them are left out."""
        if scope := normalize_scope(tenant):
            read = Read(_SELECT_RECENT.format(" AND s.tenant = $2"), (limit, scope))
        else:
            read = Read(_SELECT_RECENT.format(""), (limit,))
        return self._engine.stream(read, _parse_mail, STREAM_BATCH, STREAM_BATCH)

    async def purge_messages(self, before: int, tenants: Mapping[str, int] | None = None) -> int:
        """Delete results that were completed before that time, or before the time of their own tenant, and traffic
        counts older than all of these; returns how many results."""
        await self._repeat(message_search.index_old_messages)
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

    async def _purge_except(self, before: int, tenants: frozenset[str]) -> int:
        """Delete results of all tenants but these. Rows that stay are passed over once, a few at a time."""
        deleted, after = 0, (-(1 << 62), 0)
        while True:
            count, end = await self._engine.change(partial(_delete_except, before, after, tenants))
            deleted += count
            if end is None:
                return deleted
            after = end


def prepare_row(record: MessageRecord | RecordRow) -> RecordRow:
    """Make the row of a record; one that is made already stays as it is."""
    if isinstance(record, RecordRow):
        return record
    return RecordRow(_row(record), _texts(record), _count_message(record), record.is_trial)


def insert_all(connection: apsw.Connection, records: Sequence[R]) -> list[R | MessageRecord]:
    """Store, index and count records in SQLite; where one of that ggrid is stored already, it stays and is
    returned."""
    stored: list[R | MessageRecord] = []
    fresh: list[tuple[int, RecordRow]] = []
    while len(stored) < len(records):
        # Powers of two: few different statements, so that they stay prepared.
        left = len(records) - len(stored)
        chunk = records[len(stored) : len(stored) + (1 << left.bit_length() - 1)]
        stored += _insert_chunk(connection, chunk, fresh)
    message_search.insert_in_sqlite(connection, [_index_message(uid, row) for uid, row in fresh])
    traffic.count_in_sqlite(connection, [row.counted for _, row in fresh if not row.is_trial])
    return stored


def find_message(ggrid: str) -> Work[MessageRecord | None]:
    """The record of one analysis, without its release."""
    rows = yield Read(_SELECT, (storable(ggrid.lower()),))
    return parse_record(*rows[0]) if rows else None


def rewrite_message(uid: int, before: MessageRecord, detail: Detail) -> Work[None]:
    """Replace envelope and report of a result, as the erasure of an address does; its index row follows. The header
    section goes, and so do the texts of replies: an address can be written there in too many ways to be sure of."""
    record = msgspec.structs.replace(before, envelope=detail.envelope, report=detail.report, receipt=detail.receipt)
    row = dict(zip(COLUMNS, _row(record), strict=True))
    texts = [storable(str(row[column])) for column in ("sender", "recipients", "subject")]
    recipients = _json.encode([each[:MAX_TEXT] for each in before.envelope.recipients[:MAX_RECIPIENTS]]).decode()
    yield from message_search.remove_from_index([(uid, before.completed, recipients)])
    yield from blank_replies(before.ggrid)
    yield Write(_REWRITE, (uid, *texts, row["detail"]))
    yield from message_search.insert([_index_message(uid, prepare_row(record))])


def delete_tenant_messages(tenant: str, limit: int) -> Work[int]:
    """Delete at most `limit` records of a deleted tenant."""
    rows = yield Read(_DELETE_TENANT, (tenant, limit))
    yield from message_search.delete(rows)
    return len(rows)


def parse_record(ggrid: str, created: int, completed: int, size: int, sha256: str, packed: bytes) -> MessageRecord:
    """The record of a row."""
    detail = unpack(packed)
    return MessageRecord(
        *(ggrid, created, completed, detail.envelope, size, sha256, detail.report),
        source=detail.source,
        receipt=detail.receipt,
    )


def _parse_mail(rows: Sequence[Row]) -> list[MessageRecord]:
    """The records of rows that are no trials."""
    return [record for record in convert_each(parse_record, rows) if not record.is_trial]


def parse_release(time: int, by: str, recipients: str) -> Release:
    """The release of a row; `recipients` is JSON."""
    return Release(time, by, _strings.decode(recipients))


def _insert(record: MessageRecord) -> Work[MessageRecord]:
    """Store, index and count one record in PostgreSQL, or return the one that is stored already."""
    row = tuple(storable(value) if isinstance(value, str) else value for value in _row(record))
    texts = _texts(record)
    indexed = (*message_search.searched_texts(texts), Many(texts.addresses))
    milliseconds = max(0, record.completed - record.created)
    counted = (traffic.bucket_of(record.completed), milliseconds, traffic.bin_of(milliseconds), record.is_trial)
    if (yield Read(_INSERT, (*row, *indexed, *counted))):
        return record
    return (yield from find_message(record.ggrid)) or record


def _delete_old(before: int) -> Work[int]:
    rows = yield Read(_DELETE_OLD, (before, PURGE_BATCH))
    yield from message_search.delete(rows)
    return len(rows)


def _delete_old_of_tenant(tenant: str, before: int) -> Work[int]:
    rows = yield Read(_DELETE_OLD_OF_TENANT, (tenant, before, PURGE_BATCH))
    yield from message_search.delete(rows)
    return len(rows)


def _delete_except(
    before: int, after: tuple[int, int], tenants: frozenset[str]
) -> Work[tuple[int, tuple[int, int] | None]]:
    """Look at some old results in their order, and delete those of other tenants; returns how many, and the last."""
    rows = yield Read(_OLD_IN_ORDER, (before, *after, PURGE_BATCH))
    ids = tuple(uid for _, uid, tenant in rows if tenant not in tenants)
    deleted = (yield Read(_DELETE_IDS, (Many(ids),))) if ids else ()
    yield from message_search.delete(deleted)
    return len(deleted), (rows[-1][0], rows[-1][1]) if len(rows) == PURGE_BATCH else None


def _insert_chunk(
    connection: apsw.Connection, records: Sequence[R], fresh: list[tuple[int, RecordRow]]
) -> Sequence[R | MessageRecord]:
    """Insert records with one statement: each statement is a moment in which this thread must win the interpreter back.

    Those that are new are added to `fresh`, with the ids that they got.
    """
    rows = [prepare_row(record) for record in records]
    connection.execute(_insert_statement(len(rows)), [value for row in rows for value in row.values])
    count = connection.changes()
    # Ids are given one after the other (https://www.sqlite.org/autoinc.html), and nobody else writes meanwhile.
    first = connection.last_insert_rowid() - count + 1
    if count == len(rows):
        fresh += enumerate(rows, first)
        return records
    ids = (connection.execute(_SELECT_ID, row.values[:1]).fetchone() for row in rows)
    added: dict[int, RecordRow] = {}
    for found, row in zip(ids, rows, strict=True):
        # Without a new row the last id may be that of another table.
        if count and found and found[0] >= first:
            added.setdefault(found[0], row)
    fresh += added.items()
    select = in_sqlite(_SELECT)
    known = (connection.execute(select, row.values[:1]).fetchone() for row in rows)
    return [parse_record(*stored) if stored else record for stored, record in zip(known, records, strict=True)]


def _insert_statement(count: int) -> str:
    row = f"({', '.join('?' * len(COLUMNS))})"
    columns, rows = ", ".join(COLUMNS), ", ".join([row] * count)
    return f"INSERT INTO messages ({columns}) VALUES {rows} ON CONFLICT (ggrid) DO NOTHING"  # noqa: S608


def _index_message(uid: int, row: RecordRow) -> IndexedMessage:
    tenant, verdict, decision, _created, completed, _size = row.counted
    return (completed, uid, tenant, verdict, decision, row.texts)


def _texts(record: MessageRecord) -> IndexedTexts:
    envelope, report = record.envelope, record.report
    evidence = index_evidence(envelope, report, record.queue_id)
    # The mark of a trial is in the index alone: `trial` finds it like a tag, and is none of the report's.
    tags = (TRIAL_TAG, *report.tags) if record.is_trial else report.tags
    return index_texts(envelope.sender, envelope.recipients, report.subject, tags, evidence)


def _count_message(record: MessageRecord) -> CountedMessage:
    report = record.report
    return (
        *(record.envelope.tenant, report.verdict, report.decision),
        *(record.created, record.completed, record.size),
    )


def _row(record: MessageRecord) -> tuple[object, ...]:
    envelope, report = record.envelope, record.report
    return (
        record.ggrid.lower(),
        record.created,
        record.completed,
        envelope.tenant,
        report.verdict,
        report.decision,
        report.score,
        _json.encode(report.tags).decode(),
        envelope.sender[:MAX_TEXT],
        _json.encode([recipient[:MAX_TEXT] for recipient in envelope.recipients[:MAX_RECIPIENTS]]).decode(),
        report.subject[:MAX_TEXT],
        record.size,
        record.sha256,
        pack(envelope, report, record.source, record.receipt),
        pack_header(record.header),
    )
