"""What every session of one intake shares, and what a decision is over SMTP.

A 2xx reply means that the message is with the next hop, in the quarantine, or dropped on record. Everything that goes
wrong on the way to one of these is a 4xx: the sender still has the message and comes again.

Unknown recipients are refused with 550 at RCPT, before a message is taken (RFC 5321 section 3.3). A border that takes
mail for names that do not exist has to bounce it later, mostly to senders who never wrote it. A rule says whose
recipients are on the list `known-recipients`, that of the tenant or the global one. Recipients without a rule are left
to the next hop, which answers RCPT. While storage cannot be read, and while a list has no entry, the answer is 451.
`postmaster` always exists (RFC 5321 section 4.5.1).

Mail to a reporting address (`spam@…`) with messages attached to it is a report, and is not relayed. It is taken from
hosts that the operator lists, and from people of the address's tenant whose mail proves that it comes from one of the
tenant's domains. Everybody else is refused: what is reported teaches. The report itself is judged like any mail, which
says whom it is from and whether something certain is in it, and the attached messages are read for what models learn
from them, both in sealed workers. Nothing of it is put on record but the report. Mail to the mailboxes of people who
look into reports is delivered whatever is reported with it, from every source, and reports in the same way.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import msgspec

from gatepost.analysis.report import Report
from gatepost.auth.origin import Networks
from gatepost.names import normal_address, normal_domain
from gatepost.process.logs import Logger
from gatepost.scanning.held_mail import HoldsMail, ReportObserver, bytes_ahead
from gatepost.scanning.request import Full, ScanRequest, ScanResult, Shares
from gatepost.scanning.spool import MessageBody, Spool
from gatepost.settings.scan_sources import RecipientRuleSettings
from gatepost.smtp import replies
from gatepost.smtp.client import Tenancy, is_among
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.content import SpoolSpace
from gatepost.smtp.hop_answers import DeliveryLog
from gatepost.smtp.outbound import Outbound
from gatepost.smtp.replies import Deferral, SmtpReply, reply
from gatepost.smtp.routing import Routing, has_domain
from gatepost.smtp.signing import Signer
from gatepost.store.audit import Actor
from gatepost.store.errors import StorageError
from gatepost.store.feedback import MailReport, ReportedMessage
from gatepost.store.learning import contradicts
from gatepost.store.list_lookup import ListLookup

learning_log = Logger("gatepost.learning")

NOTHING_ATTACHED = reply(550, "5.6.0 No message is attached; forward the message as an attachment")
NOT_A_REPORTER = reply(550, "5.7.1 Reports are taken from inside hosts and authenticated senders of the tenant only")
TOO_MANY_REPORTS = reply(550, "5.7.1 Too many reports for today")
UNREADABLE = reply(550, "5.6.0 The report cannot be read")


class ReportReading(msgspec.Struct, frozen=True):
    """A report as workers have read it: the judgement of the mail that carries it, and the messages attached to it."""

    carrier: Report
    messages: tuple[ReportedMessage, ...] = ()


# How a core reads a report that came by mail: `guard.service.Guard.read_report`.
ReadReport = Callable[[ScanRequest, MessageBody], Awaitable[ReportReading | Full]]


class ReportIntake:
    """Takes reports by mail. Mail to one of the `addresses` is a report and nothing else. Mail to `mailboxes` (by
    tenant, and under `*` of all) is delivered besides, to people who look into it. `hosts` are those whose word is
    taken without proof; `keep` stores a report."""

    def __init__(
        self,
        addresses: Mapping[str, bool],
        mailboxes: Mapping[str, Iterable[str]],
        hosts: Networks,
        read_report: ReadReport,
        keep: Callable[[MailReport], Awaitable[int | None]],
        tenancy: Tenancy,
    ) -> None:
        self._addresses = {normal_address(address): unwanted for address, unwanted in addresses.items()}
        self._mailboxes = {tenant: frozenset(map(normal_address, several)) for tenant, several in mailboxes.items()}
        self._hosts, self._read_report, self._keep, self._tenancy = hosts, read_report, keep, tenancy

    def is_address(self, recipient: str) -> bool:
        """Return whether a recipient is a reporting address."""
        return bool(self._addresses) and normal_address(recipient) in self._addresses

    def is_for_mailboxes(self, request: ScanRequest) -> bool:
        """Return whether every recipient is a mailbox whose people take reports."""
        tenant, recipients = request.envelope.tenant or "", request.envelope.recipients
        several = self._mailboxes.get("*", frozenset()) | self._mailboxes.get(tenant, frozenset())
        is_told = bool(several and recipients) and not request.guesses
        return is_told and several.issuperset(map(normal_address, recipients))

    async def take(self, request: ScanRequest, body: MessageBody) -> SmtpReply:
        """Read a report and keep it; return the reply to the mail that carries it."""
        reading = await self._read_report(request, body)
        return replies.FULL if isinstance(reading, Full) else await self.keep(request, reading)

    async def keep(self, request: ScanRequest, reading: ReportReading) -> SmtpReply:
        """Keep a report that was read. What is sent to a mailbox is unwanted."""
        try:
            return await self._check(request, reading, normal_address(request.envelope.recipients[0]))
        except StorageError as fault:
            learning_log.error("report not kept", ggrid=request.ggrid, reason=str(fault))
            return replies.TRY_LATER

    async def _check(self, request: ScanRequest, reading: ReportReading, address: str) -> SmtpReply:
        carrier = reading.carrier
        if carrier.decision == "undecided":
            return UNREADABLE
        reporter = normal_address(carrier.senders[0] if carrier.senders else request.envelope.sender)
        tenant = request.envelope.tenant
        # A host that says nothing of its client speaks for itself.
        client = request.envelope.remote_address or request.client
        if not is_among(client, self._hosts) and not await self._is_of_tenant(carrier, reporter, tenant):
            learning_log.info("report refused", ggrid=request.ggrid, address=address, client=client)
            return NOT_A_REPORTER
        if not reading.messages:
            return NOTHING_ATTACHED
        report = MailReport(
            request.ggrid,
            tenant,
            Actor("mail", reporter[:254]),
            self._addresses.get(address, True),
            reading.messages,
            is_certain=contradicts(carrier),
        )
        taken = await self._keep(report)
        if taken is None:
            return TOO_MANY_REPORTS
        count = len(reading.messages)
        learning_log.info("report taken", ggrid=request.ggrid, address=address, messages=count, taught=taken)
        return reply(250, f"2.6.0 Report taken, reference {request.ggrid}")

    async def _is_of_tenant(self, carrier: Report, reporter: str, tenant: str | None) -> bool:
        """Whether SPF or DKIM proves the domain in From, and that domain is one of the address's tenant."""
        if tenant is None or len(carrier.senders) != 1 or not carrier.authentication.aligned:
            return False
        return await self._tenancy.tenant_of(normal_domain(reporter.rpartition("@")[2])) == tenant


