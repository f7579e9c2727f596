"""How one analysis lies in a row: columns for searching, and the whole of envelope and report as one packed value.

The packed value is MessagePack, deflated where that pays; its first byte says which.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from gatepost.analysis import Report
from gatepost.mail.message import Envelope
from gatepost.store import findable, traffic
from gatepost.store.interface import MessageRecord
from gatepost.store.trafficstore import BINS
from gatepost.store.work import Many, Read, Work, in_sqlite, storable

PLAIN, DEFLATED = b"\x00", b"\x01"
# Below this, deflating saves less than a disk sector and costs more than it saves.
DEFLATE_FROM = 512
# What searching needs of hostile strings; the packed value has them whole.
MAX_TEXT = 1_000
MAX_RECIPIENTS = 100

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
)
_READ = "SELECT ggrid, created, completed, size, sha256, detail FROM messages"
_ONE = _READ + " WHERE ggrid = $1"
_PLACES = ", ".join(f"${place}" for place in range(1, len(COLUMNS) + 1))
_KEEP = f"""WITH kept AS (
    INSERT INTO messages ({", ".join(COLUMNS)}) VALUES ({_PLACES})
    ON CONFLICT (ggrid) DO NOTHING RETURNING id, completed, tenant, verdict, decision, size
), found AS (
    INSERT INTO message_search ({", ".join(findable.COLUMNS)})
    SELECT completed, id, tenant, verdict, decision, $15::text, $16::text, $17::text, $18::text, $19::text FROM kept
), addressed AS (
    INSERT INTO message_recipients (address, completed, id) SELECT unnest($20::text[]), completed, id FROM kept
), counted AS (
    {traffic.INTO}
    SELECT whose, $21::bigint, verdict, decision, pg_backend_pid() % {traffic.PARTS}, 1, size, $22::bigint, $22::bigint,
    {", ".join(f"CASE $23::bigint WHEN {place} THEN 1 ELSE 0 END" for place in range(BINS))}
    FROM kept CROSS JOIN LATERAL unnest(ARRAY['', tenant]) AS whose WHERE whose IS NOT NULL
    {traffic.ADDED}
) SELECT id FROM kept"""  # noqa: S608
_RECENT = """SELECT ggrid, created, messages.completed, size, sha256, detail
FROM message_search AS s CROSS JOIN messages WHERE messages.id = s.id{} ORDER BY s.completed DESC, s.id DESC LIMIT $1"""
_PURGE = """DELETE FROM messages
WHERE id IN (SELECT id FROM message_search WHERE completed < $1 ORDER BY completed, id LIMIT $2)
RETURNING id, completed, recipients"""
_PURGE_TENANT = """DELETE FROM messages WHERE id IN (SELECT id FROM message_search WHERE tenant = $1 LIMIT $2)
RETURNING id, completed, recipients"""


class _Detail(msgspec.Struct, frozen=True):
    envelope: Envelope
    report: Report


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Detail)
_json = msgspec.json.Encoder()


def insert(connection: apsw.Connection, records: Sequence[MessageRecord]) -> list[MessageRecord]:
    """Keep records, findable and counted; where one of that ggrid stands already, it stays and is returned."""
    kept: list[MessageRecord] = []
    fresh: list[tuple[int, MessageRecord]] = []
    while len(kept) < len(records):
        # Powers of two: few different statements, so that they stay prepared.
        left = len(records) - len(kept)
        chunk = records[len(kept) : len(kept) + (1 << left.bit_length() - 1)]
        kept += _insert_chunk(connection, chunk, fresh)
    findable.insert(connection, [_found(uid, record) for uid, record in fresh])
    traffic.count(connection, [_seen(record) for _, record in fresh])
    return kept


def keep(record: MessageRecord) -> Work[MessageRecord]:
    """Keep one record, findable and counted, or return the one that stands already; for PostgreSQL."""
    row = tuple(storable(value) if isinstance(value, str) else value for value in _row(record))
    texts = _texts(record)
    searched = (texts.sender_domain, texts.sender, texts.subject, texts.recipients, texts.tags, Many(texts.addresses))
    milliseconds = max(0, record.completed - record.created)
    counted = (traffic.bucket_of(record.completed), milliseconds, traffic.bin_of(milliseconds))
    if (yield Read(_KEEP, (*row, *searched, *counted))):
        return record
    return (yield from find(record.ggrid)) or record


def find(ggrid: str) -> Work[MessageRecord | None]:
    """The record of one analysis."""
    rows = yield Read(_ONE, (storable(ggrid.lower()),))
    return from_row(*rows[0]) if rows else None


def purge(before: int, limit: int) -> Work[int]:
    """Delete at most `limit` records that were completed before a time."""
    gone = yield Read(_PURGE, (before, limit))
    yield from findable.forget(gone)
    return len(gone)


def purge_tenant(tenant: str, limit: int) -> Work[int]:
    """Delete at most `limit` records of a tenant that is gone."""
    gone = yield Read(_PURGE_TENANT, (tenant, limit))
    yield from findable.forget(gone)
    return len(gone)


def recent(tenant: str | None, limit: int) -> Read:
    """The last records of a tenant, or of everybody; `from_row` makes records of them."""
    if tenant:
        return Read(_RECENT.format(" AND s.tenant = $2"), (limit, tenant))
    return Read(_RECENT.format(""), (limit,))


def from_row(ggrid: str, created: int, completed: int, size: int, sha256: str, packed: bytes) -> MessageRecord:
    """A row as it was kept."""
    detail = _unpacked(packed)
    return MessageRecord(ggrid, created, completed, detail.envelope, size, sha256, detail.report)


def _insert_chunk(
    connection: apsw.Connection, records: Sequence[MessageRecord], fresh: list[tuple[int, MessageRecord]]
) -> Sequence[MessageRecord]:
    """One statement for all: each statement is a moment in which this thread must win the interpreter back.

    Those that are new are added to `fresh`, with the ids that they got.
    """
    values = [value for record in records for value in _row(record)]
    ids: dict[Any, Any] = dict(connection.execute(_insertion(len(records)), values))
    fresh += [(uid, record) for record in records if (uid := ids.pop(record.ggrid.lower(), None)) is not None]
    if connection.changes() == len(records):
        return records
    one = in_sqlite(_ONE)
    standing = (connection.execute(one, (record.ggrid.lower(),)).fetchone() for record in records)
    return [from_row(*row) if row else record for row, record in zip(standing, records, strict=True)]


def _insertion(count: int) -> str:
    row = f"({', '.join('?' * len(COLUMNS))})"
    columns, rows = ", ".join(COLUMNS), ", ".join([row] * count)
    return f"INSERT INTO messages ({columns}) VALUES {rows} ON CONFLICT (ggrid) DO NOTHING RETURNING ggrid, id"  # noqa: S608


def _found(uid: int, record: MessageRecord) -> findable.Found:
    report = record.report
    return (record.completed, uid, record.envelope.tenant, report.verdict, report.decision, _texts(record))


def _texts(record: MessageRecord) -> findable.Texts:
    envelope, report = record.envelope, record.report
    return findable.texts(envelope.sender, envelope.recipients, report.subject, report.tags)


def _seen(record: MessageRecord) -> traffic.Seen:
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
        _packed(_Detail(envelope, report)),
    )


def packed(record: MessageRecord) -> bytes:
    """Envelope and report as they lie in a row."""
    return _packed(_Detail(record.envelope, record.report))


def _packed(detail: _Detail) -> bytes:
    plain = _encoder.encode(detail)
    if len(plain) < DEFLATE_FROM:
        return PLAIN + plain
    # Memory level 5: a table that fits what is packed here; filling the usual one takes longer than deflating.
    deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, 5)
    return DEFLATED + deflate.compress(plain) + deflate.flush()


def _unpacked(packed: bytes) -> _Detail:
    content = memoryview(packed)[1:]
    return _decoder.decode(content if packed[:1] == PLAIN else zlib.decompress(content, -zlib.MAX_WBITS))
