"""Messages on record: results and ledgers, the search for them, and what is on record of the way of one message.

A search reads by the best index, tests further conditions in narrow rows (`message_index`), and reads the page from the
long rows. The indexes in their order: the beginning of an id, the id that a next hop gave, a whole recipient, then the
domain of the sender, the tenant, the verdict, else time. Where one tenant's messages are searched, rows of other
tenants are passed over, never shown. A text that can mean several things has a query for each meaning that has an
index, and one query that tests narrow rows for all the others.

The way of a message is how it came, what was decided, what became of it, and who did what since. The parts lie in
several places: the record of the analysis, the deliveries, the quarantine, the audit trail, and what was taken out of
mailboxes. A message that a next hop or this gateway put off comes again and is analysed anew, so other attempts are
searched for: messages to the same recipient with the same Message-ID. All reads are bounded, as every search is.
"""

from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from gatepost.ids import canonical, id_prefix
from gatepost.lists.links import split_url
from gatepost.policy.rules import Decision, Verdict
from gatepost.process.background_work import background
from gatepost.store import message_index, search_conditions, traffic
from gatepost.store.audit import AuditRecord, parse_audit
from gatepost.store.change_groups import ChangeGroups, WritingState
from gatepost.store.engine import (
    Engine,
    Many,
    Operations,
    Read,
    Work,
    change,
    convert_each,
    large_query,
    normalize_scope,
    now,
    query,
    storable,
)
from gatepost.store.evidence import Evidence
from gatepost.store.found_values import COLUMNS, COUNTED, FoundRow, FoundValues, choose_sample, count_values
from gatepost.store.message_days import by_keys, read_by_ggrid, read_by_ggrids
from gatepost.store.message_index import TESTED as TESTED_FOR_WORDS
from gatepost.store.message_index import Term, domain_of, match_rows, parse_term
from gatepost.store.message_records import (
    TRIAL,
    Delivery,
    MessageLine,
    MessageRecord,
    delete_by_keys,
    delete_messages,
    find_deliveries,
    find_lines,
    find_message,
    insert_all,
    insert_deliveries,
    insert_together,
    parse_record,
    parse_release,
)
from gatepost.store.paging import (
    END,
    MAX_COUNTED,
    MessageCount,
    Page,
    PageQuery,
    SqlCondition,
    count_any,
    find_any,
    find_page,
    key_range,
    parse_time_cursor,
    read_rows,
)
from gatepost.store.quarantine import HeldMessage, find_held
from gatepost.store.record_packing import BRIEFS, Detail, read_packed, unpack, unpack_header
from gatepost.store.removed_mail import RemovedCopy, find_removed
from gatepost.store.search_conditions import MessageFilter, RecordFacts
from gatepost.store.search_language import (
    EVERYTHING,
    Both,
    Expression,
    Leaf,
    SearchFault,
    SearchPlace,
    conjuncts,
    leaves,
    parse_search,
)
from gatepost.store.sql import Row, sql

PURGE_BATCH = 500
STREAM_BATCH = 100
# Recipients that a summary shows.
MAX_SHOWN_RECIPIENTS = 100
# How many records are read for a page where their evidence matters: hostile ones can be long.
EXAMINED = 100
# How many records are compared for what a search finds at a glance, where only they can tell.
EXAMINED_FOR_VALUES = 1_000
# Each becomes a dozen conditions, which are compared with every record that is read.
MAX_CAMPAIGNS = 4

