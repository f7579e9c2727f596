"""Notices to recipients: mail that tells them of messages which somebody found, planned here and sent by a node.

One step writes one notice for each recipient, whatever number of messages it is about, with a note on every message and
one line of the audit trail. A notice rests for a minute before it is sent, so that the step can be taken back; of what
was sent nothing can be. A node that sends a notice claims it first: another one passes over it until the claim is over.
A process that dies behind the answer of the next hop sends that notice twice, with the same Message-ID.

The notices of a tenant are bounded in number for any 24 hours, over all steps of all its users: what one account can
send to everybody must not grow with the number of clicks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import (
    Operations,
    Read,
    Row,
    Work,
    Write,
    change,
    insert_many,
    normalize_scope,
    now,
    query,
    storable,
    write_rows,
)
from gatepost.store.message_notes import insert_notes
from gatepost.store.message_records import normalize_address

MAX_SAID = 1_000
# Messages that one notice lists, and recipients that one step can have.
MAX_LISTED = 20
MAX_RECIPIENTS = 10_000
REST_MILLISECONDS = 60_000
CLAIM_MILLISECONDS = 300_000
PURGE_BATCH = 1_000
MAX_FAULTS = 20
DAY = 86_400_000

_COLUMNS = "id, work, scope, address, items, number, said, by_name, created, attempts, next_try, fault, sent"
_INSERT = insert_many(
    "recipient_notices",
    "id text, work text, scope text, address text, items text, number bigint, said text, by_name text,"
    " created bigint, attempts bigint, next_try bigint, fault text",
)
_DUE = f"""SELECT {_COLUMNS} FROM recipient_notices WHERE sent IS NULL AND next_try <= $1
ORDER BY next_try, id LIMIT $2"""  # noqa: S608
_CLAIM = """UPDATE recipient_notices SET next_try = $3, attempts = attempts + 1
WHERE id = $1 AND next_try = $2 AND sent IS NULL"""
_SENT = "UPDATE recipient_notices SET sent = $2, fault = $3 WHERE id = $1"
_FAILED = "UPDATE recipient_notices SET next_try = $2, fault = $3 WHERE id = $1 AND sent IS NULL"
_EXPLAIN = "UPDATE recipient_notices SET fault = $2 WHERE sent IS NULL AND next_try <= $1 AND fault <> $2"
_SCOPE_OF_WORK = "SELECT scope FROM recipient_notices WHERE work = $1 LIMIT 1"
_TAKE_BACK = "DELETE FROM recipient_notices WHERE work = $1 AND sent IS NULL AND attempts = 0"
# Ids are in the order of time.
_OF_A_DAY = "SELECT count(*) FROM recipient_notices WHERE scope = $1 AND id >= $2"
_LEFT = "SELECT count(*) FROM recipient_notices WHERE work = $1"
_DELETE_NOTES = "DELETE FROM message_notes WHERE work = $1"
_COUNTS = """SELECT count(*), coalesce(sum(CASE WHEN sent IS NULL THEN 1 ELSE 0 END), 0),
coalesce(sum(CASE WHEN sent IS NOT NULL AND fault <> '' THEN 1 ELSE 0 END), 0)
FROM recipient_notices WHERE work = $1"""
_FAULTS = """SELECT address, fault FROM recipient_notices WHERE work = $1 AND fault <> ''
ORDER BY address LIMIT $2"""
_DELETE_OLD = """DELETE FROM recipient_notices
WHERE id IN (SELECT id FROM recipient_notices WHERE created < $1 LIMIT $2)"""
_items = msgspec.json.Decoder(tuple[str, ...])


class RecipientNotice(msgspec.Struct, frozen=True):
    """A notice for one recipient about `number` messages, of which `items` are listed."""

    id: str
    work: str
    scope: str | None
    address: str
    items: tuple[str, ...]
    number: int
    said: str
    by: str
    created: int
    attempts: int = 0
    next_try: int = 0
    fault: str = ""
    sent: int | None = None


class NoticeCounts(msgspec.Struct, frozen=True):
    """The notices of a step: all, those that wait, and those that could not be sent. `faults` has some
    addresses with the reason why their notice was not sent, or not yet."""

    all: int
    waiting: int
    failed: int
    faults: tuple[tuple[str, str], ...] = ()


class DayLimit(msgspec.Struct, frozen=True):
    """More notices than a tenant (None: mail without one) may still send today: `left` of `wanted`."""

    scope: str | None
    left: int
    wanted: int


class MessageToTell(msgspec.Struct, frozen=True):
    """A message whose recipients are told of it."""

    ggrid: str
    tenant: str | None
    recipients: tuple[str, ...]


def group_by_recipient(messages: Sequence[MessageToTell]) -> dict[tuple[str, str], list[str]]:
    """Return the messages of each recipient of each scope, "" for mail without a tenant."""
    found: dict[tuple[str, str], list[str]] = {}
    for message in messages:
        scope = normalize_scope(message.tenant) or ""
        for address in dict.fromkeys(map(normalize_address, message.recipients)):
            found.setdefault((scope, address), []).append(message.ggrid)
    return found


class RecipientNotices(Operations):
    """Notices that wait, and what became of them."""

    @query
    def find_limit(self, messages: Sequence[MessageToTell], per_day: int) -> Work[DayLimit | None]:
        """The first tenant of which more recipients would be told than it may tell within 24 hours; None where there is
        none."""
        return (yield from _find_limit(group_by_recipient(messages), per_day))

    @change
    def plan(
        self, messages: Sequence[MessageToTell], said: str, by: Actor, work: str, per_day: int = MAX_RECIPIENTS
    ) -> Work[int | DayLimit]:
        """Have the recipients of messages told of them, as one step; returns how many notices there are, or what a
        tenant may still send if that is less: then none is planned. Each message gets a note that says so."""
        moment, words = now(), storable(said[:MAX_SAID])
        grouped = group_by_recipient(messages)
        if limit := (yield from _find_limit(grouped, per_day)):
            return limit
        rows = [
            (
                *(new_id(), storable(work), scope, storable(address)),
                *(msgspec.json.encode(ggrids[:MAX_LISTED]).decode(), len(ggrids), words, storable(by.name)),
                *(moment, 0, moment + REST_MILLISECONDS, ""),
            )
            for (scope, address), ggrids in grouped.items()
        ]
        if not rows:
            return 0
        yield _INSERT.of(rows)
        note = f"Recipients are notified. {said}".strip()
        for scope in dict.fromkeys(scope for scope, _ in grouped):
            ggrids = [each.ggrid for each in messages if (normalize_scope(each.tenant) or "") == scope]
            number = sum(1 for owner, _ in grouped if owner == scope)
            yield from insert_notes(scope, ggrids, "note", note, by, work)
            sample = (ggrids[0], *((words,) if words else ()), *ggrids[1:])
            yield from write_audit(moment, by, "message.notify", scope or None, count=number, sample=sample)
        return len(rows)

    @query
    def due(self, limit: int = 100) -> Work[tuple[RecipientNotice, ...]]:
        """Notices that are to be sent now, the oldest first."""
        return tuple(map(_notice, (yield Read(_DUE, (now(), limit)))))

    @change
    def claim(self, notice: RecipientNotice) -> Work[bool]:
        """Take a notice to send it; False where another process has it, or it was taken back."""
        return bool((yield Write(_CLAIM, (notice.id, notice.next_try, now() + CLAIM_MILLISECONDS))))

    @change
    def mark_sent(self, uid: str, fault: str = "") -> Work[None]:
        """Remember that a notice was sent, or with `fault` that it never will be."""
        yield Write(_SENT, (uid, now(), storable(fault)))

    @change
    def mark_failed(self, uid: str, next_try: int, fault: str) -> Work[None]:
        """Remember why a notice could not be sent, and when to try again."""
        yield Write(_FAILED, (uid, next_try, storable(fault)))

    @change
    def explain_waiting(self, fault: str) -> Work[None]:
        """Say why notices that are due wait; nothing else about them changes."""
        yield Write(_EXPLAIN, (now(), storable(fault)))

    @change
    def take_back(self, work: str, by: Actor) -> Work[tuple[int, int]]:
        """Take back the notices of a step that no node has begun to send; returns how many, and how many are left. The
        notes on the messages go if all of them are taken back."""
        uid = storable(work)
        rows = yield Read(_SCOPE_OF_WORK, (uid,))
        if not work or not rows:
            return 0, 0
        deleted: int = yield Write(_TAKE_BACK, (uid,))
        left = int((yield Read(_LEFT, (uid,)))[0][0])
        if not left:
            yield Write(_DELETE_NOTES, (uid,))
        if deleted:
            yield from write_audit(now(), by, "message.notifyTakenBack", rows[0][0] or None, count=deleted, sample=())
        return deleted, left

    @query
    def counts(self, work: str) -> Work[NoticeCounts]:
        """What became of the notices of a step."""
        uid = storable(work)
        known, waiting, failed = map(int, (yield Read(_COUNTS, (uid,)))[0])
        faults = yield Read(_FAULTS, (uid, MAX_FAULTS))
        return NoticeCounts(known, waiting, failed, tuple((address, fault) for address, fault in faults))

    async def purge(self, before: int) -> int:
        """Delete notices that were planned before that time; returns how many."""
        return await self._repeat(partial(write_rows, _DELETE_OLD, before, PURGE_BATCH))


def _find_limit(grouped: Mapping[tuple[str, str], Sequence[str]], per_day: int) -> Work[DayLimit | None]:
    first = f"{now() - DAY:012x}"
    for scope, wanted in Counter(scope for scope, _ in grouped).items():
        rows = yield Read(_OF_A_DAY, (scope, f"{first[:8]}-{first[8:]}"))
        left = max(0, per_day - int(rows[0][0]))
        if wanted > left:
            return DayLimit(scope or None, left, wanted)
    return None


def _notice(row: Row) -> RecipientNotice:
    uid, work, scope, address, items, *rest = row
    return RecipientNotice(uid, work, scope or None, address, _items.decode(items), *rest)
