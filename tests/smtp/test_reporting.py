"""Mail to a reporting address: who may report, what is answered, and that it goes nowhere else."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from gatepost.analysis.report import Line, Report
from gatepost.auth.origin import parse_networks
from gatepost.auth.results import Authentication, Dmarc
from gatepost.mail.message import Envelope
from gatepost.scanning.request import Full, Load, ScanRequest
from gatepost.scanning.spool import MessageBody
from gatepost.smtp.client import Tenancy
from gatepost.smtp.services import ReportIntake, ReportReading
from gatepost.store.errors import StorageError
from gatepost.store.feedback import MailReport, ReportedMessage

ACME = "0198c5a2-7c11-7d3e-9f00-000000000001"
OTHER = "0198c5a2-7c11-7d3e-9f00-000000000002"
MESSAGE = b"Subject: Fwd\r\n\r\nx\r\n.\r\n"
SPAM, HAM = "spam@acme.example", "ham@acme.example"
READ = (ReportedMessage("ab" * 32, b"row", (1, 2), "offers.example"),)


class Reports:
    """A core and a store of straw, as far as reports need them."""

    def __init__(self) -> None:
        self.carrier = Report("clean", "deliver", (), 0, "", senders=("Ann@acme.example",))
        self.messages: tuple[ReportedMessage, ...] = READ
        self.full = self.broken = self.enough = False
        self.kept: list[MailReport] = []
        self.read: list[ScanRequest] = []

    async def read_report(self, request: ScanRequest, _body: MessageBody) -> ReportReading | Full:
        self.read.append(request)
        return Full(Load(1, 1, 1)) if self.full else ReportReading(self.carrier, self.messages)

    async def report_mail(self, report: MailReport) -> int | None:
        if self.broken:
            raise StorageError("gone")
        self.kept.append(report)
        return None if self.enough else 1

    def prove(self, sender: str, *, aligned: bool = True) -> None:
        authentication = Authentication(dmarc=Dmarc("pass", dkim_aligned=aligned))
        self.carrier = Report("clean", "deliver", (), 0, "", senders=(sender,), authentication=authentication)


def intake(gate: Any, reports: Reports, hosts: tuple[str, ...] = ()) -> None:
    tenancy = Tenancy({"acme.example": ACME, "other.example": OTHER}, gate.domains.tenant_of)
    gate.services.tenancy = tenancy
    addresses = {SPAM: True, HAM: False, "spam@nobody.example": True}
    gate.services.reports = make_intake(reports, addresses, {}, tenancy, hosts)


def make_intake(
    reports: Reports,
    addresses: Mapping[str, bool],
    mailboxes: Mapping[str, Iterable[str]],
    tenancy: Tenancy,
    hosts: tuple[str, ...] = (),
) -> ReportIntake:
    networks = parse_networks(hosts)
    return ReportIntake(addresses, mailboxes, networks, reports.read_report, reports.report_mail, tenancy)


async def send(client: Any, recipient: str = SPAM) -> str:
    await client.up_to_data(sender="bounce@acme.example", recipient=recipient)
    said: str = await client.say(MESSAGE)
    return said


async def test_a_report_is_kept_and_not_relayed(deployment: Any, hop: Any) -> None:
    reports, next_hop = Reports(), hop()
    async with deployment(next_hop) as gate:
        intake(gate, reports, hosts=("127.0.0.0/8",))
        client = await gate.connect()
        assert (await send(client, "Spam@ACME.example")).startswith("250 2.6.0 Report taken")
        assert (await send(client, HAM)).startswith("250")
        spam, ham = reports.kept
        assert (spam.tenant, spam.by.label, spam.unwanted) == (ACME, "mail:ann@acme.example", True)
        assert (ham.unwanted, ham.messages) == (False, READ)
        # Neither the core nor the next hop has seen a message, nor a recipient.
        assert gate.guard.scanned == []
        assert next_hop.messages == []
        assert not any(line.startswith("RCPT") for line in next_hop.lines)
        # The next message on the same connection is one like any other.
        assert (await send(client, "bob@acme.example")).startswith("250")
        assert len(next_hop.messages) == 1
        assert [request.envelope.recipients for request in gate.guard.scanned] == [("bob@acme.example",)]


async def test_a_report_has_no_other_recipient(deployment: Any, hop: Any) -> None:
    async with deployment(hop()) as gate:
        intake(gate, Reports())
        client = await gate.connect()
        for first, second in ((SPAM, "bob@acme.example"), ("bob@acme.example", SPAM), (SPAM, HAM)):
            await client.say("EHLO c")
            await client.say("MAIL FROM:<a@x.example>")
            assert (await client.say(f"RCPT TO:<{first}>")).startswith("250")
            assert (await client.say(f"RCPT TO:<{second}>")).startswith("452 4.5.3")
            await client.say("RSET")


@pytest.mark.parametrize(
    ("sender", "aligned", "recipient", "answer"),
    [
        ("ann@acme.example", True, SPAM, "250"),
        ("ann@acme.example", False, SPAM, "550 5.7.1"),
        ("eve@other.example", True, SPAM, "550 5.7.1"),
        ("eve@evil.example", True, SPAM, "550 5.7.1"),
        ("ann@sub.acme.example", True, SPAM, "550 5.7.1"),
        ("", True, SPAM, "550 5.7.1"),
        # An address of no tenant would teach all of them: only listed hosts may report to it.
        ("ann@nobody.example", True, "spam@nobody.example", "550 5.7.1"),
    ],
)
async def test_others_must_prove_a_domain_of_the_tenant(
    deployment: Any, sender: str, aligned: bool, recipient: str, answer: str
) -> None:
    reports = Reports()
    reports.prove(sender, aligned=aligned)
    async with deployment() as gate:
        intake(gate, reports, hosts=("192.0.2.0/24",))
        said = await send(await gate.connect(), recipient)
        assert said.startswith(answer), said
        assert bool(reports.kept) is answer.startswith("250")


async def test_the_host_behind_a_border_host_counts(deployment: Any) -> None:
    reports = Reports()
    async with deployment(listed=("127.0.0.1",)) as gate:
        intake(gate, reports, hosts=("192.0.2.7", "127.0.0.1"))
        client = await gate.connect()
        await client.say("EHLO border")
        assert (await client.say("XFORWARD ADDR=198.51.100.9")).startswith("250")
        assert (await send(client)).startswith("550 5.7.1")
        assert (await client.say("XFORWARD ADDR=192.0.2.7")).startswith("250")
        assert (await send(client)).startswith("250")


async def test_what_is_answered_where_a_report_cannot_be_taken(deployment: Any) -> None:
    reports = Reports()
    async with deployment() as gate:
        intake(gate, reports, hosts=("127.0.0.1",))
        client = await gate.connect()
        reports.messages = ()
        assert (await send(client)).startswith("550 5.6.0 No message is attached")
        reports.messages, reports.full = READ, True
        assert (await send(client)).startswith("451 4.3.2")
        reports.full, reports.broken = False, True
        assert (await send(client)).startswith("451 4.3.0")
        reports.broken, reports.enough = False, True
        assert (await send(client)).startswith("550 5.7.1 Too many reports")
        reports.carrier = Report("unscannable", "undecided", (), 0, "it broke")
        assert (await send(client)).startswith("550 5.6.0 The report cannot be read")
        # Something certain in a report is said, so that nobody can teach malware to be wanted.
        line = Line("file:x", "x", "1", {}, 0, 0, "malware", conclusive=True)
        reports.carrier = Report("malware", "quarantine", (), 0, "", lines=(line,), senders=("a@acme.example",))
        await send(client, HAM)
        assert reports.kept[-1].is_certain


DESK, LEGAL = "security@acme.example", "legal@acme.example"


def mail_to(*recipients: str, tenant: str | None = ACME, client: str = "", **told: Any) -> ScanRequest:
    envelope = Envelope("ann@acme.example", recipients, client or None, tenant=tenant)
    return ScanRequest("0198c5a2-7c11-7d3e-9f00-0000000000ff", 1, envelope, "rest", **told)


async def no_tenant(_domain: str) -> str | None:
    return None


TENANCY = Tenancy({"acme.example": ACME}, no_tenant)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (mail_to(DESK), True),
        (mail_to("<Security@ACME.example>", "abuse@every.example"), True),
        (mail_to(DESK, "bob@acme.example"), False),
        (mail_to(DESK, tenant=OTHER), False),
        (mail_to("abuse@every.example", tenant=OTHER), True),
        (mail_to("abuse@every.example", tenant=None), True),
        (mail_to(), False),
        # A sender can write the header that tells the recipients.
        (mail_to(DESK, guesses=True), False),
    ],
)
def test_every_recipient_is_a_mailbox_of_the_tenant_or_of_all(request_: ScanRequest, expected: bool) -> None:
    mailboxes = {ACME: [DESK, LEGAL], "*": ["Abuse@every.example"]}
    assert make_intake(Reports(), {}, mailboxes, TENANCY).is_for_mailboxes(request_) is expected
    assert not make_intake(Reports(), {SPAM: True}, {"*": []}, TENANCY).is_for_mailboxes(request_)


@pytest.mark.parametrize(
    ("sender", "client", "taken"),
    [
        ("ann@acme.example", "", True),
        ("eve@evil.example", "", False),
        ("eve@evil.example", "192.0.2.7", True),
        ("eve@evil.example", "192.0.2.8", False),
    ],
)
async def test_what_is_attached_to_mail_for_a_mailbox_is_reported_as_unwanted(
    sender: str, client: str, taken: bool
) -> None:
    reports = Reports()
    reports.prove(sender)
    found = make_intake(reports, {}, {"*": [DESK]}, TENANCY, hosts=("192.0.2.7",))
    said = await found.keep(mail_to(DESK, client=client), ReportReading(reports.carrier, READ))
    assert [(each.by.name, each.unwanted, each.messages) for each in reports.kept] == [(sender, True, READ)] * taken
    assert said.positive is taken
    reports.broken = True
    later = await found.keep(mail_to(DESK, client=client), ReportReading(reports.carrier, READ))
    assert later.code == (451 if taken else 550)