_SELECT_RELEASE = sql("SELECT released, released_by, released_to FROM held WHERE ggrid = $1 AND released IS NOT NULL")
_SELECT_RECENT = """SELECT ggrid, created, messages.completed, size, sha256, detail
FROM message_search AS s CROSS JOIN messages WHERE messages.id = s.id AND @day(messages.completed) = s.completed{}
ORDER BY s.completed DESC, s.id DESC LIMIT $1"""
_RECENT, _RECENT_OF_TENANT = sql(_SELECT_RECENT.format("")), sql(_SELECT_RECENT.format(" AND s.tenant = $2"))
_OLD = sql("SELECT completed, id FROM message_search WHERE completed < $1 ORDER BY completed, id LIMIT $2")
_OLD_OF_TENANT = sql("SELECT completed, id FROM message_search WHERE tenant = $1 AND completed < $2 LIMIT $3")
_OLD_IN_ORDER = sql("""SELECT completed, id, tenant FROM message_search
WHERE completed < $1 AND (completed, id) > ($2, $3) ORDER BY completed, id LIMIT $4""")
# In which days to look: see `message_days`.
_IN_DAYS = " AND @day(completed) >= $2 AND @day(completed) <= $3"
_SELECT_HEADER = sql(f"SELECT header FROM messages WHERE ggrid = $1{_IN_DAYS}")  # noqa: S608
_SELECT = """SELECT id, ggrid, completed, tenant, sender, recipients, subject, verdict, decision, score, tags, size
FROM messages"""
_SELECT_IDS = sql(f"{_SELECT} WHERE @one_of(id, $1){_IN_DAYS}")
_SELECT_DETAILS = sql(f"SELECT id, ggrid, detail FROM messages WHERE @one_of(id, $1){_IN_DAYS}")  # noqa: S608
_SELECT_PACKED = sql(f"SELECT ggrid, detail FROM messages WHERE @one_of(ggrid, $1){_IN_DAYS}")  # noqa: S608
_SELECT_GGRID = sql(f"{_SELECT} WHERE ggrid = $1{_IN_DAYS}")
_SELECT_GGRIDS = sql(f"SELECT ggrid, {_SELECT.removeprefix('SELECT ')} WHERE @one_of(ggrid, $1){_IN_DAYS}")
_SELECT_GGRID_OF = sql("SELECT ggrid FROM messages WHERE id = $1 AND @day(completed) = $2")
_DELIVERED_AS = sql(f"SELECT id FROM deliveries WHERE @one_of(id, $1){_IN_DAYS} AND queue_id = $4")  # noqa: S608

# The index of a tenant's messages has these columns too: reading it is faster than reading rows.
COVERED = frozenset({"verdict", "decision"})
COVERED_REACH = 4.0
_INDEX = "message_search"
_RECIPIENTS = "message_recipients AS r"
_RECIPIENTS_AND_INDEX = "message_recipients AS r CROSS JOIN message_search AS s"
_DELIVERIES = "deliveries AS r"
_DELIVERIES_AND_INDEX = "deliveries AS r CROSS JOIN message_search AS s"
_MESSAGES_AND_INDEX = "messages AS r CROSS JOIN message_search AS s"
# A row is read from both tables, and that of a message is long.
_MESSAGES_REACH = 0.1
# Indexes of something that a message can have several of, and the same with the narrow rows of the messages.
_WITH_INDEX = {_RECIPIENTS: _RECIPIENTS_AND_INDEX, _DELIVERIES: _DELIVERIES_AND_INDEX}
_JOINED = SqlCondition("s.completed = r.completed AND s.id = r.id", ())

# Actions of the audit trail that belong to the way of a message. Who looked at it is the audit trail's own subject.
ACTIONS: Final = (
    "lookBack.found",
    "message.reported",
    "message.reportTakenBack",
    "quarantine.delete",
    "quarantine.release",
    "quarantine.releaseFailed",
    "quarantine.restore",
)
MAX_ACTIONS = 50
# How long mail servers go on trying (RFC 5321 section 4.5.4.1: at least four to five days).
ATTEMPTS_MILLISECONDS = 7 * 86_400_000
MAX_ATTEMPTS = 20
# A page of one message must not cost what a search does: 6,000 rows of the audit trail, 3,000 of the recipient's mail.
ACTIONS_REACH, ATTEMPTS_REACH = 0.2, 0.1
_SELECT_AUDIT = sql("""SELECT id, time, actor_kind, actor_name, actor_id, action, scope, list, count, sample,
changes IS NOT NULL FROM audit WHERE @one_of(id, $1) ORDER BY time, id""")
_SELECT_ATTEMPTS = sql("""SELECT messages.ggrid, messages.created, messages.completed, decision, sha256, detail,
(SELECT max(code) FROM deliveries WHERE deliveries.completed = messages.completed AND deliveries.id = messages.id
AND @day(deliveries.completed) >= $2 AND @day(deliveries.completed) <= $3)
FROM messages WHERE @one_of(id, $1) AND @day(completed) >= $2 AND @day(completed) <= $3 ORDER BY messages.created""")

_strings = msgspec.json.Decoder(tuple[str, ...])
# Time of completion and row id of messages.
_Key: TypeAlias = tuple[int, int]
_Keys: TypeAlias = tuple[_Key, ...]


