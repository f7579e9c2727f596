"""Held mail, and what is done with messages of tenants, where tenants have their mail in several databases.

As in `sharded_messages`: a tenant's in its database, all tenants' in every one, and a held message that only its id
names where it is found.
"""

from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from gatepost.store.audit import CLI, Actor
from gatepost.store.digests import Digest, Digests
from gatepost.store.errors import NotFound
from gatepost.store.feedback import NO_FEATURES, Before, Correction, FeedbackReports, Noted, TextFeatures
from gatepost.store.found_values import FoundValues, add_values
from gatepost.store.held_search import HeldFilter
from gatepost.store.look_backs import MAX_ANNOUNCED, LookBacks
from gatepost.store.message_records import Delivery, MessageLine, MessageRecord, Release
from gatepost.store.messages import Messages
from gatepost.store.paging import MessageCount, Page
from gatepost.store.privacy import FoundRows, HeldFate, Person, Privacy, SeenSender
from gatepost.store.quarantine import (
    HeldCounts,
    HeldMessage,
    QuarantineFlow,
    QuarantineRecords,
    count_period,
    describe_period,
)
from gatepost.store.sealed_secrets import SecretKey
from gatepost.store.search_conditions import hoist
from gatepost.store.sharded_messages import Position, ShardedMessages, choose, find_everywhere, merge_pages, sum_counts
from gatepost.store.tenant_databases import TenantDatabases, gather_all
from gatepost.store.tenants import Tenant, Tenants, delete_some_mail

_RELEASES = "recipient_releases"


