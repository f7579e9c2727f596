"""Which recipients exist: unknown ones are refused with 550 at RCPT, before a message is taken (RFC 5321 section 3.3).

A border that takes mail for names that do not exist has to bounce it later, mostly to senders who never wrote it. The
sources of a rule are asked in their order, cheap ones first: the list `known-recipients`, an LDAP directory, a mail
server (a call-out with MAIL and RCPT, which gets no message). One that knows the recipient is enough; all must say no
before one is refused. Where a source cannot say, the rule decides: 451, or the next hop's own word.

Answers are remembered, for known and unknown recipients apart, so that whoever guesses names cannot push out what is
known; at the limit, the tenant or domain that has most entries loses a tenth of them. While no source answers, a
recipient that was known within a day still is. `postmaster` always exists (RFC 5321 section 4.5.1).

The number of questions under way is limited for each source, and a source that failed is left alone for some seconds:
a directory that hangs must not hold every session. Hosts that name unknown recipients count for
`flowControl.unknownRecipients`.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.names import normal_address, normal_domain
from gatepost.process.logs import Logger
from gatepost.smtp import replies
from gatepost.smtp.flow_control import is_unknown_recipient
from gatepost.smtp.ldap import LdapDirectory, LdapError
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.routing import Route
from gatepost.store.errors import StorageError
from gatepost.store.list_lookup import ListLookup

# Questions to one source that are under way at once.
MAX_UNDER_WAY = 20
# How long a source that failed is not asked again.
REST_SECONDS = 3.0
# How long a recipient that was known is still one while no source can say.
STALE_SECONDS = 86_400.0
SHARE_DROPPED = 10

Finding: TypeAlias = Literal["known", "unknown", "failed"]
FINDINGS: tuple[Finding, ...] = ("known", "unknown", "failed")

log = Logger("gatepost.guard")


class Recipient(msgspec.Struct, frozen=True):
    """A recipient that a client names: as it wrote it, as it is compared, and the tenant of its domain. `plain` is the
    address without its tag, the same as `address` where it has none."""

    named: str
    address: str
    plain: str
    domain: str
    tenant: str | None

    @property
    def spellings(self) -> tuple[str, ...]:
        """The addresses by which it can be known."""
        return (self.address,) if self.plain == self.address else (self.address, self.plain)


class LookupFailedError(Exception):
    """Why a source cannot say whether a recipient exists, as a sentence without its end. With `is_down` it is left
    alone for a while."""

    def __init__(self, reason: str, *, is_down: bool = True) -> None:
        super().__init__(reason)
        self.is_down = is_down


class RecipientSource(ABC):
    """Knows recipients."""

    name = ""

    @abstractmethod
    async def knows(self, recipient: Recipient) -> bool:
        """Return whether a recipient exists. Raises `LookupFailedError`."""

    async def close(self) -> None:
        """Close what is open."""
        return


class ListedRecipients(RecipientSource):
    """The list `known-recipients`. A scope without any entry is not set up yet, and refuses nobody."""

    name = "list"

    def __init__(self, lists: ListLookup) -> None:
        self._lists = lists

    async def knows(self, recipient: Recipient) -> bool:
        try:
            found = await self._lists.knows_recipient(recipient.tenant, recipient.spellings)
        except StorageError:
            raise LookupFailedError("storage cannot be used", is_down=False) from None
        if found is None:
            raise LookupFailedError("the list known-recipients is empty", is_down=False)
        return found


class DirectoryRecipients(RecipientSource):
    """An LDAP directory."""

    name = "ldap"

    def __init__(self, directory: LdapDirectory) -> None:
        self._directory = directory

    async def knows(self, recipient: Recipient) -> bool:
        try:
            for address in recipient.spellings:
                if await self._directory.knows(address):
                    return True
        except LdapError as fault:
            raise LookupFailedError(f"the LDAP server {fault}") from None
        return False

    async def close(self) -> None:
        await self._directory.close()


class CallOut(RecipientSource):
    """A mail server. What it says of a mailbox other than that there is none is for the real transaction to hear."""

    name = "callOut"

    def __init__(self, find_route: Callable[[str, str | None], Route | None], *, owned: Route | None = None) -> None:
        self._find_route, self._owned = find_route, owned

    async def knows(self, recipient: Recipient) -> bool:
        route = self._find_route(recipient.domain, recipient.tenant)
        if route is None:
            raise LookupFailedError("there is no next hop to ask", is_down=False)
        try:
            relay, link = await route.borrow()
            try:
                wide = " SMTPUTF8" if not recipient.named.isascii() and "SMTPUTF8" in link.features else ""
                asked = (f"MAIL FROM:<>{wide}", f"RCPT TO:<{recipient.named}>")
                sender, answer = await asyncio.gather(*(link.ask(line.encode()) for line in asked))
            finally:
                relay.abandon(link)
        except NextHopError as fault:
            raise LookupFailedError(f"the mail server {fault}") from None
        if not sender.positive:
            raise LookupFailedError(f"the mail server answers {sender.code} to MAIL")
        if is_unknown_recipient(answer):
            return False
        if 400 <= answer.code < 500:
            raise LookupFailedError(f"the mail server answers {answer.code} to RCPT", is_down=False)
        return True

    async def close(self) -> None:
        for relay in self._owned.relays if self._owned else ():
            await relay.close()


class RecipientRule(msgspec.Struct, frozen=True):
    """Sources, and whose recipients they know. Without domains and tenants, everybody's."""

    sources: tuple[RecipientSource, ...]
    domains: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    accepts_unverified: bool = False
    tag_separator: str = "+"

    def fits(self, domain: str, tenant: str | None) -> bool:
        """Whether the rule is for a recipient, whose domain is in normal form."""
        if not self.domains and not self.tenants:
            return True
        if tenant in self.tenants or domain in self.domains:
            return True
        labels = domain.split(".")
        return any(f"*.{'.'.join(labels[start:])}" in self.domains for start in range(1, len(labels)))