class MessageSummary(MessageLine, frozen=True):
    """A result in one line. Long texts and long lists of recipients are cut."""

    verdict: Verdict
    decision: Decision
    score: int
    tags: tuple[str, ...]
    size: int


# Links of a message that an export looks at.
MAX_HEAD_LINKS = 50


class ShownHead(msgspec.Struct, frozen=True):
    """What a list of messages shows of a record besides the summary: the first sender of From, with the display name,
    as the reader saw it, and whether the message was a trial; for exports the sending host and the links."""

    address: str = ""
    name: str = ""
    is_trial: bool = False
    host: str = ""
    links: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the links, each once."""
        return tuple(dict.fromkeys(parts[0] for link in self.links if (parts := split_url(link))))


class DeliveryAttempt(msgspec.Struct, frozen=True):
    """Another analysis of the same message: the client sent it again, or a copy of it. `code` is the next hop's reply,
    None where none is on record; `is_same` says that every byte is the same."""

    ggrid: str
    created: int
    completed: int
    decision: str
    code: int | None
    is_same: bool


class MessageTimeline(msgspec.Struct, frozen=True):
    """Everything on record of the way of a message. With `is_cut` there may be more actions or attempts than these."""

    record: MessageRecord
    held: HeldMessage | None = None
    deliveries: tuple[Delivery, ...] = ()
    actions: tuple[AuditRecord, ...] = ()
    attempts: tuple[DeliveryAttempt, ...] = ()
    copies: tuple[RemovedCopy, ...] = ()
    is_cut: bool = False


class Messages(Operations):
    """Results and ledgers, searched and counted, and what is on record of the way of one message."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        write = partial(engine.change_together, insert_all, insert_together)
        self._records = ChangeGroups[MessageRecord, MessageRecord](write, engine.groups_under_way)

    def record(self, record: MessageRecord, others: int = 0) -> Coroutine[Any, Any, MessageRecord]:
        """Store a result. A stored one never changes: the first of a ggrid stays and is returned. `others` are further
        messages that are being analysed: a commit is shared with those that end soon."""
        return self._records.add(record, others)

    @property
    def writing(self) -> WritingState:
        """How the storing of results goes."""
        return self._records.state

    async def finish_writing(self) -> None:
        """Wait for the results that are being stored."""
        await self._records.finish()

    @query
    def find(self, ggrid: str, tenant: str | None = None) -> Work[MessageRecord | None]:
        """The record of one analysis, of that tenant if one is named, with its release where there was one."""
        record = yield from find_message(ggrid)
        if record is None or normalize_scope(tenant) not in (None, record.envelope.tenant):
            return None
        rows = yield Read(_SELECT_RELEASE, (record.ggrid,))
        return msgspec.structs.replace(record, release=parse_release(*rows[0])) if rows else record

    def recent(self, tenant: str | None, limit: int) -> AsyncGenerator[Sequence[MessageRecord], None]:
        """The last `limit` results of a tenant (None: of all tenants), newest first, in batches of one snapshot.
        Trials among them are left out."""
        if scope := normalize_scope(tenant):
            read = Read(_RECENT_OF_TENANT, (limit, scope))
        else:
            read = Read(_RECENT, (limit,))
        return self._engine.stream(read, _parse_mail, STREAM_BATCH, STREAM_BATCH)

    async def purge(self, before: int, tenants: Mapping[str, int] | None = None) -> int:
        """Delete results that were completed before that time, or before the time of their own tenant, and traffic
        counts older than all of these; returns how many results. Where whole days are dropped, those of the day in
        which `before` lies stay until the day is over."""
        await self._repeat(message_index.index_old_messages)
        deleted, since = await self._engine.drop_days(before, tenants or {})
        if not tenants:
            deleted += await self._repeat(partial(delete_messages, _OLD, since, PURGE_BATCH))
        else:
            deleted += await self._purge_except(since, frozenset(tenants))
            for tenant, limit in tenants.items():
                deleted += await self._repeat(partial(delete_messages, _OLD_OF_TENANT, tenant, limit, PURGE_BATCH))
        await self._repeat(partial(traffic.delete_old, min((before, *(tenants or {}).values())), PURGE_BATCH))
        await self._repeat(partial(traffic.merge_parts, now()))
        await self._repeat(partial(traffic.merge_hour, now()))
        return deleted

    @query
    def header(self, ggrid: str) -> Work[bytes | None]:
        """The raw header section of a message; None where it was not kept, or cannot be read."""
        rows = yield from read_by_ggrid(_SELECT_HEADER, storable(ggrid.lower()))
        return unpack_header(rows[0][0]) if rows and rows[0][0] is not None else None

    async def read_search(self, text: str, place: SearchPlace, tenant: str | None) -> Expression | SearchFault:
        """What a text of the language asks for (`search_language`), or what is wrong with it. Campaigns are looked up:
        that of a message of another tenant is not known."""
        found = parse_search(text, place)
        if isinstance(found, SearchFault):
            return found
        details: dict[str, Detail] = {}
        for number, leaf in enumerate(leaf for leaf in leaves(found) if leaf.field == "campaign"):
            if number == MAX_CAMPAIGNS:
                return SearchFault(leaf.start, leaf.end, f"A search has at most {MAX_CAMPAIGNS} campaigns.")
            if leaf.value not in details:
                record = await self.find(leaf.value, tenant)
                if record is None:
                    return SearchFault(leaf.start, leaf.end, "There is no message of this id on record.")
                details[leaf.value] = record.detail
        return search_conditions.expand_campaigns(found, details) if details else found

    @large_query
    def search(self, wanted: MessageFilter, before: str | None = None, limit: int = 100) -> Work[Page[MessageSummary]]:
        """A page of results, newest first. `before` is the `next` of the page before; `limit` is at most 1,000."""
        wanted = search_conditions.prepare_filter(wanted)
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        if term and term.ggrid:
            wanted = msgspec.structs.replace(wanted, ggrid=term.ggrid)
        if wanted.ggrid is not None and canonical(wanted.ggrid.strip()):
            return (yield from _find_by_ggrid(wanted, before))
        if wanted.ggrid is not None or (term and term.id_prefix):
            found_by_id = yield from _find_by_prefix(wanted, term, before, limit)
            if found_by_id:
                return found_by_id
        is_examined = _is_examined(wanted, term)
        keys = yield from find_any(plan_search(wanted, before, term), min(limit, EXAMINED) if is_examined else limit)
        # A message is there twice where a next hop gave it the same id twice.
        distinct = tuple({(row[0], row[1]): None for row in keys.rows})
        fitting = yield from _select_by_record(distinct, wanted, term)
        return Page((yield from _read_summaries(fitting)), keys.cursor, keys.reached)

    @query
    def heads(self, ggrids: Sequence[str]) -> Work[dict[str, ShownHead]]:
        """What a list shows of these records, by ggrid; of each packed value only the few fields are decoded."""
        rows = yield from read_by_ggrids(_SELECT_PACKED, tuple(map(storable, ggrids)))
        return {ggrid: _head(packed) for ggrid, packed in rows}

    @large_query
    def count(self, wanted: MessageFilter) -> Work[MessageCount]:
        """How many results fit, up to 10,000. Where the budget ends before, and of messages whose evidence is only in
        their records, the others are not counted: then there may be more."""
        wanted = search_conditions.prepare_filter(wanted)
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        if (term and term.ggrid) or canonical((wanted.ggrid or "").strip()):
            return MessageCount(1)
        if prefix := _prefix_of(wanted, term):
            plan = plan_by_prefix(_without_text(wanted), prefix, "")
            found = yield from count_any((plan,), MAX_COUNTED)
            if found.messages or wanted.ggrid is not None:
                return found
        return (yield from count_any(plan_search(wanted, None, term, exact=True), MAX_COUNTED))

    @large_query
    def explore(self, wanted: MessageFilter) -> Work[FoundValues]:
        """What a search finds at a glance (`found_values`). Messages whose evidence is only in their records are not
        counted; where only records can tell, those of the first thousand rows are compared."""
        wanted = search_conditions.prepare_filter(wanted)
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        by_record = search_conditions.has_content(wanted)
        prefix = _prefix_of(wanted, term)
        plans = (
            (plan_by_prefix(_without_text(wanted), prefix, ""),)
            if prefix and (wanted.ggrid is not None or by_record)
            else plan_search(wanted, None, term, exact=not by_record)
        )
        rows: dict[_Key, FoundRow] = {}
        more = False
        for plan in map(_with_narrow_rows, plans):
            side = "s." if "AS s" in plan.source else ""
            found, rest = yield from read_rows(
                plan, [f"{side}{name}" for name in COLUMNS], EXAMINED_FOR_VALUES if by_record else COUNTED
            )
            more = more or rest
            for row in found:
                completed, uid = row[len(plan.order) - 2 : len(plan.order)]
                rows[completed, uid] = FoundRow(completed, (completed, uid), tuple(row[len(plan.order) :]))
        if by_record and rows:
            fitting = yield from _select_by_record(tuple(rows), wanted, term)
            rows = {key: rows[key] for key in fitting}
        newest = [rows[key] for key in sorted(rows, reverse=True)]
        some = choose_sample(newest[:COUNTED])
        packed = (yield Read(_SELECT_DETAILS, by_keys([row.key for row in some]))) if some else ()
        more = more or len(newest) > COUNTED
        return count_values(newest[:COUNTED], [row[2] for row in packed], more=more)

    @large_query
    def lines(self, ggrids: Sequence[str]) -> Work[tuple[MessageLine, ...]]:
        """Those of these messages that are still on record, the newest first."""
        return (yield from find_lines(ggrids))

    @large_query
    def timeline(self, ggrid: str, tenant: str | None = None) -> Work[MessageTimeline | None]:
        """What is on record of a message; None where there is none, or it is not that tenant's."""
        owner = normalize_scope(tenant)
        held = yield from find_held(ggrid, owner)
        record = (yield from find_message(ggrid)) or (held.record if held else None)
        if record is None or owner not in (None, record.envelope.tenant):
            return None
        actions: list[AuditRecord] = []
        is_cut = False
        for scope in dict.fromkeys((record.envelope.tenant or "", "")):
            found, more = yield from _find_actions(record, scope)
            actions, is_cut = actions + found, is_cut or more
        attempts, more = yield from _find_attempts(record)
        deliveries = yield from find_deliveries(record.ggrid)
        copies = yield from find_removed(record.ggrid)
        return MessageTimeline(record, held, deliveries, tuple(actions), attempts, copies, is_cut or more)

    @change
    def record_deliveries(self, deliveries: Sequence[Delivery]) -> Work[None]:
        """Add what next hops answered; doing it again changes nothing."""
        yield from insert_deliveries(deliveries)

    async def _purge_except(self, before: int, tenants: frozenset[str]) -> int:
        """Delete results of all tenants but these. Rows that stay are passed over once, a few at a time."""
        deleted, after = 0, (-(1 << 62), 0)
        while True:
            count, end = await self._engine.change(partial(_delete_except, before, after, tenants))
            deleted += count
            if end is None:
                return deleted
            after = end