class ShardedQuarantine(QuarantineRecords):
    """Held mail in several databases."""

    def __init__(self, databases: TenantDatabases) -> None:
        self._databases, self._parts = databases, databases.each(QuarantineRecords)
        self._engine = databases.first

    def hold(self, record: MessageRecord, core: str = "", content: bytes | None = None) -> Coroutine[Any, Any, bool]:
        """Add a message to those that are held, in the database of its tenant."""
        return self._of(record.envelope.tenant).hold(record, core, content)

    async def content(self, ggrid: str) -> bytes | None:
        """The bytes of a held message, if they lie in one of the databases."""
        return await choose(self._databases, [part.content(ggrid) for part in self._parts])

    async def find(self, ggrid: str, tenant: str | None = None) -> HeldMessage | None:
        """One held or released message."""
        if tenant:
            return await self._of(tenant).find(ggrid, tenant)
        return await choose(self._databases, [part.find(ggrid) for part in self._parts], _tenant_of)

    async def find_or_deleted(self, ggrid: str, tenant: str | None = None) -> HeldMessage | None:
        """One message that is held, was released, or was deleted and can be restored."""
        if tenant:
            return await self._of(tenant).find_or_deleted(ggrid, tenant)
        return await choose(self._databases, [part.find_or_deleted(ggrid) for part in self._parts], _tenant_of)

    async def claim(self, ggrid: str, holder: str, now: int, until: int) -> bool:
        """Claim a message for its release until a time."""
        return await (await self._having(ggrid)).claim(ggrid, holder, now, until)

    async def give_back(self, ggrid: str, holder: str) -> None:
        """End a claim without a delivery."""
        await (await self._having(ggrid)).give_back(ggrid, holder)

    async def mark_released(
        self,
        ggrid: str,
        recipients: Sequence[str],
        by: Actor,
        release_id: str | None = None,
        deliveries: Sequence[Delivery] = (),
    ) -> Release:
        """Add a release to the record and the audit trail, once."""
        return await (await self._having(ggrid)).mark_released(ggrid, recipients, by, release_id, deliveries)

    async def delete(self, ggrid: str, by: Actor | None, tenant: str | None = None, for_good: bool = True) -> bool:
        """Delete a held message."""
        return await (await self._having(ggrid)).delete(ggrid, by, tenant, for_good)

    async def restore(self, ggrid: str, by: Actor, tenant: str | None = None) -> bool:
        """Take back a deletion."""
        return await (await self._having(ggrid)).restore(ggrid, by, tenant)

    async def purge_deleted(self, before: int) -> int:
        """Delete for good what was deleted before that time."""
        return sum(await gather_all(part.purge_deleted(before) for part in self._parts))

    async def purge(self, before: int, tenants: Mapping[str, int] | None = None) -> int:
        """Delete messages that are held for too long."""
        return sum(await gather_all(part.purge(before, tenants) for part in self._parts))

    async def needed_among(self, ggrids: Sequence[str]) -> frozenset[str]:
        """Those of these ids whose raw bytes are still needed. Where one database cannot be asked, nothing is known."""
        return frozenset().union(*await gather_all(part.needed_among(ggrids) for part in self._parts))

    async def states(self, ggrids: Sequence[str]) -> dict[str, str]:
        """The states of those of these messages that are in the quarantine, or were released from it."""
        found = await gather_all(part.states(ggrids) for part in self._parts)
        return {ggrid: state for states in found for ggrid, state in states.items()}

    async def totals(self) -> tuple[int, int]:
        """How many messages are held, and their bytes."""
        totals = await gather_all(part.totals() for part in self._parts)
        return sum(count for count, _ in totals), sum(size for _, size in totals)

    async def search(self, wanted: HeldFilter, before: str | None = None, limit: int = 100) -> Page[HeldMessage]:
        """A page of held mail of one tenant, or of all in one order."""
        wanted = hoist(wanted)
        if wanted.tenant is not None:
            return await self._of(wanted.tenant).search(wanted, before, limit)
        pages = await gather_all(part.search(wanted, before, limit) for part in self._parts)
        has_times = not any(page.next and "." not in page.next for page in pages) and (
            wanted.sender is None and wanted.recipient is None
        )
        chosen: dict[str, HeldMessage] = {}
        for number, page in enumerate(pages):
            for mail in page.rows:
                if mail.record.ggrid not in chosen or self._databases.place_of(_tenant_of(mail)) == number:
                    chosen[mail.record.ggrid] = mail
        placed = [((mail.kept, ggrid) if has_times else (ggrid,), mail) for ggrid, mail in chosen.items()]
        return merge_pages(placed, [(_parse_cursor(page.next), page) for page in pages], limit)

    async def count(self, wanted: HeldFilter) -> MessageCount:
        """How many messages fit."""
        wanted = hoist(wanted)
        if wanted.tenant is not None:
            return await self._of(wanted.tenant).count(wanted)
        return sum_counts(await gather_all(part.count(wanted) for part in self._parts))

    async def explore(self, wanted: HeldFilter, only: Sequence[str] = ()) -> FoundValues:
        """What a search finds at a glance."""
        wanted = hoist(wanted)
        if wanted.tenant is not None:
            return await self._of(wanted.tenant).explore(wanted, only)
        return add_values(await gather_all(part.explore(wanted, only) for part in self._parts))

    async def newer(self, wanted: HeldFilter, mail: HeldMessage) -> str | None:
        """The ggrid of the message that stands before this one in a list of held mail."""
        wanted = hoist(wanted)
        if wanted.tenant is not None:
            return await self._of(wanted.tenant).newer(wanted, mail)
        found = await gather_all(part.newer(wanted, mail) for part in self._parts)
        ggrids = sorted({ggrid for ggrid in found if ggrid})
        if len(ggrids) < 2 or wanted.sender is not None or wanted.recipient is not None:
            return ggrids[0] if ggrids else None
        mails = [each for ggrid in ggrids if (each := await self.find_or_deleted(ggrid))]
        return min(mails, key=lambda each: (each.kept, each.record.ggrid)).record.ggrid if mails else None

    async def counts(self, tenant: str | None = None) -> HeldCounts:
        """How many messages are held, by verdict, for a tenant or for all."""
        if tenant:
            return await self._of(tenant).counts(tenant)
        found = await gather_all(part.counts() for part in self._parts)
        verdicts = sum((Counter(each.verdicts) for each in found), Counter[str]())
        return HeldCounts(sum(each.messages for each in found), dict(verdicts), any(each.more for each in found))

    async def verdicts(self, ggrids: Sequence[str], tenant: str | None = None) -> dict[str, int]:
        """How many of these messages have which verdict, the most frequent first."""
        if tenant:
            return await self._of(tenant).verdicts(ggrids, tenant)
        found = await gather_all(part.verdicts(ggrids) for part in self._parts)
        return dict(sum((Counter(each) for each in found), Counter[str]()).most_common())

    async def recipient_releases(self, ggrid: str) -> dict[str, Release]:
        """The recipients who have got this message one by one, by address."""
        return await (await self._having(ggrid)).recipient_releases(ggrid)

    async def mark_released_to(self, ggrid: str, recipient: str, by: Actor, release_id: str) -> tuple[Release, bool]:
        """Record that a recipient has its copy, once."""
        return await (await self._having(ggrid)).mark_released_to(ggrid, recipient, by, release_id)

    async def flow(self, tenant: str | None, since: int, until: int) -> QuarantineFlow:
        """Count what came into the quarantine of a tenant, or of all, and what left it."""
        if tenant:
            return await self._of(tenant).flow(tenant, since, until)
        work = partial(count_period, None, since, until)
        counts = await gather_all(engine.search(work) for engine in self._databases.engines)
        held, released = (sum(numbers) for numbers in zip(*counts, strict=True))
        return await self._engine.search(partial(describe_period, None, since, until, held, released))

    def _of(self, tenant: str | None) -> QuarantineRecords:
        return self._parts[self._databases.place_of(tenant)]

    async def _having(self, ggrid: str) -> QuarantineRecords:
        """The database that has a held message; the first where none has it."""
        found = await find_everywhere([part.find_or_deleted(ggrid) for part in self._parts])
        places = [number for number, mail in found if self._databases.place_of(_tenant_of(mail)) == number]
        return self._parts[(places or [number for number, _ in found] or [0])[0]]


