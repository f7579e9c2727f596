"""What every storage engine can do. One interface, two engines; callers never see SQL.

A scope is a tenant's uid, or None for the deployment-global one. Times are Unix milliseconds. What can go wrong in the
ordinary course of things is a value (`ListFull`, `Missing`, `Taken`, `KeyRefused`); `StorageError` means that storage
itself cannot be used.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Literal, Protocol, TypeAlias, TypeVar

import msgspec

from gatepost.analysis import Report
from gatepost.lists.catalogue import Definition
from gatepost.lists.entry import Refused
from gatepost.lists.hit import Hit
from gatepost.lists.unkeyed import Unkeyed
from gatepost.mail.message import Envelope
from gatepost.store.feedbackstore import FeedbackStore
from gatepost.store.heldstore import HeldStore
from gatepost.store.searchstore import SearchStore
from gatepost.store.sightingstore import SightingStore
from gatepost.store.trafficstore import TrafficStore
from gatepost.store.userstore import SessionStore, UserStore

T = TypeVar("T")


class Release(msgspec.Struct, frozen=True):
    """A held message that was sent on: when, by whose order, and to whom."""

    time: int
    by: str
    recipients: tuple[str, ...]


class MessageRecord(msgspec.Struct, frozen=True):
    """One analysis as it is kept. A release is added to it; nothing else ever changes."""

    ggrid: str
    created: int
    completed: int
    envelope: Envelope
    size: int
    sha256: str
    report: Report
    release: Release | None = None


class HeldMail(msgspec.Struct, frozen=True):
    """A message in the quarantine: its record, since when, and how far its release is; until `lease` somebody is at it.
    One that is `released` is here for its record only."""

    record: MessageRecord
    kept: int
    state: Literal["held", "releasing", "released"]
    lease: int = 0
    release: Release | None = None


class HeldFilter(msgspec.Struct, frozen=True):
    """Which held mail to show. Sender and recipient are an address or a domain, `subject` is words that must all occur,
    `score` the least one; `released` shows what has gone on. Only `search_held` knows the last three fields."""

    tenant: str | None = None
    verdict: str | None = None
    sender: str | None = None
    recipient: str | None = None
    since: int | None = None
    released: bool = False
    until: int | None = None
    subject: str | None = None
    score: int | None = None


class Tenant(msgspec.Struct, frozen=True):
    """A customer of the deployment. `uid` is a lower-case UUID; mail to `domains` is theirs."""

    uid: str
    name: str
    created: int
    domains: tuple[str, ...] = ()


class StoreCounters(msgspec.Struct, frozen=True):
    """Work done so far: changes kept, in how many commits, and commits that failed."""

    changes: int
    commits: int
    failures: int


class Actor(msgspec.Struct, frozen=True):
    """Who makes a change: an API key, a static token, a user of the web interface, the command line, or Gatepost by
    itself."""

    kind: Literal["key", "token", "user", "cli", "system"]
    name: str = ""
    id: str = ""

    @property
    def label(self) -> str:
        """As it stands beside an entry: `key:playbook`."""
        return f"{self.kind}:{self.name}" if self.name else self.kind


CLI = Actor("cli")
SYSTEM = Actor("system")


class NewEntry(msgspec.Struct, frozen=True):
    """An entry to add, in its normal form."""

    key: str
    shown: str
    comment: str = ""
    expires: int | None = None


class ListEntry(msgspec.Struct, frozen=True):
    """An entry as it is kept. `shown` is what people read, `key` what entries are compared by."""

    key: str
    shown: str
    comment: str
    created: int
    modified: int
    modified_by: str
    expires: int | None = None
    hits: int = 0
    last_hit: int | None = None


# The fields of a `ListEntry` in their order, as the database gives them.
EntryRow: TypeAlias = tuple[str, str, str, int, int, str, int | None, int, int | None]


class ListState(msgspec.Struct, frozen=True):
    """A list in one scope, and how many entries it holds there; what has expired does not count."""

    definition: Definition
    size: int


class ListFull(msgspec.Struct, frozen=True):
    """The call would have taken the list from `size` past `max_size`; nothing of it was applied."""

    size: int
    max_size: int


class Missing(msgspec.Struct, frozen=True):
    """What the call is about does not exist (any more)."""

    what: Literal["tenant", "list", "key", "user"]


class Taken(msgspec.Struct, frozen=True):
    """Another one has that name; `by` says who, where that helps."""

    name: str
    by: str = ""


class HitCount(msgspec.Struct, frozen=True):
    """How often an entry was hit since the last report, and when last."""

    scope: str | None
    list: str
    key: str
    hits: int
    last_hit: int


class ApiKey(msgspec.Struct, frozen=True):
    """A key of the List API, without its secret. `tenant` None may act on every scope."""

    id: str
    name: str
    tenant: str | None
    read_only: bool
    created: int
    expires: int | None = None
    revoked: int | None = None
    last_used: int | None = None


class KeyRefused(msgspec.Struct, frozen=True):
    """A secret that opens nothing. The reason is for the log; whoever called learns only that it is refused."""

    reason: Literal["unknown", "expired", "revoked"]
    key: ApiKey | None = None


class AuditRecord(msgspec.Struct, frozen=True):
    """One change: who, what, where, how many, with some of the entries. `scope` None is the global one."""

    id: int
    time: int
    actor: Actor
    action: str
    scope: str | None = None
    list: str = ""
    count: int = 0
    sample: tuple[str, ...] = ()


class StorageError(Exception):
    """Storage cannot be used; the text says what to do about it."""


class MessageStore(Protocol):
    """Results and ledgers."""

    async def record_message(self, record: MessageRecord) -> MessageRecord:
        """Keep a result; a stored one never changes, so the first of a ggrid is kept and returned."""
        ...

    async def message(self, ggrid: str) -> MessageRecord | None: ...

    def recent_messages(self, tenant: str | None, limit: int) -> AsyncGenerator[Sequence[MessageRecord], None]:
        """The last `limit` results of a tenant (None: of everybody), newest first, in batches of one snapshot."""
        ...

    async def purge_messages(self, before: int) -> int:
        """Delete what was completed before that time; returns how many."""
        ...


class TenantStore(Protocol):
    """Tenants and the domains whose mail is theirs."""

    async def create_tenant(self, name: str, by: Actor = CLI) -> Tenant | Taken: ...

    async def tenants(self) -> tuple[Tenant, ...]:
        """All of them, by name."""
        ...

    async def tenant(self, uid: str) -> Tenant | None: ...

    async def delete_tenant(self, uid: str, by: Actor = CLI) -> Tenant | Missing:
        """Delete a tenant with its lists, keys, domains and results; its audit trail stays."""
        ...

    async def set_tenant_domains(self, uid: str, domains: Sequence[str], by: Actor = CLI) -> Tenant | Missing | Taken:
        """Give a tenant these domains (normal forms) and no others; one that another tenant has is `Taken`."""
        ...

    async def tenant_of(self, domain: str) -> str | None:
        """The uid of the tenant that has this domain (its normal form)."""
        ...


class ListStore(Protocol):
    """Lists and their entries. A call is applied whole or not at all, and audited in the same transaction."""

    async def add_entries(
        self, scope: str | None, definition: Definition, entries: Sequence[NewEntry], by: Actor
    ) -> int | ListFull | Missing:
        """Add or update entries; returns how many distinct ones. Of the same key the last wins.

        An update sets comment and expiry, and keeps `created` and `hits`.
        """
        ...

    async def delete_entries(self, scope: str | None, list_name: str, keys: Sequence[str], by: Actor) -> int:
        """Delete entries; returns how many there were."""
        ...

    def stream_entries(self, scope: str | None, list_name: str) -> AsyncGenerator[Sequence[ListEntry], None]:
        """All entries as one consistent snapshot, ordered by `shown` (code points), in batches, the first one small.

        Close the iterator (`contextlib.aclosing`) where it is not read to its end.
        """
        ...

    def stream_rows(
        self, scope: str | None, list_name: str, made: Callable[[Sequence[EntryRow]], T]
    ) -> AsyncGenerator[T, None]:
        """The same, each batch as `made` gives it. It may run in another thread, where it holds up nobody."""
        ...

    async def entries(self, scope: str | None, list_name: str, keys: Sequence[str]) -> tuple[ListEntry, ...]:
        """Those of these keys that the list has, in the order of the keys."""
        ...

    async def lists(self, scope: str | None) -> tuple[ListState, ...]:
        """Every list of a scope: the usual ones in their order, then the custom ones by name."""
        ...

    async def list_definition(self, scope: str | None, name: str) -> Definition | None: ...

    async def create_list(
        self, scope: str | None, definition: Definition, by: Actor
    ) -> Definition | Taken | Missing | Refused:
        """Make a custom list. A name that the other scope uses for another kind or category is `Taken` as well; a kind
        and a category that together do nothing are `Refused`."""
        ...

    async def delete_list(self, scope: str | None, name: str, by: Actor) -> int | Missing:
        """Delete a custom list with its entries; returns how many it had."""
        ...

    async def lookup(self, tenant: str | None, keys: Sequence[tuple[str, Sequence[str]]]) -> tuple[Hit, ...]:
        """What block, allow and policy lists of the global scope and of that tenant have, asked by kind and keys."""
        ...

    async def unkeyed_version(self, tenant: str | None) -> str:
        """The version of `unkeyed(tenant)` now; cheap."""
        ...

    async def unkeyed(self, tenant: str | None) -> Unkeyed: ...

    async def record_hits(self, counts: Sequence[HitCount]) -> None:
        """Add to the counters of entries; those that are gone meanwhile are ignored."""
        ...

    async def purge_expired(self, now: int) -> int:
        """Delete entries whose time has come, and finish what a deletion left behind; returns how many entries."""
        ...


class KeyStore(Protocol):
    """Keys of the List API. Only a hash of the secret is kept."""

    async def create_api_key(
        self, name: str, tenant: str | None, read_only: bool, expires: int | None, by: Actor = CLI
    ) -> tuple[str, ApiKey] | Missing:
        """A new key with its secret, which is never shown again."""
        ...

    async def api_key(self, secret: str) -> ApiKey | KeyRefused:
        """The key that a secret belongs to, if it may be used now; notes its use, at most once a minute."""
        ...

    async def api_keys(self, tenant: str | None = None) -> tuple[ApiKey, ...]:
        """All keys, or those of one tenant, the oldest first."""
        ...

    async def revoke_api_key(self, uid: str, by: Actor = CLI) -> ApiKey | Missing:
        """End a key for good. One that was revoked before stays as it was."""
        ...


class AuditStore(Protocol):
    """The audit trail, which only ever grows."""

    async def audit(
        self,
        *,
        since: int | None = None,
        until: int | None = None,
        tenant: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[AuditRecord, ...]:
        """Changes at `since` or later and earlier than `until`, of one tenant or of all, newest first.

        For the next page, `before` is the id of the last record of this one.
        """
        ...


class Store(
    MessageStore,
    TenantStore,
    ListStore,
    KeyStore,
    AuditStore,
    HeldStore,
    FeedbackStore,
    UserStore,
    SessionStore,
    SearchStore,
    TrafficStore,
    SightingStore,
    Protocol,
):
    """All that is kept. Every method that changes something returns only when the change survives a kill."""

    async def close(self) -> None: ...


class CountingStore(Store, Protocol):
    """A store that tells how much it has done."""

    def counters(self) -> StoreCounters: ...