def _parse_mail(rows: Sequence[Row]) -> list[MessageRecord]:
    """The records of rows that are no trials."""
    return [record for record in convert_each(parse_record, rows) if not record.is_trial]


def _delete_except(
    before: int, after: tuple[int, int], tenants: frozenset[str]
) -> Work[tuple[int, tuple[int, int] | None]]:
    """Look at some old results in their order, and delete those of other tenants; returns how many, and the last."""
    rows = yield Read(_OLD_IN_ORDER, (before, *after, PURGE_BATCH))
    keys = [(completed, uid) for completed, uid, tenant in rows if tenant not in tenants]
    deleted = yield from delete_by_keys(keys)
    return deleted, (rows[-1][0], rows[-1][1]) if len(rows) == PURGE_BATCH else None


def _find_by_ggrid(wanted: MessageFilter, before: str | None) -> Work[Page[MessageSummary]]:
    """A page of at most one result. Other conditions are ignored but for the tenant: an id names the message."""
    rows = yield from read_by_ggrid(_SELECT_GGRID, storable((wanted.ggrid or "").strip().lower()))
    found = (_summary(row) for row in rows) if before is None else ()
    return Page(tuple(each for each in found if wanted.tenant in (None, each.tenant)))


def _prefix_of(wanted: MessageFilter, term: Term | None) -> str | None:
    return id_prefix(wanted.ggrid.strip()) if wanted.ggrid is not None else term.id_prefix if term else None


