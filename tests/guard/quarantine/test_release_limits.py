"""A release is no way to send mail of one's own making: who may send what to whom, and what leaves.

The messages are those of an attacker inside of a tenant: forged results in our name, a sender of another tenant, bytes
that SMTP would have refused. The next hop is a real one.
"""

import re
from email import message_from_bytes
from pathlib import Path
from typing import Any, Self

import pytest
from tests.conftest import Enter
from tests.guard.quarantine.conftest import Deployment
from tests.guard.quarantine.test_quarantine import keeping_guard
from tests.waiting_client import WaitingClient

from gatepost.analysis.report import Report
from gatepost.guard.quarantine.quarantine import DANGEROUS, ELSEWHERE, LONG_HEADER, UPLOADED, WRONG_BYTES
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.held_mail import NotSent, Released, ReleaseOrder
from gatepost.scanning.request import ScanRequest, ScanResult, Source
from gatepost.scanning.spool import BytesBody
from gatepost.smtp.client import Tenancy
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.tenants import Tenant

HOST = "gw.example"
RAW = (
    b"Authentication-Results: gw.example; dkim=pass header.d=beta.test; dmarc=pass\r\n"
    b"Authentication-Results: elsewhere.example; spf=pass\r\n"
    b"X-Gatepost-Verdict: clean\r\nx-gatepost-released: id=1\r\n"
    b"From: ceo@beta.test\r\nSubject: pay\r\n\r\nX-Gatepost-Verdict: in the body\r\n"
)
REPORT = Report("malware", "quarantine", ("file:malware",), 1_000, "it carries malware", subject="pay")
ANALYST = Actor("user", "alpha-analyst", "u-1")


class Tenants(Deployment):
    """Two tenants, and a quarantine that REST scans and SMTP fill: the core finds malware in everything."""

    alpha = beta = ""

    def __init__(self, url: str, folder: Path, next_hop: str) -> None:
        async def of_domain(domain: str) -> str | None:
            return await self.store.tenants.of_domain(domain)

        tenancy = Tenancy({"configured.test": new_id()}, of_domain)
        super().__init__(url, folder, next_hop, hostname=HOST, tenancy=tenancy)

    async def __aenter__(self) -> Self:
        self.guard, _ = keeping_guard(self, REPORT)
        for name in ("alpha", "beta"):
            tenant = await self.store.tenants.create(name)
            assert isinstance(tenant, Tenant)
            await self.store.tenants.set_domains(tenant.uid, [f"{name}.test"])
            setattr(self, name, tenant.uid)
        return self

    async def hold_from(self, source: Source, *recipients: str, raw: bytes = RAW, tenant: str | None = "") -> str:
        envelope = Envelope(
            "ceo@beta.test", recipients or ("ann@alpha.test",), "192.0.2.9", "mx.x.example", self.alpha or tenant
        )
        request, body = ScanRequest(new_id(), 1_800_000_000_000, envelope, source), BytesBody(raw)
        # Uploads of people are no longer held, but storage of earlier versions has some.
        if source in ("smtp", "page"):
            result = await self.guard.scan(request, body)
            assert isinstance(result, ScanResult)
            await self.quarantine.keep(request, result, body)
        else:
            await self.guard.scan_in_turn(request, body, WaitingClient())
        return request.ggrid

    async def release(self, ggrid: str, *recipients: str, anywhere: bool = False, dangerous: bool = True) -> Any:
        order = ReleaseOrder(
            *(ggrid, self.alpha), by=ANALYST, recipients=recipients, anywhere=anywhere, dangerous=dangerous
        )
        return await self.quarantine.carry_out(order)


@pytest.fixture
def deployment(storage_url: str, tmp_path: Path, next_hop: Any, enter: Enter) -> Tenants:
    return enter(Tenants(storage_url, tmp_path, next_hop.url))


@pytest.mark.parametrize(
    "recipients",
    [
        ("cfo@beta.test", "victim@elsewhere.example"),
        ("bob@alpha.test", "cfo@beta.test"),
        ("victim@elsewhere.example",),
        ("x@sub.alpha.test",),
        ("x@alpha.test.elsewhere.example",),
        ("x@configured.test",),
        ("x@",),
    ],
)
async def test_other_recipients_are_in_the_domains_of_the_tenant(
    deployment: Tenants, next_hop: Any, recipients: tuple[str, ...]
) -> None:
    ggrid = await deployment.hold_from("smtp")
    assert await deployment.release(ggrid, *recipients) == ELSEWHERE
    assert next_hop.commands == []
    assert (await deployment.store.audit.page(AuditFilter(action="quarantine.release"))).rows == ()
    held = await deployment.store.quarantine.find(ggrid)
    assert held
    assert held.state == "held"


@pytest.mark.parametrize(
    ("named", "recipients"),
    [
        (("ANN@Alpha.test",), ("ANN@Alpha.test",)),
        (("abuse@alpha.test", "bob@ALPHA.test"), ("abuse@alpha.test", "bob@ALPHA.test")),
        ((), ("ann@alpha.test", "guest@partner.example")),
        (("guest@partner.example",), ("guest@partner.example",)),
    ],
)
async def test_own_recipients_and_colleagues_get_it(
    deployment: Tenants, next_hop: Any, named: tuple[str, ...], recipients: tuple[str, ...]
) -> None:
    ggrid = await deployment.hold_from("smtp", "ann@alpha.test", "guest@partner.example")
    assert isinstance(await deployment.release(ggrid, *named), Released)
    assert [got for _, got, _ in next_hop.mail] == [recipients]


