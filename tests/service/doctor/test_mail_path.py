"""What the doctor says of quarantine, next hop, cores and certificates."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.data_folders import with_store
from tests.events.receivers import make_server_context

from gatepost.service import certificates
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor import mail_path
from gatepost.service.doctor.rows import DoctorRow, ExaminedFiles, read_files
from gatepost.settings.delivery import DeliverySettings, DomainReportSettings, SentReportSettings
from gatepost.settings.keys import GuardSettings, QuarantineSettings
from gatepost.settings.scan_sources import ScanSourcesSettings, SmtpSettings
from gatepost.store.sent_reports import SentReport

NOW = datetime.now(UTC)


def test_a_folder_for_what_is_held(data: DataFolder, tmp_path: Path) -> None:
    row = mail_path.check_quarantine(GuardSettings(), data)
    assert row.state in {"ok", "warn"}
    assert str(data.quarantine) in row.found
    assert not data.quarantine.exists()  # looking changes nothing
    (tmp_path / "file").touch()
    named = GuardSettings(quarantine=QuarantineSettings(url=f"file:{tmp_path}/file/q"))
    row = mail_path.check_quarantine(named, data)
    assert (row.state, row.found) == ("fail", f"{tmp_path}/file cannot be written")


def test_a_bucket_that_does_not_answer(data: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail_path, "SECONDS", 0.5)
    for name, value in {"ENDPOINT": "http://127.0.0.1:1", "REGION": "x", "ACCESS_KEY_ID": "x"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    row = mail_path.check_quarantine(GuardSettings(quarantine=QuarantineSettings(url="s3://bucket/held")), data)
    assert (row.what, row.state) == ("quarantine", "fail")
    assert "s3://bucket/held" in row.found


def through(url: str | None, **options: Any) -> GuardSettings:
    return GuardSettings(
        delivery=DeliverySettings(next_hop=url, **options), scan_sources=ScanSourcesSettings(smtp=SmtpSettings())
    )


def test_a_next_hop(next_hop: Any) -> None:
    next_hop.answers["EHLO"] = "250-sink\r\n250 SIZE 1000000"
    (row,) = mail_path.check_next_hops(through(next_hop.url), NOW)
    assert (row.what, row.state) == ("next hop", "ok")
    assert row.found == f"{next_hop.url} answers in clear, messages up to 1,000,000 bytes"
    assert next_hop.mail == []


@pytest.mark.parametrize(("url", "state"), [("smtp://127.0.0.1:1", "fail"), (None, "warn")])
def test_no_next_hop(url: str | None, state: str) -> None:
    (row,) = mail_path.check_next_hops(through(url), NOW)
    assert (row.what, row.state) == ("next hop", state)
    assert "451" in row.found + row.advice


def test_a_next_hop_without_the_tls_that_is_asked_for(next_hop: Any) -> None:
    (row,) = mail_path.check_next_hops(through(next_hop.url, tls="verified"), NOW)
    assert row.state == "fail"
    assert "STARTTLS" in row.found


def test_without_smtp_nobody_misses_a_next_hop() -> None:
    assert list(mail_path.check_next_hops(GuardSettings(), NOW)) == []


@contextlib.contextmanager
def encrypting(folder: Path) -> Iterator[str]:
    """A next hop that does nothing but STARTTLS."""
    context = make_server_context(folder)

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hop\r\n")
        while line := await reader.readline():
            if line.startswith(b"STARTTLS"):
                writer.write(b"220 go\r\n")
                await writer.start_tls(context)
            else:
                writer.write(b"250-hop\r\n250 STARTTLS\r\n" if line.startswith(b"EHLO") else b"250 ok\r\n")
        writer.close()

    with asyncio.Runner() as runner:
        loop, server = runner.get_loop(), runner.run(asyncio.start_server(session, "127.0.0.1", 0))
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        yield f"smtp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def test_the_certificate_of_the_next_hop(tmp_path: Path) -> None:
    with encrypting(tmp_path) as url:
        hop, certificate = mail_path.check_next_hops(through(url), NOW)
        assert (hop.state, certificate.state) == ("ok", "ok")
        assert hop.found == f"{url} answers under TLS"
        # Nobody verifies it here, so mail flows on when it ends.
        _, late = mail_path.check_next_hops(through(url), NOW + timedelta(days=4000))
        assert (late.what, late.state) == ("certificate of the next hop", "warn")
        assert "expired" in late.found


def cores(folder: Path, data: DataFolder) -> list[DoctorRow]:
    files = read_files(folder)
    assert files.abby
    return list(mail_path.check_cores(files.abby, files.guard, data))


@pytest.mark.usefixtures("read")
def test_cores(data: DataFolder, tmp_path: Path) -> None:
    (row,) = cores(tmp_path, data)
    assert row.state == "ok"
    assert "does not run" in row.found
    # Cores on other machines need PostgreSQL and a secret.
    for file in (tmp_path / "abby/abby/abby.yml", tmp_path / "guard/core/guard.yml"):
        text = file.read_text().replace(
            'hosts: ["https://127.0.0.1:9785"]', f'secret: {"s" * 32}\n    hosts: ["https://core.invalid:1"]'
        )
        file.write_text(text.replace("sqlite:gatepost.db", "postgresql://gatepost@127.0.0.1/gatepost"))
    (row,) = cores(tmp_path, data)
    assert (row.state, "cannot be read" in row.found) == ("fail", True)
    certificates.ensure_certificate(data)
    (row,) = cores(tmp_path, data)
    assert (row.what, row.state, row.found) == ("core https://core.invalid:1", "fail", "does not answer (ConnectError)")


@pytest.mark.usefixtures("read")
def test_certificates_that_are_not_the_first_starts(data: DataFolder, tmp_path: Path) -> None:
    pem, key = certificates.sign_certificate(["mx.example"], NOW - timedelta(days=3630))
    (tmp_path / "own.pem").write_bytes(pem)
    (tmp_path / "own.key").write_bytes(key)
    certificates.ensure_certificate(data)
    file = tmp_path / "abby/abby/abby.yml"
    text = file.read_text().replace("hosts: [", f"ca: {tmp_path}/own.pem\n    hosts: [")
    file.write_text(text + f"tls: {{certificate: {tmp_path}/own.pem, key: {tmp_path}/own.key}}\n")
    rows = {row.what: row.state for row in mail_path.check_certificates(read_files(tmp_path), data, NOW)}
    assert rows == {"certificate": "warn", "certificate of guard": "ok", "certificates of cores": "warn"}


def test_every_next_hop_of_every_route_has_a_row(next_hop: Any) -> None:
    routes = [{"domains": ["x.example"], "nextHop": "lmtp:/nowhere"}]
    delivery = {"nextHop": [next_hop.url, "smtp://127.0.0.1:1"], "routes": routes}
    settings = GuardSettings.model_validate({"delivery": delivery})
    rows = list(mail_path.check_next_hops(settings, NOW))
    states = [("next hop of routes[0]", "fail"), ("next hop", "ok"), ("next hop", "fail")]
    assert [(row.what, row.state) for row in rows] == states
    assert "cannot be reached: no such file" in rows[0].found
    assert "451" in rows[0].advice
    assert "other next hops" in rows[2].advice


def test_reports_that_go(data: DataFolder) -> None:
    sent = SentReportSettings(organization="X", sender="r@x.example")
    stated = DomainReportSettings(send=sent)
    files = ExaminedFiles(
        guard=GuardSettings(domain_reports=stated, delivery=DeliverySettings(next_hop="smtp://127.0.0.1:1"))
    )

    def look() -> list[tuple[str, str, str]]:
        rows = mail_path.check_domain_reports(files, data, NOW)
        return [(row.what, row.state, row.found) for row in rows]

    with_store(data.path, lambda store: store.tenants.all(), files.storage)
    assert look() == [("reports to others", "ok", "of the last day: 0 sent, 0 unwanted, 0 waiting, 0 failed")]
    failed = SentReport(1, "y.example", "failed", reason="gone")
    with_store(data.path, lambda store: store.sent_reports.finish(failed), files.storage)
    assert look() == [("reports to others", "warn", "0 sent, 0 unwanted, 0 waiting, 1 failed")]
    assert list(mail_path.check_domain_reports(ExaminedFiles(guard=GuardSettings()), data, NOW)) == []