def _without_text(wanted: MessageFilter) -> MessageFilter:
    """The other conditions; a text that is the beginning of an id has no other meaning beside it."""
    return wanted if wanted.ggrid is not None else msgspec.structs.replace(wanted, anywhere=None)


def _find_by_prefix(
    wanted: MessageFilter, term: Term | None, before: str | None, limit: int
) -> Work[Page[MessageSummary] | None]:
    """A page of the messages whose ids begin so; None where there are none and the text may mean something else."""
    prefix, is_only = _prefix_of(wanted, term), wanted.ggrid is not None
    if prefix is None:
        return Page(())
    last = ""
    if before:
        completed, uid = parse_time_cursor(before, None)
        rows = yield Read(_SELECT_GGRID_OF, (uid, completed))
        last = rows[0][0] if rows else ""
        if not last.startswith(prefix):
            return Page(()) if is_only else None
    keys = yield from find_page(plan_by_prefix(_without_text(wanted), prefix, last), min(limit, EXAMINED))
    if not (keys.rows or keys.next or is_only or last):
        return None
    fitting = yield from _select_by_record(tuple((row[1], row[2]) for row in keys.rows), _without_text(wanted), None)
    following = ".".join(map(str, keys.next[1:])) if keys.next else None
    reached = keys.next[1] if keys.next and keys.is_spent else None
    return Page((yield from _read_summaries(fitting)), following, reached)


