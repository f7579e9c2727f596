"""The search for messages, and its index: a narrow row beside each long one, and a row for each recipient.

A result is kilobytes long, and reading through a hundred thousand of them would read gigabytes. The narrow row has what
filters ask for, folded and cut: a subject of 250 characters, 20 recipients. Whole addresses of up to 100 recipients
have an index of their own, because "where is my mail?" is asked most. Messages that were stored by a version without a
search are indexed afterwards, in small steps, from the newest on.

A search reads by the best index, tests further conditions in narrow rows, and reads the page from the long rows. The
indexes in their order: a whole recipient, then the domain of the sender, the tenant, the verdict, else time. Where one
tenant's messages are searched, rows of other tenants are passed over, never shown.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import apsw
import msgspec

from gatepost.policy.rules import Decision, Verdict
from gatepost.store import traffic
from gatepost.store.engine import Bulk, Many, Operations, Read, Row, Work, Write, insert_rows, snapshot, storable
from gatepost.store.message_evidence import Evidence, has_evidence, match_digests
from gatepost.store.paging import MAX_WORDS, Condition, PageQuery, contains_all, find_page, key_range, parse_time_cursor
from gatepost.store.record_packing import unpack

MAX_ADDRESS = 254
MAX_SUBJECT = 250
MAX_TAGS = 40
MAX_TESTED_RECIPIENTS = 20
MAX_RECIPIENTS = 100
STEP = 500
# How many records are read for a page where their evidence matters: hostile ones can be long.
EXAMINED = 100

COLUMNS = (
    *("completed", "id", "tenant", "verdict", "decision"),
    *("sender_domain", "sender", "subject", "recipients", "tags", "evidence"),
)
RECIPIENT_COLUMNS = ("address", "completed", "id")

_TYPES = ("bigint", "bigint", *("text",) * (len(COLUMNS) - 2))
_UNNEST = ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(_TYPES, 1))
_INSERT = Bulk(
    f"INSERT OR IGNORE INTO message_search ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})",  # noqa: S608
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
    """The texts of a message that filters are compared with. `addresses` are whole, each once; `evidence` is that of
    `message_evidence`, None where it has to be looked for in the record."""

    sender_domain: str
    sender: str
    subject: str
    recipients: str
    tags: str
    evidence: str | None
    addresses: tuple[str, ...]


# Completed, id, tenant, verdict, decision and texts of a message.
IndexedMessage: TypeAlias = tuple[int, int, str | None, str, str, IndexedTexts]


def index_texts(
    sender: str, recipients: Sequence[str], subject: str, tags: Sequence[str], evidence: str | None = None
) -> IndexedTexts:
    """Fold and cut the texts of a message."""
    address = fold_address(sender)
    addresses = tuple(dict.fromkeys(map(fold_address, recipients[:MAX_RECIPIENTS])))
    return IndexedTexts(
        domain_of(address),
        address,
        fold(subject[:MAX_SUBJECT]),
        _join_lines(addresses[:MAX_TESTED_RECIPIENTS]),
        _join_lines(tags[:MAX_TAGS]),
        evidence,
        addresses,
    )


def insert_in_sqlite(connection: apsw.Connection, messages: Sequence[IndexedMessage]) -> None:
    """Index messages that SQLite is just writing."""
    insert_rows(connection, "message_search", COLUMNS, [_row(*message) for message in messages])
    insert_rows(connection, "message_recipients", RECIPIENT_COLUMNS, _recipient_rows(messages))


def insert(messages: Sequence[IndexedMessage]) -> Work[None]:
    """Index messages that are stored already; those that are indexed stay as they are."""
    yield msgspec.structs.replace(_INSERT, rows=[_row(*message) for message in messages])
    if recipients := _recipient_rows(messages):
        yield msgspec.structs.replace(_INSERT_RECIPIENTS, rows=recipients)


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
    yield from insert(messages)
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
    return (completed, uid, tenant, verdict, decision, *searched_texts(texts))


def searched_texts(texts: IndexedTexts) -> Row:
    """The texts in the order of the columns."""
    return (texts.sender_domain, texts.sender, texts.subject, texts.recipients, texts.tags, texts.evidence)


def _recipient_rows(messages: Sequence[IndexedMessage]) -> list[Row]:
    return [(address, message[0], message[1]) for message in messages for address in message[5].addresses]


def _texts_of(row: Row) -> IndexedTexts:
    _, _, _, _, _, _, sender, recipients, subject, tags, _ = row
    return index_texts(sender, _strings.decode(recipients), subject, _strings.decode(tags))


def _join_lines(texts: Iterable[str]) -> str:
    joined = storable("\n".join(texts))
    return f"\n{joined}\n" if joined else ""


# The index of a tenant's messages has these columns too: reading it is faster than reading rows.
COVERED = frozenset({"verdict", "decision"})
COVERED_REACH = 4.0

_SELECT = """SELECT id, ggrid, completed, tenant, sender, recipients, subject, verdict, decision, score, tags, size
FROM messages"""
_SELECT_IDS = _SELECT + " WHERE id = ANY($1)"
_SELECT_DETAILS = "SELECT id, detail FROM messages WHERE id = ANY($1)"
_SELECT_GGRID = _SELECT + " WHERE ggrid = $1"
_INDEX = "message_search"
_RECIPIENTS = "message_recipients AS r"
_RECIPIENTS_AND_INDEX = "message_recipients AS r CROSS JOIN message_search AS s"
_JOINED = Condition("s.completed = r.completed AND s.id = r.id", ())


class MessageFilter(msgspec.Struct, frozen=True):
    """Which results to show. A field that is None does not matter; `tenant` None is all tenants.

    Sender and recipient are an address, a domain (`example.org` or `@example.org`), or a part of an address (no dot in
    it, or a `*` around it: `*example*`). `subject` is words that must all occur. Times are `since` <= completed <
    `until`.
    """

    tenant: str | None = None
    since: int | None = None
    until: int | None = None
    sender: str | None = None
    recipient: str | None = None
    subject: str | None = None
    verdict: str | None = None
    decision: str | None = None
    tag: str | None = None
    ggrid: str | None = None
    evidence: Evidence = Evidence()


class MessageSummary(msgspec.Struct, frozen=True):
    """A result in one line. Long texts and long lists of recipients are cut."""

    ggrid: str
    completed: int
    tenant: str | None
    sender: str
    recipients: tuple[str, ...]
    subject: str
    verdict: Verdict
    decision: Decision
    score: int
    tags: tuple[str, ...]
    size: int


class MessagePage(msgspec.Struct, frozen=True):
    """Results, newest first. `next` is the cursor of the next page; `reached` is the time back to which messages were
    read where the budget ended before the page was full."""

    rows: tuple[MessageSummary, ...]
    next: str | None = None
    reached: int | None = None


class _AddressPattern(msgspec.Struct, frozen=True):
    """An address to search for: whole, by domain, or by a part."""

    kind: Literal["address", "domain", "part"]
    text: str


class MessageSearch(Operations):
    """Searching results."""

    @snapshot
    def search_messages(self, wanted: MessageFilter, before: str | None = None, limit: int = 100) -> Work[MessagePage]:
        """A page of results, newest first. `before` is the `next` of the page before; `limit` is at most 1,000."""
        if wanted.ggrid is not None:
            return (yield from _find_by_ggrid(wanted, before))
        keys = yield from find_page(_plan(wanted, before), min(limit, EXAMINED) if wanted.evidence.wanted else limit)
        ids = yield from _select_by_evidence(tuple(row[1] for row in keys.rows), wanted.evidence)
        found = {row[0]: row for row in ((yield Read(_SELECT_IDS, (Many(ids),))) if ids else ())}
        return MessagePage(tuple(_summary(found[uid]) for uid in ids if uid in found), keys.cursor, keys.reached)


def _find_by_ggrid(wanted: MessageFilter, before: str | None) -> Work[MessagePage]:
    """A page of at most one result. Other conditions are ignored but for the tenant: an id names the message."""
    rows = yield Read(_SELECT_GGRID, (storable((wanted.ggrid or "").strip().lower()),))
    found = (_summary(row) for row in rows) if before is None else ()
    return MessagePage(tuple(each for each in found if wanted.tenant in (None, each.tenant)))


def _select_by_evidence(ids: tuple[int, ...], evidence: Evidence) -> Work[tuple[int, ...]]:
    """Those of the messages whose record has the evidence; digests say so only nearly."""
    if not ids or not evidence.wanted:
        return ids
    details = dict((yield Read(_SELECT_DETAILS, (Many(ids),))))
    unpacked = ((uid, unpack(details[uid])) for uid in ids if uid in details)
    return tuple(uid for uid, detail in unpacked if has_evidence(detail.envelope, detail.report, evidence))


def _plan(wanted: MessageFilter, before: str | None) -> PageQuery:
    tests = _tests(wanted)
    recipient = _parse_address(wanted.recipient)
    sender = _parse_address(wanted.sender)
    if recipient and recipient.kind == "address":
        return _plan_by_recipient(recipient.text, wanted, before, tests)
    lead = _choose_lead(sender, tests)
    within = _within(lead, ("completed", "id"), wanted, before)
    reach = COVERED_REACH if "tenant" in lead and tests.keys() <= COVERED else 1.0
    return PageQuery(_INDEX, ("completed", "id"), within, tuple(tests.values()), tuple(tests), tuple(lead), reach=reach)


def _choose_lead(sender: _AddressPattern | None, tests: dict[str, Condition]) -> dict[str, object]:
    """The condition that an index serves; it is taken out of `tests`."""
    if sender and sender.kind != "part":
        tests.pop("sender_domain", None)
        return {"sender_domain": sender.text if sender.kind == "domain" else domain_of(sender.text)}
    column = next((column for column in ("tenant", "verdict") if column in tests), None)
    return {column: tests.pop(column).values[0]} if column else {}


def _within(
    lead: dict[str, object], order: tuple[str, ...], wanted: MessageFilter, before: str | None
) -> list[Condition]:
    start = () if wanted.since is None else (wanted.since,)
    return key_range(lead, order, start, parse_time_cursor(before, wanted.until))


def _plan_by_recipient(
    address: str, wanted: MessageFilter, before: str | None, tests: dict[str, Condition]
) -> PageQuery:
    lead: dict[str, object] = {"r.address": address}
    order = ("r.completed", "r.id")
    within = _within(lead, order, wanted, before)
    tests.pop("recipients", None)
    if not tests:
        return PageQuery(_RECIPIENTS, order, within, lead=tuple(lead))
    tested = [f"s.{column}" for column in tests]
    return PageQuery(_RECIPIENTS_AND_INDEX, order, [*within, _JOINED], tuple(tests.values()), tested, tuple(lead))


def _tests(wanted: MessageFilter) -> dict[str, Condition]:
    """The condition on each column."""
    tests: dict[str, Condition] = {}
    if wanted.tenant is not None:
        tests["tenant"] = Condition("tenant = {}", (storable(wanted.tenant.lower()),))
    if wanted.verdict is not None:
        tests["verdict"] = Condition("verdict = {}", (storable(wanted.verdict),))
    if wanted.decision is not None:
        tests["decision"] = Condition("decision = {}", (storable(wanted.decision),))
    if wanted.tag is not None:
        tests["tags"] = contains_all("tags", [f"\n{storable(wanted.tag)}\n"])
    if sender := _parse_address(wanted.sender):
        tests |= _sender_tests(sender)
    if recipient := _parse_address(wanted.recipient):
        text = {"address": f"\n{recipient.text}\n", "domain": f"@{recipient.text}\n"}.get(
            recipient.kind, recipient.text
        )
        tests["recipients"] = contains_all("recipients", [text])
    if words := fold(wanted.subject or "").split()[:MAX_WORDS]:
        tests["subject"] = contains_all("subject", words)
    if digests := match_digests(wanted.evidence):
        tests["evidence"] = digests
    return tests


def _sender_tests(sender: _AddressPattern) -> dict[str, Condition]:
    if sender.kind == "part":
        return {"sender": contains_all("sender", [sender.text])}
    if sender.kind == "domain":
        return {"sender_domain": Condition("sender_domain = {}", (sender.text,))}
    return {"sender": Condition("sender = {}", (sender.text,))}


def _parse_address(text: str | None) -> _AddressPattern | None:
    """Whether a text in the search form is an address, a domain or a part of an address."""
    if text is None:
        return None
    plain = fold_address(text)
    if "*" in plain:
        return _AddressPattern("part", plain.strip("*"))
    if not plain or "@" in plain.strip("@"):
        return _AddressPattern("address", plain)
    if plain.startswith("@") or ("." in plain and not plain.endswith("@")):
        return _AddressPattern("domain", plain.strip("@."))
    return _AddressPattern("part", plain)


def _summary(row: Row) -> MessageSummary:
    _, ggrid, completed, tenant, sender, recipients, subject, verdict, decision, score, tags, size = row
    addresses, tag_names = _strings.decode(recipients), _strings.decode(tags)
    return MessageSummary(
        ggrid, completed, tenant, sender, addresses, subject, verdict, decision, score, tag_names, size
    )
