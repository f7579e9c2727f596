"""Senders that recipients allow or block for themselves, where their tenant permits it.

An entry counts for mail that has this recipient and no other one: a message has one verdict, and a word of one
recipient must not decide about the copies of others. An entry is an address, never a whole domain: a recipient has seen
one sender, and mail of a free mailbox provider must not be allowed with it.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.names import normal_address
from gatepost.questions import Hit
from gatepost.store.audit import Actor, write_audit
from gatepost.store.digest_settings import read_preferences
from gatepost.store.engine import (
    Many,
    Operations,
    Read,
    Row,
    Work,
    Write,
    change,
    normalize_scope,
    now,
    query,
    storable,
)
from gatepost.store.held_search import normalize_address
from gatepost.store.lists import raise_versions

EntrySays: TypeAlias = Literal["allow", "block"]
MAX_OF_RECIPIENT = 100
MAX_OF_SCOPE = 100_000
LISTS: dict[EntrySays, str] = {"allow": "allowed-senders", "block": "blocked-senders"}

_COLUMNS = "scope, address, sender, says, created"
_PUT = f"""INSERT INTO recipient_entries ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (scope, address, sender) DO UPDATE SET says = excluded.says, created = excluded.created"""  # noqa: S608
_OWN = f"SELECT {_COLUMNS} FROM recipient_entries WHERE scope = $1 AND address = $2 ORDER BY sender"  # noqa: S608
_COUNT = "SELECT count(*) FROM recipient_entries WHERE scope = $1"
_HAS_ANY = "SELECT 1 FROM recipient_entries WHERE scope = $1 LIMIT 1"
_HITS = "SELECT sender, says FROM recipient_entries WHERE scope = $1 AND address = $2 AND sender = ANY($3)"
_DELETE = "DELETE FROM recipient_entries WHERE scope = $1 AND address = $2 AND sender = ANY($3)"
_PAGE = f"""SELECT {_COLUMNS} FROM recipient_entries WHERE scope = $1 AND (address, sender) > ($2, $3)
ORDER BY address, sender LIMIT $4"""  # noqa: S608


class RecipientEntry(msgspec.Struct, frozen=True):
    """A sender that a recipient allows or blocks."""

    scope: str | None
    address: str
    sender: str
    says: EntrySays
    created: int


class RecipientEntryStore(Operations):
    """Entries of recipients. `scope` is a tenant, or None for mail without one."""

    @change
    def put_recipient_entry(
        self, scope: str | None, address: str, sender: str, says: EntrySays, by: Actor
    ) -> Work[bool]:
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
    def delete_recipient_entries(self, scope: str | None, address: str, senders: Sequence[str], by: Actor) -> Work[int]:
        """Delete entries of a recipient; returns how many there were."""
        owner, own = normalize_scope(scope) or "", normalize_address(address)
        keys = tuple(map(storable, senders[:MAX_OF_RECIPIENT]))
        deleted = int((yield Write(_DELETE, (owner, own, Many(keys))))) if keys else 0
        if deleted:
            sample = (own, *keys)
            yield from write_audit(now(), by, "recipientEntries.delete", owner or None, count=deleted, sample=sample)
        return deleted

    @query
    def entries_of_recipient(self, scope: str | None, address: str) -> Work[tuple[RecipientEntry, ...]]:
        """The entries of one recipient."""
        rows = yield Read(_OWN, (normalize_scope(scope) or "", normalize_address(address)))
        return tuple(map(_entry, rows))

    @query
    def recipient_entries(
        self, scope: str | None, after: tuple[str, str] = ("", ""), limit: int = 100
    ) -> Work[tuple[RecipientEntry, ...]]:
        """The entries of all recipients of a scope behind this one, by recipient and sender."""
        values = (normalize_scope(scope) or "", storable(after[0]), storable(after[1]), limit)
        return tuple(map(_entry, (yield Read(_PAGE, values))))


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
