"""What recipients and users of the mail ask analysts for: releases of held mail, and reports that came by mail.

A request is made once for a message and a recipient, and stays until somebody decides about it or the message is gone.
The number that waits is limited, for each recipient and for each scope: whoever has a link could ask without end.
"""

from typing import Literal, TypeAlias

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Row, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.held_search import normalize_address

RequestKind: TypeAlias = Literal["release", "report"]
RequestState: TypeAlias = Literal["open", "granted", "denied"]
MAX_OPEN = 10_000
MAX_OPEN_OF_RECIPIENT = 100
MAX_SAID = 500

_COLUMNS = "id, kind, ggrid, scope, address, said, created, state, decided, decided_by, note"
_INSERT = f"""INSERT INTO recipient_requests ({_COLUMNS})
VALUES ($1, $2, $3, $4, $5, $6, $7, 'open', NULL, '', '') ON CONFLICT (ggrid, address, kind) DO NOTHING"""  # noqa: S608
_COUNT = (
    "SELECT count(*) FROM (SELECT 1 FROM recipient_requests WHERE scope = $1 AND state = 'open' LIMIT $2) AS waiting"
)
_COUNT_OWN = "SELECT count(*) FROM recipient_requests WHERE address = $1 AND state = 'open'"
_COUNT_ALL = "SELECT count(*) FROM (SELECT 1 FROM recipient_requests WHERE state = 'open'{} LIMIT $1) AS waiting"
_SELECT = f"SELECT {_COLUMNS} FROM recipient_requests WHERE id = $1"  # noqa: S608
_PAGE = f"SELECT {_COLUMNS} FROM recipient_requests WHERE state = $1 AND id < $2{{}} ORDER BY id DESC LIMIT $3"  # noqa: S608
_DECIDE = """UPDATE recipient_requests SET state = $2, decided = $3, decided_by = $4, note = $5
WHERE id = $1 AND state = 'open'"""
_LAST = "g"  # behind every id


class RecipientRequest(msgspec.Struct, frozen=True):
    """One request. `said` are the words of whoever asks, `note` those of whoever decided."""

    id: str
    kind: RequestKind
    ggrid: str
    scope: str | None
    address: str
    said: str
    created: int
    state: RequestState
    decided: int | None = None
    decided_by: str = ""
    note: str = ""


class RequestFilter(msgspec.Struct, frozen=True):
    """Which requests to show; `tenant` None means any."""

    tenant: str | None = None
    state: RequestState = "open"
    kind: RequestKind | None = None
    address: str = ""


class RequestPage(msgspec.Struct, frozen=True):
    """Requests, newest first; `next` is where the next page begins."""

    rows: tuple[RecipientRequest, ...]
    next: str | None = None


class RecipientRequestStore(Operations):
    """Requests of recipients, and decisions about them."""

    @change
    def ask_for_release(self, ggrid: str, tenant: str | None, address: str, said: str) -> Work[bool]:
        """Put a request of a recipient into the queue; False where it is full. Asking twice changes nothing."""
        by = Actor("recipient", storable(address))
        if not (yield from add_request("release", ggrid, tenant, address, said)):
            return False
        sample = (storable(ggrid), normalize_address(address))
        yield from write_audit(
            now(), by, "quarantine.releaseRequested", normalize_scope(tenant), count=1, sample=sample
        )
        return True

    @query
    def recipient_request(self, uid: str, tenant: str | None = None) -> Work[RecipientRequest | None]:
        """One request, of that tenant if one is named."""
        rows = yield Read(_SELECT, (storable(uid),))
        found = _request(rows[0]) if rows else None
        return found if found and normalize_scope(tenant) in (None, found.scope) else None

    @query
    def recipient_requests(self, wanted: RequestFilter, before: str = "", limit: int = 50) -> Work[RequestPage]:
        """A page of requests, newest first; `before` is the `next` of the page before."""
        tests: list[tuple[str, str]] = []
        if wanted.tenant:
            tests.append(("scope", normalize_scope(wanted.tenant) or ""))
        if wanted.kind:
            tests.append(("kind", wanted.kind))
        if wanted.address:
            tests.append(("address", normalize_address(wanted.address)))
        more = "".join(f" AND {column} = ${number}" for number, (column, _) in enumerate(tests, 4))
        values = (wanted.state, storable(before) or _LAST, limit + 1, *(value for _, value in tests))
        rows = tuple(map(_request, (yield Read(_PAGE.format(more), values))))
        return RequestPage(rows[:limit], rows[limit - 1].id if len(rows) > limit else None)

    @query
    def open_requests(self, tenant: str | None = None) -> Work[int]:
        """How many requests wait, counted up to the limit of a scope."""
        scope = normalize_scope(tenant)
        statement = _COUNT_ALL.format(" AND scope = $2" if scope else "")
        rows = yield Read(statement, (MAX_OPEN, scope) if scope else (MAX_OPEN,))
        return int(rows[0][0])

    @change
    def decide_request(self, uid: str, state: RequestState, by: Actor, note: str) -> Work[bool]:
        """Grant or deny a request; False where it was decided before."""
        rows = yield Read(_SELECT, (storable(uid),))
        moment, text = now(), storable(note[:MAX_SAID])
        if not rows or not (yield Write(_DECIDE, (storable(uid), state, moment, storable(by.label), text))):
            return False
        found = _request(rows[0])
        sample = (found.ggrid, found.address, *([text] if text else ()))
        action = f"request.{state}"
        yield from write_audit(moment, by, action, found.scope, count=1, sample=sample)
        return True


def add_request(kind: RequestKind, ggrid: str, tenant: str | None, address: str, said: str) -> Work[bool]:
    """Put a request into the queue, once; False where the queue is full."""
    scope, asking = normalize_scope(tenant) or "", normalize_address(address)
    own = yield Read(_COUNT_OWN, (asking,))
    waiting = yield Read(_COUNT, (scope, MAX_OPEN))
    if int(own[0][0]) >= MAX_OPEN_OF_RECIPIENT or int(waiting[0][0]) >= MAX_OPEN:
        return False
    values = (new_id(), kind, storable(ggrid.lower()), scope, asking, storable(said[:MAX_SAID]), now())
    yield Write(_INSERT, values)
    return True


def _request(row: Row) -> RecipientRequest:
    uid, kind, ggrid, scope, address, said, created, state, decided, decided_by, note = row
    return RecipientRequest(
        uid, kind, ggrid, scope or None, address, said, int(created), state, decided, decided_by, note
    )
