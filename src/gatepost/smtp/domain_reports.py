"""Addresses for reports about domains: mail to `dmarc@…` that carries DMARC or TLS reports is read, and is not relayed.

Anybody can write such a mail, and numbers of strangers would lead people to wrong steps. So a report counts only if
SPF or DKIM proves the domain in From of the mail that carries it (RFC 9990 section 2.6 has reports signed), and the
name under which it is shown is that domain. It is stored for the tenant that the reported domain belongs to, or a
domain above it; reports on other domains are refused. The mail is judged and its files are read in sealed workers.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from gatepost.analysis.report import Report
from gatepost.domain_reports import DomainReport, DomainReports
from gatepost.names import normal_address, normal_domain, org_domain
from gatepost.process.logs import Logger
from gatepost.scanning.request import Full, ScanRequest
from gatepost.scanning.spool import MessageBody
from gatepost.smtp import replies
from gatepost.smtp.client import SmtpClient, Tenancy
from gatepost.smtp.replies import SmtpReply, reply
from gatepost.smtp.reporting import ReportAddress, ReportIntake
from gatepost.store.domain_reports import Kept
from gatepost.store.errors import StorageError

log = Logger("gatepost.guard")

NO_REPORT = reply(550, "5.6.0 No report about a domain could be read in this message")
NOT_PROVEN = reply(550, "5.7.1 Reports are taken only from senders that SPF or DKIM proves")
NOT_OUR_DOMAIN = reply(550, "5.7.1 Reports about this domain are not taken here")
NO_MORE_NOW = reply(452, "4.3.1 No more reports about this domain are taken now, try again tomorrow")
WRONG_PERIOD = reply(550, "5.6.0 Reports of this period are not taken")
# What a mail is told of which no report was kept, by the outcome that the sender can do most about.
_NOTHING_KEPT = {"full": NO_MORE_NOW, "period": WRONG_PERIOD, "foreign": NOT_OUR_DOMAIN}


class DomainReportAddress(msgspec.Struct, frozen=True):
    """An address for reports about domains."""

    address: str


class DomainReportReading(msgspec.Struct, frozen=True):
    """A mail as workers have read it: its judgement, and the reports in it."""

    carrier: Report
    found: DomainReports = DomainReports()


ReadDomainReports = Callable[[ScanRequest, MessageBody], Awaitable[DomainReportReading | Full]]
KeepReport = Callable[[str | None, DomainReport], Awaitable[Kept]]


class DomainReportIntake:
    """Takes reports about domains. `domains` are those of no tenant that are ours."""

    def __init__(
        self,
        addresses: Sequence[str],
        domains: Sequence[str],
        read_reports: ReadDomainReports,
        keep: KeepReport,
        tenancy: Tenancy,
        *,
        accepts_unproven: bool = False,
    ) -> None:
        self._addresses: Mapping[str, DomainReportAddress] = {
            normal_address(each): DomainReportAddress(normal_address(each)) for each in addresses
        }
        self._domains = frozenset(map(normal_domain, domains))
        self._read_reports, self._keep, self._tenancy = read_reports, keep, tenancy
        self._accepts_unproven = accepts_unproven
        # What became of reports, by kind and outcome.
        self.taken: Counter[tuple[str, str]] = Counter()

    def find(self, recipient: str) -> DomainReportAddress | None:
        """Return the address for reports that a recipient is; None for all others."""
        return self._addresses.get(normal_address(recipient)) if self._addresses else None

    async def take(self, request: ScanRequest, body: MessageBody) -> SmtpReply:
        """Read the reports of a mail and keep them; return the reply to the mail."""
        try:
            return await self._take(request, body)
        except StorageError as fault:
            log.error("report left with its sender", ggrid=request.ggrid, reason=str(fault))
            return replies.TRY_LATER

    async def _take(self, request: ScanRequest, body: MessageBody) -> SmtpReply:
        reading = await self._read_reports(request, body)
        if isinstance(reading, Full):
            return replies.FULL
        carrier, found = reading.carrier, reading.found
        if carrier.decision == "undecided" and not self._accepts_unproven:
            return replies.UNDECIDED
        reporter = normal_domain(carrier.senders[0].rpartition("@")[2]) if carrier.senders else ""
        is_proven = len(carrier.senders) == 1 and carrier.authentication.aligned
        if not is_proven and not self._accepts_unproven:
            return self._refuse(request, "unproven", reporter, NOT_PROVEN)
        if not found.reports:
            return self._refuse(request, "unreadable", reporter, NO_REPORT, "; ".join(found.problems))
        outcomes: list[str] = []
        for report in found.reports:
            # A report is shown under the name that was proven, and not under one that it claims.
            named = msgspec.structs.replace(report, reporter=reporter or report.reporter)
            outcome = await self._keep_report(named)
            outcomes.append(outcome)
            self.taken[report.kind, outcome] += 1
            log.info("report about a domain read", ggrid=request.ggrid, domain=report.domain, outcome=outcome)
        taken = sum(each in ("kept", "known") for each in outcomes)
        if not taken:
            return next(answer for outcome, answer in _NOTHING_KEPT.items() if outcome in outcomes)
        words = "Report taken" if taken == len(outcomes) else f"{taken} of {len(outcomes)} reports taken"
        return reply(250, f"2.6.0 {words}, reference {request.ggrid}")

    def _refuse(
        self, request: ScanRequest, outcome: str, reporter: str, answer: SmtpReply, reason: str = ""
    ) -> SmtpReply:
        self.taken["", outcome] += 1
        log.info(
            "report about a domain refused", ggrid=request.ggrid, outcome=outcome, reporter=reporter, reason=reason
        )
        return answer

    async def _keep_report(self, report: DomainReport) -> str:
        scope = await self._find_scope(report.domain)
        return "foreign" if isinstance(scope, bool) else await self._keep(scope, report)

    async def _find_scope(self, domain: str) -> str | bool | None:
        """Return the tenant of a domain, or of the nearest domain above it; None for one of the deployment's own, False
        for all others. Raises `StorageError`."""
        top, name = org_domain(domain), domain
        while name:
            if tenant := await self._tenancy.tenant_of(name):
                return tenant
            if name in self._domains:
                return None
            name = "" if name == top else name.partition(".")[2]
        return False


AnyReportAddress = ReportAddress | DomainReportAddress


class ReportIntakes:
    """Both sorts of reports: those on messages, which people write, and those on domains, which servers send."""

    def __init__(self, messages: ReportIntake | None, domains: DomainReportIntake | None) -> None:
        self._messages, self.domains = messages, domains

    def find(self, recipient: str) -> AnyReportAddress | None:
        """Return the address for reports that a recipient is; None for all others."""
        found = self._messages.find(recipient) if self._messages else None
        return found or (self.domains.find(recipient) if self.domains else None)

    async def take(
        self, request: ScanRequest, body: MessageBody, client: SmtpClient, to: AnyReportAddress
    ) -> SmtpReply:
        """Read what came to one of the addresses."""
        if isinstance(to, ReportAddress) and self._messages:
            return await self._messages.take(request, body, client, to)
        assert self.domains is not None
        return await self.domains.take(request, body)