async def test_mail_of_no_tenant_goes_to_its_own_recipients(deployment: Tenants, next_hop: Any) -> None:
    deployment.alpha = ""
    ggrid = await deployment.hold_from("smtp", tenant=None)
    order = ReleaseOrder(ggrid, by=ANALYST, recipients=("x@alpha.test",), dangerous=True)
    assert await deployment.quarantine.carry_out(order) == ELSEWHERE
    own = ReleaseOrder(ggrid, by=ANALYST, dangerous=True)
    assert isinstance(await deployment.quarantine.carry_out(own), Released)
    assert len(next_hop.mail) == 1


@pytest.mark.parametrize("recipients", [(), ("ann@alpha.test",), ("cfo@beta.test", "victim@elsewhere.example")])
async def test_what_a_person_uploaded_is_never_sent(
    deployment: Tenants, next_hop: Any, recipients: tuple[str, ...]
) -> None:
    ggrid = await deployment.hold_from("page")
    for anywhere in (False, True):
        assert await deployment.release(ggrid, *recipients, anywhere=anywhere) == UPLOADED
    assert next_hop.commands == []


async def test_malware_needs_a_right_of_its_own(deployment: Tenants, next_hop: Any) -> None:
    ggrid = await deployment.hold_from("smtp")
    for anywhere in (False, True):
        assert await deployment.release(ggrid, anywhere=anywhere, dangerous=False) == DANGEROUS
    assert next_hop.commands == []
    assert isinstance(await deployment.release(ggrid), Released)


async def test_released_mail_leaves_like_delivered_mail(deployment: Tenants, next_hop: Any) -> None:
    ggrid = await deployment.hold_from("smtp")
    assert isinstance(await deployment.release(ggrid), Released)
    ((_, _, sent),) = next_hop.mail
    message = message_from_bytes(sent)
    results = message.get_all("Authentication-Results")
    assert results is not None
    assert [value for value in results if value.startswith(HOST) and "pass" in value] == []
    assert "elsewhere.example; spf=pass" in results
    assert message.get_all("X-Gatepost-Verdict") == ["malware"]
    assert message.get_all("X-Gatepost-Id") == [ggrid]
    (received,) = message.get_all("Received") or []
    assert "192.0.2.9" in received
    assert f"by {HOST}" in received
    assert "<ann@alpha.test>" in received
    (released,) = message.get_all("X-Gatepost-Released") or []
    found = re.match(r"id=([0-9a-f-]{36});\s+.*\d{4} \d\d:\d\d:\d\d", released)
    assert found
    assert ANALYST.name.encode() not in sent
    assert sent.endswith(b"From: ceo@beta.test\r\nSubject: pay\r\n\r\nX-Gatepost-Verdict: in the body\r\n")
    (record,) = (await deployment.store.audit.page(AuditFilter(action="quarantine.release"))).rows
    assert (record.actor, record.sample) == (ANALYST, (ggrid, found[1], "ann@alpha.test"))


async def test_the_audit_trail_has_every_recipient(deployment: Tenants) -> None:
    everybody = tuple(f"u{number}@alpha.test" for number in range(60))
    ggrid = await deployment.hold_from("smtp", *everybody)
    assert isinstance(await deployment.release(ggrid), Released)
    (record,) = (await deployment.store.audit.page(AuditFilter(action="quarantine.release"))).rows
    assert (record.count, record.sample[2:]) == (60, everybody)


@pytest.mark.parametrize("source", ["rest", "smtp"])
async def test_nul_is_not_sent(deployment: Tenants, next_hop: Any, source: Source) -> None:
    raw = RAW + b"tail\r\n\0.\r\nMAIL FROM:<smuggled@x.example>\r\n"
    ggrid = await deployment.hold_from(source, raw=raw)
    assert await deployment.release(ggrid) == WRONG_BYTES
    assert next_hop.commands == []
    held = await deployment.store.quarantine.find(ggrid)
    assert held
    assert held.state == "held"


async def test_lone_line_ends_cannot_hide_a_claim(deployment: Tenants, next_hop: Any) -> None:
    """A header whose lines end otherwise is read after it has the line ends with which it leaves."""
    raw = RAW.replace(b"\r\n", b"\n").replace(b"X-Gatepost-Verdict: clean\n", b"X-Gatepost-Verdict: clean\r")
    assert isinstance(await deployment.release(await deployment.hold_from("rest", raw=raw)), Released)
    ((_, _, sent),) = next_hop.mail
    assert message_from_bytes(sent).get_all("X-Gatepost-Verdict") == ["malware"]


async def test_mail_in_a_loop_is_not_sent(deployment: Tenants, next_hop: Any) -> None:
    outcome = await deployment.release(await deployment.hold_from("rest", raw=b"Received: x\r\n" * 200 + RAW))
    assert isinstance(outcome, NotSent)
    assert outcome.forbidden
    assert next_hop.commands == []


async def test_a_user_of_a_tenant_sends_nothing_to_another_one(deployment: Tenants, next_hop: Any) -> None:
    """Also not to recipients that a client of the API named: it says of which tenant a message is."""
    ggrid = await deployment.hold_from("rest", "ann@alpha.test", "cfo@beta.test", "eve@elsewhere.example")
    for recipients in ((), ("cfo@beta.test",), ("ann@alpha.test", "CFO@BETA.test")):
        assert await deployment.release(ggrid, *recipients) == ELSEWHERE
    assert next_hop.commands == []
    assert isinstance(await deployment.release(ggrid, "ann@alpha.test", "eve@elsewhere.example"), Released)


async def test_nor_does_a_header_leave_that_was_not_read_to_its_end(deployment: Tenants, next_hop: Any) -> None:
    ggrid = await deployment.hold_from("rest", raw=b"a:\r\n" * 3_000 + RAW)
    assert await deployment.release(ggrid) == LONG_HEADER
    assert next_hop.commands == []