def _read_summaries(keys: _Keys) -> Work[tuple[MessageSummary, ...]]:
    found = {row[0]: row for row in ((yield Read(_SELECT_IDS, by_keys(keys))) if keys else ())}
    return tuple(_summary(found[uid]) for _, uid in keys if uid in found)


def _is_examined(wanted: MessageFilter, term: Term | None) -> bool:
    """Does a search ask for something that narrow rows know only nearly?"""
    is_nearly_known = wanted.evidence.wanted or (term and term.values) or search_conditions.needs_record(wanted.query)
    return bool(is_nearly_known or search_conditions.has_content(wanted))


def _select_by_record(keys: _Keys, wanted: MessageFilter, term: Term | None) -> Work[_Keys]:
    """Those of the messages whose record fits; digests say so only nearly. What a next hop called a message is not in
    its record."""
    if not keys or not _is_examined(wanted, term):
        return keys
    details = {row[0]: row[1:] for row in (yield Read(_SELECT_DETAILS, by_keys(keys)))}
    delivered = (yield Read(_DELIVERED_AS, (*by_keys(keys), term.next_id))) if term and term.next_id else ()
    known = {row[0] for row in delivered}
    content = MessageFilter(evidence=wanted.evidence, link=wanted.link, signature=wanted.signature, shape=wanted.shape)
    chosen = []
    for completed, uid in keys:
        if uid not in details:
            continue
        background.rest_between_steps()
        ggrid, packed = details[uid]
        facts = RecordFacts(ggrid, completed, unpack(packed))
        is_meant = term is None or uid in known or search_conditions.fits_word(term, facts.detail)
        if (
            is_meant
            and search_conditions.fits_filter(content, facts)
            and (wanted.query is None or search_conditions.fits(wanted.query, facts))
        ):
            chosen.append((completed, uid))
    return tuple(chosen)


def _head(packed: bytes) -> ShownHead:
    detail = read_packed(BRIEFS, packed)
    if detail is None:
        return ShownHead()
    report = detail.report
    address, name = (each[0] if each else "" for each in (report.senders, report.sender_names))
    shown, host = name if name != address else "", report.authentication.host
    return ShownHead(address, shown, detail.source == TRIAL, host, tuple(report.links[:MAX_HEAD_LINKS]))


def _summary(row: Row) -> MessageSummary:
    _, ggrid, completed, tenant, sender, recipients, subject, verdict, decision, score, tags, size = row
    addresses, tag_names = _strings.decode(recipients)[:MAX_SHOWN_RECIPIENTS], _strings.decode(tags)
    return MessageSummary(
        ggrid, completed, tenant, sender, addresses, subject, verdict, decision, score, tag_names, size
    )


