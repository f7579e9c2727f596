"""Searches of messages and held mail on pages: the text of the language, the forms that write it, and the way back to a
list.

There is one way to search, the language (`store.search_language`). The controls of a form write terms of it, and so do
links from other pages; what stands in the address of a list is its text, and how the list is shown. A text that is
wrong is shown with what is wrong in it: an empty page would look like an answer.

Whoever opens a message from the quarantine goes on from there to the next one, and comes back to the same list. The
query of the list is the place; every page of the message carries it along as `in`, so that no action loses it.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import date, timedelta
from string import hexdigits
from typing import Any, Literal, TypeAlias
from urllib.parse import urlencode

import msgspec

from gatepost.analysis.report import shown_sender
from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.messages import HELD_CURSOR, MESSAGE_CURSOR
from gatepost.store.held_search import HeldFilter
from gatepost.store.paging import MAX_WORDS
from gatepost.store.quarantine import HeldMessage
from gatepost.store.search_conditions import MessageFilter, hoist
from gatepost.store.search_language import (
    FIELDS,
    MAX_LENGTH,
    Expression,
    SearchFault,
    SearchPlace,
    add_term,
    by_name_and_id,
    find_state,
    write_term,
)
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import LAST_PERIODS, Form, parse_query, with_hour
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import about
from gatepost.web.time_zones import current_zone

SORTS = ("newest", "score", "sender")
ListPath: TypeAlias = Literal["/messages", "/quarantine"]
# Fields of forms and of links from other pages, as terms of the language.
TERMS = {
    "sender": "sender",
    "from": "from",
    "recipient": "to",
    "verdict": "verdict",
    "decision": "decision",
    "tag": "tag",
    "ggrid": "id",
    "host": "ip",
    "link": "host",
    "message_id": "message-id",
    "queue_id": "queue",
    "next_hop_id": "next-hop",
    "state": "state",
}
# What of an address says how a list is shown, and not what it has.
SHOWN = ("sort", "group", "before", "columns", "density")
# How lists are shown unless somebody says otherwise.
USUAL = ("newest", "comfortable")


# The columns of a list, with whether they are shown unless somebody chooses others. The subject leads to the message,
# and so it is always there.
_MORE_COLUMNS = {
    "decision": ("Decision", False),
    "sender": ("Envelope sender", False),
    "ip": ("Sending host", False),
    "hosts": ("Link hosts", False),
    "tags": ("Findings", False),
    "tenant": ("Tenant", False),
    "size": ("Size", False),
}
COLUMNS: dict[ListPath, dict[str, tuple[str, bool]]] = {
    "/messages": {
        "time": ("Time", True),
        "verdict": ("Verdict", True),
        "from": ("From", True),
        "to": ("Recipients", True),
        "score": ("Score", True),
        **_MORE_COLUMNS,
    },
    "/quarantine": {
        "time": ("Held", True),
        "verdict": ("Verdict", True),
        "from": ("Sender", True),
        "marks": ("Links and files", True),
        "to": ("Recipients", True),
        "score": ("Score", True),
        **{name: column for name, column in _MORE_COLUMNS.items() if name not in ("decision", "hosts")},
    },
}


class Search(msgspec.Struct, frozen=True):
    """A search of a page: its text, what that asks for, or what is wrong with it. `form` is the address of the list in
    its shortest form; `tenant` is whose mail the user may see at all, None for all."""

    path: ListPath
    text: str
    found: Expression | SearchFault
    form: Form
    tenant: str | None = None

    @property
    def fault(self) -> SearchFault | None:
        return self.found if isinstance(self.found, SearchFault) else None

    @property
    def state(self) -> str:
        """Which held mail is shown."""
        return "held" if isinstance(self.found, SearchFault) else find_state(self.found)

    @property
    def messages(self) -> MessageFilter:
        """The filter of messages on record."""
        return hoist(MessageFilter(tenant=self.tenant, query=_expression(self.found)))

    @property
    def held(self) -> HeldFilter:
        """The filter of held mail."""
        state = self.state
        return hoist(
            HeldFilter(
                tenant=self.tenant,
                released=state == "released",
                deleted=state == "deleted",
                query=_expression(self.found),
            )
        )

    @property
    def parts(self) -> tuple[str, str, str]:
        """The text before, at and behind what is wrong."""
        fault = self.fault or SearchFault(len(self.text), len(self.text), "")
        return self.text[: fault.start], self.text[fault.start : fault.end], self.text[fault.end :]

    def narrowed(self, field: str, value: str) -> str:
        """The address of the list that has one more condition."""
        return self.with_text(add_term(self.text, write_term(field, value)))

    def without(self, field: str, value: str) -> str:
        """The address of the list without what has this."""
        return self.with_text(add_term(self.text, f"NOT {write_term(field, value)}"))

    def with_text(self, text: str) -> str:
        """The address of the list of another search, shown in the same way."""
        kept = Form({name: values for name, values in self.form.fields.items() if name != "before"})
        return f"{self.path}?{kept.with_field('q', text)}"


def _expression(found: Expression | SearchFault) -> Expression | None:
    return None if isinstance(found, SearchFault) else found


def _search_on(path: ListPath) -> Callable[[WebContext, SignedInRequest], Awaitable[Search | Failure]]:
    return lambda context, request: read_list(context, request, path, request.query)


# The searches of the page of messages, and of the quarantine.
for_messages, for_held = about(_search_on("/messages")), about(_search_on("/quarantine"))


async def read_list(context: WebContext, request: SignedInRequest, path: ListPath, query: Form) -> Search | Failure:
    """Return the search that the address of a list asks for."""
    place, names = await find_place(context, request, path)
    named = query.text("tenant", 60)
    owner = request.parse_scope(named) if named else None
    if isinstance(owner, Failure):
        return owner
    if (stated := query.text("sort", 20)) and stated not in SORTS:
        return Failure(INVALID_REQUEST, f"sort: choose one of {', '.join(SORTS)}")
    before = query.text("before", 200)
    if before and not re.fullmatch(HELD_CURSOR if path == "/quarantine" else MESSAGE_CURSOR, before):
        return Failure(INVALID_REQUEST, "the address of this page is damaged; begin with the first page")
    text = query.text("q", MAX_LENGTH + 1)
    added = list(_write_terms(query, context.now()))
    if owner and not request.user.tenant:
        added.append(write_term("tenant", names.get(owner, owner)))
    for term in added:
        text = add_term(text, term)
    found = await context.store.messages.read_search(text, place, request.user.tenant)
    kept = {name: query.fields[name] for name in SHOWN if query.has(name) and query.text(name) not in USUAL}
    usual = {name for name, (_, is_usual) in COLUMNS[path].items() if is_usual}
    if set(kept.get("columns", ())) == usual:
        del kept["columns"]
    form = Form({**({"q": (text,)} if text else {}), **kept})
    return Search(path, text, found, form, request.user.tenant)


async def find_place(
    context: WebContext, request: SignedInRequest, path: ListPath
) -> tuple[SearchPlace, dict[str, str]]:
    """Return where a user searches, and the names of the tenants that the user may name, by their ids."""
    tenants = (await find_scopes(context, request)).tenants
    names = {each.uid: each.name for each in tenants}
    known = by_name_and_id(names.items())
    return SearchPlace(context.now(), current_zone(), known, is_held=path == "/quarantine"), names


def _write_terms(query: Form, now: int) -> Iterator[str]:
    """The terms that the fields of a form ask for."""
    for name, field in TERMS.items():
        if value := query.text(name, 500):
            yield write_term(field, value)
    for word in query.text("subject", 200).split()[:MAX_WORDS]:
        yield write_term("subject", word)
    if file := query.text("file", 500):
        is_hash = len(file) == 64 and all(character in hexdigits for character in file)
        yield write_term("sha256" if is_hash else "file", file)
    if last := query.text("last", 10):
        yield write_term("after", last)
    if since := with_hour(query, "since", now):
        yield write_term("after", since)
    if until := with_hour(query, "until", now):
        yield write_term("before", _next_day(until))


def _next_day(text: str) -> str:
    """A last day ends with the next one; a time is what it is."""
    try:
        return (date.fromisoformat(text) + timedelta(days=1)).isoformat() if len(text) == len("2027-01-31") else text
    except (ValueError, OverflowError):
        return text


async def describe_search(context: WebContext, request: SignedInRequest, search: Search) -> dict[str, Any]:
    """Return what the forms of both pages show: the search, its choices, and the searches that were saved."""
    saved = await context.store.users.saved_searches(request.user.uid, request.user.tenant)
    scopes = await find_scopes(context, request)
    known = COLUMNS[search.path]
    chosen = [name for name in search.form.all("columns") if name in known]
    return {
        "columns": chosen or [name for name, (_, is_usual) in known.items() if is_usual],
        "known_columns": {name: title for name, (title, _) in known.items() if name != "tenant" or scopes.tenants},
        "is_compact": search.form.text("density", 20) == "compact",
        "tenant_names": {each.uid: each.name for each in scopes.tenants},
        "query": search.form,
        "search": search,
        "scopes": scopes,
        "sorts": SORTS,
        "periods": LAST_PERIODS,
        "fields": FIELDS,
        "searches": [each for each in saved if each.page == search.path],
        "narrowed": bool(search.text),
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
    search = await read_list(context, request, "/quarantine", query)
    if isinstance(search, Failure) or search.fault:
        return None
    if is_sorted(query):
        return await _find_among_sorted(context, query, search.held, held.record.ggrid)
    after = await context.store.quarantine.search(search.held, held.record.ggrid, 1)
    previous = await context.store.quarantine.newer(search.held, held)
    return Neighbours(previous, after.rows[0].record.ggrid if after.rows else None)


async def _find_among_sorted(context: WebContext, query: Form, wanted: HeldFilter, ggrid: str) -> Neighbours:
    page = await context.store.quarantine.search(wanted, query.text("before", 200) or None, SORTED_ROWS)
    found = [mail.record.ggrid for mail in sort_held(page.rows, query)]
    if ggrid not in found:
        # It was released or deleted since: the list goes on from its beginning.
        return Neighbours(None, found[0] if found else None)
    at = found.index(ggrid)
    return Neighbours(found[at - 1] if at else None, found[at + 1] if at + 1 < len(found) else None)
