"""Which index serves a search of messages.

A search reads by the best index, tests further conditions in narrow rows, and reads the page from the long rows. The
indexes in their order: the beginning of an id, the id that a next hop gave, a whole recipient, then the domain of the
sender, the tenant, the verdict, else time. Where one tenant's messages are searched, rows of other tenants are
passed over, never shown. A text that can mean several things has a query for each meaning that has an index, and one
query that tests narrow rows for all the others.
"""

from typing import Literal

import msgspec

from gatepost.store.engine import storable
from gatepost.store.message_index import (
    TESTED,
    Evidence,
    Term,
    domain_of,
    fold,
    fold_address,
    match_digests,
    match_rows,
)
from gatepost.store.paging import END, MAX_WORDS, Condition, PageQuery, contains_all, key_range, parse_time_cursor

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
_JOINED = Condition("s.completed = r.completed AND s.id = r.id", ())


# How far results are counted.
MAX_COUNTED = 10_000


class MessageCount(msgspec.Struct, frozen=True):
    """How many results fit; with `more`, at least so many."""

    messages: int
    more: bool = False


class MessageFilter(msgspec.Struct, frozen=True):
    """Which results to show. A field that is None does not matter; `tenant` None is all tenants.

    Sender and recipient are an address, a domain (`example.org` or `@example.org`), or a part of an address (no dot in
    it, or a `*` around it: `*example*`). `tag` is one tag, or all of an area (`rule:`). `subject` is words that must
    all occur. Times are `since` <= completed < `until`. `anywhere` is a text for which a message fits in whatever way
    it can mean it (`message_terms`). `next_hop_id` is the id that a next hop gave the message. `ggrid` is a whole id or
    at least eight digits of its beginning.
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
    anywhere: str | None = None
    next_hop_id: str | None = None


class _AddressPattern(msgspec.Struct, frozen=True):
    """An address to search for: whole, by domain, or by a part."""

    kind: Literal["address", "domain", "part"]
    text: str


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
    if rest.source in _WITH_INDEX:
        rest = msgspec.structs.replace(rest, source=_WITH_INDEX[rest.source], within=[*rest.within, _JOINED])
    tested = (*rest.tested, *(f"{prefix}{column}" for column in TESTED))
    condition = match_rows(term, exact=exact)
    return (*plans, msgspec.structs.replace(rest, tests=(*rest.tests, condition), tested=tested, reach=1.0))


def _plan(wanted: MessageFilter, before: str | None, *, exact: bool = False) -> PageQuery:
    tests = _tests(wanted)
    if exact and "evidence" in tests:
        tests["evidence"] = Condition(f"evidence IS NOT NULL AND {tests['evidence'].sql}", tests["evidence"].values)
    recipient = _parse_address(wanted.recipient)
    sender = _parse_address(wanted.sender)
    if wanted.next_hop_id:
        return _plan_by_key(_DELIVERIES, {"r.queue_id": storable(wanted.next_hop_id.strip())}, wanted, before, tests)
    if recipient and recipient.kind == "address":
        tests.pop("recipients", None)
        return _plan_by_key(_RECIPIENTS, {"r.address": recipient.text}, wanted, before, tests)
    lead = _choose_lead(sender, tests)
    within = _within(lead, ("completed", "id"), wanted, before)
    reach = COVERED_REACH if "tenant" in lead and tests.keys() <= COVERED else 1.0
    return PageQuery(_INDEX, ("completed", "id"), within, tuple(tests.values()), tuple(tests), tuple(lead), reach=reach)


def plan_by_prefix(wanted: MessageFilter, prefix: str, before: str) -> PageQuery:
    """How to find the messages whose ids begin so, and come before the id `before`, which is "" on the first page. Keys
    are id, time and row id."""
    tests = _tests(wanted)
    tested = [f"s.{column}" for column in tests]
    if wanted.since is not None or wanted.until is not None:
        since, until = wanted.since or 0, END[0] if wanted.until is None else wanted.until
        tests["completed"] = Condition("completed >= {} AND completed < {}", (since, until))
    within = [Condition("r.ggrid >= {} AND r.ggrid < {}", (prefix, before or f"{prefix}~")), _JOINED]
    order = ("r.ggrid", "r.completed", "r.id")
    return PageQuery(_MESSAGES_AND_INDEX, order, within, tuple(tests.values()), tested, reach=_MESSAGES_REACH)


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


def _plan_by_key(
    source: str, lead: dict[str, object], wanted: MessageFilter, before: str | None, tests: dict[str, Condition]
) -> PageQuery:
    """The plan where a table leads from one value to the messages that have it."""
    order = ("r.completed", "r.id")
    within = _within(lead, order, wanted, before)
    if not tests:
        return PageQuery(source, order, within, lead=tuple(lead))
    tested = [f"s.{column}" for column in tests]
    return PageQuery(_WITH_INDEX[source], order, [*within, _JOINED], tuple(tests.values()), tested, tuple(lead))


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
        end = "" if wanted.tag.endswith(":") else "\n"
        tests["tags"] = contains_all("tags", [f"\n{storable(wanted.tag)}{end}"])
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
