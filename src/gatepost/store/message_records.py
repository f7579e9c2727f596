"""Records of messages: one row for each analysis, with columns for searching, and envelope and report whole as one
packed value; and the deliveries of each.

A record is stored with its rows of the index (`message_index`) and of the counts (`traffic`), many at once: on SQLite
with one statement for each table, on PostgreSQL with one for all of it.

A delivery is what a next hop answered to a message, when, and the id that it gave it. A reply is known only after the
record of its message is on disk, so it has a row of its own. Rows are written in batches beside the path of the mail
(see `smtp.hop_answers`), and a message without one says nothing of its delivery: what a kill took with it is missing,
never wrong. A release writes its rows in the transaction that marks the message as released. A row belongs to the
record of its message and is deleted with it. The index of ids leads from "queued as 4XyZ" in the log of the next hop to
the message.

A message that is held as soon as its result is known is held by the commit that puts its result on record: it takes one
wait for the disk and not three. Its bytes lie in the database then, if they are few. A file for each would have to be
made, synced and named, and its folder synced as well: this took more CPU than the record itself. The row of the bytes
is written and deleted by the commit that writes or deletes that of the message, so that there are no bytes without a
message, and no message without its bytes. SQLite alone keeps bytes: a PostgreSQL server is shared by many cores, and
what they hold would all go through it. It has the table for mail that was held in SQLite and copied into it.
"""

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from gatepost.analysis.report import Report
from gatepost.ids import canonical, id_time
from gatepost.mail.message import Envelope, Receipt
from gatepost.store import message_index, traffic
from gatepost.store.engine import Many, Read, Work, Write, now, storable
from gatepost.store.evidence import add_queue_id, index_evidence
from gatepost.store.message_days import ALWAYS, by_keys, day_of, read_by_ggrid, read_by_ggrids
from gatepost.store.message_index import IndexedMessage, IndexedTexts, domain_of, fold, index_texts
from gatepost.store.record_packing import Detail, pack, unpack
from gatepost.store.sql import Row, Sql, delete_many, insert_many, sql, tables, unnest
from gatepost.store.traffic import BINS, CountedMessage

# What the columns for searching hold of hostile strings; the packed value has them whole.
MAX_TEXT = 1_000
# As many as SMTP and the API take: every recipient can be found.
MAX_RECIPIENTS = 1_000
# The source of a scan that is a trial and no mail (`scanning.request.Source`).
TRIAL = "page"
TRIAL_TAG = "trial"
COLUMNS = tuple(name for name in tables()["messages"] if name != "id")
_SCORE = COLUMNS.index("score")
# The times that a statement names with `@day` say in which days to look (`message_days`).
_SELECT = sql("""SELECT ggrid, created, completed, size, sha256, detail FROM messages
WHERE ggrid = $1 AND @day(completed) >= $2 AND @day(completed) <= $3""")
_SELECT_ID = sql("SELECT id FROM messages WHERE ggrid = $1", "sqlite")
_INSERT_SQLITE = sql(
    f"""INSERT INTO messages ({", ".join(COLUMNS)}) VALUES ({", ".join("?" * len(COLUMNS))})
ON CONFLICT (ggrid) DO NOTHING""",  # noqa: S608
    "sqlite",
)
# What PostgreSQL is given of each record: its row, its texts for searching, and what is counted of it.
_SEARCHED = {f"searched_{name}": "text" for name in message_index.COLUMNS[message_index.FIRST_TEXT :]}
_COUNTED = {"bucket": "bigint", "milliseconds": "bigint", "latency": "bigint", "is_trial": "boolean"}
_GIVEN = {name: tables()["messages"][name] for name in COLUMNS} | _SEARCHED | _COUNTED
# Ids are given in the order of the records, and rows are counted in the same order by every client: no deadlocks.
_INSERT = sql(
    f"""WITH given AS (
    SELECT * FROM {unnest(_GIVEN.values())} WITH ORDINALITY AS g ({", ".join(_GIVEN)}, place)
), kept AS (
    INSERT INTO messages ({", ".join(COLUMNS)}) SELECT {", ".join(COLUMNS)} FROM given ORDER BY place
    ON CONFLICT DO NOTHING RETURNING id, ggrid
), fresh AS (
    SELECT kept.id, given.* FROM kept JOIN given ON given.ggrid = kept.ggrid
), found AS (
    INSERT INTO message_search ({", ".join(message_index.COLUMNS)})
    SELECT completed, id, tenant, verdict, decision, score,
    {", ".join(_SEARCHED)} FROM fresh
), addressed AS (
    INSERT INTO message_recipients (address, completed, id) SELECT address, completed, id
    FROM {unnest(("text", "text"), len(_GIVEN) + 1)} AS a (whose, address)
    JOIN fresh ON fresh.ggrid = a.whose
), counted AS (
    {traffic.INSERT_INTO}
    SELECT whose, bucket, verdict, decision, pg_backend_pid() % {traffic.PARTS},
    count(*), sum(size), sum(milliseconds), max(milliseconds),
    {", ".join(f"sum(CASE latency WHEN {number} THEN 1 ELSE 0 END)" for number in range(BINS))}
    FROM fresh CROSS JOIN LATERAL unnest(ARRAY['', tenant]) AS whose WHERE whose IS NOT NULL AND NOT is_trial
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    {traffic.ADD_ON_CONFLICT}
) SELECT ggrid FROM kept""",  # noqa: S608
    "postgres",
)
_SELECT_LINES = sql("""SELECT ggrid, completed, tenant, sender, recipients, subject FROM messages
WHERE @one_of(ggrid, $1) AND @day(completed) >= $2 AND @day(completed) <= $3""")
_SELECT_KEYS = sql("""SELECT ggrid, completed, id FROM messages
WHERE @one_of(ggrid, $1) AND @day(completed) >= $2 AND @day(completed) <= $3""")
_DELETE_BY_ID = sql("""DELETE FROM messages WHERE @one_of(id, $1) AND @day(completed) >= $2 AND @day(completed) <= $3
RETURNING id, completed, recipients""")
# What an index of PostgreSQL takes: 2,704 bytes for all of its columns together.
MAX_ADDRESS = 500
MAX_SUBJECT = 200
# Longer messages are files: a row of the database is copied whole from the message to the log to the table.
MAX_CONTENT = 64 << 10

