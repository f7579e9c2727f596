"""Whether the SMTP source puts mail off for reasons that lie here: its senders keep the mail and come again.

Replies of our own with a 4xx code count (`smtp.replies.DEFERRALS`), and connections for which the port had no room.
Greylisting, limits of flow control and of outbound senders are what the operator has asked for, a recipient that the
next hop does not take is the word of that server, and a 5xx reply leaves nothing to wait for.
"""

from collections import Counter, deque
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from gatepost.smtp.replies import Deferral

if TYPE_CHECKING:
    from gatepost.smtp.intake import Intake
    from gatepost.smtp.services import Services

# The last looks, one a minute; so many transactions of that time, and this share of them, are more than an accident.
LOOKS = 5
PUT_OFF, SHARE = 5, 0.2

Reason: TypeAlias = Deferral | Literal["connections"]

REASONS: dict[Reason, str] = {
    "slots": "no slot was free (maxGuardRequestsInProcessing)",
    "spool": "the spool had no room",
    "failure": "storage or another part failed, see the log",
    "undecided": "an analysis came to no decision",
    "route": "no route leads to the recipient",
    "nextHop": "a next hop could not be reached or hung up",
    "connections": "the port had no room for the connection (maxConnections)",
}


class SmtpCounts(msgspec.Struct, frozen=True):
    """What one process has counted since a reload: transactions that were begun or found no connection, and why some
    were put off."""

    attempts: int = 0
    put_off: Counter[Reason] = msgspec.field(default_factory=Counter)


def count_smtp(intake: "Intake", services: "Services") -> SmtpCounts:
    """Return what an SMTP source has counted."""
    full = intake.turned_away_full
    put_off: Counter[Reason] = Counter({"connections": full})
    for reason, times in services.deferred.items():
        put_off[reason] = times
    return SmtpCounts(services.attempts + full, put_off)


class DeferralWatch:
    """Compares the counts of the last minutes."""

    def __init__(self) -> None:
        self._seen: deque[SmtpCounts] = deque([SmtpCounts()], maxlen=LOOKS + 1)

    def warn(self, counts: SmtpCounts | None) -> str:
        """Return what is wrong with the time since the oldest look; "" if nothing is, and without a source."""
        if counts is None:
            return ""
        if counts.attempts < self._seen[-1].attempts:
            # A reload begins to count anew.
            self._seen.clear()
            self._seen.append(counts)
        before = self._seen[0]
        self._seen.append(counts)
        reasons = counts.put_off - before.put_off
        attempts, late = counts.attempts - before.attempts, reasons.total()
        if late < PUT_OFF or late < attempts * SHARE:
            return ""
        worst, times = reasons.most_common(1)[0]
        because = "because" if times == late else "mostly because"
        return f"SMTP puts mail off: {late:,} of {attempts:,} messages of the last minutes, {because} {REASONS[worst]}"
