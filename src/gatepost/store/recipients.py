"""What recipients say of senders, where their tenant permits it, and what they ask analysts for.

An entry is a sender that a recipient allows or blocks. It counts for mail that has this recipient and no other one: a
message has one verdict, and a word of one recipient must not decide about the copies of others. It is an address, never
a whole domain: a recipient has seen one sender, and mail of a free mailbox provider must not be allowed with it.

A request is for the release of held mail, or a report that came by mail. It is made once for a message and a recipient,
and stays until somebody decides about it or the message is gone. The number that waits is limited, for each recipient
and for each scope: whoever has a link could ask without end.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.ids import new_id
from gatepost.names import normal_address
from gatepost.questions import Hit
from gatepost.store.audit import Actor, write_audit
from gatepost.store.digests import read_preferences
from gatepost.store.engine import Many, Operations, Read, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.list_rows import raise_versions
from gatepost.store.message_records import normalize_address
from gatepost.store.paging import Page
from gatepost.store.sql import Row, compose, sql

EntrySays: TypeAlias = Literal["allow", "block"]
MAX_OF_RECIPIENT = 100
MAX_OF_SCOPE = 100_000
LISTS: dict[EntrySays, str] = {"allow": "allowed-senders", "block": "blocked-senders"}

_COLUMNS = "scope, address, sender, says, created"
_PUT = sql(f"""INSERT INTO recipient_entries ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (scope, address, sender) DO UPDATE SET says = excluded.says, created = excluded.created""")  # noqa: S608
_OWN = sql(f"SELECT {_COLUMNS} FROM recipient_entries WHERE scope = $1 AND address = $2 ORDER BY sender")  # noqa: S608
_COUNT = sql("SELECT count(*) FROM recipient_entries WHERE scope = $1")
_HAS_ANY = sql("SELECT 1 FROM recipient_entries WHERE scope = $1 LIMIT 1")
_HITS = sql("SELECT sender, says FROM recipient_entries WHERE scope = $1 AND address = $2 AND @one_of(sender, $3)")
_DELETE = sql("DELETE FROM recipient_entries WHERE scope = $1 AND address = $2 AND @one_of(sender, $3)")
_PAGE = sql(f"""SELECT {_COLUMNS} FROM recipient_entries WHERE scope = $1 AND (address, sender) > ($2, $3)
ORDER BY address, sender LIMIT $4""")  # noqa: S608


class RecipientEntry(msgspec.Struct, frozen=True):
    """A sender that a recipient allows or blocks."""

    scope: str | None
    address: str
    sender: str
    says: EntrySays
    created: int


def find_recipient_hits(scope: str, recipient: str, senders: Sequence[str]) -> Work[tuple[Hit, ...]]:
    """What this recipient says of these senders; "" is mail without a tenant."""
    values = (scope, normalize_address(recipient), Many(tuple(map(storable, senders))))
    rows = (yield Read(_HITS, values)) if senders else ()
    return tuple(Hit(LISTS[says], "recipient", sender, "entry of the recipient") for sender, says in sorted(rows))


def has_recipient_entries(scope: str) -> Work[bool]:
    """Whether any recipient of a scope has entries, and the scope permits them; "" is mail without a tenant."""
    if not (yield Read(_HAS_ANY, (scope,))):
        return False
    preferences = yield from read_preferences(scope)
    return preferences.own_entries


def _entry(row: Row) -> RecipientEntry:
    scope, address, sender, says, created = row
    return RecipientEntry(scope or None, address, sender, says, int(created))


RequestKind: TypeAlias = Literal["release", "report"]
RequestState: TypeAlias = Literal["open", "granted", "denied"]
MAX_OPEN = 10_000
MAX_OPEN_OF_RECIPIENT = 100
MAX_SAID = 500

_REQUEST_COLUMNS = "id, kind, ggrid, scope, address, said, created, state, decided, decided_by, note"
_INSERT = sql(f"""INSERT INTO recipient_requests ({_REQUEST_COLUMNS})
VALUES ($1, $2, $3, $4, $5, $6, $7, 'open', NULL, '', '') ON CONFLICT (ggrid, address, kind) DO NOTHING""")  # noqa: S608
_COUNT_OPEN = sql(
    "SELECT count(*) FROM (SELECT 1 FROM recipient_requests WHERE scope = $1 AND state = 'open' LIMIT $2) AS waiting"
)
_COUNT_OWN = sql("SELECT count(*) FROM recipient_requests WHERE address = $1 AND state = 'open'")
_COUNT_ALL = sql("SELECT count(*) FROM (SELECT 1 FROM recipient_requests WHERE state = 'open' LIMIT $1) AS waiting")
_SELECT = sql(f"SELECT {_REQUEST_COLUMNS} FROM recipient_requests WHERE id = $1")  # noqa: S608
_REQUEST_PAGE = (
    f"SELECT {_REQUEST_COLUMNS} FROM recipient_requests WHERE state = $1 AND id < $2{{}} ORDER BY id DESC LIMIT $3"  # noqa: S608
)
_DECIDE = sql("""UPDATE recipient_requests SET state = $2, decided = $3, decided_by = $4, note = $5
WHERE id = $1 AND state = 'open'""")
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


class Recipients(Operations):
    """What recipients ask for and what they say of senders. `scope` is a tenant, or None for mail without one."""

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
    def find_request(self, uid: str, tenant: str | None = None) -> Work[RecipientRequest | None]:
        """One request, of that tenant if one is named."""
        rows = yield Read(_SELECT, (storable(uid),))
        found = _request(rows[0]) if rows else None
        return found if found and normalize_scope(tenant) in (None, found.scope) else None

    @query
    def requests(self, wanted: RequestFilter, before: str = "", limit: int = 50) -> Work[Page[RecipientRequest]]:
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
        rows = tuple(map(_request, (yield Read(compose(_REQUEST_PAGE.format(more)), values))))
        return Page(rows[:limit], rows[limit - 1].id if len(rows) > limit else None)

    @query
    def count_open(self, tenant: str | None = None) -> Work[int]:
        """How many requests wait, counted up to the limit of a scope."""
        scope = normalize_scope(tenant)
        rows = yield Read(_COUNT_OPEN, (scope, MAX_OPEN)) if scope else Read(_COUNT_ALL, (MAX_OPEN,))
        return int(rows[0][0])

    @change
    def decide(self, uid: str, state: RequestState, by: Actor, note: str) -> Work[bool]:
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

    @change
    def put_entry(self, scope: str | None, address: str, sender: str, says: EntrySays, by: Actor) -> Work[bool]:
        """Allow or block a sender for a recipient; False where there are as many entries as there may be."""
        owner, own, key = normalize_scope(scope) or "", normalize_address(address), storable(normal_address(sender))
        known = {row[2]: row[3] for row in (yield Read(_OWN, (owner, own)))}
        whole = int((yield Read(_COUNT, (owner,)))[0][0])
        if key not in known and (len(known) >= MAX_OF_RECIPIENT or whole >= MAX_OF_SCOPE):
            return False
        if known.get(key) != says:
            moment = now()
            yield Write(_PUT, (owner, own, key, says, moment))
            if not whole:
                # From now on messages of this scope have to ask about their senders.
                yield from raise_versions(owner, moment)
            sample = (own, key)
            yield from write_audit(moment, by, f"recipientEntries.{says}", owner or None, LISTS[says], 1, sample)
        return True

    @change
    def delete_entries(self, scope: str | None, address: str, senders: Sequence[str], by: Actor) -> Work[int]:
        """Delete entries of a recipient; returns how many there were."""
        owner, own = normalize_scope(scope) or "", normalize_address(address)
        keys = tuple(map(storable, senders[:MAX_OF_RECIPIENT]))
        deleted = int((yield Write(_DELETE, (owner, own, Many(keys))))) if keys else 0
        if deleted:
            sample = (own, *keys)
            yield from write_audit(now(), by, "recipientEntries.delete", owner or None, count=deleted, sample=sample)
        return deleted

    @query
    def entries_of(self, scope: str | None, address: str) -> Work[tuple[RecipientEntry, ...]]:
        """The entries of one recipient."""
        rows = yield Read(_OWN, (normalize_scope(scope) or "", normalize_address(address)))
        return tuple(map(_entry, rows))

    @query
    def entries(
        self, scope: str | None, after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> Work[tuple[RecipientEntry, ...]]:
        """The entries of all recipients of a scope behind this one, by recipient and sender."""
        values = (normalize_scope(scope) or "", storable(after[0]), storable(after[1]), limit)
        return tuple(map(_entry, (yield Read(_PAGE, values))))


def add_request(kind: RequestKind, ggrid: str, tenant: str | None, address: str, said: str) -> Work[bool]:
    """Put a request into the queue, once; False where the queue is full."""
    scope, asking = normalize_scope(tenant) or "", normalize_address(address)
    own = yield Read(_COUNT_OWN, (asking,))
    waiting = yield Read(_COUNT_OPEN, (scope, MAX_OPEN))
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
