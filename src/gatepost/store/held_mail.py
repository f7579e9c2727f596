"""Held mail in the database: what is held, for whom, and how far its release has come.

A release is a small state machine. `held` becomes `releasing` under a lease, which keeps other processes away for
longer than a delivery can take, and then `released`, or `held` again where the next hop did not take the message. A
process that dies in between leaves `releasing` behind: the message is still here, and once the lease is over it can be
released again. That doubles a message only if the death fell between the next hop's answer and our record (RFC 1047).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec

from gatepost.mail.message import Envelope
from gatepost.report import Report
from gatepost.store.audit import Actor, write_audit
from gatepost.store.audit_notes import AuditNotes
from gatepost.store.deliveries import Delivery, DeliveryStore, blank_replies, insert_deliveries
from gatepost.store.engine import (
    Bulk,
    Many,
    Read,
    Row,
    Work,
    Write,
    change,
    normalize_scope,
    now,
    query,
    search,
    storable,
)
from gatepost.store.held_search import HeldFilter, has_wanted, normalize_address, plan_newer, plan_search
from gatepost.store.message_evidence import Evidence
from gatepost.store.message_terms import Term, domain_of, fold, parse_term
from gatepost.store.messages import MessageRecord, Release, parse_record, parse_release
from gatepost.store.paging import ROW_BUDGET, Keys, find_page
from gatepost.store.record_packing import pack
from gatepost.store.sightings import note_release
from gatepost.store.training_pools import teach_record

MAX_SUBJECT = 200
UNDECIDED_MILLISECONDS = 86_400_000
PURGE_BATCH = 500
# How many records are read for a page where their evidence matters: hostile ones can be long.
EXAMINED = 200

COLUMNS = (
    *("ggrid", "created", "completed", "kept", "tenant", "verdict", "sender", "sender_domain", "size", "sha256"),
    *("detail", "state", "holder", "lease", "released", "released_by", "released_to", "subject", "score", "gone"),
    *("deleted", "deleted_by", "core"),
)
_INSERT = """INSERT INTO held
(ggrid, created, completed, kept, tenant, verdict, sender, sender_domain, size, sha256, detail, subject, score, core,
state, holder, lease) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 'held', '', 0)
ON CONFLICT (ggrid) DO NOTHING"""
_INSERT_RECIPIENTS = Bulk(
    "INSERT INTO held_recipients (ggrid, address, domain) VALUES (?1, ?2, ?3)",
    """INSERT INTO held_recipients (ggrid, address, domain)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[])""",
    (),
)
_SELECT = """SELECT ggrid, created, completed, size, sha256, detail,
kept, state, lease, released, released_by, released_to, deleted, deleted_by, core FROM held"""
_SELECT_GGRID = _SELECT + " WHERE ggrid = $1"
_SELECT_GGRIDS = _SELECT + " WHERE ggrid = ANY($1)"
_SELECT_KEPT = "SELECT kept FROM held WHERE ggrid = $1"
_COUNT = """SELECT verdict, count(*) FROM (SELECT verdict FROM held
WHERE {} ORDER BY {} LIMIT $1) AS open GROUP BY verdict ORDER BY verdict"""
_HELD = ("(gone) <= (0)", "gone DESC, kept DESC")
_HELD_OF_TENANT = ("(gone, tenant) >= (0, $2) AND (gone, tenant) <= (0, $2)", "gone DESC, tenant DESC, kept DESC")
_COUNT_AMONG = """SELECT verdict, count(*) FROM held WHERE ggrid = ANY($1) AND ($2 = '' OR tenant = $2)
GROUP BY verdict ORDER BY count(*) DESC, verdict"""
_CLAIM = """UPDATE held SET state = 'releasing', holder = $2, lease = $4
WHERE ggrid = $1 AND (state = 'held' OR (state = 'releasing' AND lease < $3))"""
_GIVE_BACK = "UPDATE held SET state = 'held', holder = '', lease = 0 WHERE ggrid = $1 AND holder = $2"
_SET_RELEASED = """UPDATE held SET state = 'released', gone = 1, holder = '', lease = 0,
released = $2, released_by = $3, released_to = $4 WHERE ggrid = $1 AND state <> 'released'"""
_LOCK = """SELECT ggrid, tenant FROM held
WHERE ggrid = $1 AND (state = 'held' OR (state = 'releasing' AND lease < $2)) FOR UPDATE"""
_SET_DELETED = """UPDATE held SET state = 'deleted', gone = 2, holder = '', lease = 0, deleted = $2, deleted_by = $3
WHERE ggrid = $1"""
_RESTORE = """UPDATE held SET state = 'held', gone = 0, deleted = NULL, deleted_by = NULL
WHERE ggrid = $1 AND state = 'deleted'"""
_DELETED_BEFORE = (
    "SELECT ggrid FROM held WHERE deleted IS NOT NULL AND deleted < $1 ORDER BY deleted LIMIT $2 FOR UPDATE"
)
_TABLES = ("held_recipients", "recipient_releases", "recipient_requests", "held")
_DELETE = tuple(f"DELETE FROM {table} WHERE ggrid = ANY($1)" for table in _TABLES)  # noqa: S608
# A released message stays for as long as its result is stored: the release is a part of that record.
_OVERDUE = """SELECT ggrid FROM held WHERE kept < $1 AND (state IN ('held', 'deleted')
OR (state = 'releasing' AND lease < $2)
OR (state = 'released' AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.ggrid = held.ggrid))){}
ORDER BY kept LIMIT $3 FOR UPDATE"""
_OTHER_TENANTS = " AND (tenant IS NULL OR NOT tenant = ANY($4))"
_OF_TENANT = "SELECT ggrid FROM held WHERE tenant = $1 ORDER BY ggrid LIMIT $2 FOR UPDATE"
_REWRITE = """UPDATE held SET sender = $2, sender_domain = $3, subject = $4, detail = $5,
released_by = coalesce($6, released_by), released_to = coalesce($7, released_to) WHERE ggrid = $1"""
_NEEDED = "SELECT ggrid FROM held WHERE ggrid = ANY($1) AND state <> 'released'"
_SIZE = "SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM held WHERE state <> 'released'"
_TOTALS = "SELECT count(size), CAST(coalesce(sum(size), 0) AS BIGINT) FROM held WHERE state <> 'released'"
_COUNT_UNDECIDED = "SELECT count(*) FROM undecided WHERE digest = $1 AND time > $2"
_INSERT_UNDECIDED = "INSERT INTO undecided (digest, time) VALUES ($1, $2)"
_DELETE_UNDECIDED = "DELETE FROM undecided WHERE time <= $1"


class HeldMessage(msgspec.Struct, frozen=True):
    """A message in the quarantine: its record, since when it is held, and how far its release is. Until `lease` a
    process is releasing it. A `released` one is here for its record only, a `deleted` one until its deletion can no
    longer be taken back: then `deletion` says when and by whom. `core` is the one in whose folder the bytes lie."""

    record: MessageRecord
    kept: int
    state: Literal["held", "releasing", "released", "deleted"]
    lease: int = 0
    release: Release | None = None
    deletion: tuple[int, str] | None = None
    core: str = ""


class HeldPage(msgspec.Struct, frozen=True):
    """Held mail, newest first. `next` is the cursor of the next page; `reached` is the time back to which held mail was
    read where the budget ended before the page was full."""

    rows: tuple[HeldMessage, ...]
    next: str | None = None
    reached: int | None = None


class HeldCounts(msgspec.Struct, frozen=True):
    """How many messages are held, by verdict. Counting stops at the row budget: then `more` is true."""

    messages: int
    verdicts: dict[str, int]
    more: bool = False


class HeldMailStore(AuditNotes, DeliveryStore):
    """The records of the quarantine. `tenant` None means any; the raw bytes are in the raw store."""

    @change
    def hold(self, record: MessageRecord, core: str = "") -> Work[bool]:
        """Add a message to those that are held; False where its ggrid is known already, held or released. `core` is the
        one in whose folder the bytes lie, if they do not lie where all cores can read them."""
        ggrid, envelope = record.ggrid.lower(), record.envelope
        sender = normalize_address(envelope.sender)
        row = (
            *(ggrid, record.created, record.completed, now(), envelope.tenant, record.report.verdict),
            *(sender, domain_of(sender), record.size, record.sha256),
            pack(envelope, record.report, record.source, record.receipt),
            *(fold(record.report.subject[:MAX_SUBJECT])[:MAX_SUBJECT], record.report.score, storable(core)),
        )
        if not (yield Write(_INSERT, row)):
            return False
        yield from _insert_recipients(ggrid, envelope.recipients)
        return True

    @query
    def held(self, ggrid: str, tenant: str | None = None) -> Work[HeldMessage | None]:
        """One held or released message, of that tenant if one is named."""
        mail = yield from find_held(ggrid, normalize_scope(tenant))
        return mail if mail and mail.state != "deleted" else None

    @query
    def held_or_deleted(self, ggrid: str, tenant: str | None = None) -> Work[HeldMessage | None]:
        """One message that is held, was released, or was deleted and can be restored."""
        return (yield from find_held(ggrid, normalize_scope(tenant)))

    @search
    def search_held(self, wanted: HeldFilter, before: str | None = None, limit: int = 100) -> Work[HeldPage]:
        """A page of held mail, newest first; `limit` is at most 1,000.

        `before` is the `next` of the page before, or the ggrid of the last message on it.
        """
        plan = yield from plan_search(wanted, before)
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        is_examined = bool(wanted.evidence.wanted or term)
        keys = yield from find_page(plan, EXAMINED if is_examined else limit)
        ids = tuple(row[len(plan.order) - 1] for row in keys.rows)
        found = {row[0]: row for row in ((yield Read(_SELECT_GGRIDS, (Many(ids),))) if ids else ())}
        rows = [_held_message(found[uid]) for uid in ids]
        if is_examined:
            rows, keys = _select_by_record(rows, keys, wanted.evidence, term, limit)
        reached = keys.reached
        if isinstance(reached, str):
            reached = (yield Read(_SELECT_KEPT, (reached,)))[0][0]
        return HeldPage(tuple(rows), keys.cursor, reached)

    @search
    def newer_held(self, wanted: HeldFilter, mail: HeldMessage) -> Work[str | None]:
        """The ggrid of the message that stands before this one in a list of held mail; None where it is the first."""
        plan = plan_newer(wanted, mail.kept, mail.record.ggrid)
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        keys = yield from find_page(plan, EXAMINED if wanted.evidence.wanted or term else 1)
        for row in keys.rows:
            found = yield from find_held(row[len(plan.order) - 1], None)
            if found and has_wanted(found.record, wanted.evidence, term):
                return found.record.ggrid
        return None

    @search
    def held_counts(self, tenant: str | None = None) -> Work[HeldCounts]:
        """How many messages are held, by verdict, for a tenant or for all."""
        scope = normalize_scope(tenant)
        statement = _COUNT.format(*(_HELD_OF_TENANT if scope else _HELD))
        rows = yield Read(statement, (ROW_BUDGET + 1, scope) if scope else (ROW_BUDGET + 1,))
        verdicts = {verdict: int(count) for verdict, count in rows}
        return HeldCounts(sum(verdicts.values()), verdicts, sum(verdicts.values()) > ROW_BUDGET)

    @query
    def held_verdicts(self, ggrids: Sequence[str], tenant: str | None = None) -> Work[dict[str, int]]:
        """How many of these messages, of one tenant or of all, have which verdict, the most frequent first."""
        rows = yield Read(_COUNT_AMONG, (Many(tuple(map(storable, ggrids))), normalize_scope(tenant) or ""))
        return {verdict: int(count) for verdict, count in rows}

    @change
    def claim_release(self, ggrid: str, holder: str, now: int, until: int) -> Work[bool]:
        """Claim a message for its release until a time; False where it is not held or another process has it."""
        return bool((yield Write(_CLAIM, (storable(ggrid.lower()), holder, now, until))))

    @change
    def give_back(self, ggrid: str, holder: str) -> Work[None]:
        """End a claim without a delivery: the message is held as before."""
        yield Write(_GIVE_BACK, (storable(ggrid.lower()), holder))

    @change
    def mark_released(
        self,
        ggrid: str,
        recipients: Sequence[str],
        by: Actor,
        release_id: str | None = None,
        deliveries: Sequence[Delivery] = (),
    ) -> Work[Release]:
        """Add a release to the record and the audit trail, once; returns the one that is stored. `deliveries` are what
        the next hops answered.

        The audit record names the message, the id that the released message carries, and every recipient.

        The message was delivered, so it is released even if another process has claimed it meanwhile.
        """
        uid = storable(ggrid.lower())
        release = Release(now(), storable(by.label), tuple(map(storable, recipients)))
        encoded = msgspec.json.encode(release.recipients).decode()
        rows = yield Read(_SELECT_GGRID, (uid,))
        if rows and (yield Write(_SET_RELEASED, (uid, release.time, release.by, encoded))):
            record = _held_message(rows[0]).record
            scope = record.envelope.tenant
            sample = (uid, *([release_id] if release_id else ()), *release.recipients)
            count, limit = len(release.recipients), len(sample)
            yield from write_audit(release.time, by, "quarantine.release", scope, "", count, sample, limit)
            # A release says that the message was wanted, and its sender is one to hear from.
            yield from teach_record(scope, by, record, "release", unwanted=False)
            yield from note_release(scope, record.report)
            yield from insert_deliveries(deliveries)
            return release
        return (rows and _held_message(rows[0]).release) or release

    @change
    def delete_held(self, ggrid: str, by: Actor | None, tenant: str | None = None, for_good: bool = True) -> Work[bool]:
        """Delete a held message; False where there is none, or it is being released. Unless that is `for_good`, record
        and bytes stay until `purge_deleted`, and `restore_held` takes the deletion back. Without `by` its sender has it
        still, and nothing is audited."""
        moment, owner = now(), normalize_scope(tenant)
        rows = yield Read(_LOCK, (storable(ggrid.lower()), moment))
        if not rows or owner not in (None, rows[0][1]):
            return False
        if for_good or by is None:
            yield from delete_held_rows([rows[0][0]])
        else:
            yield Write(_SET_DELETED, (rows[0][0], moment, storable(by.label)))
        if by is not None:
            yield from write_audit(moment, by, "quarantine.delete", rows[0][1], count=1, sample=[rows[0][0]])
        return True

    @change
    def restore_held(self, ggrid: str, by: Actor, tenant: str | None = None) -> Work[bool]:
        """Take back a deletion; False where there is none to take back."""
        mail = yield from find_held(ggrid, normalize_scope(tenant))
        if mail is None or not (yield Write(_RESTORE, (mail.record.ggrid,))):
            return False
        scope = mail.record.envelope.tenant
        yield from write_audit(now(), by, "quarantine.restore", scope, count=1, sample=[mail.record.ggrid])
        return True

    async def purge_deleted(self, before: int) -> int:
        """Delete for good what was deleted before that time; returns how many."""
        return await self._repeat(partial(_delete_deleted, before))

    async def purge_held(self, before: int, tenants: Mapping[str, int] | None = None) -> int:
        """Delete messages that are held since before that time, or since before the time of their own tenant; returns
        how many."""
        others = (_OTHER_TENANTS, Many(tuple(tenants))) if tenants else ("", None)
        deleted = await self._repeat(partial(_delete_overdue, before, *others))
        for tenant, limit in (tenants or {}).items():
            deleted += await self._repeat(partial(_delete_overdue, limit, " AND tenant = $4", tenant))
        await self._delete_undecided()
        return deleted

    @query
    def needed_among(self, ggrids: Sequence[str]) -> Work[frozenset[str]]:
        """Those of these ids whose raw bytes are still needed."""
        rows = (yield Read(_NEEDED, (Many(tuple(map(storable, ggrids))),))) if ggrids else ()
        return frozenset(row[0] for row in rows)

    @query
    def held_size(self) -> Work[int]:
        """Bytes of all messages that are held."""
        rows = yield Read(_SIZE)
        return int(rows[0][0])

    @query
    def held_totals(self) -> Work[tuple[int, int]]:
        """How many messages are held, and their bytes."""
        rows = yield Read(_TOTALS)
        return int(rows[0][0]), int(rows[0][1])

    @change
    def undecided_before(self, digest: str) -> Work[int]:
        """How often this digest was undecided in the last 24 hours, this time not counted; this time is stored."""
        moment = now()
        rows = yield Read(_COUNT_UNDECIDED, (storable(digest), moment - UNDECIDED_MILLISECONDS))
        yield Write(_INSERT_UNDECIDED, (storable(digest), moment))
        return int(rows[0][0])

    @change
    def _delete_undecided(self) -> Work[None]:
        yield Write(_DELETE_UNDECIDED, (now() - UNDECIDED_MILLISECONDS,))


def find_held(ggrid: str, tenant: str | None) -> Work[HeldMessage | None]:
    """One held or released message, of that tenant if one is named."""
    rows = yield Read(_SELECT_GGRID, (storable(ggrid.lower()),))
    message = _held_message(rows[0]) if rows else None
    return message if message and tenant in (None, message.record.envelope.tenant) else None


def rewrite_held(mail: HeldMessage, envelope: Envelope, report: Report, release: Release | None = None) -> Work[None]:
    """Replace envelope and report of held or released mail, as the erasure of an address does."""
    ggrid, sender = mail.record.ggrid, normalize_address(envelope.sender)
    subject = fold(report.subject[:MAX_SUBJECT])[:MAX_SUBJECT]
    released = (release.by, msgspec.json.encode(release.recipients).decode()) if release else (None, None)
    detail = pack(envelope, report, mail.record.source, mail.record.receipt)
    yield from blank_replies(ggrid)
    yield Write(_REWRITE, (ggrid, sender, domain_of(sender), subject, detail, *released))
    yield Write(_DELETE[0], (Many((ggrid,)),))
    yield from _insert_recipients(ggrid, envelope.recipients)


def _insert_recipients(ggrid: str, recipients: Sequence[str]) -> Work[None]:
    rows = [(ggrid, address, domain_of(address)) for address in sorted({*map(normalize_address, recipients)})]
    if rows:
        yield msgspec.structs.replace(_INSERT_RECIPIENTS, rows=rows)


def _select_by_record(
    rows: Sequence[HeldMessage], keys: Keys, evidence: Evidence, term: Term | None, limit: int
) -> tuple[list[HeldMessage], Keys]:
    """Those of the messages whose record fits, at most `limit`, and where the next page begins. A page on which
    some were passed over says how far it reached."""
    chosen: list[HeldMessage] = []
    for row, key in zip(rows, keys.rows, strict=True):
        if has_wanted(row.record, evidence, term):
            chosen.append(row)
            if len(chosen) == limit:
                return chosen, Keys(keys.rows, tuple(key)) if row is not rows[-1] or keys.next else Keys(keys.rows)
    return chosen, msgspec.structs.replace(keys, is_spent=keys.next is not None)


def delete_tenant_held(tenant: str, limit: int) -> Work[int]:
    """Delete at most `limit` messages of a deleted tenant."""
    return (yield from delete_held_rows([row[0] for row in (yield Read(_OF_TENANT, (tenant, limit)))]))


def _delete_overdue(before: int, condition: str, value: Many | str | None) -> Work[int]:
    parameters = (before, now(), PURGE_BATCH, *(() if value is None else (value,)))
    rows = yield Read(_OVERDUE.format(condition), parameters)
    return (yield from delete_held_rows([row[0] for row in rows]))


def _delete_deleted(before: int) -> Work[int]:
    rows = yield Read(_DELETED_BEFORE, (before, PURGE_BATCH))
    return (yield from delete_held_rows([row[0] for row in rows]))


def delete_held_rows(ggrids: Sequence[str]) -> Work[int]:
    """Delete rows; the cores delete the bytes when they clean up."""
    if ggrids:
        for statement in _DELETE:
            yield Write(statement, (Many(tuple(ggrids)),))
    return len(ggrids)


def _held_message(row: Row) -> HeldMessage:
    *record, kept, state, lease, time, by, recipients, deleted, deleted_by, core = row
    release = None if time is None else parse_release(time, by, recipients)
    deletion = None if deleted is None else (int(deleted), str(deleted_by))
    return HeldMessage(parse_record(*record), kept, state, lease, release, deletion, core)
