"""What the doctor sees, row by row."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.guard.answers import test_dns

from gatepost.service import certificates, plan
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor import examination, mail_path
from gatepost.service.doctor.rows import ExaminedFiles
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.settings.keys import DnsSettings, ZoneSettings

NOW = datetime(2026, 11, 15, tzinfo=UTC)


def test_libraries_are_installed() -> None:
    assert examination.check_libraries().state == "ok"
    assert examination.check_python().state == "ok"


@pytest.mark.parametrize(("days", "state"), [(0, "ok"), (2000, "warn")])
def test_age_of_the_suffix_list(days: int, state: str) -> None:
    assert examination.check_suffix_list(NOW + timedelta(days=days)).state == state


@pytest.mark.parametrize(("seconds", "state"), [(0.0, "fail"), (4e9, "ok")])
def test_clock(seconds: float, state: str) -> None:
    assert examination.check_clock(seconds).state == state


def test_data_folder(data: DataFolder, tmp_path: Path) -> None:
    assert examination.check_data_folder(data).state in {"ok", "warn"}
    assert examination.check_data_folder(DataFolder(tmp_path / "absent")).state == "warn"
    (tmp_path / "file").touch()
    assert examination.check_data_folder(DataFolder(tmp_path / "file")).state == "fail"


@pytest.mark.parametrize(("age", "state"), [(0, "ok"), (3630, "warn"), (4000, "fail")])
def test_certificate(data: DataFolder, read: ExaminedFiles, age: int, state: str) -> None:
    (row,) = mail_path.check_certificates(read, data, NOW)
    assert (row.what, row.state) == ("certificate", "warn")
    pem, key = certificates.sign_certificate(["localhost"], NOW)
    data.replace(data.key, key)
    data.replace(data.certificate, pem)
    (row,) = mail_path.check_certificates(read, data, NOW + timedelta(days=age))
    assert row.state == state


def test_a_broken_certificate(data: DataFolder, read: ExaminedFiles) -> None:
    data.replace(data.certificate, "nonsense")
    (row,) = mail_path.check_certificates(read, data, NOW)
    assert row.state == "fail"


@pytest.mark.process
def test_workers_can_be_sealed_here() -> None:
    row = examination.check_workers(unsealed=False)
    assert row.state == "ok", row


def test_dns_that_does_not_answer() -> None:
    row = examination.check_dns(DnsSettings(nameservers=["127.0.0.1:1"], timeout=100))
    assert row.state == "fail"
    assert "127.0.0.1:1" in row.found


def test_storage(data: DataFolder, read: ExaminedFiles) -> None:
    assert examination.check_storage(read, data).state == "warn"
    (data.path / "gatepost.db").write_bytes(b"not a database, by far" * 100)
    assert examination.check_storage(read, data).state == "fail"


def test_ports(data: DataFolder) -> None:
    bound = plan.bind(("127.0.0.1",), 0, "x")
    port = plan.port_of(bound)
    busy = examination.check_port("abby", "x", lambda: plan.bind(("127.0.0.1",), port, "x"), data)
    plan.close_sockets(bound)
    free = examination.check_port("abby", "x", lambda: plan.bind(("127.0.0.1",), port, "x"), data)
    assert (busy.state, free.state) == ("fail", "ok")


def test_an_antivirus_that_does_not_answer_is_a_failure() -> None:
    row = examination.check_antivirus("127.0.0.1:1")
    assert (row.what, row.state) == ("clamd", "fail")


@pytest.mark.parametrize(("installed", "state"), [(True, "ok"), (False, "warn")])
def test_a_library_for_rar_is_looked_for(monkeypatch: pytest.MonkeyPatch, installed: bool, state: str) -> None:
    monkeypatch.setattr("gatepost.files.archives.libarchive.is_installed", lambda: installed)
    assert examination.check_archives().state == state


@pytest.mark.process
@pytest.mark.parametrize(("there", "missing"), [(GUARD_FILE, ABBY_FILE), (ABBY_FILE, GUARD_FILE)])
def test_a_machine_with_one_of_the_services(data: DataFolder, there: Path, missing: Path) -> None:
    folder = prepare(data, None)
    (folder / missing).unlink()
    rows = {row.what: row for row in examination.examine(folder, data)}
    assert rows["configuration"].state == "ok"
    assert there.name in rows["configuration"].found
    assert ("port of abby" in rows) == (there == ABBY_FILE)
    assert ("quarantine" in rows) == (there == GUARD_FILE)


def test_files_with_secrets_that_everybody_can_read(data: DataFolder, read: ExaminedFiles) -> None:
    assert examination.check_secret_files(read, data.path, data).state == "ok"
    for file in (data.path / ABBY_FILE, data.secret):
        file.chmod(0o644)
        row = examination.check_secret_files(read, data.path, data)
        assert (row.state, str(file) in row.found, str(file) in row.advice) == ("warn", True, True)
        file.chmod(0o640)
    (data.path / GUARD_FILE).chmod(0o644)
    assert examination.check_secret_files(read, data.path, data).state == "ok", "there is no secret in it"


@contextmanager
def name_server(zone: test_dns.Zone) -> Iterator[str]:
    """A name server in a thread of its own; its address."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        opening = loop.create_datagram_endpoint(lambda: test_dns.NameServer(300, zone), local_addr=("127.0.0.1", 0))
        transport, _ = runner.run(opening)
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        yield "127.0.0.1:{1}".format(*transport.get_extra_info("sockname"))
        loop.call_soon_threadsafe(transport.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@pytest.mark.parametrize(
    ("zone", "state", "words"),
    [
        ({"2.0.0.127.bl.test": {"A": ["127.0.0.2"]}}, "ok", "lists its test entry (127.0.0.2)"),
        ({}, "warn", "does not list its test entry"),
        ({name: {"A": ["127.0.0.2"]} for name in ("2.0.0.127.bl.test", "1.0.0.127.bl.test")}, "fail", "no zone may"),
        ({"2.0.0.127.bl.test": {"A": ["127.255.255.254"]}}, "fail", "public resolver"),
        ({"2.0.0.127.bl.test": "servfail"}, "fail", "does not answer"),
    ],
)
def test_reputation_zones(zone: test_dns.Zone, state: str, words: str) -> None:
    answers = [{"codes": ["127.0.0.2"], "means": "listed"}]
    settings = ZoneSettings.model_validate({"name": "block", "zone": "bl.test", "asks": "ip", "answers": answers})
    with name_server(zone) as address:
        (row,) = examination.check_zones(DnsSettings(nameservers=[address], timeout=5000), [settings])
    assert (row.what, row.state) == ("zone block", state)
    assert words in row.found