Finding: TypeAlias = Literal["known", "unknown", "failed"]
ANSWERS: dict[Finding, SmtpReply | None] = {
    "known": None,
    "unknown": replies.UNKNOWN_RECIPIENT,
    "failed": replies.UNVERIFIED_RECIPIENT,
}


class RecipientVerifier:
    """Verifies recipients by rules, of which the first one that fits a recipient counts."""

    def __init__(self, rules: Sequence[RecipientRuleSettings], lists: ListLookup) -> None:
        self._rules = [(frozenset(rule.domains), frozenset(rule.tenants), rule.tag_separator) for rule in rules]
        self._lists = lists
        self.found: Counter[Finding] = Counter()

    async def check(self, address: str, domain: str, tenant: str | None) -> SmtpReply | None:
        """Return the reply to a recipient that does not exist, or of whom that is not known; None for all others. The
        domain is in normal form."""
        separator = self._find_separator(domain, tenant)
        if separator is None:
            return None
        spellings = _list_spellings(address, domain, separator)
        if spellings[-1].startswith("postmaster@"):
            return None
        finding = await self._find(tenant, spellings)
        self.found[finding] += 1
        return ANSWERS[finding]

    def _find_separator(self, domain: str, tenant: str | None) -> str | None:
        """Return what precedes the tag of an address by the rule of its domain or tenant; None without a rule."""
        for domains, tenants, separator in self._rules:
            if not (domains or tenants) or tenant in tenants or has_domain(domains, domain):
                return separator
        return None

    async def _find(self, tenant: str | None, spellings: Sequence[str]) -> Finding:
        try:
            known = await self._lists.knows_recipient(tenant, spellings)
        except StorageError:
            known = None
        return "failed" if known is None else "known" if known else "unknown"


