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
from gatepost.store.engine import Bulk, Operations, Read, Row, Work, Write, change, normalize_scope, query

MarkSays: TypeAlias = Literal["unwanted", "wanted", "held"]
MAX_PAGE = 2_000
PURGE_BATCH = 2_000

_FORGET = "DELETE FROM campaign_marks WHERE scope = $1 AND ggrid = $2"
_MARK = """INSERT INTO campaign_marks (scope, ggrid, says, signature, created)
VALUES ($1, $2, $3, $4, $5::bigint)"""
_HELD_SQLITE = """INSERT INTO campaign_marks (scope, ggrid, says, signature, created) VALUES (?1, ?2, 'held', ?3, ?4)
ON CONFLICT DO NOTHING"""
_HELD_POSTGRES = """INSERT INTO campaign_marks (scope, ggrid, says, signature, created)
SELECT scope, ggrid, 'held', signature, created
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) AS held (scope, ggrid, signature, created)
ON CONFLICT DO NOTHING"""
_MARKS = "SELECT id, scope, says, signature FROM campaign_marks WHERE id > $1 ORDER BY id LIMIT $2"
_LATEST = "SELECT id FROM campaign_marks ORDER BY id DESC LIMIT 1 OFFSET $1"
_PURGE_MARKS = """DELETE FROM campaign_marks WHERE id IN
(SELECT id FROM campaign_marks WHERE created < $1 ORDER BY created LIMIT $2)"""
_DELETE_OF_TENANT = """DELETE FROM campaign_marks WHERE id IN
(SELECT id FROM campaign_marks WHERE scope = $1 LIMIT $2)"""
_BURST_SQLITE = """INSERT INTO campaign_bursts (process, campaign, signature, copies, recipients, updated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (process, campaign) DO UPDATE SET
copies = excluded.copies, recipients = excluded.recipients, updated = excluded.updated"""
_BURST_POSTGRES = """INSERT INTO campaign_bursts (process, campaign, signature, copies, recipients, updated)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[])
ON CONFLICT (process, campaign) DO UPDATE SET
copies = excluded.copies, recipients = excluded.recipients, updated = excluded.updated"""
_BURSTS = """SELECT process, campaign, signature, copies, recipients, updated FROM campaign_bursts
WHERE process <> $1 AND updated >= $2 ORDER BY updated LIMIT $3"""
_PURGE_BURSTS = "DELETE FROM campaign_bursts WHERE updated < $1"


class CampaignMark(msgspec.Struct, frozen=True):
    """What was said of one message, for a tenant (None: for the deployment), by the signature of its text."""

    id: int
    tenant: str | None
    says: MarkSays
    signature: Signature


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
        rows = [(each.tenant or "", each.ggrid, _pack(each.signature), each.created) for each in held]
        yield Bulk(_HELD_SQLITE, _HELD_POSTGRES, rows)

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
        yield Bulk(_BURST_SQLITE, _BURST_POSTGRES, rows)

    @query
    def bursts(self, process: str, since: int) -> Work[tuple[Burst, ...]]:
        """What other processes have counted since that time, a page of it."""
        rows = yield Read(_BURSTS, (process, since, MAX_PAGE))
        return tuple(Burst(row[0], row[1], _unpack(row[2]), *row[3:]) for row in rows)

    async def purge(self, marks_before: int, bursts_before: int) -> int:
        """Delete marks and bursts that are older; returns how many marks."""
        await self._engine.change(partial(_purge_bursts, bursts_before))
        return await self._repeat(partial(_purge_marks, marks_before))


def mark_message(scope: str | None, ggrid: str, says: MarkSays, signature: Signature, created: int) -> Work[None]:
    """Store what a person says of a message, in place of what was said before."""
    if not signature:
        return
    owner = normalize_scope(scope) or ""
    yield Write(_FORGET, (owner, ggrid))
    yield Write(_MARK, (owner, ggrid, says, _pack(signature), created))


def delete_tenant_marks(tenant: str, limit: int) -> Work[int]:
    """Delete some of what was said of a deleted tenant's mail."""
    deleted: int = yield Write(_DELETE_OF_TENANT, (tenant, limit))
    return deleted


def _purge_marks(before: int) -> Work[int]:
    deleted: int = yield Write(_PURGE_MARKS, (before, PURGE_BATCH))
    return deleted


def _purge_bursts(before: int) -> Work[int]:
    deleted: int = yield Write(_PURGE_BURSTS, (before,))
    return deleted


def _mark(row: Row) -> CampaignMark:
    uid, scope, says, signature = row
    return CampaignMark(uid, scope or None, says if says in get_args(MarkSays) else "held", _unpack(signature))


def _pack(signature: Signature) -> bytes:
    return struct.pack(f">{len(signature)}I", *(each & 0xFFFFFFFF for each in signature))


def _unpack(packed: bytes) -> Signature:
    return struct.unpack(f">{len(packed) // 4}I", packed[: len(packed) // 4 * 4])
