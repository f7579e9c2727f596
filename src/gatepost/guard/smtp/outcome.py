"""What a decision is over SMTP: who has the message from now on, and so what the client is told.

A 2xx means that the message is with the next hop, in the quarantine, or dropped on record. Everything that goes wrong
on the way to one of these is a 4xx: the sender still has the message and comes again.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from gatepost.guard.holding import Holding
from gatepost.guard.scan import Full, ScanRequest, ScanResult
from gatepost.guard.smtp import replies
from gatepost.guard.smtp.replies import Reply
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

    def __init__(self, guard: Scans, holding: Holding, *, after_queue: bool = False) -> None:
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