_INSERT_HELD = sql("""INSERT INTO held
(ggrid, created, completed, kept, tenant, verdict, sender, sender_domain, size, sha256, detail, subject, score, core,
state, holder, lease) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 'held', '', 0)
ON CONFLICT (ggrid) DO NOTHING""")
_INSERT_CONTENT = sql("INSERT INTO held_bytes (ggrid, content) VALUES ($1, $2) ON CONFLICT (ggrid) DO NOTHING")
_INSERT_RECIPIENTS = insert_many("held_recipients", "ggrid, address, domain")
_INSERT_TEXTS = insert_many("held_search", "ggrid, decision, sender_domain, sender, recipients, tags, evidence")


class Holding(msgspec.Struct, frozen=True):
    """With what a message is held: the name of the core that holds it, and the bytes where the database keeps them."""

    core: str = ""
    content: bytes | None = None


class HeldRow(msgspec.Struct, frozen=True):
    """A held message as it is written: the values of its row, the rows of its recipients, what it is searched by, and
    its bytes."""

    values: tuple[Any, ...]
    recipients: tuple[tuple[str, str, str], ...]
    texts: tuple[Any, ...]
    content: bytes | None = None


class Release(msgspec.Struct, frozen=True):
    """A held message that was sent on: when, by whose order, and to whom."""

    time: int
    by: str
    recipients: tuple[str, ...]


class MessageRecord(msgspec.Struct, frozen=True):
    """One analysis as it is stored. A release is added to it; nothing else ever changes. `source` is that of the scan
    request; "" where the record is older than this field, as `receipt` is None. `header` is the header section of a new
    record as it is stored (`record_packing.compress`); records that are read come without it (`Messages.header`). With
    `holding`, a new record is that of a message which is held by the same commit."""

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
    holding: Holding | None = None

    @property
    def is_trial(self) -> bool:
        """Did a person upload it on the scan page? Then it is no mail: it is neither counted nor held nor learnt."""
        return self.source == TRIAL

    @property
    def detail(self) -> Detail:
        """What is stored of it as one packed value."""
        return Detail(self.envelope, self.report, self.source, self.receipt)


class MessageLine(msgspec.Struct, frozen=True):
    """A message as a list of messages shows it."""

    ggrid: str
    completed: int
    tenant: str | None
    sender: str
    recipients: tuple[str, ...]
    subject: str


class RecordRow(msgspec.Struct, frozen=True):
    """A record as SQLite gets it: the values of its row, its texts for searching, what is counted of it, unless it
    `is_trial`, and the row of held mail where the message is held."""

    values: tuple[Any, ...]
    texts: IndexedTexts
    counted: CountedMessage
    is_trial: bool = False
    held: HeldRow | None = None


