"""More processors on one machine are more instances: they share ports and a PostgreSQL, and never a SQLite file."""

import contextlib
import re
import signal
import smtplib
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.ports import free_ports
from tests.conftest import MailSink
from tests.data_folders import write_files
from tests.service.running_service import RunningCommand

from gatepost.service.data_folder import DataFolder, StartError, lock_sqlite_file

SMALL = "workerProcesses: 1\nlog: {level: info, format: json}\n"


@contextlib.contextmanager
def running(data: Path) -> Iterator[RunningCommand]:
    """A core on this data folder."""
    core = RunningCommand(data / "output", "guard", "--data", data)
    try:
        yield core
    finally:
        core.stop(signal.SIGKILL)


def metrics_of(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def count_sessions(port: int) -> int:
    found = re.search(r"(?m)^gatepost_smtp_connections_total (\d+)", metrics_of(port))
    assert found
    return int(found[1])


def connect(port: int, times: int) -> None:
    for _ in range(times):
        with smtplib.SMTP("127.0.0.1", port, timeout=60) as session:
            assert session.ehlo()[0] == 250


@pytest.mark.process
def test_instances_share_a_port_and_metrics_tell_them_apart(
    tmp_path: Path, postgres_url: str, next_hop: MailSink
) -> None:
    smtp, *watched = free_ports(3)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, port in zip(folders, watched, strict=True):
        source = f'scanSources: {{smtp: {{port: {smtp}, reusePort: true}}}}\nmetrics: {{listen: "127.0.0.1:{port}"}}\n'
        own = f'storage: {{url: "{postgres_url}"}}\nevents: {{node: "mx1-{folder.name}"}}\n'
        write_files(folder, SMALL + source + own + f'delivery: {{nextHop: "{next_hop.url}"}}\n')
    with running(folders[0]) as one, running(folders[1]) as two:
        one.until()
        two.until()
        connect(smtp, 64)
        counts = [count_sessions(port) for port in watched]
        # The kernel chooses by a digest of both ends: that all 64 go to one of the two happens once in 2 ** 63 times.
        assert sum(counts) == 64
        assert min(counts) > 0
        for name, port in zip(("one", "two"), watched, strict=True):
            assert f'gatepost_build_info{{node="mx1-{name} guard:{smtp}"' in metrics_of(port)
        # One ends after the message that is under way; the other has all connections from that moment on.
        with contextlib.closing(begin_message_at(smtp, watched[1])) as client:
            counts = [count_sessions(port) for port in watched]
            two.popen.send_signal(signal.SIGTERM)
            two.until('"service stopping"')
            await_refusal(watched[1])
            connect(smtp, 16)
            assert count_sessions(watched[0]) == counts[0] + 16
            client.send(b"whole\r\n.\r\n")
            assert client.getreply()[0] == 250
        assert two.popen.wait(90) == 0
        assert len(next_hop.mail) == 1


def begin_message_at(smtp: int, metrics: int) -> smtplib.SMTP:
    """A session at the instance with these metrics, in the middle of a message."""
    while True:
        before = count_sessions(metrics)
        client = smtplib.SMTP("127.0.0.1", smtp, timeout=60)
        if count_sessions(metrics) > before:
            break
        client.close()
    for command in ("EHLO here", "MAIL FROM:<a@company.example>", "RCPT TO:<b@example.com>"):
        assert client.docmd(command)[0] == 250
    assert client.docmd("DATA")[0] == 354
    client.send(b"From: a@company.example\r\nSubject: s\r\n\r\nnot yet ")
    return client


def await_refusal(port: int) -> None:
    """Wait until nobody listens on a port."""
    with contextlib.suppress(ConnectionRefusedError):
        while True:
            socket.create_connection(("127.0.0.1", port), 60).close()
            time.sleep(0.05)


@pytest.mark.process
def test_a_sqlite_file_has_one_instance_until_that_ends_however_it_ends(tmp_path: Path) -> None:
    ports = free_ports(2)
    one, two = tmp_path / "one", tmp_path / "two"
    write_files(one, SMALL + f"scanSources: {{smtp: {{port: {ports[0]}}}}}\n")
    shared = f'storage: {{url: "sqlite:{one}/gatepost.db"}}\n'
    write_files(two, SMALL + f"scanSources: {{smtp: {{port: {ports[1]}}}}}\n" + shared)
    with running(one) as first:
        first.until()
        with running(two) as refused:
            assert refused.popen.wait(120) == 1
        said = f"Another Gatepost (process {first.popen.pid}) already runs on {one}."
        why = f"{one}/gatepost.db is a SQLite file, which belongs to one instance: several need PostgreSQL."
        assert refused.text.rstrip().endswith(f"{said} {why}")
    with running(two) as second:
        second.until()
        with pytest.raises(StartError, match=rf"process {second.popen.pid}\) already runs on {one}\."):
            DataFolder(one).lock("guard").__enter__()


@pytest.mark.parametrize("url", ["sqlite:gatepost.db", "postgresql://db.example/gatepost"])
def test_what_lies_in_the_data_folder_is_not_locked_twice(url: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "name").symlink_to(tmp_path / "data")
    for place in ("data", "name"):
        data = DataFolder(tmp_path / place)
        with data.lock("guard"), lock_sqlite_file(data, url, ("guard",)):
            assert sorted(file.name for file in data.path.iterdir()) == ["guard.lock"]


def test_guard_and_abby_of_one_deployment_may_be_two_processes(tmp_path: Path) -> None:
    one, two = DataFolder(tmp_path / "one"), DataFolder(tmp_path / "two")
    one.make()
    with one.lock("guard"), lock_sqlite_file(two, f"sqlite:{one.path}/gatepost.db", ("abby",)):
        assert sorted(file.name for file in one.path.iterdir()) == ["abby.lock", "guard.lock"]
