"""Searching messages: the best index leads, the rest is looked at in narrow rows, the page is read from the long ones.

Which index leads: a whole recipient, then the domain of the sender, the tenant, the verdict, else time. Where one
tenant is searched, rows of others are passed over, never shown.
"""

import msgspec

from gatepost.store import scanning
from gatepost.store.findable import domain_of, fold, folded
from gatepost.store.scanning import Scan, Test, between, having, moment
from gatepost.store.searchstore import MessageFilter, MessageSummary, Page
from gatepost.store.work import Many, Read, Row, Work, storable

MAX_WORDS = 8
# The index of a tenant's messages has these columns too: it is looked through faster than rows.
COVERED = frozenset({"verdict", "decision"})
COVERED_REACH = 4.0

_READ = """SELECT id, ggrid, completed, tenant, sender, recipients, subject, verdict, decision, score, tags, size
FROM messages"""
_SOME = _READ + " WHERE id = ANY($1)"
_ONE = _READ + " WHERE ggrid = $1"
_ROWS = "message_search"
_TO = "message_recipients AS r"
_TO_ROWS = "message_recipients AS r CROSS JOIN message_search AS s"
_JOINED = Test("s.completed = r.completed AND s.id = r.id", ())

_strings = msgspec.json.Decoder(tuple[str, ...])


class _Sought(msgspec.Struct, frozen=True):
    """An address to look for: whole, by domain, or by a part."""

    kind: str
    text: str


def search(wanted: MessageFilter, before: str | None, limit: int) -> Work[Page]:
    """A page of results, newest first."""
    if wanted.ggrid is not None:
        return (yield from _by_ggrid(wanted, before))
    looked = yield from scanning.look(_scan(wanted, before), limit)
    places = [(row[0], row[1]) for row in looked.rows]
    rows = (yield Read(_SOME, (Many(tuple(uid for _, uid in places)),))) if places else ()
    found = {row[0]: row for row in rows}
    summaries = tuple(_summary(found[uid]) for _, uid in places if uid in found)
    return Page(summaries, looked.cursor, looked.reached)


def _by_ggrid(wanted: MessageFilter, before: str | None) -> Work[Page]:
    """At most one, whatever else is asked for: whoever has the id wants that message."""
    rows = yield Read(_ONE, (storable((wanted.ggrid or "").strip().lower()),))
    found = (_summary(row) for row in rows) if before is None else ()
    return Page(tuple(each for each in found if wanted.tenant in (None, each.tenant)))


def _scan(wanted: MessageFilter, before: str | None) -> Scan:
    tests = _tests(wanted)
    recipient = _sought(wanted.recipient)
    sender = _sought(wanted.sender)
    if recipient and recipient.kind == "address":
        return _by_recipient(recipient.text, wanted, before, tests)
    lead = _leading(sender, tests)
    within = _within(lead, ("completed", "id"), wanted, before)
    reach = COVERED_REACH if "tenant" in lead and tests.keys() <= COVERED else 1.0
    return Scan(_ROWS, ("completed", "id"), within, tuple(tests.values()), tuple(tests), tuple(lead), reach=reach)


def _leading(sender: _Sought | None, tests: dict[str, Test]) -> dict[str, object]:
    """The condition that an index serves, which need not be tested any more."""
    if sender and sender.kind != "part":
        tests.pop("sender_domain", None)
        return {"sender_domain": sender.text if sender.kind == "domain" else domain_of(sender.text)}
    column = next((column for column in ("tenant", "verdict") if column in tests), None)
    return {column: tests.pop(column).values[0]} if column else {}


def _within(lead: dict[str, object], place: tuple[str, ...], wanted: MessageFilter, before: str | None) -> list[Test]:
    start = () if wanted.since is None else (wanted.since,)
    return between(lead, place, start, moment(before, wanted.until))


def _by_recipient(address: str, wanted: MessageFilter, before: str | None, tests: dict[str, Test]) -> Scan:
    lead: dict[str, object] = {"r.address": address}
    place = ("r.completed", "r.id")
    within = _within(lead, place, wanted, before)
    tests.pop("recipients", None)
    if not tests:
        return Scan(_TO, place, within, lead=tuple(lead))
    looked = [f"s.{column}" for column in tests]
    return Scan(_TO_ROWS, place, [*within, _JOINED], tuple(tests.values()), looked, tuple(lead))


def _tests(wanted: MessageFilter) -> dict[str, Test]:
    """What each column must be like."""
    tests: dict[str, Test] = {}
    if wanted.tenant is not None:
        tests["tenant"] = Test("tenant = {}", (storable(wanted.tenant.lower()),))
    if wanted.verdict is not None:
        tests["verdict"] = Test("verdict = {}", (storable(wanted.verdict),))
    if wanted.decision is not None:
        tests["decision"] = Test("decision = {}", (storable(wanted.decision),))
    if wanted.tag is not None:
        tests["tags"] = having("tags", [f"\n{storable(wanted.tag)}\n"])
    if sender := _sought(wanted.sender):
        tests |= _from(sender)
    if recipient := _sought(wanted.recipient):
        text = {"address": f"\n{recipient.text}\n", "domain": f"@{recipient.text}\n"}.get(
            recipient.kind, recipient.text
        )
        tests["recipients"] = having("recipients", [text])
    if words := fold(wanted.subject or "").split()[:MAX_WORDS]:
        tests["subject"] = having("subject", words)
    return tests


def _from(sender: _Sought) -> dict[str, Test]:
    if sender.kind == "part":
        return {"sender": having("sender", [sender.text])}
    if sender.kind == "domain":
        return {"sender_domain": Test("sender_domain = {}", (sender.text,))}
    return {"sender": Test("sender = {}", (sender.text,))}


def _sought(text: str | None) -> _Sought | None:
    """What somebody means who types this."""
    if text is None:
        return None
    plain = folded(text)
    if "*" in plain:
        return _Sought("part", plain.strip("*"))
    if not plain or "@" in plain.strip("@"):
        return _Sought("address", plain)
    if plain.startswith("@") or ("." in plain and not plain.endswith("@")):
        return _Sought("domain", plain.strip("@."))
    return _Sought("part", plain)


def _summary(row: Row) -> MessageSummary:
    _, ggrid, completed, tenant, sender, recipients, subject, verdict, decision, score, tags, size = row
    whom, marks = _strings.decode(recipients), _strings.decode(tags)
    return MessageSummary(ggrid, completed, tenant, sender, whom, subject, verdict, decision, score, marks, size)
