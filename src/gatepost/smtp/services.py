"""What every session of one intake shares, and what a decision is over SMTP.

A 2xx reply means that the message is with the next hop, in the quarantine, or dropped on record. Everything that goes
wrong on the way to one of these is a 4xx: the sender still has the message and comes again.
"""

import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from gatepost.scanning.held_mail import HoldsMail
from gatepost.scanning.request import Full, ScanRequest, ScanResult
from gatepost.scanning.spool import Spool
from gatepost.smtp import replies
from gatepost.smtp.client import Tenancy
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.delivery_log import NotesDeliveries
from gatepost.smtp.flow_control import FlowControl
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.reporting import ReportIntake
from gatepost.smtp.routing import Routing
from gatepost.store.errors import StorageError

log = structlog.get_logger("gatepost.guard")

# What the fields that are added on top of a message may take; the next hop counts them (RFC 1870 section 5).
ROOM_FOR_FIELDS = 4_096
# After so many analyses without a decision within 24 hours, the message is held instead of coming back for days.
UNDECIDED_BEFORE = 2

Deliver = Callable[[ScanResult], Awaitable[SmtpReply]]


class SmtpCore(Protocol):
    """The core, as far as SMTP needs it; `guard.service.Guard` is one."""

    def has_slot(self) -> bool: ...

    async def scan(self, request: ScanRequest) -> ScanResult | Full: ...


class MessageHandler:
    """Scans messages and carries out what is decided."""

    def __init__(self, guard: SmtpCore, quarantine: HoldsMail, *, after_queue: bool = False) -> None:
        self._guard, self._quarantine, self.after_queue = guard, quarantine, after_queue

    def holds(self, refusal: SmtpReply) -> bool:
        """Whether a message that gets this reply is held instead: behind a queue, where the reply is permanent."""
        return self.after_queue and refusal.code >= 500

    async def handle(self, request: ScanRequest, digest: str, deliver: Deliver) -> SmtpReply:
        """Return the reply to a whole message; `digest` is the same for the same bytes and envelope. The decision on a
        request that is `unfit` is not `deliver`."""
        try:
            result = await self._guard.scan(request)
            if isinstance(result, Full):
                return replies.FULL
            return await self._carry_out(request, result, digest, deliver)
        except StorageError as fault:
            log.error("message left with its sender", ggrid=request.ggrid, reason=str(fault))
            return replies.TRY_LATER

    async def _carry_out(self, request: ScanRequest, result: ScanResult, digest: str, deliver: Deliver) -> SmtpReply:
        decision = result.report.decision
        if decision == "deliver":
            return await deliver(result)
        if decision == "drop":
            return replies.accepted_reply(result.ggrid)
        if decision == "bounce" and not self.after_queue:
            return replies.refused_reply(result.ggrid)
        if decision == "undecided" and await self._quarantine.undecided_before(digest) < UNDECIDED_BEFORE:
            return replies.UNDECIDED
        await self._quarantine.keep(request, result, request.body)
        return replies.accepted_reply(result.ggrid)


class Services:
    """The core, the routes, the limits, and what is counted over all sessions."""

    def __init__(
        self,
        *,
        guard: SmtpCore,
        handler: MessageHandler,
        routing: Routing | None,
        tenancy: Tenancy,
        spool: Spool,
        hostname: str,
        limits: SmtpLimits | None = None,
        tls: ssl.SSLContext | None = None,
        tls_required: bool = False,
        reports: ReportIntake | None = None,
        deliveries: NotesDeliveries | None = None,
        flow: FlowControl | None = None,
    ) -> None:
        self.guard, self.handler, self.routing = guard, handler, routing
        self.tenancy, self.spool, self.hostname = tenancy, spool, hostname
        self.limits = limits or SmtpLimits()
        self.tls, self.tls_required = tls, tls_required
        self.reports, self.deliveries, self.flow = reports, deliveries, flow
        self.spooled = 0
        self.answers: Counter[str] = Counter()
        self._stopping = False

    def size_limit(self, theirs: dict[str, str]) -> int:
        """Return how many bytes a message may have, here and, with the fields that are added to it, at the next hop,
        whose extensions are `theirs`."""
        stated = theirs.get("SIZE", "")
        other = int(stated) if stated.isdigit() and len(stated) < 20 else 0
        return min(self.limits.message, other - min(ROOM_FOR_FIELDS, other // 2)) if other else self.limits.message

    def count_reply(self, reply: SmtpReply) -> None:
        """Count the reply to a whole message."""
        self.answers[f"{reply.code // 100}xx"] += 1

    def stop(self) -> None:
        """Take no more messages."""
        self._stopping = True

    @property
    def stopping(self) -> bool:
        """Whether the service takes no more messages."""
        return self._stopping
