"""The fields of the forms that search messages and held mail, as filters of the store.

What a form cannot send, such as a verdict that does not exist, is refused with a sentence: an empty page would look
like an answer.
"""

import re
from string import hexdigits

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.messages import HELD_CURSOR, MESSAGE_CURSOR
from gatepost.ids import LEAST_DIGITS, canonical, id_prefix
from gatepost.policy.rules import VERDICTS
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_index import Evidence
from gatepost.store.message_plans import MessageFilter
from gatepost.web.forms import Form, parse_period
from gatepost.web.request import SignedInRequest

DECISIONS = ("deliver", "quarantine", "bounce", "drop", "undecided")
HELD_VERDICTS = tuple(verdict for verdict in VERDICTS if verdict != "clean")
STATES = ("held", "released", "deleted")
SORTS = ("newest", "score", "sender")

# The fields that stand behind "more"; where one is set, they are shown.
MORE_FIELDS = (
    *("sender", "from", "recipient", "subject", "verdict", "decision", "tag", "ggrid", "host", "link", "file"),
    *("message_id", "queue_id", "next_hop_id", "since", "until", "since-time", "until-time", "last", "tenant", "state"),
)


def parse_message_filter(request: SignedInRequest, now: int) -> MessageFilter | Failure:
    """Return the filter of the page of messages."""
    query, tenant = request.query, request.parse_tenant()
    if isinstance(tenant, Failure):
        return tenant
    when = parse_period(query, now)
    if isinstance(when, Failure):
        return when
    if fault := _find_fault(query, VERDICTS, MESSAGE_CURSOR):
        return fault
    ggrid = query.text("ggrid", 60)
    if ggrid and not (canonical(ggrid) or id_prefix(ggrid)):
        return Failure(INVALID_REQUEST, f"ggrid: write the whole id, or at least its first {LEAST_DIGITS} digits")
    return MessageFilter(
        tenant=tenant,
        since=when.since,
        until=when.until,
        sender=query.text("sender", 320) or None,
        recipient=query.text("recipient", 320) or None,
        subject=query.text("subject", 200) or None,
        verdict=query.text("verdict", 40) or None,
        decision=query.text("decision", 40) or None,
        tag=query.text("tag", 200) or None,
        ggrid=ggrid or None,
        evidence=_parse_evidence(query),
        anywhere=query.text("q", 500) or None,
        next_hop_id=query.text("next_hop_id", 100) or None,
    )


def parse_held_filter(query: Form, tenant: str | None, now: int) -> HeldFilter | Failure:
    """Return the filter of the quarantine."""
    when = parse_period(query, now)
    if isinstance(when, Failure):
        return when
    if fault := _find_fault(query, HELD_VERDICTS, HELD_CURSOR):
        return fault
    return HeldFilter(
        tenant=tenant,
        verdict=query.text("verdict", 40) or None,
        sender=query.text("sender", 320) or None,
        recipient=query.text("recipient", 320) or None,
        since=when.since,
        until=when.until,
        subject=query.text("subject", 200) or None,
        released=query.text("state", 20) == "released",
        deleted=query.text("state", 20) == "deleted",
        evidence=_parse_evidence(query),
        anywhere=query.text("q", 500) or None,
    )


def _find_fault(query: Form, verdicts: tuple[str, ...], cursor: str) -> Failure | None:
    for name, choices in (("verdict", verdicts), ("decision", DECISIONS), ("state", STATES), ("sort", SORTS)):
        if (stated := query.text(name, 40)) and stated not in choices:
            return Failure(INVALID_REQUEST, f"{name}: choose one of {', '.join(choices)}")
    before = query.text("before", 200)
    if before and not re.fullmatch(cursor, before):
        return Failure(INVALID_REQUEST, "the address of this page is damaged; begin with the first page")
    return None


def _parse_evidence(query: Form) -> Evidence:
    """Return what the messages must have in them; the field for a file takes a name or a SHA-256."""
    file = query.text("file", 500)
    is_hash = len(file) == 64 and all(character in hexdigits for character in file)
    return Evidence(
        remote_address=query.text("host", 60) or None,
        link_host=query.text("link", 260) or None,
        file_name=file if file and not is_hash else None,
        file_hash=file if is_hash else None,
        message_id=query.text("message_id", 500) or None,
        header_from=query.text("from", 320) or None,
        queue_id=query.text("queue_id", 100) or None,
    )