_json = msgspec.json.Encoder()
_strings = msgspec.json.Decoder(tuple[str, ...])


def prepare_row(record: MessageRecord) -> RecordRow:
    """Make the row of a record."""
    packed, holding = pack(record.detail), record.holding
    held = prepare_held(record, packed, holding) if holding else None
    return RecordRow(_row(record, packed), _texts(record), _count_message(record), record.is_trial, held)


def prepare_held(record: MessageRecord, packed: bytes, holding: Holding) -> HeldRow:
    """Make the rows of a message that is held from now on; `packed` is what its record has as one value."""
    ggrid, envelope, report = record.ggrid.lower(), record.envelope, record.report
    sender = normalize_address(envelope.sender)
    values = (
        ggrid,
        record.created,
        record.completed,
        now(),
        envelope.tenant,
        report.verdict,
        sender,
        domain_of(sender),
        record.size,
        record.sha256,
        packed,
        fold(report.subject[:MAX_SUBJECT])[:MAX_SUBJECT],
        report.score,
        storable(holding.core),
    )
    return HeldRow(
        values,
        recipient_rows(ggrid, envelope.recipients),
        _held_texts(ggrid, report.decision, _texts(record)),
        holding.content,
    )


def held_texts(ggrid: str, detail: Detail) -> Row:
    """What held mail is searched by, besides the columns of its own row."""
    envelope, report = detail.envelope, detail.report
    texts = index_texts(envelope.sender, envelope.recipients, "", report.tags, index_evidence(detail))
    return _held_texts(ggrid, report.decision, texts)


def _held_texts(ggrid: str, decision: str, texts: IndexedTexts) -> Row:
    return (ggrid, decision, texts.sender_domain, texts.sender, texts.recipients, texts.tags, texts.evidence)


def insert_all(connection: apsw.Connection, records: Sequence[MessageRecord]) -> list[MessageRecord]:
    """Store, index and count records in SQLite, and hold their messages where they say so; where one of that ggrid is
    stored already, it stays and is returned."""
    rows = [prepare_row(record) for record in records]
    before = connection.total_changes()
    connection.executemany(_INSERT_SQLITE.sqlite, [row.values for row in rows])
    count = connection.total_changes() - before
    # Ids are given one after the other (https://www.sqlite.org/autoinc.html), and nobody else writes meanwhile.
    first = connection.last_insert_rowid() - count + 1
    is_all_new = count == len(rows)
    fresh = list(enumerate(rows, first)) if is_all_new else _find_fresh(connection, rows, first) if count else []
    message_index.insert_in_sqlite(connection, [_index_message(uid, row) for uid, row in fresh])
    traffic.count_in_sqlite(connection, [row.counted for _, row in fresh if not row.is_trial])
    if held := [row.held for _, row in fresh if row.held]:
        insert_held_in_sqlite(connection, held)
    if is_all_new:
        return list(records)
    added = {id(row) for _, row in fresh}
    found = zip(records, rows, strict=True)
    return [record if id(row) in added else _find_stored(connection, row) or record for record, row in found]


def _find_stored(connection: apsw.Connection, row: RecordRow) -> MessageRecord | None:
    stored = connection.execute(_SELECT.sqlite, (row.values[0], *ALWAYS)).fetchone()
    return parse_record(*stored) if stored else None


def find_message(ggrid: str) -> Work[MessageRecord | None]:
    """The record of one analysis, without its release."""
    rows = yield from read_by_ggrid(_SELECT, storable(ggrid.lower()))
    return parse_record(*rows[0]) if rows else None


def find_lines(ggrids: Sequence[str]) -> Work[tuple[MessageLine, ...]]:
    """Those of these messages that are on record, the newest first."""
    rows = yield from read_by_ggrids(_SELECT_LINES, tuple(map(storable, ggrids)))
    return tuple(
        MessageLine(ggrid, completed, tenant, sender, _strings.decode(recipients), subject)
        for ggrid, completed, tenant, sender, recipients, subject in sorted(rows, key=lambda row: (-row[1], row[0]))
    )


def delete_messages(statement: Sql, *parameters: object) -> Work[int]:
    """Delete messages with what stands beside them, and return how many. The statement finds time of completion and
    row id of each."""
    return (yield from delete_by_keys((yield Read(statement, parameters))))