def plan_search(
    wanted: MessageFilter, before: str | None, term: Term | None, *, exact: bool = False
) -> tuple[PageQuery, ...]:
    """How to find the messages: one way for each meaning of the text that an index knows, and one for the others."""
    if term is None:
        return (_plan(wanted, before, exact=exact),)
    plans = []
    if term.address or term.domain:
        sender = term.address or term.domain
        plans.append(_plan(msgspec.structs.replace(wanted, anywhere=None, sender=sender), before))
    if term.address:
        plans.append(_plan(msgspec.structs.replace(wanted, anywhere=None, recipient=term.address), before))
    if term.next_id and not wanted.next_hop_id:
        plans.append(_plan(msgspec.structs.replace(wanted, anywhere=None, next_hop_id=term.next_id), before))
    rest = _plan(wanted, before, exact=exact)
    prefix = "" if rest.source == _INDEX else "s."
    days = _in_days("s.completed", wanted.since, parse_time_cursor(before, wanted.until)[0])
    if rest.source in _WITH_INDEX:
        rest = msgspec.structs.replace(rest, source=_WITH_INDEX[rest.source], within=[*rest.within, _JOINED, *days])
    tested = (*rest.tested, *(f"{prefix}{column}" for column in TESTED_FOR_WORDS))
    condition = match_rows(term, exact=exact)
    reach = min(1.0, rest.reach)
    return (*plans, msgspec.structs.replace(rest, tests=(*rest.tests, condition), tested=tested, reach=reach))


def _with_narrow_rows(plan: PageQuery) -> PageQuery:
    """The plan with the narrow rows of messages, where it has only a table that leads to them."""
    if plan.source not in _WITH_INDEX:
        return plan
    return msgspec.structs.replace(plan, source=_WITH_INDEX[plan.source], within=[*plan.within, _JOINED])


def _plan(wanted: MessageFilter, before: str | None, *, exact: bool = False) -> PageQuery:
    tests = search_conditions.row_tests(wanted, search_conditions.MESSAGE_ROWS, exact=exact)
    recipient = search_conditions.parse_address(wanted.recipient)
    sender = search_conditions.parse_address(wanted.sender)
    if wanted.next_hop_id:
        lead: dict[str, object] = {"r.queue_id": storable(wanted.next_hop_id.strip())}
        return _plan_by_key(_DELIVERIES, lead, wanted, before, tests, exact=exact)
    if recipient and recipient.kind == "address":
        tests.pop("recipients", None)
        return _plan_by_key(_RECIPIENTS, {"r.address": recipient.text}, wanted, before, tests, exact=exact)
    lead = _choose_lead(sender, tests)
    within = _within(lead, ("completed", "id"), wanted, before)
    reach = COVERED_REACH if "tenant" in lead and tests.keys() <= COVERED else 1.0
    plan = PageQuery(_INDEX, ("completed", "id"), within, tuple(tests.values()), tuple(tests), tuple(lead), reach=reach)
    return _add_query(plan, wanted, "", exact=exact)


def _add_query(plan: PageQuery, wanted: MessageFilter, prefix: str, *, exact: bool) -> PageQuery:
    """The plan with what an expression asks for besides the fields of the filter."""
    if wanted.query is None and not wanted.shape:
        return plan
    shape = (Leaf(search_conditions.SHAPE, wanted.shape),) if wanted.shape else ()
    condition = search_conditions.row_condition(
        Both((*shape, *conjuncts(wanted.query or EVERYTHING))), search_conditions.MESSAGE_ROWS, exact=exact
    )
    tested = dict.fromkeys((*plan.tested, *(f"{prefix}{column}" for column in search_conditions.TESTED)))
    reach = min(1.0, plan.reach) * search_conditions.reach_of(condition)
    return msgspec.structs.replace(plan, tests=(*plan.tests, condition), tested=tuple(tested), reach=reach)


def plan_by_prefix(wanted: MessageFilter, prefix: str, before: str) -> PageQuery:
    """How to find the messages whose ids begin so, and come before the id `before`, which is "" on the first page. Keys
    are id, time and row id."""
    tests = search_conditions.row_tests(wanted, search_conditions.MESSAGE_ROWS)
    tested = [f"s.{column}" for column in tests]
    if wanted.since is not None or wanted.until is not None:
        since, until = wanted.since or 0, END[0] if wanted.until is None else wanted.until
        tests["completed"] = SqlCondition("completed >= {} AND completed < {}", (since, until))
    within = [SqlCondition("r.ggrid >= {} AND r.ggrid < {}", (prefix, before or f"{prefix}~")), _JOINED]
    order = ("r.ggrid", "r.completed", "r.id")
    plan = PageQuery(_MESSAGES_AND_INDEX, order, within, tuple(tests.values()), tested, reach=_MESSAGES_REACH)
    return _add_query(plan, wanted, "s.", exact=False)