def _list_spellings(address: str, domain: str, separator: str) -> tuple[str, ...]:
    """Return the addresses by which a recipient can be known: its own, and the one without a tag."""
    whole = normal_address(address)
    local = whole.rpartition("@")[0] or whole
    name = local.partition(separator)[0] if separator and not local.startswith('"') else local
    return tuple(dict.fromkeys((whole, f"{name or local}@{normal_domain(domain)}")))


log = Logger("gatepost.guard")

# What the fields that are added on top of a message may take; the next hop counts them (RFC 1870 section 5).
ROOM_FOR_FIELDS = 4_096
ROOM_FOR_SIGNATURES = 8_192
# After so many analyses without a decision within 24 hours, the message is held instead of coming back for days.
UNDECIDED_BEFORE = 2

# Sends a message to its recipients, as its action says, or to a mailbox instead; each returns the next hop's reply.
Deliver = Callable[[ScanResult], Awaitable[SmtpReply]]
Redirect = Callable[[ScanResult, str], Awaitable[SmtpReply]]


class SmtpCore(Protocol):
    """The core, as far as SMTP needs it; `guard.service.Guard` is one."""

    async def scan(self, request: ScanRequest, body: MessageBody, judged: ReportObserver) -> ScanResult | Full:
        """Analyse a message; `judged` is told the report before the result is put on record, and says whether the
        message is held with it."""
        ...


class MessageHandler:
    """Scans messages and carries out what is decided."""

    def __init__(self, guard: SmtpCore, quarantine: HoldsMail, *, after_queue: bool = False) -> None:
        self._guard, self._quarantine, self.after_queue = guard, quarantine, after_queue

    async def handle(
        self, request: ScanRequest, body: MessageBody, digest: str, deliver: Deliver, redirect: Redirect | None = None
    ) -> SmtpReply:
        """Return the reply to a whole message; `digest` is the same for the same bytes and envelope. The decision on a
        request that is `unfit` is not `deliver`. A source that cannot `redirect` holds what it should redirect."""
        try:
            async with bytes_ahead(self._quarantine, request.ggrid, body) as judged:
                result = await self._guard.scan(request, body, judged)
                if isinstance(result, Full):
                    return replies.FULL
                return await self._carry_out(request, body, result, digest, deliver, redirect)
        except StorageError as fault:
            log.error("message left with its sender", ggrid=request.ggrid, reason=str(fault))
            return replies.TRY_LATER

    async def _carry_out(
        self,
        request: ScanRequest,
        body: MessageBody,
        result: ScanResult,
        digest: str,
        deliver: Deliver,
        redirect: Redirect | None,
    ) -> SmtpReply:
        decision, action = result.report.decision, result.report.action
        if decision == "deliver":
            return await deliver(result)
        if action is not None and not action.failed and decision == "quarantine":
            if action.name == "redirect":
                return await self._redirect(request, body, result, action.to, redirect)
            return await (self._strip(request, body, result, deliver) if action.name == "strip" else deliver(result))
        if decision == "drop":
            return replies.accepted_reply(result.ggrid)
        if decision == "bounce" and not self.after_queue:
            return replies.refused_reply(result.ggrid)
        if decision == "undecided" and await self._quarantine.undecided_before(digest) < UNDECIDED_BEFORE:
            return replies.UNDECIDED
        return await self._hold(request, body, result)

    async def _hold(self, request: ScanRequest, body: MessageBody, result: ScanResult) -> SmtpReply:
        await self._quarantine.keep(request, result, body)
        return replies.accepted_reply(result.ggrid)

    async def _redirect(
        self, request: ScanRequest, body: MessageBody, result: ScanResult, mailbox: str, redirect: Redirect | None
    ) -> SmtpReply:
        if redirect is None:
            return await self._hold(request, body, result)
        answer = await redirect(result, mailbox)
        if answer.positive:
            return replies.accepted_reply(result.ggrid)
        log.error("message not redirected", ggrid=result.ggrid, code=answer.code)
        # A mailbox that refuses for good is the operator's fault and not the sender's.
        return replies.TRY_LATER if answer.code < 500 else await self._hold(request, body, result)

    async def _strip(self, request: ScanRequest, body: MessageBody, result: ScanResult, deliver: Deliver) -> SmtpReply:
        """The original is safe before anything leaves; one that does not leave comes again, and is held again then."""
        await self._quarantine.keep(request, result, body)
        answer = await deliver(result)
        if not answer.positive:
            await self._quarantine.take_back(result.ggrid)
        return answer