def delete_by_keys(keys: Sequence[Row]) -> Work[int]:
    """Delete messages with what stands beside them, their rows of the index and their deliveries, given time of
    completion and row id of each; returns how many."""
    rows = (yield Read(_DELETE_BY_ID, by_keys(keys))) if keys else ()
    if rows:
        yield from message_index.remove_from_index(rows)
        yield _DELETE_DELIVERIES.of([(completed, uid) for uid, completed, _ in rows])
    return len(rows)


def parse_record(ggrid: str, created: int, completed: int, size: int, sha256: str, packed: bytes) -> MessageRecord:
    """The record of a row."""
    detail = unpack(packed)
    return MessageRecord(
        ggrid,
        created,
        completed,
        detail.envelope,
        size,
        sha256,
        detail.report,
        source=detail.source,
        receipt=detail.receipt,
    )


def parse_release(time: int, by: str, recipients: str) -> Release:
    """The release of a row; `recipients` is JSON."""
    return Release(time, by, _strings.decode(recipients))


def insert_together(records: Sequence[MessageRecord]) -> Work[list[MessageRecord]]:
    """Store, index and count records in PostgreSQL with one statement, and hold their messages where they say so; where
    one of that ggrid is stored already, it stays and is returned."""
    first: dict[str, MessageRecord] = {}
    for record in records:
        first.setdefault(storable(record.ggrid.lower()), record)
    known = yield from _find_keys([ggrid for ggrid, record in first.items() if _is_of_later_day(record)])
    kept: set[str] = set()
    if rows := [prepare_row(record) for ggrid, record in first.items() if ggrid not in known]:
        columns = zip(*map(_postgres_values, rows), strict=True)
        addresses = [(storable(row.values[0]), address) for row in rows for address in row.texts.addresses]
        whose, addressed = zip(*addresses, strict=True) if addresses else ((), ())
        kept = {ggrid for (ggrid,) in (yield Read(_INSERT, (*map(Many, columns), Many(whose), Many(addressed))))}
        for row in rows:
            if row.held and row.held.values[0] in kept:
                yield from insert_held(row.held)
    stored = []
    for record in records:
        ggrid = storable(record.ggrid.lower())
        is_kept = ggrid in kept and first[ggrid] is record
        stored.append(record if is_kept else (yield from find_message(ggrid)) or record)
    return stored


def _is_of_later_day(record: MessageRecord) -> bool:
    """Whether an analysis ended on another day than that of the id. The unique index of a day does not know those of
    other days: another core may have ended the same analysis before midnight."""
    return canonical(record.ggrid) is None or day_of(id_time(record.ggrid)) != day_of(record.completed)


def _postgres_values(row: RecordRow) -> Row:
    _, _, _, created, completed, _ = row.counted
    milliseconds = max(0, completed - created)
    return (
        *(storable(value) if isinstance(value, str) else value for value in row.values),
        *message_index.searched_texts(row.texts),
        traffic.bucket_of(completed),
        milliseconds,
        traffic.bin_of(milliseconds),
        row.is_trial,
    )


def _find_fresh(connection: apsw.Connection, rows: Sequence[RecordRow], first: int) -> list[tuple[int, RecordRow]]:
    """Return the rows that were inserted into SQLite just now, from the id `first` on, each with its id."""
    added: dict[int, RecordRow] = {}
    for row in rows:
        found = connection.execute(_SELECT_ID.sqlite, row.values[:1]).fetchone()
        if found and found[0] >= first:
            added.setdefault(found[0], row)
    return list(added.items())


def _index_message(uid: int, row: RecordRow) -> IndexedMessage:
    tenant, verdict, decision, _created, completed, _size = row.counted
    return (completed, uid, tenant, verdict, decision, row.values[_SCORE], row.texts)


def _texts(record: MessageRecord) -> IndexedTexts:
    envelope, report = record.envelope, record.report
    prepared, detail = report.prepared, record.detail
    evidence = add_queue_id(prepared.evidence, detail.queue_id) if prepared else index_evidence(detail)
    # The mark of a trial is in the index alone: `trial` finds it like a tag, and is none of the report's.
    tags = (TRIAL_TAG, *report.tags) if record.is_trial else report.tags
    return index_texts(envelope.sender, envelope.recipients, report.subject, tags, evidence)


def _count_message(record: MessageRecord) -> CountedMessage:
    report = record.report
    return (record.envelope.tenant, report.verdict, report.decision, record.created, record.completed, record.size)


def _row(record: MessageRecord, packed: bytes) -> tuple[object, ...]:
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
        packed,
        record.header,
    )


def normalize_address(address: str) -> str:
    """An address as it is compared and stored for searching."""
    return storable(address[:MAX_ADDRESS].strip().removeprefix("<").removesuffix(">").lower())


