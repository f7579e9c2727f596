"""What the doctor says of own domains, and of sources that do not tell where mail comes from."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.name_server import NameServer
from tests.command_line import run_command

from gatepost.analysis.report import Report
from gatepost.auth.results import Authentication, Origin
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.request import Source
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.own_users import FEW_MESSAGES, MAX_DOMAINS, check_own_domains, check_own_users
from gatepost.service.doctor.rows import read_files
from gatepost.settings.keys import DnsSettings, GuardSettings
from gatepost.settings.scan_sources import MilterSettings, OutboundSettings, ScanSourcesSettings, SmtpSettings
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.message_records import MessageRecord
from gatepost.times import now

TENANT = "0198c5a2-7c11-7d3e-9f00-00000000aa01"


@pytest.fixture(scope="module")
def dns() -> Iterator[NameServer]:
    texts = {
        "_dmarc.strict.example": "v=DMARC1; p=reject; sp=quarantine",
        "_dmarc.loose.example": "v=DMARC1; p=none",
    }
    server = NameServer(texts)
    yield server
    server.close()


def settings(
    dns: NameServer, domain: str, sources: ScanSourcesSettings | None = None, **others: object
) -> GuardSettings:
    asked = DnsSettings(nameservers=[dns.address], timeout=2_000)
    return GuardSettings(tenants={domain: TENANT}, dns=asked, scan_sources=sources or ScanSourcesSettings(), **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("domain", "state", "words"),
    [
        ("strict.example", "warn", "policy reject; unsigned mail of its users from a public address is held"),
        ("a.strict.example", "warn", "policy quarantine"),
        ("loose.example", "ok", "no DMARC policy"),
        ("none.example", "ok", "no DMARC policy"),
    ],
)
def test_an_own_domain_whose_users_are_not_known(dns: NameServer, domain: str, state: str, words: str) -> None:
    (row,) = check_own_domains(settings(dns, domain))
    assert (row.what, row.state) == (f"own domain {domain}", state)
    assert words in row.found
    assert ("ownNetworks" in row.advice) == (state == "warn")


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"own_networks": ["203.0.113.0/24"]}, "ownNetworks"),
        ({"own_networks": {TENANT: ["203.0.113.0/24"]}}, "ownNetworks"),
        ({"sources": ScanSourcesSettings(milter=MilterSettings(listen="127.0.0.1:1"))}, "logins at the milter"),
        ({"sources": ScanSourcesSettings(smtp=SmtpSettings(xclient_hosts=["10.0.0.1"]))}, "what xclientHosts tell"),
        ({"sources": ScanSourcesSettings(smtp=SmtpSettings(outbound=OutboundSettings()))}, "scanSources.smtp.outbound"),
    ],
)
def test_how_own_users_are_known(dns: NameServer, known: dict[str, object], words: str) -> None:
    (row,) = check_own_domains(settings(dns, "strict.example", **known))  # type: ignore[arg-type]
    assert (row.state, f"known by {words}," in row.found) == ("ok", True), row


def test_a_name_server_that_is_silent_and_many_domains(dns: NameServer) -> None:
    asked = DnsSettings(nameservers=["127.0.0.1:9"], timeout=100)
    (row,) = check_own_domains(GuardSettings(tenants={"strict.example": TENANT}, dns=asked))
    assert (row.state, row.found) == ("warn", "DNS does not answer for its DMARC policy")
    *rows, last = check_own_domains(settings(dns, "x.example"), tuple(f"d{number}.example" for number in range(30)))
    assert (len(rows), last.found) == (MAX_DOMAINS, "11 more were not looked at")


def write_messages(folder: Path, told: dict[tuple[Source, Origin], int]) -> None:
    async def run() -> None:
        store = open_store("sqlite:gatepost.db", folder)
        tenant = await store.tenants.create("House", CLI)
        await store.tenants.set_domains(tenant.uid, ("house.example",), CLI)  # type: ignore[union-attr]
        for (source, origin), count in told.items():
            for _ in range(count):
                report = Report("clean", "deliver", (), 0, "", authentication=Authentication(origin=origin))
                record = MessageRecord(new_id(), now(), now(), Envelope(), 9, "ab" * 32, report, source=source)
                await store.messages.record(record)
        await store.close()

    asyncio.run(run())


def test_sources_that_never_tell_their_clients(tmp_path: Path, dns: NameServer) -> None:
    data = DataFolder(tmp_path)
    config = prepare(data, None)
    guard = config / "guard/core/guard.yml"
    guard.write_text(guard.read_text() + f"dns: {{nameservers: ['{dns.address}']}}\n")
    many = FEW_MESSAGES
    silent: dict[tuple[Source, Origin], int] = {
        ("smtp", "unknown"): many,
        ("rest", "unknown"): many,
        ("rest", "outside"): 1,
    }
    write_messages(tmp_path, {**silent, ("spamd", "unknown"): many - 1, ("milter", ""): many})
    rows = {row.what: row for row in check_own_users(read_files(config), data)}
    assert rows.keys() == {"own domain house.example", "origin of mail by smtp"}
    assert "XFORWARD" in rows["origin of mail by smtp"].advice
    code, shown, _ = run_command("config", "check", "--data", str(tmp_path))
    assert code == 0
    assert "Warning: origin of mail by smtp: none of the last 20 messages" in " ".join(shown.split())
