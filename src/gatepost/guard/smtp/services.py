"""What every session of one intake shares."""

import ssl
from collections import Counter

from gatepost.guard.smtp.limits import Limits
from gatepost.guard.smtp.outcome import Outcomes, Scans
from gatepost.guard.smtp.relay import Relay
from gatepost.guard.smtp.replies import Reply
from gatepost.guard.smtp.tenancy import Tenancy
from gatepost.guard.spool import Spool


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