@dataclass(kw_only=True, eq=False)
class Services:
    """The core, the routes, the limits, and what is counted over all sessions: mail transactions that were begun, those
    that were put off for a reason of ours, and answers. While it is `stopping`, no more messages are taken."""

    guard: SmtpCore
    handler: MessageHandler
    routing: Routing | None
    tenancy: Tenancy
    spool: Spool
    hostname: str
    limits: SmtpLimits = field(default_factory=SmtpLimits)
    tls: ssl.SSLContext | None = None
    tls_required: bool = False
    reports: ReportIntake | None = None
    deliveries: DeliveryLog | None = None
    recipients: RecipientVerifier | None = None
    outbound: Outbound | None = None
    signer: Signer | None = None
    space: SpoolSpace = field(init=False)
    sessions: Shares = field(init=False)
    answers: Counter[str] = field(default_factory=Counter, init=False)
    attempts: int = field(default=0, init=False)
    deferred: Counter[Deferral] = field(default_factory=Counter, init=False)
    stopping: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.space, self.sessions = SpoolSpace(self.limits.spooled), Shares(self.limits.sessions)

    def size_limit(self, theirs: dict[str, str]) -> int:
        """Return how many bytes a message may have, here and, with the fields that are added to it, at the next hop,
        whose extensions are `theirs`."""
        stated = theirs.get("SIZE", "")
        other = int(stated) if stated.isdigit() and len(stated) < 20 else 0
        room = ROOM_FOR_FIELDS + (ROOM_FOR_SIGNATURES if self.signer else 0)
        return min(self.limits.message, other - min(room, other // 2)) if other else self.limits.message

    @property
    def routings(self) -> tuple[Routing, ...]:
        both = (self.routing, self.outbound.routing if self.outbound else None)
        return tuple(dict.fromkeys(each for each in both if each is not None))

    def holds(self, refusal: SmtpReply) -> bool:
        """Whether a message that gets this reply is held instead: behind a queue, where the reply is permanent."""
        return self.handler.after_queue and refusal.code >= 500

    def count_reply(self, reply: SmtpReply) -> None:
        self.answers[f"{reply.code // 100}xx"] += 1

    def count_deferral(self, said: Iterable[SmtpReply], *, counted: bool) -> bool:
        """Count a transaction once if these replies put it off; return whether it is counted now."""
        if not counted and (reason := replies.find_deferral(said)):
            self.deferred[reason] += 1
            return True
        return counted


class SessionPlace:
    """What one session has of its tenant's share of all sessions, from the first recipient to the end of a message."""

    def __init__(self) -> None:
        self._shares: Shares | None = None
        self._tenant: str | None = None
        self._has_paused = False

    async def take(self, services: Services, tenant: str | None) -> SmtpReply | None:
        """Count the session for a tenant; return the reply where that still has its share of sessions or of the spool
        after a pause, one for each message, which slows down clients that come again at once."""
        if self._shares and self._tenant == tenant:
            return None
        has_paused = self._has_paused
        self.leave()
        if not (has_paused or (services.sessions.has_room(tenant) and services.space.has_room(tenant))):
            await asyncio.sleep(services.limits.place_wait)
        self._has_paused = True
        if not services.sessions.has_room(tenant):
            return replies.TOO_MANY_SESSIONS
        if not services.space.has_room(tenant):
            return replies.NO_ROOM
        self._shares, self._tenant = services.sessions, tenant
        self._shares.take(tenant)
        return None

    def leave(self) -> None:
        """Count the session no longer; again does nothing."""
        if self._shares:
            self._shares.give_back(self._tenant)
        self._shares, self._has_paused = None, False
