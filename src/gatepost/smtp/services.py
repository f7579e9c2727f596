"""What a decision is over SMTP: who has the message from now on, and so what the client is told.

A 2xx means that the message is with the next hop, in the quarantine, or dropped on record. Everything that goes wrong
on the way to one of these is a 4xx: the sender still has the message and comes again.

What every session of one intake shares.
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
from gatepost.smtp.limits import Limits
from gatepost.smtp.relay import Relay
from gatepost.smtp.replies import Reply
from gatepost.store.errors import StorageError

log = structlog.get_logger("gatepost.guard")

# So many came to no decision before this one, within 24 hours: the message is held instead of coming back for days.
UNDECIDED_BEFORE = 2

Delivers = Callable[[ScanResult], Awaitable[Reply]]


class Scans(Protocol):
    """The core."""

    def has_room(self) -> bool: ...

    async def scan(self, request: ScanRequest) -> ScanResult | Full: ...


class Outcomes:
    """Scans messages and acts on what is decided."""

    def __init__(self, guard: Scans, holding: HoldsMail, *, after_queue: bool = False) -> None:
        self._guard, self._holding, self._after_queue = guard, holding, after_queue

    async def of(self, request: ScanRequest, digest: str, deliver: Delivers) -> Reply:
        """The reply to a whole message; `digest` is the same for the same bytes and envelope."""
        try:
            result = await self._guard.scan(request)
            if isinstance(result, Full):
                return replies.FULL
            return await self._acted(request, result, digest, deliver)
        except StorageError as fault:
            log.error("message left with its sender", ggrid=request.ggrid, reason=str(fault))
            return replies.TRY_LATER

    async def _acted(self, request: ScanRequest, result: ScanResult, digest: str, deliver: Delivers) -> Reply:
        decision = result.report.decision
        if decision == "deliver":
            return await deliver(result)
        if decision == "drop":
            return replies.accepted(result.ggrid)
        if decision == "bounce" and not self._after_queue:
            return replies.refused(result.ggrid)
        if decision == "undecided" and await self._holding.undecided_before(digest) < UNDECIDED_BEFORE:
            return replies.UNDECIDED
        await self._holding.keep(request, result, request.body)
        return replies.accepted(result.ggrid)


class Services:
    """Parts of the core and the limits; and what is counted over all sessions."""

    def __init__(
        self,
        *,
        guard: Scans,
        outcomes: Outcomes,
        relay: Relay | None,
        tenancy: Tenancy,
        spool: Spool,
        hostname: str,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        tls_required: bool = False,
    ) -> None:
        self.guard, self.outcomes, self.relay = guard, outcomes, relay
        self.tenancy, self.spool, self.hostname = tenancy, spool, hostname
        self.limits = limits or Limits()
        self.tls, self.tls_required = tls, tls_required
        self.spooled = 0
        self.answers: Counter[str] = Counter()
        self._stopping = False

    def size_limit(self, theirs: dict[str, str]) -> int:
        """The most that a message may have, here and at the next hop."""
        stated = theirs.get("SIZE", "")
        other = int(stated) if stated.isdigit() and len(stated) < 20 else 0
        return min(self.limits.message, other) if other else self.limits.message

    def replied(self, reply: Reply) -> None:
        """A whole message was answered."""
        self.answers[f"{reply.code // 100}xx"] += 1

    def stop(self) -> None:
        """No more from now on."""
        self._stopping = True

    def stopping(self) -> bool:
        return self._stopping
