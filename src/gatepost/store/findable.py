"""What a message is searched by, and where that lies: a narrow row beside its long one, and a row for each recipient.

A result is kilobytes long, and looking through a hundred thousand of them would read gigabytes. The narrow row has what
filters ask for, folded and cut: a subject of 250 characters, 20 recipients. Whole addresses of up to 100 recipients
have an index of their own, because "where is my mail?" is asked most. Messages that were kept before there was a search
are entered afterwards, in small steps, from the newest on.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import apsw
import msgspec

from gatepost.store import traffic
from gatepost.store.inserting import insert_rows
from gatepost.store.work import Bulk, Read, Row, Work, Write, storable

MAX_ADDRESS = 254
MAX_SUBJECT = 250
MAX_TAGS = 40
MAX_LOOKED = 20
MAX_RECIPIENTS = 100
STEP = 500

COLUMNS = (
    *("completed", "id", "tenant", "verdict", "decision"),
    *("sender_domain", "sender", "subject", "recipients", "tags"),
)
RECIPIENT_COLUMNS = ("address", "completed", "id")

_TYPES = ("bigint", "bigint", "text", "text", "text", "text", "text", "text", "text", "text")
_UNNEST = ", ".join(f"${place}::{kind}[]" for place, kind in enumerate(_TYPES, 1))
_ENTER = Bulk(
    f"INSERT OR IGNORE INTO message_search ({', '.join(COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
    f"INSERT INTO message_search ({', '.join(COLUMNS)}) SELECT * FROM unnest({_UNNEST}) ON CONFLICT DO NOTHING",  # noqa: S608
    (),
)
_ENTER_RECIPIENTS = Bulk(
    "INSERT OR IGNORE INTO message_recipients (address, completed, id) VALUES (?, ?, ?)",
    """INSERT INTO message_recipients (address, completed, id)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]) ON CONFLICT DO NOTHING""",
    (),
)
_FORGET = Bulk(
    "DELETE FROM message_search WHERE completed = ? AND id = ?",
    """DELETE FROM message_search USING unnest($1::bigint[], $2::bigint[]) AS gone (completed, id)
    WHERE message_search.completed = gone.completed AND message_search.id = gone.id""",
    (),
)
_FORGET_RECIPIENTS = Bulk(
    "DELETE FROM message_recipients WHERE address = ? AND completed = ? AND id = ?",
    """DELETE FROM message_recipients
    USING unnest($1::text[], $2::bigint[], $3::bigint[]) AS gone (address, completed, id)
    WHERE message_recipients.address = gone.address AND message_recipients.completed = gone.completed
    AND message_recipients.id = gone.id""",
    (),
)
_LATE = "SELECT upto FROM unsearched FOR UPDATE"
_OLD = """SELECT id, created, completed, tenant, verdict, decision, sender, recipients, subject, tags, size
FROM messages WHERE id <= $1 ORDER BY id DESC LIMIT $2 FOR UPDATE"""
_LATER = "UPDATE unsearched SET upto = $1"
_NO_LATER = "DELETE FROM unsearched"

_strings = msgspec.json.Decoder(tuple[str, ...])


class Texts(msgspec.Struct, frozen=True):
    """What is kept of a message for searching. `addresses` are whole, each once."""

    sender_domain: str
    sender: str
    subject: str
    recipients: str
    tags: str
    addresses: tuple[str, ...]


# Completed, id, tenant, verdict, decision and texts.
Found: TypeAlias = tuple[int, int, str | None, str, str, Texts]


def texts(sender: str, recipients: Sequence[str], subject: str, tags: Sequence[str]) -> Texts:
    """Fold and cut."""
    address = folded(sender)
    whole = tuple(dict.fromkeys(map(folded, recipients[:MAX_RECIPIENTS])))
    return Texts(
        domain_of(address),
        address,
        fold(subject[:MAX_SUBJECT]),
        _lines(whole[:MAX_LOOKED]),
        _lines(tags[:MAX_TAGS]),
        whole,
    )


def insert(connection: apsw.Connection, found: Sequence[Found]) -> None:
    """Enter new messages."""
    insert_rows(connection, "message_search", COLUMNS, [_row(*each) for each in found])
    insert_rows(connection, "message_recipients", RECIPIENT_COLUMNS, _recipient_rows(found))


def forget(gone: Iterable[Row]) -> Work[None]:
    """Take out messages that are deleted: id, completed and recipients (as JSON) of each."""
    places, addresses = [], []
    for uid, completed, recipients in gone:
        places.append((completed, uid))
        folded_once = dict.fromkeys(map(folded, _strings.decode(recipients)[:MAX_RECIPIENTS]))
        addresses += [(address, completed, uid) for address in folded_once]
    if places:
        yield msgspec.structs.replace(_FORGET, rows=places)
    if addresses:
        yield msgspec.structs.replace(_FORGET_RECIPIENTS, rows=addresses)


def enter_late() -> Work[bool]:
    """Enter some messages that were kept before there was a search; False when none are left."""
    late = yield Read(_LATE)
    if not late:
        return False
    rows = yield Read(_OLD, (late[0][0], STEP))
    if not rows:
        yield Write(_NO_LATER)
        return False
    found = [(row[2], row[0], row[3], row[4], row[5], _old_texts(row)) for row in rows]
    yield msgspec.structs.replace(_ENTER, rows=[_row(*each) for each in found])
    recipients = _recipient_rows(found)
    if recipients:
        yield msgspec.structs.replace(_ENTER_RECIPIENTS, rows=recipients)
    yield from traffic.add([(row[3], row[4], row[5], row[1], row[2], row[10]) for row in rows])
    yield Write(_LATER, (rows[-1][0] - 1,))
    return True


def fold(text: str) -> str:
    """Text as it is compared."""
    return storable(text if text.isascii() and text.islower() else text.casefold())


def folded(address: str) -> str:
    """An address as it is compared."""
    # Folding can make text longer.
    return fold(address[:MAX_ADDRESS].strip().removeprefix("<").removesuffix(">"))[:MAX_ADDRESS]


def domain_of(address: str) -> str:
    """The domain of a folded address; "" where there is none."""
    return address.rpartition("@")[2].rstrip(".") if "@" in address else ""


def _row(completed: int, uid: int, tenant: str | None, verdict: str, decision: str, what: Texts) -> Row:
    searched = (what.sender_domain, what.sender, what.subject, what.recipients, what.tags)
    return (completed, uid, tenant, verdict, decision, *searched)


def _recipient_rows(found: Sequence[Found]) -> list[Row]:
    return [(address, each[0], each[1]) for each in found for address in each[5].addresses]


def _old_texts(row: Row) -> Texts:
    _, _, _, _, _, _, sender, recipients, subject, tags, _ = row
    return texts(sender, _strings.decode(recipients), subject, _strings.decode(tags))


def _lines(texts: Iterable[str]) -> str:
    joined = storable("\n".join(texts))
    return f"\n{joined}\n" if joined else ""
