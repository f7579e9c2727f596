"""Deliveries: what next hops answered to messages, when, and the id that each gave the message.

A reply is known only after the record of its message is on disk, so it has a row of its own. Rows are written in
batches beside the path of the mail (see `smtp.delivery_log`), and a message without one says nothing of its delivery:
what a kill took with it is missing, never wrong. A release writes its rows in the transaction that marks the message
as released.

A row belongs to the record of its message and is deleted with it. The index of ids leads from "queued as 4XyZ" in the
log of the next hop to the message.
"""

from collections.abc import Iterable, Sequence

import msgspec

from gatepost.store.engine import Bulk, Read, Row, Work, Write, storable

# What is kept of a reply, of the address of a next hop and of an id.
MAX_REPLY, MAX_HOP, MAX_ID = 300, 200, 100
# Deliveries of one message that are shown.
MAX_SHOWN = 100

COLUMNS = ("completed", "id", "time", "queue_id", "next_hop", "code", "reply", "node", "released")
_INSERT = Bulk(
    f"""INSERT OR IGNORE INTO deliveries ({", ".join(COLUMNS)})
    SELECT completed, id, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM messages WHERE ggrid = ?1""",  # noqa: S608
    f"""INSERT INTO deliveries ({", ".join(COLUMNS)})
    SELECT messages.completed, messages.id, d.time, d.queue_id, d.next_hop, d.code, d.reply, d.node, d.released
    FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::bigint[])
    AS d (ggrid, time, queue_id, next_hop, code, reply, node, released)
    JOIN messages ON messages.ggrid = d.ggrid ON CONFLICT DO NOTHING""",  # noqa: S608
    (),
)
_DELETE = Bulk(
    "DELETE FROM deliveries WHERE completed = ? AND id = ?",
    """DELETE FROM deliveries USING unnest($1::bigint[], $2::bigint[]) AS gone (completed, id)
    WHERE deliveries.completed = gone.completed AND deliveries.id = gone.id""",
    (),
)
_SELECT = """SELECT messages.ggrid, time, next_hop, code, reply, queue_id, node, released
FROM messages JOIN deliveries ON deliveries.completed = messages.completed AND deliveries.id = messages.id
WHERE ggrid = $1 ORDER BY time LIMIT $2"""
_BLANK = """UPDATE deliveries SET reply = ''
WHERE (completed, id) IN (SELECT completed, id FROM messages WHERE ggrid = $1)"""


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
    if deliveries:
        # One order for all writers.
        rows = sorted(map(_row, deliveries))
        yield msgspec.structs.replace(_INSERT, rows=rows)


def find_deliveries(ggrid: str) -> Work[tuple[Delivery, ...]]:
    """The deliveries of one message, oldest first."""
    rows = yield Read(_SELECT, (storable(ggrid.lower()), MAX_SHOWN))
    return tuple(map(_delivery, rows))


def delete_deliveries(keys: Iterable[tuple[int, int]]) -> Work[None]:
    """Delete the deliveries of messages: completed and id of each."""
    if rows := list(keys):
        yield msgspec.structs.replace(_DELETE, rows=rows)


def blank_replies(ggrid: str) -> Work[None]:
    """Delete the texts of replies, as the erasure of an address does: a reply can name the recipient."""
    yield Write(_BLANK, (ggrid,))


def _delivery(row: Row) -> Delivery:
    uid, time, next_hop, code, reply, queue_id, node, released = row
    return Delivery(uid, time, next_hop, code, reply, queue_id, node, bool(released))


def _row(delivery: Delivery) -> Row:
    return (
        delivery.ggrid.lower(),
        delivery.time,
        storable(delivery.queue_id[:MAX_ID]),
        storable(delivery.next_hop[:MAX_HOP]),
        delivery.code,
        storable(delivery.reply[:MAX_REPLY]),
        storable(delivery.node[:MAX_HOP]),
        int(delivery.released),
    )
