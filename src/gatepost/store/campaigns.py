"""Campaigns that all nodes know: signatures of reported and of held mail, and bursts that each process has seen.

Nodes learn by reading what is new, every second or two: marks by their growing id, bursts by the time of their last
change. Both are bounded in number and in age.
"""

import struct
from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias, get_args

import msgspec

from gatepost.near_duplicates import Signature
from gatepost.store.engine import Operations, Read, Work, Write, change, normalize_scope, query, write_rows
from gatepost.store.sql import Row, insert_many, sql

MarkSays: TypeAlias = Literal["unwanted", "wanted", "held", "withdrawn"]
MAX_PAGE = 2_000
PURGE_BATCH = 2_000

_FORGET = sql("DELETE FROM campaign_marks WHERE scope = $1 AND ggrid = $2")
_MARK = sql("""INSERT INTO campaign_marks (scope, ggrid, says, signature, created)
VALUES ($1, $2, $3, $4, $5)""")
_HELD = insert_many("campaign_marks", "scope, ggrid, says, signature, created")
_SAID = sql("SELECT says FROM campaign_marks WHERE scope = $1 AND ggrid = $2")
_MARKS = sql("SELECT id, scope, ggrid, says, signature FROM campaign_marks WHERE id > $1 ORDER BY id LIMIT $2")
_LATEST = sql("SELECT id FROM campaign_marks ORDER BY id DESC LIMIT 1 OFFSET $1")
_PURGE_MARKS = sql("""DELETE FROM campaign_marks WHERE id IN
(SELECT id FROM campaign_marks WHERE created < $1 ORDER BY created LIMIT $2)""")
_COUNT_BURSTS = insert_many(
    "campaign_bursts",
    "process, campaign, signature, copies, recipients, updated",
    """(process, campaign) DO UPDATE SET
    copies = excluded.copies, recipients = excluded.recipients, updated = excluded.updated""",
)
_BURSTS = sql("""SELECT process, campaign, signature, copies, recipients, updated FROM campaign_bursts
WHERE process <> $1 AND updated >= $2 ORDER BY updated LIMIT $3""")
_PURGE_BURSTS = sql("DELETE FROM campaign_bursts WHERE updated < $1")


class CampaignMark(msgspec.Struct, frozen=True):
    """What was said of one message, for a tenant (None: for the deployment), by the signature of its text. `message`
    tells messages of one process apart: a later mark of the same message replaces the earlier one, and `withdrawn`
    leaves none."""

    id: int
    tenant: str | None
    says: MarkSays
    signature: Signature
    message: int = 0


class HeldSignature(msgspec.Struct, frozen=True):
    """A message that was held as an attack."""

    tenant: str | None
    ggrid: str
    signature: Signature
    created: int


class Burst(msgspec.Struct, frozen=True):
    """How many near-duplicates of a text one process has seen lately, and how many recipients they had."""

    process: str
    campaign: int
    signature: Signature
    copies: int
    recipients: int
    updated: int


class CampaignMarks(Operations):
    """Signatures that nodes share."""

    @change
    def mark_held(self, held: Sequence[HeldSignature]) -> Work[None]:
        """Store the signatures of messages that were held; what a person said of one stands."""
        rows = [(each.tenant or "", each.ggrid, "held", _pack(each.signature), each.created) for each in held]
        yield _HELD.of(rows)

    @query
    def marks(self, after: int) -> Work[tuple[CampaignMark, ...]]:
        """The marks after the one with that id, oldest first, a page of them."""
        rows = yield Read(_MARKS, (after, MAX_PAGE))
        return tuple(map(_mark, rows))

    @query
    def first_mark(self, most: int) -> Work[int]:
        """The id after which there are as many marks as a node keeps; 0 where there are not so many."""
        rows = yield Read(_LATEST, (most,))
        return int(rows[0][0]) if rows else 0

    @change
    def record_bursts(self, bursts: Sequence[Burst]) -> Work[None]:
        """Store what one process has counted, in place of what it had counted before."""
        rows = [
            (each.process, each.campaign, _pack(each.signature), each.copies, each.recipients, each.updated)
            for each in bursts
        ]
        yield _COUNT_BURSTS.of(rows)

    @query
    def bursts(self, process: str, since: int) -> Work[tuple[Burst, ...]]:
        """What other processes have counted since that time, a page of it."""
        rows = yield Read(_BURSTS, (process, since, MAX_PAGE))
        return tuple(Burst(row[0], row[1], _unpack(row[2]), *row[3:]) for row in rows)

    async def purge(self, marks_before: int, bursts_before: int) -> int:
        """Delete marks and bursts that are older; returns how many marks."""
        await self._engine.change(partial(write_rows, _PURGE_BURSTS, bursts_before))
        return await self._repeat_write(_PURGE_MARKS, marks_before, PURGE_BATCH)


def mark_message(scope: str | None, ggrid: str, says: MarkSays, signature: Signature, created: int) -> Work[str]:
    """Store what a person says of a message, in place of what was said before, which is returned; "" where nothing
    was."""
    if not signature:
        return ""
    owner = normalize_scope(scope) or ""
    said = yield Read(_SAID, (owner, ggrid))
    yield Write(_FORGET, (owner, ggrid))
    yield Write(_MARK, (owner, ggrid, says, _pack(signature), created))
    return str(said[0][0]) if said else ""


def take_mark_back(
    scope: str | None, ggrid: str, says: MarkSays, before: str, signature: Signature, created: int
) -> Work[None]:
    """Have a message marked as it was before somebody said this of it, unless another word was said since. A mark that
    leaves none has no signature: nodes that do not know it find no message by it."""
    owner = normalize_scope(scope) or ""
    said = yield Read(_SAID, (owner, ggrid))
    if not said or said[0][0] != says:
        return
    again: MarkSays = next((each for each in get_args(MarkSays) if each == before), "withdrawn")
    packed = b"" if again == "withdrawn" else _pack(signature)
    yield Write(_FORGET, (owner, ggrid))
    yield Write(_MARK, (owner, ggrid, again, packed, created))


def _mark(row: Row) -> CampaignMark:
    uid, scope, ggrid, says, signature = row
    known: MarkSays = says if says in get_args(MarkSays) else "held"
    return CampaignMark(uid, scope or None, known, _unpack(signature), hash((scope, ggrid)))


def _pack(signature: Signature) -> bytes:
    return struct.pack(f">{len(signature)}I", *(each & 0xFFFFFFFF for each in signature))


def _unpack(packed: bytes) -> Signature:
    return struct.unpack(f">{len(packed) // 4}I", packed[: len(packed) // 4 * 4])
