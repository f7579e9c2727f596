"""Mail to an address for domain reports: who is believed, whose domains count, and that it goes nowhere else."""

from typing import Any

import pytest

from gatepost.analysis.report import Report, undecided
from gatepost.auth.results import Authentication, Dmarc
from gatepost.domain_reports import DomainReport, DomainReports
from gatepost.scanning.request import Full, Load, ScanRequest
from gatepost.scanning.spool import MessageBody
from gatepost.smtp.client import Tenancy
from gatepost.smtp.domain_reports import DomainReportIntake, DomainReportReading, ReportIntakes
from gatepost.store.domain_reports import Kept
from gatepost.store.errors import StorageError

ACME = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
ADDRESS = "dmarc@gate.example"
MESSAGE = b"Subject: x\r\n\r\ny\r\n.\r\n"


def report(domain: str = "acme.example", reporter: str = "google.com") -> DomainReport:
    return DomainReport("dmarc", domain, reporter, "1", 1, 2, "none", "p=none", 5, 1)


class Reports:
    """A core and a store of straw."""

    def __init__(self) -> None:
        self.found = DomainReports((report(),))
        self.full = self.broken = False
        self.outcome: Kept = "kept"
        self.kept: list[tuple[str | None, DomainReport]] = []
        self.carrier = self.prove("noreply@reports.example")

    def prove(self, *senders: str, aligned: bool = True) -> Report:
        authentication = Authentication(dmarc=Dmarc("pass", dkim_aligned=aligned))
        self.carrier = Report("clean", "deliver", (), 0, "", senders=senders, authentication=authentication)
        return self.carrier

    async def read_domain_reports(self, _request: ScanRequest, _body: MessageBody) -> DomainReportReading | Full:
        return Full(Load(1, 1, 1)) if self.full else DomainReportReading(self.carrier, self.found)

    async def keep(self, scope: str | None, report: DomainReport) -> Kept:
        if self.broken:
            raise StorageError("gone")
        self.kept.append((scope, report))
        return self.outcome

    def attach(self, gate: Any, *, accepts_unproven: bool = False) -> DomainReportIntake:
        tenancy = Tenancy({"acme.example": ACME}, gate.domains.tenant_of)
        intake = DomainReportIntake(
            [ADDRESS], ["own.example"], self.read_domain_reports, self.keep, tenancy, accepts_unproven=accepts_unproven
        )
        gate.services.reports = ReportIntakes(None, intake)
        return intake


async def send(client: Any, recipient: str = ADDRESS) -> str:
    await client.up_to_data(sender="", recipient=recipient)
    said: str = await client.say(MESSAGE)
    return said


def test_a_report_is_kept_under_the_proven_name_and_not_relayed(deployment: Any, hop: Any, run: Any) -> None:
    async def test() -> None:
        reports, next_hop = Reports(), hop()
        async with deployment(next_hop) as gate:
            intake = reports.attach(gate)
            client = await gate.connect()
            assert (await send(client, "DMARC@Gate.example")).startswith("250 2.6.0 Report taken, reference ")
            assert reports.kept == [(ACME, report(reporter="reports.example"))]
            assert intake.taken == {("dmarc", "kept"): 1}
            assert gate.guard.scanned == []
            assert not any(line.startswith("RCPT") for line in next_hop.lines)
            assert (await send(client, "bob@acme.example")).startswith("250")
            assert len(next_hop.messages) == 1

    run(test())


@pytest.mark.parametrize(
    ("domain", "scope"),
    [
        ("acme.example", ACME),
        ("news.acme.example", ACME),
        ("own.example", None),
        ("a.b.own.example", None),
    ],
)
def test_whose_report_it_is(deployment: Any, run: Any, domain: str, scope: str | None) -> None:
    async def test() -> None:
        reports = Reports()
        reports.found = DomainReports((report(domain), report("other.example")))
        async with deployment() as gate:
            reports.attach(gate)
            assert (await send(await gate.connect())).startswith("250")
            assert [(each[0], each[1].domain) for each in reports.kept] == [(scope, domain)]

    run(test())


@pytest.mark.parametrize("domain", ["other.example", "example", "notacme.example", "xown.example"])
def test_reports_on_domains_of_others_are_refused(deployment: Any, run: Any, domain: str) -> None:
    async def test() -> None:
        reports = Reports()
        reports.found = DomainReports((report(domain),))
        async with deployment() as gate:
            reports.attach(gate)
            assert await send(await gate.connect()) == "550 5.7.1 Reports about this domain are not taken here"
            assert not reports.kept

    run(test())


def test_who_is_not_proven_is_not_believed(deployment: Any, run: Any) -> None:
    async def test() -> None:
        reports = Reports()
        async with deployment() as gate:
            intake = reports.attach(gate)
            client = await gate.connect()
            for senders, aligned in ((("a@r.example",), False), (("a@r.example", "b@s.example"), True), ((), True)):
                reports.prove(*senders, aligned=aligned)
                assert (await send(client)).startswith("550 5.7.1 Reports are taken only from senders that SPF or DKIM")
            reports.carrier = undecided("DNS was away")
            assert (await send(client)).startswith("451")
            assert not reports.kept
            assert intake.taken == {("", "unproven"): 3}
            reports.attach(gate, accepts_unproven=True)
            client = await gate.connect()
            reports.prove("a@r.example", aligned=False)
            assert (await send(client)).startswith("250")

    run(test())


def test_the_answer_says_what_was_kept(deployment: Any, run: Any) -> None:
    """A sender that is told "taken" does not send a report again: so it is told so only where that is true."""

    async def test() -> None:
        reports = Reports()
        async with deployment() as gate:
            intake = reports.attach(gate)
            client = await gate.connect()
            answers: tuple[tuple[Kept, str], ...] = (
                ("known", "250 2.6.0 Report taken, reference "),
                ("full", "452 4.3.1 No more reports about this domain are taken now, try again tomorrow"),
                ("period", "550 5.6.0 Reports of this period are not taken"),
            )
            for outcome, answer in answers:
                reports.outcome = outcome
                assert (await send(client)).startswith(answer)
            # Another domain beside it changes nothing, unless its own report is kept.
            reports.found = DomainReports((report("other.example"), report()))
            reports.outcome = "full"
            assert (await send(client)).startswith("452 4.3.1 ")
            reports.outcome = "kept"
            assert (await send(client)).startswith("250 2.6.0 1 of 2 reports taken, reference ")
            assert intake.taken["dmarc", "full"] == 2

    run(test())


def test_what_cannot_be_read_or_kept(deployment: Any, run: Any) -> None:
    async def test() -> None:
        reports = Reports()
        async with deployment() as gate:
            reports.attach(gate)
            client = await gate.connect()
            reports.broken = True
            assert (await send(client)).startswith("451 4.3.0")
            reports.full = True
            assert (await send(client)).startswith("451 4.3.2")
            reports.full, reports.found = False, DomainReports((), ("r.xml is no whole XML document",))
            assert (await send(client)).startswith("550 5.6.0 No report about a domain")

    run(test())