def _choose_lead(sender: search_conditions.AddressPattern | None, tests: dict[str, SqlCondition]) -> dict[str, object]:
    """The condition that an index serves; it is taken out of `tests`."""
    if sender and sender.kind != "part":
        tests.pop("sender_domain", None)
        return {"sender_domain": sender.text if sender.kind == "domain" else domain_of(sender.text)}
    column = next((column for column in ("tenant", "verdict") if column in tests), None)
    return {column: tests.pop(column).values[0]} if column else {}


def _within(
    lead: dict[str, object], order: tuple[str, ...], wanted: MessageFilter, before: str | None
) -> list[SqlCondition]:
    start = () if wanted.since is None else (wanted.since,)
    end = parse_time_cursor(before, wanted.until)
    return [*key_range(lead, order, start, end), *_in_days(order[0], wanted.since, end[0])]


def _in_days(column: str, since: int | None, until: int) -> list[SqlCondition]:
    """The bounds once more, as PostgreSQL needs them to leave out days (`message_days`)."""
    first = [] if since is None else [SqlCondition(f"@day({column}) >= {{}}", (since,))]
    return first if until >= END[0] else [*first, SqlCondition(f"@day({column}) <= {{}}", (until,))]


def _plan_by_key(
    source: str,
    lead: dict[str, object],
    wanted: MessageFilter,
    before: str | None,
    tests: dict[str, SqlCondition],
    *,
    exact: bool,
) -> PageQuery:
    """The plan where a table leads from one value to the messages that have it."""
    order = ("r.completed", "r.id")
    within = _within(lead, order, wanted, before)
    if not tests and wanted.query is None and not wanted.shape:
        return PageQuery(source, order, within, lead=tuple(lead))
    tested = [f"s.{column}" for column in tests]
    within = [*within, _JOINED, *_in_days("s.completed", wanted.since, parse_time_cursor(before, wanted.until)[0])]
    plan = PageQuery(_WITH_INDEX[source], order, within, tuple(tests.values()), tested, tuple(lead))
    return _add_query(plan, wanted, "s.", exact=exact)


def _find_actions(record: MessageRecord, scope: str) -> Work[tuple[list[AuditRecord], bool]]:
    """What people did with a message, as the audit trail of one scope has it, and whether there may be more."""
    order = ("time", "id")
    within = key_range({"scope": scope}, order, (record.created,), ())
    names = ", ".join(["{}"] * len(ACTIONS))
    tests = [SqlCondition(f"action IN ({names})", ACTIONS), SqlCondition("@holds(sample, {})", (record.ggrid,))]
    plan = PageQuery(
        "audit", order, within, tests, ("action", "sample"), ("scope",), descending=False, reach=ACTIONS_REACH
    )
    keys = yield from find_page(plan, MAX_ACTIONS)
    ids = tuple(row[1] for row in keys.rows)
    rows = (yield Read(_SELECT_AUDIT, (Many(ids),))) if ids else ()
    return [parse_audit(row) for row in rows], keys.next is not None


def _find_attempts(record: MessageRecord) -> Work[tuple[tuple[DeliveryAttempt, ...], bool]]:
    """Other analyses of the same message to its first recipient, oldest first, and whether there may be more."""
    envelope, message_id = record.envelope, record.report.message_id
    if not message_id or not envelope.recipients:
        return (), False
    wanted = MessageFilter(
        tenant=envelope.tenant,
        recipient=envelope.recipients[0],
        since=record.completed - ATTEMPTS_MILLISECONDS,
        until=record.completed + ATTEMPTS_MILLISECONDS,
        evidence=Evidence(message_id=message_id),
    )
    (plan,) = plan_search(wanted, None, None, exact=True)
    keys = yield from find_page(msgspec.structs.replace(plan, reach=ATTEMPTS_REACH), MAX_ATTEMPTS)
    rows = (yield Read(_SELECT_ATTEMPTS, by_keys([row[:2] for row in keys.rows]))) if keys.rows else ()
    attempts = (
        DeliveryAttempt(ggrid, created, completed, decision, code, sha256 == record.sha256)
        for ggrid, created, completed, decision, sha256, packed, code in rows
        # Digests say only nearly that a record has this Message-ID.
        if ggrid != record.ggrid
        and (detail := read_packed(BRIEFS, packed)) is not None
        and detail.report.message_id == message_id
    )
    return tuple(attempts), keys.next is not None
