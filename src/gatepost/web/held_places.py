"""The place of a message in the list of held mail that its user works on.

Whoever opens a message from the quarantine goes on from there to the next one, and comes back to the same list. The
query of the list is the place; every page of the message carries it along as `in`, so that no action loses it.
"""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from gatepost.api.errors import Failure
from gatepost.report import shown_sender
from gatepost.store.held_search import HeldFilter
from gatepost.store.quarantine import HeldMessage
from gatepost.web.context import WebContext
from gatepost.web.forms import Form, parse_query
from gatepost.web.request import SignedInRequest
from gatepost.web.search_fields import parse_held_filter

# How many messages are sorted by something else than time, or grouped.
SORTED_ROWS = 500


def _sender_of(mail: HeldMessage) -> str:
    return shown_sender(mail.record.report, mail.record.envelope.sender).address.casefold()


_SORT_KEYS: dict[str, Callable[[HeldMessage], Any]] = {
    "score": lambda mail: -mail.record.report.score,
    "sender": _sender_of,
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
    wanted = named if isinstance(named, Failure) else parse_held_filter(query, named, context.now())
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
