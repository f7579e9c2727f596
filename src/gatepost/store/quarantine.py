"""Held mail in the database: what is held, for whom, and how far its release has come.

A release is a small state machine. `held` becomes `releasing` under a lease, which keeps other processes away for
longer than a delivery can take, and then `released`, or `held` again where the next hop did not take the message. A
process that dies in between leaves `releasing` behind: the message is still here, and once the lease is over it can be
released again. That doubles a message only if the death fell between the next hop's answer and our record (RFC 1047).

One recipient can get its copy while the message is held for the others. It is claimed for that as for any other
release, so releases of one message come one after the other. When the last recipient has its copy, the message is
released like one that went to all at once. What a recipient says by releasing its own copy is that recipient's report
and nobody else's: the sender does not become known to the tenant by it.

`held_search` says how a search reads; what only records can tell is compared with these.

`QuarantineFlow` is what came in within a period, what left, and what was held by mistake. Nothing counts these as they
happen. What came in and is still held, or was released, stands in an index of held mail; what people did stands in the
audit trail, which has one record for each release, deletion and report. Both are read up to a bound, newest first, and
the answer says where there is more. Mail that expired leaves no record: only the metric
`gatepost_quarantine_expired_total` counts it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec

from gatepost.ids import canonical, id_time
from gatepost.store import held_search
from gatepost.store.audit import MESSAGE_REPORTED, REPORT_TAKEN_BACK, Actor, write_audit
from gatepost.store.engine import (
    Many,
    Operations,
    Read,
    Work,
    Write,
    change,
    large_query,
    mail_change,
    normalize_scope,
    now,
    query,
    storable,
    write_rows,
)
from gatepost.store.found_values import COUNTED, FoundRow, FoundValues, choose_sample, count_values
from gatepost.store.held_search import HeldFilter
from gatepost.store.learning import digest_of, teach_record
from gatepost.store.message_index import Term, parse_term
from gatepost.store.message_records import (
    MAX_CONTENT,
    Delivery,
    Holding,
    MessageRecord,
    Release,
    held_texts,
    insert_deliveries,
    insert_held,
    insert_held_texts,
    insert_recipients,
    normalize_address,
    parse_record,
    parse_release,
    prepare_held,
    recipient_rows,
)
from gatepost.store.paging import (
    END,
    MAX_COUNTED,
    ROW_BUDGET,
    Keys,
    MessageCount,
    Page,
    PageQuery,
    count_any,
    find_page,
    read_rows,
)
from gatepost.store.record_packing import pack, unpack
from gatepost.store.search_conditions import has_content, prepare_filter
from gatepost.store.sightings import note_release
from gatepost.store.sql import Row, Sql, sql

UNDECIDED_MILLISECONDS = 86_400_000
PURGE_BATCH = 500

_SELECT = """SELECT ggrid, created, completed, size, sha256, detail,
kept, state, lease, released, released_by, released_to, deleted, deleted_by, core FROM held"""
_SELECT_GGRID = sql(_SELECT + " WHERE ggrid = $1")
_SELECT_CONTENT = sql("SELECT content FROM held_bytes WHERE ggrid = $1")
_DELETE_CONTENT = sql("DELETE FROM held_bytes WHERE ggrid = $1")
_CLAIM = sql("""UPDATE held SET state = 'releasing', holder = $2, lease = $4
WHERE ggrid = $1 AND (state = 'held' OR (state = 'releasing' AND lease < $3))""")
_GIVE_BACK = sql("UPDATE held SET state = 'held', holder = '', lease = 0 WHERE ggrid = $1 AND holder = $2")
_SET_RELEASED = sql("""UPDATE held SET state = 'released', gone = 1, holder = '', lease = 0,
released = $2, released_by = $3, released_to = $4 WHERE ggrid = $1 AND state <> 'released'""")
_LOCK = sql("""SELECT ggrid, tenant FROM held
WHERE ggrid = $1 AND (state = 'held' OR (state = 'releasing' AND lease < $2)) @lock(UPDATE)""")
_SET_DELETED = sql("""UPDATE held SET state = 'deleted', gone = 2, holder = '', lease = 0, deleted = $2, deleted_by = $3
WHERE ggrid = $1""")
_RESTORE = sql("""UPDATE held SET state = 'held', gone = 0, deleted = NULL, deleted_by = NULL
WHERE ggrid = $1 AND state = 'deleted'""")
_DELETED_BEFORE = sql(
    "SELECT ggrid FROM held WHERE deleted IS NOT NULL AND deleted < $1 ORDER BY deleted LIMIT $2 @lock(UPDATE)"
)
_TABLES = ("held_recipients", "recipient_releases", "recipient_requests", "held")
_DELETE = tuple(sql(f"DELETE FROM {table} WHERE @one_of(ggrid, $1)") for table in _TABLES)  # noqa: S608
# A released message stays for as long as its result is stored: the release is a part of that record.
_OVERDUE = """SELECT ggrid FROM held WHERE kept < $1 AND (state IN ('held', 'deleted')
OR (state = 'releasing' AND lease < $2)
OR (state = 'released' AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.ggrid = held.ggrid
AND @day(messages.completed) >= held.completed - 86400000
AND @day(messages.completed) <= held.completed + 86400000))){}
ORDER BY kept LIMIT $3 @lock(UPDATE)"""
_OVERDUE_OF_ALL, _OVERDUE_OF_TENANT = sql(_OVERDUE.format("")), sql(_OVERDUE.format(" AND tenant = $4"))
_OVERDUE_OF_OTHERS = sql(_OVERDUE.format(" AND (tenant IS NULL OR NOT @one_of(tenant, $4))"))
_SET_DETAIL = sql("UPDATE held SET detail = $2 WHERE ggrid = $1")
_NEEDED = sql("SELECT ggrid FROM held WHERE @one_of(ggrid, $1) AND state <> 'released'")
_OWNERS = sql("SELECT ggrid, tenant FROM held WHERE @one_of(ggrid, $1)")
_TOTALS = sql("SELECT count(size), CAST(coalesce(sum(size), 0) AS BIGINT) FROM held WHERE state <> 'released'")
_COUNT_UNDECIDED = sql("SELECT count(*) FROM undecided WHERE digest = $1 AND time > $2")
_INSERT_UNDECIDED = sql("INSERT INTO undecided (digest, time) VALUES ($1, $2)")
_DELETE_UNDECIDED = sql("DELETE FROM undecided WHERE time <= $1")
_SELECT_RELEASES = sql(
    "SELECT address, released, released_by FROM recipient_releases WHERE ggrid = $1 ORDER BY released, address"
)
_INSERT_RELEASE = sql("""INSERT INTO recipient_releases (ggrid, address, released, released_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (ggrid, address) DO NOTHING""")

# How many records are read for a page where their evidence matters: hostile ones can be long.
EXAMINED = 200
# How many records are compared for what a search finds at a glance, where only they can tell.
EXAMINED_FOR_VALUES = 1_000

_SELECT_GGRIDS = sql(_SELECT + " WHERE @one_of(ggrid, $1)")
_SELECT_PACKED = sql("SELECT detail FROM held WHERE @one_of(ggrid, $1)")
_SELECT_KEPT = sql("SELECT kept FROM held WHERE ggrid = $1")
_COUNT = """SELECT verdict, count(*) FROM (SELECT verdict FROM held
WHERE {} ORDER BY {} LIMIT $1) AS open GROUP BY verdict ORDER BY verdict"""
_ALL_HELD = sql(_COUNT.format("(gone) <= (0)", "gone DESC, kept DESC"))
_HELD_OF_TENANT = sql(
    _COUNT.format("(gone, tenant) >= (0, $2) AND (gone, tenant) <= (0, $2)", "gone DESC, tenant DESC, kept DESC")
)
_COUNT_AMONG = sql("""SELECT verdict, count(*) FROM held WHERE @one_of(ggrid, $1) AND ($2 = '' OR tenant = $2)
GROUP BY verdict ORDER BY count(*) DESC, verdict""")

# How many records of the audit trail are read, whatever they are about.
EXAMINED_ACTIONS = 5_000

RELEASED, DELETED, RESTORED = "quarantine.release", "quarantine.delete", "quarantine.restore"
_GOOD = "should have been delivered"

_COUNT_PERIOD = "SELECT count(*) FROM (SELECT 1 FROM held WHERE {} ORDER BY {} LIMIT $1) AS counted"
_IN_ORDER = sql(_COUNT_PERIOD.format("(gone, kept) >= ($2, $3) AND (gone, kept) < ($2, $4)", "gone DESC, kept DESC"))
_PERIOD_OF_TENANT = sql(
    _COUNT_PERIOD.format(
        "(gone, tenant, kept) >= ($2, $5, $3) AND (gone, tenant, kept) < ($2, $5, $4)",
        "gone DESC, tenant DESC, kept DESC",
    )
)
_ACTIONS = "SELECT action, actor_kind, sample FROM audit WHERE {} ORDER BY {} LIMIT $1"
_ACTIONS_OF_ALL = sql(_ACTIONS.format("time >= $2 AND time < $3", "time DESC, id DESC"))
_ACTIONS_OF_TENANT = sql(
    _ACTIONS.format("(scope, time) >= ($4, $2) AND (scope, time) < ($4, $3)", "scope DESC, time DESC, id DESC")
)

_samples = msgspec.json.Decoder(tuple[str, ...])


# How many rows there are, and how many have texts, up to a bound.
_COUNT_TEXTS = sql("""SELECT (SELECT count(*) FROM (SELECT 1 FROM held LIMIT $1) AS counted),
(SELECT count(*) FROM (SELECT 1 FROM held_search LIMIT $1) AS counted)""")
_AT_OR_BEFORE = sql("SELECT kept, ggrid FROM held WHERE ggrid <= $1 ORDER BY ggrid DESC LIMIT 1")
_UNINDEXED = sql("""SELECT h.ggrid, h.detail FROM held AS h WHERE h.ggrid > $1
AND NOT EXISTS (SELECT 1 FROM held_search AS s WHERE s.ggrid = h.ggrid) ORDER BY h.ggrid LIMIT $2""")
_DELETE_TEXTS = sql("DELETE FROM held_search WHERE ggrid = $1")
INDEX_BATCH = 200


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


class HeldCounts(msgspec.Struct, frozen=True):
    """How many messages are held, by verdict. Counting stops at the row budget: then `more` is true."""

    messages: int
    verdicts: dict[str, int]
    more: bool = False


class QuarantineFlow(msgspec.Struct, frozen=True):
    """Messages of a period, each counted once. `came_in` are those that were held since its beginning, and `still_held`
    those of them that are; `released` and `deleted` are what was done in it, whenever the message came, `by_recipients`
    the releases by a link of a digest. `mistaken` are those that came in and were released or reported as good. With
    `more`, these are the newest ones and there are others."""

    came_in: int = 0
    still_held: int = 0
    released: int = 0
    by_recipients: int = 0
    deleted: int = 0
    mistaken: int = 0
    more: bool = False


class QuarantineRecords(Operations):
    """Held mail: its records, its search, and its figures. `tenant` None means any. The bytes are in the raw store, or
    here where they are few (`message_records`)."""

    @property
    def largest_content(self) -> int:
        """How many bytes a message may have that is held in the database; 0 where none is."""
        return MAX_CONTENT if self._engine.keeps_held_bytes else 0

    @mail_change
    def hold(self, record: MessageRecord, core: str = "", content: bytes | None = None) -> Work[bool]:
        """Add a message to those that are held; False where its ggrid is known already, held or released. `core` is the
        one in whose folder the bytes lie, if they do not lie where all cores can read them; `content` are the bytes, if
        they are to lie here."""
        return (yield from insert_held(prepare_held(record, pack(record.detail), Holding(core, content))))

    @query
    def content(self, ggrid: str) -> Work[bytes | None]:
        """The bytes of a held message, if they lie here."""
        rows = yield Read(_SELECT_CONTENT, (storable(ggrid.lower()),))
        return bytes(rows[0][0]) if rows else None

    @query
    def find(self, ggrid: str, tenant: str | None = None) -> Work[HeldMessage | None]:
        """One held or released message, of that tenant if one is named."""
        mail = yield from find_held(ggrid, normalize_scope(tenant))
        return mail if mail and mail.state != "deleted" else None

    @query
    def find_or_deleted(self, ggrid: str, tenant: str | None = None) -> Work[HeldMessage | None]:
        """One message that is held, was released, or was deleted and can be restored."""
        return (yield from find_held(ggrid, normalize_scope(tenant)))

    @change
    def claim(self, ggrid: str, holder: str, now: int, until: int) -> Work[bool]:
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
            record = _parse_held(rows[0]).record
            scope = record.envelope.tenant
            sample = (uid, *([release_id] if release_id else ()), *release.recipients)
            count, limit = len(release.recipients), len(sample)
            yield from write_audit(release.time, by, "quarantine.release", scope, "", count, sample, limit)
            # A release says that the message was wanted, and its sender is one to hear from.
            yield from teach_record(scope, by, record, "release", unwanted=False)
            yield from note_release(scope, record.report)
            yield from insert_deliveries(deliveries)
            yield Write(_DELETE_CONTENT, (uid,))
            return release
        return (rows and _parse_held(rows[0]).release) or release

    @change
    def delete(self, ggrid: str, by: Actor | None, tenant: str | None = None, for_good: bool = True) -> Work[bool]:
        """Delete a held message; False where there is none, or it is being released. Unless that is `for_good`, record
        and bytes stay until `purge_deleted`, and `restore` takes the deletion back. Without `by` its sender has it
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
    def restore(self, ggrid: str, by: Actor, tenant: str | None = None) -> Work[bool]:
        """Take back a deletion; False where there is none to take back."""
        mail = yield from find_held(ggrid, normalize_scope(tenant))
        if mail is None or not (yield Write(_RESTORE, (mail.record.ggrid,))):
            return False
        scope = mail.record.envelope.tenant
        yield from write_audit(now(), by, "quarantine.restore", scope, count=1, sample=[mail.record.ggrid])
        return True

    async def purge_deleted(self, before: int) -> int:
        """Delete for good what was deleted before that time; returns how many."""
        return await self._repeat(partial(delete_held, _DELETED_BEFORE, before, PURGE_BATCH))

    async def purge(self, before: int, tenants: Mapping[str, int] | None = None) -> int:
        """Delete messages that are held since before that time, or since before the time of their own tenant; returns
        how many."""
        after: str | None = ""
        while after is not None:
            after = await self._engine.change(partial(index_held, after))
        overdue = _OVERDUE_OF_OTHERS if tenants else _OVERDUE_OF_ALL
        others = (Many(tuple(tenants)),) if tenants else ()
        deleted = await self._repeat(partial(delete_held, overdue, before, now(), PURGE_BATCH, *others))
        overdue = _OVERDUE_OF_TENANT
        for tenant, limit in (tenants or {}).items():
            deleted += await self._repeat(partial(delete_held, overdue, limit, now(), PURGE_BATCH, tenant))
        await self._engine.change(partial(write_rows, _DELETE_UNDECIDED, now() - UNDECIDED_MILLISECONDS))
        return deleted

    @query
    def needed_among(self, ggrids: Sequence[str]) -> Work[frozenset[str]]:
        """Those of these ids whose raw bytes are still needed."""
        rows = (yield Read(_NEEDED, (Many(tuple(map(storable, ggrids))),))) if ggrids else ()
        return frozenset(row[0] for row in rows)

    @query
    def owners(self, ggrids: Sequence[str]) -> Work[dict[str, str | None]]:
        """The tenants of those of these messages that are in the quarantine, or were released or deleted from it."""
        rows = (yield Read(_OWNERS, (Many(tuple(map(storable, ggrids))),))) if ggrids else ()
        return {ggrid: tenant or None for ggrid, tenant in rows}

    @query
    def totals(self) -> Work[tuple[int, int]]:
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

    @large_query
    def search(self, wanted: HeldFilter, before: str | None = None, limit: int = 100) -> Work[Page[HeldMessage]]:
        """A page of held mail, newest first; `limit` is at most 1,000.

        `before` is the `next` of the page before, or the ggrid of the last message on it.
        """
        wanted = prepare_filter(wanted)
        return (yield from _find_page(wanted, before, limit, by_lookup=self._engine.joins_by_lookup))

    @large_query
    def count(self, wanted: HeldFilter) -> Work[MessageCount]:
        """How many messages fit, up to 10,000. Those whose evidence is only in their records are not counted."""
        wanted = prepare_filter(wanted)
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        if term and (term.ggrid or term.id_prefix) and wanted.recipient is None:
            page = yield from _find_page(wanted, None, EXAMINED, by_lookup=self._engine.joins_by_lookup)
            if page.rows or term.ggrid:
                return MessageCount(len(page.rows), page.next is not None)
        plan = yield from _plan_search(wanted, None, exact=True)
        if self._engine.joins_by_lookup:
            plan = (yield from _plan_for_few(wanted, plan)) or plan
        return (yield from count_any((plan,), MAX_COUNTED))

    @large_query
    def explore(self, wanted: HeldFilter, only: Sequence[str] = ()) -> Work[FoundValues]:
        """What a search finds at a glance (`found_values`). Mail whose evidence is only in its records is not counted;
        where only records can tell, those of the first thousand rows are compared. A search that has found these ids
        alone, `only`, is not made again."""
        if only:
            read = yield Read(held_search.SELECT_VALUES, (Many(tuple(map(storable, only))),))
            known = [FoundRow(row[1], (row[0],), tuple(row[2:])) for row in read]
            rows = sorted(known, key=lambda row: -row.time)
            return (yield from _count_found(rows, more=False))
        wanted = prepare_filter(wanted)
        by_record = has_content(wanted)
        plan = yield from _plan_search(wanted, None, exact=not by_record)
        if self._engine.joins_by_lookup and not by_record and (whole := (yield from _plan_for_few(wanted, plan))):
            read, more = yield from read_rows(whole, held_search.OWN_VALUES, COUNTED)
            found = (yield Read(held_search.SELECT_TEXTS, (Many(tuple(row[1] for row in read)),))) if read else ()
            texts = {row[0]: row[1:] for row in found}
            rows = [FoundRow(row[0], (row[1],), (*row[3:], *texts[row[1]])) for row in read]
            return (yield from _count_found(rows, more=more))
        by_lookup = self._engine.joins_by_lookup and held_search.needs_texts(plan)
        plan = held_search.with_texts(plan)
        most = EXAMINED_FOR_VALUES if by_record else min(COUNTED, held_search.LOOKED_UP) if by_lookup else COUNTED
        read, more = yield from read_rows(plan, held_search.VALUE_COLUMNS, most)
        width = len(plan.order)
        rows = [FoundRow(row[width], (row[width - 1],), tuple(row[width + 1 :])) for row in read]
        if by_record and rows:
            ids = [row.key[0] for row in rows]
            found = yield Read(_SELECT_GGRIDS, (Many(tuple(ids)),))
            mails = [_parse_held(row) for row in found]
            term = parse_term(wanted.anywhere) if wanted.anywhere else None
            chosen = [mail.record for mail in mails if held_search.has_wanted(mail.record, mail.kept, wanted, term)]
            fitting = {record.ggrid for record in chosen}
            rows = [row for row in rows if row.key[0] in fitting]
        return (yield from _count_found(rows, more=more))

    @large_query
    def newer(self, wanted: HeldFilter, mail: HeldMessage) -> Work[str | None]:
        """The ggrid of the message that stands before this one in a list of held mail; None where it is the first."""
        wanted = prepare_filter(wanted)
        plan = held_search.plan_newer(wanted, mail.kept, mail.record.ggrid)
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        keys = yield from find_page(plan, EXAMINED if held_search.is_examined(wanted, term) else 1)
        for row in keys.rows:
            found = yield from find_held(row[len(plan.order) - 1], None)
            if found and held_search.has_wanted(found.record, found.kept, wanted, term):
                return found.record.ggrid
        return None

    @large_query
    def counts(self, tenant: str | None = None) -> Work[HeldCounts]:
        """How many messages are held, by verdict, for a tenant or for all."""
        scope = normalize_scope(tenant)
        limit = ROW_BUDGET + 1
        rows = yield Read(_HELD_OF_TENANT, (limit, scope)) if scope else Read(_ALL_HELD, (limit,))
        verdicts = {verdict: int(count) for verdict, count in rows}
        return HeldCounts(sum(verdicts.values()), verdicts, sum(verdicts.values()) > ROW_BUDGET)

    @query
    def verdicts(self, ggrids: Sequence[str], tenant: str | None = None) -> Work[dict[str, int]]:
        """How many of these messages, of one tenant or of all, have which verdict, the most frequent first."""
        rows = yield Read(_COUNT_AMONG, (Many(tuple(map(storable, ggrids))), normalize_scope(tenant) or ""))
        return {verdict: int(count) for verdict, count in rows}

    @query
    def recipient_releases(self, ggrid: str) -> Work[dict[str, Release]]:
        """The recipients who have got this message one by one, by address, the first one first."""
        rows = yield Read(_SELECT_RELEASES, (storable(ggrid.lower()),))
        return {address: Release(time, by, (address,)) for address, time, by in rows}

    @change
    def mark_released_to(self, ggrid: str, recipient: str, by: Actor, release_id: str) -> Work[tuple[Release, bool]]:
        """Record that a recipient has its copy, once; `release_id` is the claim, which ends. Also says whether all
        recipients have theirs now, so that the bytes are no longer needed."""
        uid, address, moment = storable(ggrid.lower()), normalize_address(recipient), now()
        made = Release(moment, storable(by.label), (address,))
        mail = yield from find_held(uid, None)
        if mail is None:
            return made, False
        if (yield Write(_INSERT_RELEASE, (uid, address, moment, made.by))):
            yield from _note(mail.record, recipient, by, release_id, moment)
        having = {row[0] for row in (yield Read(_SELECT_RELEASES, (uid,)))}
        recipients = tuple(map(storable, mail.record.envelope.recipients))
        if not set(map(normalize_address, recipients)) <= having:
            yield Write(_GIVE_BACK, (uid, release_id))
            return made, False
        encoded = msgspec.json.encode(recipients).decode()
        yield Write(_SET_RELEASED, (uid, moment, made.by, encoded))
        yield Write(_DELETE_CONTENT, (uid,))
        return made, True

    @large_query
    def flow(self, tenant: str | None, since: int, until: int) -> Work[QuarantineFlow]:
        """Count what came into the quarantine of a tenant, or of all (None), and what left it; `since` <= time <
        `until`, which is now."""
        scope = normalize_scope(tenant)
        counts = []
        for gone in (0, 1):
            limits = (MAX_COUNTED + 1, gone, since, until)
            rows = yield Read(_PERIOD_OF_TENANT, (*limits, scope)) if scope else Read(_IN_ORDER, limits)
            counts.append(int(rows[0][0]))
        period = (EXAMINED_ACTIONS + 1, since, until)
        actions = yield Read(_ACTIONS_OF_TENANT, (*period, scope)) if scope else Read(_ACTIONS_OF_ALL, period)
        held, released = (min(count, MAX_COUNTED) for count in counts)
        more = len(actions) > EXAMINED_ACTIONS or max(counts) > MAX_COUNTED
        return _describe_flow(actions[:EXAMINED_ACTIONS], held, released, since=since, more=more)


def _without_taken_back(actions: Sequence[Row]) -> Iterator[Row]:
    """The records, newest first, without reports that were taken back: each takes away the last one before it that said
    the same of its message."""
    taken = Counter[str]()
    for row in actions:
        if row[0] == REPORT_TAKEN_BACK:
            taken[row[2]] += 1
        elif row[0] == MESSAGE_REPORTED and taken[row[2]]:
            taken[row[2]] -= 1
        else:
            yield row


def find_held(ggrid: str, tenant: str | None) -> Work[HeldMessage | None]:
    """One held or released message, of that tenant if one is named."""
    rows = yield Read(_SELECT_GGRID, (storable(ggrid.lower()),))
    message = _parse_held(rows[0]) if rows else None
    return message if message and tenant in (None, message.record.envelope.tenant) else None


def keep_recipients(mail: HeldMessage, recipients: Sequence[str]) -> Work[None]:
    """Let held mail go to these of its recipients only, as the erasure of an address does. A record that cannot be read
    stays as it is."""
    ggrid, detail = mail.record.ggrid, mail.record.detail
    yield Write(_DELETE[0], (Many((ggrid,)),))
    yield from insert_recipients(recipient_rows(ggrid, recipients))
    if detail.envelope.recipients:
        envelope = msgspec.structs.replace(detail.envelope, recipients=tuple(recipients))
        detail = msgspec.structs.replace(detail, envelope=envelope)
        yield Write(_SET_DETAIL, (ggrid, pack(detail)))
        yield Write(_DELETE_TEXTS, (ggrid,))
        yield from insert_held_texts([held_texts(ggrid, detail)])


def index_held(after: str) -> Work[str | None]:
    """Index some held mail behind an id that a version without this index has stored; returns the last id, None where
    none is left."""
    rows = yield Read(_UNINDEXED, (after, INDEX_BATCH))
    if not rows:
        return None
    yield from insert_held_texts([held_texts(ggrid, unpack(packed)) for ggrid, packed in rows])
    return str(rows[-1][0])


def delete_held(statement: Sql, *parameters: object) -> Work[int]:
    """Delete the messages whose ggrids a statement reads and locks; returns how many."""
    rows = yield Read(statement, parameters)
    return (yield from delete_held_rows([row[0] for row in rows]))


def delete_held_rows(ggrids: Sequence[str]) -> Work[int]:
    """Delete rows; the cores delete the bytes when they clean up."""
    if ggrids:
        for statement in _DELETE:
            yield Write(statement, (Many(tuple(ggrids)),))
    return len(ggrids)


def _parse_held(row: Row) -> HeldMessage:
    *record, kept, state, lease, time, by, recipients, deleted, deleted_by, core = row
    release = None if time is None else parse_release(time, by, recipients)
    deletion = None if deleted is None else (int(deleted), str(deleted_by))
    return HeldMessage(parse_record(*record), kept, state, lease, release, deletion, core)


def _find_page(
    wanted: HeldFilter, before: str | None, limit: int, *, by_lookup: bool = False
) -> Work[Page[HeldMessage]]:
    """A page of held mail; `by_lookup` says that a join looks up each row by itself."""
    term = parse_term(wanted.anywhere) if wanted.anywhere else None
    if term and (term.ggrid or term.id_prefix) and wanted.recipient is None:
        start = term.ggrid or term.id_prefix or ""
        page = yield from _read_page(held_search.plan_by_id(wanted, start, before), wanted, term, limit)
        if page.rows or page.next or term.ggrid or (before or "").startswith(start):
            return page
    plan = yield from _plan_search(wanted, before)
    if by_lookup and held_search.needs_texts(plan):
        quick = yield from _read_page(held_search.with_rows(plan, held_search.QUICK_ROWS), wanted, term, limit)
        if quick.next is None or len(quick.rows) >= limit:
            return quick
        if (yield from _has_all_texts()):
            plan = yield from _plan_search(wanted, before, is_whole=True)
    return (yield from _read_page(plan, wanted, term, limit))


def _has_all_texts() -> Work[bool]:
    """Whether every message of the quarantine has its texts, and they are not too many to be read at once."""
    ((rows, texts),) = yield Read(_COUNT_TEXTS, (held_search.MOST_TEXTS + 1,))
    return bool(rows == texts <= held_search.MOST_TEXTS)


def _plan_for_few(wanted: HeldFilter, plan: PageQuery) -> Work[PageQuery | None]:
    """The plan that reads all texts, where few of the newest rows fit; None where looking them up costs less."""
    if not held_search.needs_texts(plan):
        return None
    probed = yield from count_any((held_search.with_rows(plan, held_search.PROBED_ROWS),), held_search.PROBED_ROWS)
    are_few = probed.more and held_search.FEW * probed.messages <= held_search.PROBED_ROWS
    if not are_few or not (yield from _has_all_texts()):
        return None
    return (yield from _plan_search(wanted, None, exact=True, is_whole=True))


def _read_page(plan: PageQuery, wanted: HeldFilter, term: Term | None, limit: int) -> Work[Page[HeldMessage]]:
    examines = held_search.is_examined(wanted, term)
    keys = yield from find_page(plan, EXAMINED if examines else limit)
    ids = tuple(row[len(plan.order) - 1] for row in keys.rows)
    found = {row[0]: row for row in ((yield Read(_SELECT_GGRIDS, (Many(ids),))) if ids else ())}
    rows = [_parse_held(found[uid]) for uid in ids]
    if examines:
        rows, keys = _select_by_record(rows, keys, wanted, term, limit)
    reached = keys.reached
    if isinstance(reached, str):
        reached = (yield Read(_SELECT_KEPT, (reached,)))[0][0]
    return Page(tuple(rows), keys.cursor, reached)


def _select_by_record(
    rows: Sequence[HeldMessage], keys: Keys, wanted: HeldFilter, term: Term | None, limit: int
) -> tuple[list[HeldMessage], Keys]:
    """Those of the messages whose record fits, at most `limit`, and where the next page begins."""
    chosen: list[HeldMessage] = []
    for row, key in zip(rows, keys.rows, strict=True):
        if held_search.has_wanted(row.record, row.kept, wanted, term):
            chosen.append(row)
            if len(chosen) == limit:
                return chosen, Keys(keys.rows, tuple(key)) if row is not rows[-1] or keys.next else Keys(keys.rows)
    # A page on which some were passed over says how far it reached.
    return chosen, msgspec.structs.replace(keys, is_spent=keys.next is not None)


def _plan_search(
    wanted: HeldFilter, before: str | None, *, exact: bool = False, is_whole: bool = False
) -> Work[PageQuery]:
    """How to find a page of held mail; `before` is a cursor or the ggrid of the last message seen. With `is_whole` all
    rows are read."""
    if not held_search.is_by_time(wanted):
        return held_search.plan_held(wanted, (), (storable(before.lower()),) if before else (), exact=exact)
    start = () if wanted.since is None else (wanted.since,)
    end = yield from _end_of_range(before, wanted.until)
    return (held_search.plan_whole if is_whole else held_search.plan_held)(wanted, start, end, exact=exact)


def _end_of_range(before: str | None, until: int | None) -> Work[tuple[int, str]]:
    """The key (time and ggrid) before which the page begins: the earlier of a cursor and `until`."""
    latest = (END[0] if until is None else until, "")
    kept, _, ggrid = (before or "").partition(".")
    if kept.isdecimal() and len(kept) < 19:
        return min((int(kept), storable(ggrid)), latest)
    uid = canonical(before or "")
    if uid is None:
        return latest
    rows = yield Read(_AT_OR_BEFORE, (uid,))
    if not rows:
        return (-1, "")
    # Where the message itself is gone, the page begins with the next older one: any suffix sorts behind its id.
    return min((rows[0][0], uid if rows[0][1] == uid else f"{rows[0][1]}~"), latest)


def _describe_flow(actions: Sequence[Row], held: int, released_rows: int, *, since: int, more: bool) -> QuarantineFlow:
    """The figures of a period, from what people did, newest first, and from the rows of messages that came in."""
    released, by_recipients, reported, deleted = set[str](), set[str](), set[str](), set[str]()
    # Those whose last deletion or restoration was seen: it says what holds.
    settled = set[str]()
    for action, kind, sample in _without_taken_back(actions):
        if action not in (RELEASED, DELETED, RESTORED, MESSAGE_REPORTED):
            continue
        ggrid, *said = _samples.decode(sample)
        if action == RELEASED:
            released.add(ggrid)
            if kind == "recipient":
                by_recipients.add(ggrid)
        elif action == MESSAGE_REPORTED:
            if _GOOD in said[:1]:
                reported.add(ggrid)
        elif ggrid not in settled:
            settled.add(ggrid)
            if action == DELETED:
                deleted.add(ggrid)
    # Rows of deleted messages do not stay, and ids say when their messages came.
    came_and_deleted = sum(1 for ggrid in deleted if _came(ggrid, since))
    mistaken = sum(1 for ggrid in released | reported if _came(ggrid, since))
    came_in = held + released_rows + came_and_deleted
    return QuarantineFlow(came_in, held, len(released), len(by_recipients), len(deleted), mistaken, more)


def _came(ggrid: str, since: int) -> bool:
    return canonical(ggrid) is not None and id_time(ggrid) >= since


def _note(record: MessageRecord, recipient: str, by: Actor, release_id: str, moment: int) -> Work[None]:
    """Put a release to one recipient on the audit trail, and into the pool of its tenant."""
    scope = record.envelope.tenant
    sample = (record.ggrid, release_id, storable(recipient))
    yield from write_audit(moment, by, "quarantine.release", scope, "", 1, sample)
    own = msgspec.structs.replace(record, envelope=msgspec.structs.replace(record.envelope, recipients=(recipient,)))
    is_own = by.kind == "recipient"
    # A pool has no address of a person: reporters are told apart by a digest.
    reporter = Actor("recipient", digest_of(normalize_address(recipient))) if is_own else by
    yield from teach_record(scope, reporter, own, "release", unwanted=False)
    if not is_own:
        yield from note_release(scope, record.report)


def _count_found(rows: Sequence[FoundRow], *, more: bool) -> Work[FoundValues]:
    """Count the values of narrow rows, newest first, with the records of some of them."""
    some = Many(tuple(row.key[0] for row in choose_sample(rows)))
    packed = (yield Read(_SELECT_PACKED, (some,))) if some.values else ()
    return count_values(rows, [row[0] for row in packed], more=more)