class ShardedFeedback(FeedbackReports):
    """Reports of wrong decisions about mail in several databases; the reports themselves are in the first."""

    def __init__(self, databases: TenantDatabases) -> None:
        super().__init__(databases.first)
        self._databases, self._parts = databases, databases.each(FeedbackReports)
        self._messages, self._held = databases.each(Messages), databases.each(QuarantineRecords)

    async def report_wrong(
        self, ggrid: str, says: Correction, by: Actor, tenant: str | None = None, features: TextFeatures = NO_FEATURES
    ) -> Noted | None:
        """Store a report of a message, wherever it is."""
        place = self._databases.place_of(tenant) if tenant else await self._find_place(ggrid)
        return await self._parts[place].report_wrong(ggrid, says, by, tenant, features)

    async def take_back(
        self, ggrid: str, says: Correction, before: Before, by: Actor, tenant: str | None = None
    ) -> bool:
        """Take a report back, wherever the message is."""
        place = self._databases.place_of(tenant) if tenant else await self._find_place(ggrid)
        return await self._parts[place].take_back(ggrid, says, before, by, tenant)

    async def _find_place(self, ggrid: str) -> int:
        records = await find_everywhere([part.find(ggrid) for part in self._messages])
        owners = [(number, record.envelope.tenant) for number, record in records]
        if not owners:
            held = await find_everywhere([part.find_or_deleted(ggrid) for part in self._held])
            owners = [(number, _tenant_of(mail)) for number, mail in held]
        places = [number for number, tenant in owners if self._databases.place_of(tenant) == number]
        return (places or [number for number, _ in owners] or [0])[0]


class ShardedDigests(Digests):
    """Digests of held mail in several databases; the digests themselves are in the first."""

    def __init__(self, databases: TenantDatabases, key: SecretKey) -> None:
        super().__init__(databases.first, key)
        self._databases, self._parts = databases, databases.each(partial(Digests, key=key))

    async def plan(self, scope: str | None, holder: str, domains: Sequence[str]) -> int:
        """Plan digests for the recipients of the next held messages of a scope."""
        return await self._parts[self._databases.place_of(scope)].plan(scope, holder, domains)

    async def messages(self, digest: Digest, limit: int) -> tuple[tuple[HeldMessage, ...], int]:
        """What a digest lists."""
        return await self._parts[self._databases.place_of(digest.scope)].messages(digest, limit)


class ShardedLookBacks(LookBacks):
    """Looks back at mail in several databases; the looks back themselves are in the first."""

    def __init__(self, databases: TenantDatabases) -> None:
        super().__init__(databases.first)
        self._messages = ShardedMessages(databases)

    async def _find_lines(self, ggrids: Sequence[str]) -> Sequence[MessageLine]:
        return await self._messages.lines(ggrids[:MAX_ANNOUNCED])


