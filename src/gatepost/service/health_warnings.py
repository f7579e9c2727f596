"""What will become a fault of a running service: a certificate that ends soon, a quarantine that fills, DNS that fails,
mail that SMTP puts off.

Each is looked at once a minute and written into the condition of the process, from which pages, events and alerts are
told (see `health`). Mail flows meanwhile, if slowly, so the queue's status does not change by it.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from gatepost.scanning.request import Condition
from gatepost.service.certificates import read_expiry
from gatepost.service.plan import Plan
from gatepost.service.smtp_deferrals import DeferralWatch, SmtpCounts
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

if TYPE_CHECKING:
    from gatepost.guard.answers.dns import DnsCounters

LOOK_SECONDS = 60.0
CERTIFICATE_DAYS = 14
QUARANTINE_SHARE = 0.8
# So many questions of a minute say something about DNS, and this share of them may fail: names of strangers often do.
DNS_QUERIES, DNS_SHARE = 20, 0.5

log = structlog.get_logger("gatepost")


class HealthWarnings:
    """Looks for warnings for as long as the process serves. `plan` returns the plan in force, `dns` what the resolver
    has counted, `smtp` what the SMTP source has, None without one."""

    def __init__(
        self,
        condition: Condition,
        store: Store,
        plan: Callable[[], Plan | None],
        dns: "Callable[[], DnsCounters | None]",
        smtp: Callable[[], SmtpCounts | None] = lambda: None,
    ) -> None:
        self._condition, self._store, self._plan, self._dns, self._smtp = condition, store, plan, dns, smtp
        self._deferrals = DeferralWatch()
        self._asked: tuple[int, int] = (0, 0)

    async def run(self) -> None:
        """Look now and every minute."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Look once."""
        plan = self._plan()
        found = {
            "certificate": await asyncio.to_thread(warn_of_certificates, plan, datetime.now(UTC)) if plan else "",
            "quarantine": await self._warn_of_quarantine(plan),
            "dns": self._warn_of_dns(),
            "smtp": self._warn_of_deferrals(),
        }
        now = {component: text for component, text in found.items() if text}
        for component in now.keys() - self._condition.warnings.keys():
            log.warning("something needs attention", component=component, reason=now[component])
        self._condition.warnings = now

    async def _warn_of_quarantine(self, plan: Plan | None) -> str:
        if plan is None or plan.guard is None:
            return ""
        try:
            used = await self._store.quarantine.size()
        except StorageError:
            # That is a fault of its own, which the condition has.
            return ""
        share = used / plan.guard.quarantine.max_size
        return f"the quarantine is {share:.0%} full (quarantine.maxSize)" if share >= QUARANTINE_SHARE else ""

    def _warn_of_deferrals(self) -> str:
        text = self._deferrals.warn(self._smtp())
        # Where storage or every next hop is away, that is told already, and this is the consequence.
        return "" if self._condition.fault or self._condition.slowed else text

    def _warn_of_dns(self) -> str:
        counters = self._dns()
        if counters is None:
            return ""
        before, self._asked = self._asked, (counters.queries, counters.failures)
        asked, failed = counters.queries - before[0], counters.failures - before[1]
        # A reload begins to count anew.
        if asked < DNS_QUERIES or failed < 0 or failed < asked * DNS_SHARE:
            return ""
        return f"DNS does not answer: {failed:,} of {asked:,} questions of the last minute failed"


def warn_of_certificates(plan: Plan, now: datetime) -> str:
    """Return which certificate that this process shows ends next, if that is soon; "" otherwise."""
    pairs = (plan.certificate if plan.abby else None, plan.guard_certificate if plan.guard else None)
    left: list[tuple[int, Path]] = []
    for file in dict.fromkeys(pair[0] for pair in pairs if pair):
        try:
            left.append(((read_expiry(file.read_bytes()) - now).days, file))
        except (OSError, ValueError):
            # The certificate watch tells of files that cannot be used.
            continue
    days, file = min(left, default=(CERTIFICATE_DAYS, Path()))
    if days >= CERTIFICATE_DAYS:
        return ""
    ends = "has ended" if days < 0 else "ends today" if days == 0 else f"ends in {days} days"
    return f"the certificate {file.name} {ends}"
