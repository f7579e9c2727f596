"""Searching messages: the best index leads, further conditions are tested in narrow rows, the page is read from the
long ones.

Which index leads: a whole recipient, then the domain of the sender, the tenant, the verdict, else time. Where one
tenant's messages are searched, rows of other tenants are passed over, never shown.
"""

from typing import Literal

import msgspec

from gatepost.store.engine import Operations, snapshot
from gatepost.store.message_index import domain_of, fold, fold_address
from gatepost.store.paging import MAX_WORDS, Condition, PageQuery, contains_all, find_page, key_range, parse_time_cursor
from gatepost.store.statements import Many, Read, Row, Work, storable

# The index of a tenant's messages has these columns too: reading it is faster than reading rows.
COVERED = frozenset({"verdict", "decision"})
COVERED_REACH = 4.0

_SELECT = """SELECT id, ggrid, completed, tenant, sender, recipients, subject, verdict, decision, score, tags, size
FROM messages"""
_SELECT_IDS = _SELECT + " WHERE id = ANY($1)"
_SELECT_GGRID = _SELECT + " WHERE ggrid = $1"
_INDEX = "message_search"
_RECIPIENTS = "message_recipients AS r"
_RECIPIENTS_AND_INDEX = "message_recipients AS r CROSS JOIN message_search AS s"
_JOINED = Condition("s.completed = r.completed AND s.id = r.id", ())

_strings = msgspec.json.Decoder(tuple[str, ...])


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


class MessageSummary(msgspec.Struct, frozen=True):
    """A result in one line. Long texts and long lists of recipients are cut."""

    ggrid: str
    completed: int
    tenant: str | None
    sender: str
    recipients: tuple[str, ...]
    subject: str
    verdict: str
    decision: str
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
        keys = yield from find_page(_plan(wanted, before), limit)
        ids = tuple(row[1] for row in keys.rows)
        found = {row[0]: row for row in ((yield Read(_SELECT_IDS, (Many(ids),))) if ids else ())}
        return MessagePage(tuple(_summary(found[uid]) for uid in ids if uid in found), keys.cursor, keys.reached)


def _find_by_ggrid(wanted: MessageFilter, before: str | None) -> Work[MessagePage]:
    """A page of at most one result. Other conditions are ignored but for the tenant: an id names the message."""
    rows = yield Read(_SELECT_GGRID, (storable((wanted.ggrid or "").strip().lower()),))
    found = (_summary(row) for row in rows) if before is None else ()
    return MessagePage(tuple(each for each in found if wanted.tenant in (None, each.tenant)))


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