class RecipientMemory:
    """Answers with the time at which each ends, up to a number of them. `scope` is whose they are."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._scopes: dict[str, dict[str, float]] = {}
        self.size = 0

    def find(self, scope: str, address: str) -> float | None:
        """Return until when an answer holds; None where there is none."""
        return self._scopes.get(scope, {}).get(address)

    def keep(self, scope: str, address: str, until: float) -> None:
        """Remember an answer, behind all others of its scope."""
        of_scope = self._scopes.setdefault(scope, {})
        self.size += of_scope.pop(address, None) is None
        of_scope[address] = until
        if self.size > self._maximum:
            self._make_room()

    def forget(self, scope: str, address: str) -> None:
        """Forget an answer."""
        if self._scopes.get(scope, {}).pop(address, None) is not None:
            self.size -= 1

    def _make_room(self) -> None:
        """Drop the oldest answers of the scope that has most."""
        largest = max(self._scopes, key=lambda scope: len(self._scopes[scope]))
        of_scope = self._scopes[largest]
        dropped = list(of_scope)[: max(1, len(of_scope) // SHARE_DROPPED)]
        for address in dropped:
            del of_scope[address]
        self.size -= len(dropped)
        self._scopes = {scope: kept for scope, kept in self._scopes.items() if kept}


class _AskedSource:
    """A source with the limits on asking it."""

    def __init__(self, source: RecipientSource, clock: Callable[[], float]) -> None:
        self.source, self._clock = source, clock
        self._room = asyncio.Semaphore(MAX_UNDER_WAY)
        self._rests_until = 0.0
        self.fault = ""

    async def knows(self, recipient: Recipient) -> bool:
        async with self._room:
            if self.fault and self._clock() < self._rests_until:
                raise LookupFailedError(self.fault)
            try:
                found = await self.source.knows(recipient)
            except LookupFailedError as fault:
                if fault.is_down:
                    self._rests_until = self._clock() + REST_SECONDS
                if not self.fault:
                    log.warning("recipients cannot be verified", source=self.source.name, reason=str(fault))
                self.fault = str(fault)
                raise
        if self.fault:
            log.info("recipients can be verified again", source=self.source.name)
        self.fault = ""
        return found


class RecipientVerifier:
    """Verifies recipients for one process. It belongs to one event loop."""

    def __init__(
        self,
        rules: Sequence[RecipientRule],
        *,
        known_seconds: float = 3_600.0,
        unknown_seconds: float = 300.0,
        maximum: int = 50_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = tuple((rule, tuple(_AskedSource(each, clock) for each in rule.sources)) for rule in rules)
        self._known_seconds, self._unknown_seconds, self._clock = known_seconds, unknown_seconds, clock
        self._known, self._unknown = RecipientMemory(maximum), RecipientMemory(maximum)
        self._under_way: dict[tuple[int, str], asyncio.Task[Finding]] = {}
        # What was found, and how often it was remembered.
        self.found: Counter[Finding] = Counter()
        self.asked: Counter[tuple[str, Finding]] = Counter()
        self.remembered = 0

    @property
    def size(self) -> int:
        """How many answers are remembered."""
        return self._known.size + self._unknown.size

    @property
    def fault(self) -> str:
        """What becomes of recipients that cannot be verified now, and why; "" where all can be."""
        for rule, sources in self._rules:
            for each in sources:
                if each.fault:
                    what = "are left to the next hop" if rule.accepts_unverified else "are answered with 451"
                    return f"recipients cannot be verified and {what}: {each.fault}"
        return ""

    async def check(self, address: str, domain: str, tenant: str | None) -> SmtpReply | None:
        """Return the reply to a recipient that does not exist, or of whom that is not known; None for all others."""
        fitting = (index for index, (rule, _) in enumerate(self._rules) if rule.fits(domain, tenant))
        if (index := next(fitting, None)) is None:
            return None
        rule = self._rules[index][0]
        recipient = _read_recipient(address, domain, tenant, rule.tag_separator)
        if recipient.plain.partition("@")[0] == "postmaster":
            return None
        finding = await self._find(index, recipient)
        self.found[finding] += 1
        if finding == "known" or (finding == "failed" and rule.accepts_unverified):
            return None
        return replies.UNKNOWN_RECIPIENT if finding == "unknown" else replies.UNVERIFIED_RECIPIENT

    async def close(self) -> None:
        """End questions that are under way, and close the sources."""
        for task in list(self._under_way.values()):
            task.cancel()
        for _, sources in self._rules:
            for each in sources:
                await each.source.close()

    async def _find(self, index: int, recipient: Recipient) -> Finding:
        scope, now = recipient.tenant or recipient.domain, self._clock()
        until = self._known.find(scope, recipient.address)
        if until is not None and until > now:
            self.remembered += 1
            return "known"
        refused_until = self._unknown.find(scope, recipient.address)
        if refused_until is not None and refused_until > now:
            self.remembered += 1
            return "unknown"
        # Several sessions may wait for the same answer, and one of them may end meanwhile.
        key = index, recipient.address
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._ask(index, recipient))
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        finding = await asyncio.shield(task)
        if finding == "failed" and until is not None and until + STALE_SECONDS > now:
            return "known"
        return finding

    async def _ask(self, index: int, recipient: Recipient) -> Finding:
        scope, failed = recipient.tenant or recipient.domain, False
        for each in self._rules[index][1]:
            try:
                knows = await each.knows(recipient)
            except LookupFailedError:
                failed = True
                self.asked[each.source.name, "failed"] += 1
                continue
            self.asked[each.source.name, "known" if knows else "unknown"] += 1
            if knows:
                self._known.keep(scope, recipient.address, self._clock() + self._known_seconds)
                self._unknown.forget(scope, recipient.address)
                return "known"
        if failed:
            return "failed"
        self._unknown.keep(scope, recipient.address, self._clock() + self._unknown_seconds)
        self._known.forget(scope, recipient.address)
        return "unknown"


def _read_recipient(address: str, domain: str, tenant: str | None, separator: str) -> Recipient:
    whole = normal_address(address)
    local = whole.rpartition("@")[0]
    name = local.partition(separator)[0] if separator and not local.startswith('"') else local
    return Recipient(address, whole, f"{name or local}@{normal_domain(domain)}", domain, tenant)
