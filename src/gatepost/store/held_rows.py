"""Rows of held mail as they are written: the message, its recipients, and the bytes of a small one.

A message that is held as soon as its result is known is held by the commit that puts its result on record
(`message_records`): it takes one wait for the disk and not three. Its bytes lie in the database then, if they are few.
A file for each would have to be made, synced and named, and its folder synced as well: this took more CPU than the
record itself. The row of the bytes is written and deleted by the commit that writes or deletes that of the message, so
that there are no bytes without a message, and no message without its bytes.

SQLite alone keeps bytes. A PostgreSQL server is shared by many cores, and what they hold would all go through it. It
has the table for mail that was held in SQLite and copied into it.
"""

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from gatepost.store.engine import Row, Work, Write, in_sqlite, insert_many, storable
from gatepost.store.message_index import domain_of

# What an index of PostgreSQL takes: 2,704 bytes for all of its columns together.
MAX_ADDRESS = 500
MAX_SUBJECT = 200
# Longer messages are files: a row of the database is copied whole from the message to the log to the table.
MAX_CONTENT = 64 << 10

_INSERT = """INSERT INTO held
(ggrid, created, completed, kept, tenant, verdict, sender, sender_domain, size, sha256, detail, subject, score, core,
state, holder, lease) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 'held', '', 0)
ON CONFLICT (ggrid) DO NOTHING"""
_INSERT_CONTENT = "INSERT INTO held_bytes (ggrid, content) VALUES ($1, $2) ON CONFLICT (ggrid) DO NOTHING"
_INSERT_RECIPIENTS = insert_many("held_recipients", "ggrid text, address text, domain text")


class Holding(msgspec.Struct, frozen=True):
    """With what a message is held: the name of the core that holds it, and the bytes where the database keeps them."""

    core: str = ""
    content: bytes | None = None


class HeldRow(msgspec.Struct, frozen=True):
    """A held message as it is written: the values of its row, the rows of its recipients, and its bytes."""

    values: tuple[Any, ...]
    recipients: tuple[tuple[str, str, str], ...]
    content: bytes | None = None


def normalize_address(address: str) -> str:
    """An address as it is compared and stored for searching."""
    return storable(address[:MAX_ADDRESS].strip().removeprefix("<").removesuffix(">").lower())


def recipient_rows(ggrid: str, recipients: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """The rows of the recipients of a held message, each once."""
    return tuple((ggrid, address, domain_of(address)) for address in sorted({*map(normalize_address, recipients)}))


def insert_held(row: HeldRow) -> Work[bool]:
    """Hold a message; False where its ggrid is known already, held or released."""
    if not (yield Write(_INSERT, row.values)):
        return False
    yield from insert_recipients(row.recipients)
    if row.content is not None:
        yield Write(_INSERT_CONTENT, (row.values[0], row.content))
    return True


def insert_recipients(rows: Sequence[Row]) -> Work[None]:
    """Add recipients of held mail."""
    if rows:
        yield _INSERT_RECIPIENTS.of(rows)


def insert_held_in_sqlite(connection: apsw.Connection, rows: Sequence[HeldRow]) -> None:
    """Hold messages whose results were put on record just now, with one statement for each table."""
    connection.executemany(in_sqlite(_INSERT), [row.values for row in rows])
    connection.executemany(_INSERT_RECIPIENTS.sqlite, [each for row in rows for each in row.recipients])
    contents = [(row.values[0], row.content) for row in rows if row.content is not None]
    connection.executemany(in_sqlite(_INSERT_CONTENT), contents)