def recipient_rows(ggrid: str, recipients: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """The rows of the recipients of a held message, each once."""
    return tuple((ggrid, address, domain_of(address)) for address in sorted({*map(normalize_address, recipients)}))


def insert_held(row: HeldRow) -> Work[bool]:
    """Hold a message; False where its ggrid is known already, held or released."""
    if not (yield Write(_INSERT_HELD, row.values)):
        return False
    yield from insert_recipients(row.recipients)
    yield from insert_held_texts([row.texts])
    if row.content is not None:
        yield Write(_INSERT_CONTENT, (row.values[0], row.content))
    return True


def insert_recipients(rows: Sequence[Row]) -> Work[None]:
    """Add recipients of held mail."""
    if rows:
        yield _INSERT_RECIPIENTS.of(rows)


def insert_held_texts(rows: Sequence[Row]) -> Work[None]:
    """Index held mail."""
    yield _INSERT_TEXTS.of(rows)


def insert_held_in_sqlite(connection: apsw.Connection, rows: Sequence[HeldRow]) -> None:
    """Hold messages whose results were put on record just now, with one statement for each table."""
    connection.executemany(_INSERT_HELD.sqlite, [row.values for row in rows])
    connection.executemany(_INSERT_RECIPIENTS.sqlite, [each for row in rows for each in row.recipients])
    connection.executemany(_INSERT_TEXTS.sqlite, [row.texts for row in rows])
    contents = [(row.values[0], row.content) for row in rows if row.content is not None]
    connection.executemany(_INSERT_CONTENT.sqlite, contents)


# What is kept of a reply, of the address of a next hop and of an id.
MAX_REPLY, MAX_HOP, MAX_ID = 300, 200, 100
# Deliveries of one message that are shown.
MAX_SHOWN = 100
_INSERT_DELIVERIES = insert_many("deliveries", "completed, id, time, queue_id, next_hop, code, reply, node, released")
_DELETE_DELIVERIES = delete_many("deliveries", "completed, id")
_SELECT_DELIVERIES = sql("""SELECT time, next_hop, code, reply, queue_id, node, released FROM deliveries
WHERE completed = $1 AND id = $2 ORDER BY time LIMIT $3""")


class Delivery(msgspec.Struct, frozen=True):
    """What a next hop answered to the whole message. `code` is 0 where it gave no reply; then `reply` is why.
    `queue_id` is the id in the reply, "" where it names none. `node` is the one that released it; a message that was
    not released was sent by the one that received it."""

    ggrid: str
    time: int
    next_hop: str
    code: int
    reply: str
    queue_id: str = ""
    node: str = ""
    released: bool = False

    @property
    def is_accepted(self) -> bool:
        """Whether the next hop has the message."""
        return 200 <= self.code < 300


def insert_deliveries(deliveries: Sequence[Delivery]) -> Work[None]:
    """Add deliveries to messages that are on record; those of other messages are left out."""
    known = yield from _find_keys([delivery.ggrid for delivery in deliveries])
    rows = [(*known[ggrid], *_delivery_row(each)) for each in deliveries if (ggrid := each.ggrid.lower()) in known]
    if rows:
        # One order for all writers.
        yield _INSERT_DELIVERIES.of(sorted(rows))


def find_deliveries(ggrid: str) -> Work[tuple[Delivery, ...]]:
    """The deliveries of one message, oldest first."""
    known = yield from _find_keys((ggrid,))
    rows: list[Row] = []
    for key in known.values():
        rows += yield Read(_SELECT_DELIVERIES, (*key, MAX_SHOWN))
    return tuple(
        Delivery(ggrid.lower(), time, next_hop, code, reply, queue_id, node, bool(released))
        for time, next_hop, code, reply, queue_id, node, released in rows
    )


def _find_keys(ggrids: Sequence[str]) -> Work[dict[str, Row]]:
    """Return time of completion and row id of those messages that are on record, by their ids in lower case."""
    rows = yield from read_by_ggrids(_SELECT_KEYS, [storable(ggrid.lower()) for ggrid in ggrids])
    return {ggrid: (completed, uid) for ggrid, completed, uid in rows}


def _delivery_row(delivery: Delivery) -> Row:
    return (
        delivery.time,
        storable(delivery.queue_id[:MAX_ID]),
        storable(delivery.next_hop[:MAX_HOP]),
        delivery.code,
        storable(delivery.reply[:MAX_REPLY]),
        storable(delivery.node[:MAX_HOP]),
        int(delivery.released),
    )
