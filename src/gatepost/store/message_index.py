"""The search index of messages: a narrow row beside each long one, and a row for each recipient.

A result is kilobytes long, and reading through a hundred thousand of them would read gigabytes. The narrow row has what
filters ask for, folded and cut: a subject of 250 characters, 20 recipients. Whole addresses of up to 100 recipients
have an index of their own, because "where is my mail?" is asked most. Messages that were stored by a version without a
search are indexed afterwards, in small steps, from the newest on.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import apsw
import msgspec

from gatepost.store import traffic
from gatepost.store.statements import Bulk, Read, Row, Work, Write, insert_rows, storable

MAX_ADDRESS = 254
MAX_SUBJECT = 250
MAX_TAGS = 40
MAX_TESTED_RECIPIENTS = 20
MAX_RECIPIENTS = 100
STEP = 500

COLUMNS = (
    *("completed", "id", "tenant", "verdict", "decision"),
    *("sender_domain", "sender", "subject", "recipients", "tags"),
)
RECIPIENT_COLUMNS = ("address", "completed", "id")

_TYPES = ("bigint", "bigint", "text", "text", "text", "text", "text", "text", "text", "text")
_UNNEST = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_TYPES, 1))
_INSERT = Bulk(
    f"INSERT OR IGNORE INTO message_search ({', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
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
    """The texts of a message that filters are compared with. `addresses` are whole, each once."""

    sender_domain: str
    sender: str
    subject: str
    recipients: str
    tags: str
    addresses: tuple[str, ...]


# Completed, id, tenant, verdict, decision and texts of a message.
IndexedMessage: TypeAlias = tuple[int, int, str | None, str, str, IndexedTexts]


def index_texts(sender: str, recipients: Sequence[str], subject: str, tags: Sequence[str]) -> IndexedTexts:
    """Fold and cut the texts of a message."""
    address = fold_address(sender)
    addresses = tuple(dict.fromkeys(map(fold_address, recipients[:MAX_RECIPIENTS])))
    return IndexedTexts(
        domain_of(address),
        address,
        fold(subject[:MAX_SUBJECT]),
        _join_lines(addresses[:MAX_TESTED_RECIPIENTS]),
        _join_lines(tags[:MAX_TAGS]),
        addresses,
    )


def insert_in_sqlite(connection: apsw.Connection, messages: Sequence[IndexedMessage]) -> None:
    """Index messages that SQLite is just writing."""
    insert_rows(connection, "message_search", COLUMNS, [_row(*message) for message in messages])
    insert_rows(connection, "message_recipients", RECIPIENT_COLUMNS, _recipient_rows(messages))


def delete(messages: Iterable[Row]) -> Work[None]:
    """Take deleted messages out of the index: id, completed and recipients (as JSON) of each."""
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
    yield msgspec.structs.replace(_INSERT, rows=[_row(*message) for message in messages])
    recipients = _recipient_rows(messages)
    if recipients:
        yield msgspec.structs.replace(_INSERT_RECIPIENTS, rows=recipients)
    yield from traffic.count([(row[3], row[4], row[5], row[1], row[2], row[10]) for row in rows])
    yield Write(_SET_UNINDEXED, (rows[-1][0] - 1,))
    return len(rows)


def fold(text: str) -> str:
    """Text as it is compared."""
    return storable(text if text.isascii() and text.islower() else text.casefold())


def fold_address(address: str) -> str:
    """An address as it is compared."""
    # Folding can make text longer.
    return fold(address[:MAX_ADDRESS].strip().removeprefix("<").removesuffix(">"))[:MAX_ADDRESS]


def domain_of(address: str) -> str:
    """The domain of an address that is folded already; "" where there is none."""
    return address.rpartition("@")[2].rstrip(".") if "@" in address else ""


def _row(completed: int, uid: int, tenant: str | None, verdict: str, decision: str, texts: IndexedTexts) -> Row:
    searched = (texts.sender_domain, texts.sender, texts.subject, texts.recipients, texts.tags)
    return (completed, uid, tenant, verdict, decision, *searched)


def _recipient_rows(messages: Sequence[IndexedMessage]) -> list[Row]:
    return [(address, message[0], message[1]) for message in messages for address in message[5].addresses]


def _texts_of(row: Row) -> IndexedTexts:
    _, _, _, _, _, _, sender, recipients, subject, tags, _ = row
    return index_texts(sender, _strings.decode(recipients), subject, _strings.decode(tags))


def _join_lines(texts: Iterable[str]) -> str:
    joined = storable("\n".join(texts))
    return f"\n{joined}\n" if joined else ""
