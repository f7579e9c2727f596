"""Searches of messages and held mail: the fields of their forms as filters of the store, and the way back to a list.

What a form cannot send, such as a verdict that does not exist, is refused with a sentence: an empty page would look
like an answer.

Whoever opens a message from the quarantine goes on from there to the next one, and comes back to the same list. The
query of the list is the place; every page of the message carries it along as `in`, so that no action loses it.
"""

import re
from collections.abc import Callable, Sequence
from string import hexdigits
from typing import Any
from urllib.parse import urlencode

import msgspec

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.messages import HELD_CURSOR, MESSAGE_CURSOR
from gatepost.ids import LEAST_DIGITS, canonical, id_prefix
from gatepost.policy.rules import VERDICTS
from gatepost.report import shown_sender
from gatepost.store.evidence import Evidence
from gatepost.store.messages import MessageFilter
from gatepost.store.quarantine import HeldFilter, HeldMessage
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import LAST_PERIODS, Form, parse_period, parse_query
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import about

DECISIONS = ("deliver", "quarantine", "bounce", "drop", "undecided")
HELD_VERDICTS = tuple(verdict for verdict in VERDICTS if verdict != "clean")
STATES = ("held", "released", "deleted")
SORTS = ("newest", "score", "sender")

# The fields that stand behind "more"; where one is set, they are shown.
MORE_FIELDS = (
    *("sender", "from", "recipient", "subject", "verdict", "decision", "tag", "ggrid", "host", "link", "file"),
    *("message_id", "queue_id", "next_hop_id", "since", "until", "since-time", "until-time", "last", "tenant", "state"),
)


async def _find_message_filter(context: WebContext, request: SignedInRequest) -> MessageFilter | Failure:
    query, tenant = request.query, request.parse_tenant()
    if isinstance(tenant, Failure):
        return tenant
    when = parse_period(query, context.now())
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


async def _find_held_filter(context: WebContext, request: SignedInRequest) -> HeldFilter | Failure:
    tenant = request.parse_tenant()
    return tenant if isinstance(tenant, Failure) else _parse_held_filter(request.query, tenant, context.now())


# The filters of the page of messages, and of the quarantine.
for_message_filter, for_held_filter = about(_find_message_filter), about(_find_held_filter)


def _parse_held_filter(query: Form, tenant: str | None, now: int) -> HeldFilter | Failure:
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


async def describe_search(context: WebContext, request: SignedInRequest, page: str) -> dict[str, Any]:
    """Return what the forms of both pages show: the query, its choices, and the searches that were saved."""
    query = request.query
    return {
        "query": query,
        "scopes": await find_scopes(context, request),
        "sorts": SORTS,
        "periods": LAST_PERIODS,
        "has_more": any(query.text(name, 500) for name in MORE_FIELDS),
        "searches": [each for each in await context.store.users.saved_searches(request.user.uid) if each.page == page],
        "narrowed": query.is_filtered,
    }


# How many messages are sorted by something else than time, or grouped.
SORTED_ROWS = 500


_SORT_KEYS: dict[str, Callable[[HeldMessage], Any]] = {
    "score": lambda mail: -mail.record.report.score,
    "sender": lambda mail: shown_sender(mail.record.report, mail.record.envelope.sender).address.casefold(),
}


def sort_held(rows: Sequence[HeldMessage], query: Form) -> Sequence[HeldMessage]:
    """Return rows, which are the newest first, in the order that a query of the quarantine asks for."""
    key = _SORT_KEYS.get(query.text("sort", 20))
    return sorted(rows, key=key) if key else rows


def is_sorted(query: Form) -> bool:
    """Does a query of the quarantine ask for another order than the newest first?"""
    return query.text("sort", 20) in _SORT_KEYS


def tail_of(request: SignedInRequest) -> str:
    """Return the place as the query of an address; "" where the message was not opened from the quarantine."""
    return f"?{urlencode({'in': request.query.raw_text('in')})}" if "in" in request.query.fields else ""


def list_of(request: SignedInRequest) -> str:
    """Return the address of the list that the user works on."""
    return f"/quarantine?{request.query.raw_text('in')}".rstrip("?")


class Neighbours(msgspec.Struct, frozen=True):
    """The messages before and after this one in the list of held mail that its user works on."""

    previous: str | None = None
    following: str | None = None


async def find_neighbours(context: WebContext, request: SignedInRequest, held: HeldMessage) -> Neighbours | None:
    """Return the neighbours of a message; None for one that was not opened from the quarantine."""
    if "in" not in request.query.fields:
        return None
    query = parse_query(request.query.raw_text("in"))
    named = request.parse_scope(query.text("tenant")) if query.has("tenant") else request.user.tenant
    wanted = named if isinstance(named, Failure) else _parse_held_filter(query, named, context.now())
    if not isinstance(wanted, HeldFilter):
        return None
    if is_sorted(query):
        return await _find_among_sorted(context, query, wanted, held.record.ggrid)
    after = await context.store.quarantine.search(wanted, held.record.ggrid, 1)
    previous = await context.store.quarantine.newer(wanted, held)
    return Neighbours(previous, after.rows[0].record.ggrid if after.rows else None)


async def _find_among_sorted(context: WebContext, query: Form, wanted: HeldFilter, ggrid: str) -> Neighbours:
    page = await context.store.quarantine.search(wanted, query.text("before", 200) or None, SORTED_ROWS)
    found = [mail.record.ggrid for mail in sort_held(page.rows, query)]
    if ggrid not in found:
        # It was released or deleted since: the list goes on from its beginning.
        return Neighbours(None, found[0] if found else None)
    at = found.index(ggrid)
    return Neighbours(found[at - 1] if at else None, found[at + 1] if at + 1 < len(found) else None)
