"""How one analysis lies in a row: columns for searching, and the whole of envelope and report as one packed value.

The packed value is MessagePack, deflated where that pays; its first byte says which.
"""

import zlib
from collections.abc import Sequence

import apsw
import msgspec

from gatepost.analysis import Report
from gatepost.mail.message import Envelope
from gatepost.store.interface import MessageRecord
from gatepost.store.work import Read, Work, Write, in_sqlite, storable

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
_KEEP = f"INSERT INTO messages ({', '.join(COLUMNS)}) VALUES ({_PLACES}) ON CONFLICT (ggrid) DO NOTHING"  # noqa: S608
_PURGE = """DELETE FROM messages
WHERE id IN (SELECT id FROM messages WHERE completed < $1 ORDER BY completed LIMIT $2)"""


class _Detail(msgspec.Struct, frozen=True):
    envelope: Envelope
    report: Report


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Detail)
_json = msgspec.json.Encoder()


def insert(connection: apsw.Connection, records: Sequence[MessageRecord]) -> list[MessageRecord]:
    """Keep records; where one of that ggrid stands already, it stays and is returned."""
    kept: list[MessageRecord] = []
    while len(kept) < len(records):
        # Powers of two: few different statements, so that they stay prepared.
        left = len(records) - len(kept)
        chunk = records[len(kept) : len(kept) + (1 << left.bit_length() - 1)]
        kept += _insert_chunk(connection, chunk)
    return kept


def keep(record: MessageRecord) -> Work[MessageRecord]:
    """Keep one record, or return the one that stands already."""
    if (yield Write(_KEEP, tuple(storable(value) if isinstance(value, str) else value for value in _row(record)))):
        return record
    return (yield from find(record.ggrid)) or record


def find(ggrid: str) -> Work[MessageRecord | None]:
    """The record of one analysis."""
    rows = yield Read(_ONE, (storable(ggrid.lower()),))
    return from_row(*rows[0]) if rows else None


def purge(before: int, limit: int) -> Work[int]:
    """Delete at most `limit` records that were completed before a time."""
    deleted: int = yield Write(_PURGE, (before, limit))
    return deleted


def recent(tenant: str | None, limit: int) -> Read:
    """The last records of a tenant, or of everybody; `from_row` makes records of them."""
    if tenant:
        return Read(_READ + " WHERE tenant = $2 ORDER BY completed DESC LIMIT $1", (limit, tenant))
    return Read(_READ + " ORDER BY completed DESC LIMIT $1", (limit,))


def from_row(ggrid: str, created: int, completed: int, size: int, sha256: str, packed: bytes) -> MessageRecord:
    """A row as it was kept."""
    detail = _unpacked(packed)
    return MessageRecord(ggrid, created, completed, detail.envelope, size, sha256, detail.report)


def _insert_chunk(connection: apsw.Connection, records: Sequence[MessageRecord]) -> Sequence[MessageRecord]:
    """One statement for all: each statement is a moment in which this thread must win the interpreter back."""
    connection.execute(_insertion(len(records)), [value for record in records for value in _row(record)])
    if connection.changes() == len(records):
        return records
    one = in_sqlite(_ONE)
    standing = (connection.execute(one, (record.ggrid.lower(),)).fetchone() for record in records)
    return [from_row(*row) if row else record for row, record in zip(standing, records, strict=True)]


def _insertion(count: int) -> str:
    row = f"({', '.join('?' * len(COLUMNS))})"
    columns, rows = ", ".join(COLUMNS), ", ".join([row] * count)
    return f"INSERT INTO messages ({columns}) VALUES {rows} ON CONFLICT (ggrid) DO NOTHING"  # noqa: S608


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