class ShardedPrivacy(Privacy):
    """What is stored about a person, in all databases."""

    def __init__(self, databases: TenantDatabases) -> None:
        super().__init__(databases.first)
        self._databases, self._parts = databases, databases.each(Privacy)

    async def messages_about(self, person: Person, after: int = 0) -> FoundRows[tuple[int, MessageRecord], int]:
        """Results that have the address anywhere, with their row ids, which no two databases share."""
        pages = await gather_all(part.messages_about(person, after) for part in self._parts)
        end = min((page.after for page in pages if page.after is not None), default=None)
        found = {uid: record for page in pages for uid, record in page.found if end is None or uid <= end}
        ordered = tuple(sorted(found.items(), key=lambda each: each[0]))
        return FoundRows(ordered, end, sum(page.unreadable for page in pages))

    async def erase_messages(self, person: Person, keys: Sequence[tuple[int, int]], pseudonym: str) -> tuple[int, int]:
        """Erase the address from these results."""
        counts = await gather_all(part.erase_messages(person, keys, pseudonym) for part in self._parts)
        return sum(deleted for deleted, _ in counts), sum(changed for _, changed in counts)

    async def held_about(self, person: Person, after: str = "") -> FoundRows[HeldMessage, str]:
        """Held and released mail that has the address anywhere."""
        pages = await gather_all(part.held_about(person, after) for part in self._parts)
        end = min((page.after for page in pages if page.after is not None), default=None)
        found = {mail.record.ggrid: mail for page in pages for mail in page.found}
        ordered = tuple(mail for ggrid, mail in sorted(found.items()) if end is None or ggrid <= end)
        return FoundRows(ordered, end, sum(page.unreadable for page in pages))

    async def erase_held(
        self, person: Person, ggrid: str, pseudonym: str, by: Actor, *, delete: bool = False
    ) -> HeldFate:
        """Erase the address from held or released mail, in every database that has it."""
        fates = await gather_all(part.erase_held(person, ggrid, pseudonym, by, delete=delete) for part in self._parts)
        return next((fate for fate in fates if fate != "kept"), "kept")

    async def history_about(self, person: Person) -> tuple[SeenSender, ...]:
        """What sender history knows of the address, in all scopes."""
        found = await gather_all(part.history_about(person) for part in self._parts)
        return tuple({(each.scope, each.key): each for some in found for each in some}.values())

    async def erase_history(self, found: Sequence[SeenSender]) -> int:
        """Forget the address in these scopes."""
        return sum(await gather_all(part.erase_history(found) for part in self._parts))

    async def recipient_data_about(self, person: Person) -> tuple[tuple[str, str], ...]:
        """Digests, releases, requests and entries of a recipient: only releases are beside the held mail."""
        first, *others = await gather_all(part.recipient_data_about(person) for part in self._parts)
        return (*first, *(row for rows in others for row in rows if row[0] == _RELEASES))

    async def erase_recipient_data(self, person: Person) -> int:
        """Delete digests, releases, requests and entries of a recipient."""
        # One after the other: what is in the first database is deleted, and counted, once.
        return sum([await part.erase_recipient_data(person) for part in self._parts])

    async def settings_about(self, person: Person) -> tuple[tuple[str, str, str], ...]:
        """Where the address stands for somebody: who has deleted or released held mail is beside the mail."""
        found = await gather_all(part.settings_about(person) for part in self._parts)
        return tuple(dict.fromkeys(each for some in found for each in some))

    async def erase_settings(self, person: Person, found: Sequence[tuple[str, str, str]], pseudonym: str) -> int:
        """Put the pseudonym for who has changed something."""
        return sum([await part.erase_settings(person, found, pseudonym) for part in self._parts])


class ShardedTenants(Tenants):
    """Tenants, whose mail is in several databases."""

    def __init__(self, databases: TenantDatabases) -> None:
        super().__init__(databases.first)
        self._parts = databases.each(Tenants)

    async def delete(self, uid: str, by: Actor = CLI) -> Tenant | NotFound:
        """Delete a tenant with its lists, keys, users, domains and results, in every database."""
        deleted = await super().delete(uid, by)
        if isinstance(deleted, Tenant):
            # What a kill leaves behind, the next purge deletes.
            await gather_all(part._repeat(partial(delete_some_mail, deleted.uid)) for part in self._parts[1:])  # noqa: SLF001
        return deleted


def _tenant_of(mail: HeldMessage) -> str | None:
    return mail.record.envelope.tenant


def _parse_cursor(cursor: str | None) -> Position | None:
    """Time and ggrid of a cursor, or the ggrid where mail is ordered by it alone."""
    if not cursor:
        return None
    kept, dot, ggrid = cursor.partition(".")
    return (int(kept), ggrid) if dot and kept.isdecimal() else (cursor,)
