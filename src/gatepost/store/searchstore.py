"""The part of the storage interface that finds things, page by page, in time that does not grow with what is kept.

Where an index leads to the rows, a page is complete. Where text has to be looked through, a request looks at so many
rows and no more: `reached` says how far that was, and `next` goes on from there. A page may then be short, or empty,
and still have a next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from gatepost.store.interface import AuditRecord, HeldFilter, HeldMail, ListEntry

# How many rows a request looks through.
BUDGET = 30_000


class MessageFilter(msgspec.Struct, frozen=True):
    """Which results to show; what is None does not matter, `tenant` None is everybody's.

    Sender and recipient are an address, a domain (`example.org` or `@example.org`), or a part of an address (no dot in
    it, or a `*` around it: `*example*`). `subject` is words that must all occur. Times are `since` <= completed <
    `until`.
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


class MessageSummary(msgspec.Struct, frozen=True):
    """A result in one line. Long texts and long lists of recipients are cut."""

    ggrid: str
    completed: int
    tenant: str | None
    sender: str
    recipients: tuple[str, ...]
    subject: str
    verdict: str
    decision: str
    score: int
    tags: tuple[str, ...]
    size: int


class Page(msgspec.Struct, frozen=True):
    """Results, newest first. `next` continues; `reached` is the time back to which was looked where looking stopped
    before the page was full."""

    rows: tuple[MessageSummary, ...]
    next: str | None = None
    reached: int | None = None


class HeldPage(msgspec.Struct, frozen=True):
    """Held mail, newest first; `next` and `reached` as in `Page`."""

    rows: tuple[HeldMail, ...]
    next: str | None = None
    reached: int | None = None


class HeldCounts(msgspec.Struct, frozen=True):
    """How much is held, by verdict. Above `limit` counting stops: then `more` is true."""

    messages: int
    verdicts: dict[str, int]
    more: bool = False


class EntryPage(msgspec.Struct, frozen=True):
    """Entries of a list, ordered as they are shown. `reached` is the entry up to which was looked."""

    rows: tuple[ListEntry, ...]
    next: str | None = None
    reached: str | None = None


class AuditFilter(msgspec.Struct, frozen=True):
    """Which changes to show. `actor` is a name or a label (`key:playbook`), `action` one or a group (`entries.`).
    `scope` is a tenant's uid, "" for the global one."""

    scope: str | None = None
    since: int | None = None
    until: int | None = None
    actor: str | None = None
    action: str | None = None
    list: str | None = None


class AuditPage(msgspec.Struct, frozen=True):
    """Changes, newest first; `next` and `reached` as in `Page`."""

    rows: tuple[AuditRecord, ...]
    next: str | None = None
    reached: int | None = None


class SearchStore(Protocol):
    """Pages of what is kept. A cursor that makes no sense is the first page; `limit` is at most 1,000."""

    async def search_messages(self, wanted: MessageFilter, before: str | None = None, limit: int = 100) -> Page: ...

    async def search_held(self, wanted: HeldFilter, before: str | None = None, limit: int = 100) -> HeldPage: ...

    async def held_counts(self, tenant: str | None = None) -> HeldCounts:
        """How much is held, for a tenant or for all."""
        ...

    async def entries_page(
        self,
        scope: str | None,
        list_name: str,
        *,
        prefix: str = "",
        part: str = "",
        after: str | None = None,
        limit: int = 100,
    ) -> EntryPage:
        """Entries that begin with `prefix` (exactly so) and have `part` in them or in their comment (in any case)."""
        ...

    async def audit_page(self, wanted: AuditFilter, before: str | None = None, limit: int = 100) -> AuditPage: ...
