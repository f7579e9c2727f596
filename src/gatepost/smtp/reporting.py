"""Reporting addresses: mail to `spam@…` with messages attached to it is a report, and is not relayed.

A report is taken from hosts that the operator lists, and from people of the address's tenant whose mail proves that it
comes from one of the tenant's domains. Everybody else is refused: what is reported teaches. The report itself is judged
like any mail, which says whom it is from and whether something certain is in it, and the attached messages are read for
what models learn from them, both in sealed workers. Nothing of it is put on record but the report.
"""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from gatepost.analysis.report import Report
from gatepost.names import normal_address, normal_domain
from gatepost.process.logs import Logger
from gatepost.scanning.request import Full, ScanRequest
from gatepost.scanning.spool import MessageBody
from gatepost.smtp import replies
from gatepost.smtp.client import Networks, SmtpClient, Tenancy, is_among
from gatepost.smtp.replies import SmtpReply, reply
from gatepost.store.audit import Actor
from gatepost.store.errors import StorageError
from gatepost.store.feedback import MailReport, ReportedMessage
from gatepost.store.learning import contradicts

log = Logger("gatepost.learning")

NOTHING_ATTACHED = reply(550, "5.6.0 No message is attached; forward the message as an attachment")
NOT_A_REPORTER = reply(550, "5.7.1 Reports are taken from inside hosts and authenticated senders of the tenant only")
TOO_MANY_REPORTS = reply(550, "5.7.1 Too many reports for today")
UNREADABLE = reply(550, "5.6.0 The report cannot be read")


class ReportAddress(msgspec.Struct, frozen=True):
    """An address and what a message that is sent to it says of those attached."""

    address: str
    unwanted: bool


class ReportReading(msgspec.Struct, frozen=True):
    """A report as workers have read it: the judgement of the mail that carries it, and the messages attached to it."""

    carrier: Report
    messages: tuple[ReportedMessage, ...] = ()


# How a core reads a report that came by mail: `guard.service.Guard.read_report`.
ReadReport = Callable[[ScanRequest, MessageBody], Awaitable[ReportReading | Full]]


class ReportIntake:
    """Takes reports by mail. `hosts` are those whose word is taken without proof; `keep` stores a report."""

    def __init__(
        self,
        addresses: Mapping[str, bool],
        hosts: Networks,
        read_report: ReadReport,
        keep: Callable[[MailReport], Awaitable[int | None]],
        tenancy: Tenancy,
    ) -> None:
        self._addresses = {
            normal_address(address): ReportAddress(normal_address(address), unwanted)
            for address, unwanted in addresses.items()
        }
        self._hosts, self._read_report, self._keep, self._tenancy = hosts, read_report, keep, tenancy

    def find(self, recipient: str) -> ReportAddress | None:
        """Return the reporting address that a recipient is; None for all others."""
        return self._addresses.get(normal_address(recipient)) if self._addresses else None

    async def take(self, request: ScanRequest, body: MessageBody, client: SmtpClient, to: ReportAddress) -> SmtpReply:
        """Read a report and keep it; return the reply to the mail that carries it."""
        try:
            return await self._take(request, body, client, to)
        except StorageError as fault:
            log.error("report left with its sender", ggrid=request.ggrid, reason=str(fault))
            return replies.TRY_LATER

    async def _take(self, request: ScanRequest, body: MessageBody, client: SmtpClient, to: ReportAddress) -> SmtpReply:
        reading = await self._read_report(request, body)
        if isinstance(reading, Full):
            return replies.FULL
        carrier = reading.carrier
        if carrier.decision == "undecided":
            return UNREADABLE
        reporter = normal_address(carrier.senders[0] if carrier.senders else request.envelope.sender)
        tenant = request.envelope.tenant
        if not self._is_inside(client) and not await self._is_of_tenant(carrier, reporter, tenant):
            log.info("report refused", ggrid=request.ggrid, address=to.address, client=client.address)
            return NOT_A_REPORTER
        if not reading.messages:
            return NOTHING_ATTACHED
        report = MailReport(
            request.ggrid,
            tenant,
            Actor("mail", reporter[:254]),
            to.unwanted,
            reading.messages,
            is_certain=contradicts(carrier),
        )
        taken = await self._keep(report)
        if taken is None:
            return TOO_MANY_REPORTS
        log.info("report taken", ggrid=request.ggrid, address=to.address, messages=len(reading.messages), taught=taken)
        return reply(250, f"2.6.0 Report taken, reference {request.ggrid}")

    def _is_inside(self, client: SmtpClient) -> bool:
        """Whether the sending host is listed; a host that says nothing of its client speaks for itself."""
        return is_among(client.remote_address() or client.address, self._hosts)

    async def _is_of_tenant(self, carrier: Report, reporter: str, tenant: str | None) -> bool:
        """Whether SPF or DKIM proves the domain in From, and that domain is one of the address's tenant."""
        if tenant is None or len(carrier.senders) != 1 or not carrier.authentication.aligned:
            return False
        return await self._tenancy.tenant_of(normal_domain(reporter.rpartition("@")[2])) == tenant
