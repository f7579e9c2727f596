"""A running service whose files change: it starts again with its sockets, refuses what is faulty, and goes back from
what it cannot run. Real processes."""

import contextlib
import json
import signal
import smtplib
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from bench.ports import free_ports
from bench.processes import await_output
from cryptography import x509
from tests.command_line import run_command
from tests.conftest import MailSink
from tests.data_folders import write_files
from tests.events.receivers import eventually
from tests.service.running_service import RunningCommand

from gatepost.service.certificates import VALIDITY, sign_certificate
from gatepost.service.changes import LoadedFiles, NodeFiles, load_state
from gatepost.service.commands import EXAMPLE
from gatepost.service.data_folder import DataFolder
from gatepost.settings.files import ABBY_FILE, GUARD_FILE

TOKENS = ("5f" * 32, "7a" * 32, "9c" * 32)
PARAMETERS = '{"borderMtaData":{"envelopeFrom":"ann@example.org","envelopeRecipients":["bob@example.com"]}}'
SCAN = "/v1/messageQueue/submitEmail"
GUARD_YML = """
workerProcesses: 1
mainWorkerCount: {slots}
scanSources: {{restApi: {{port: {guard}}}, smtp: {{port: {smtp}}}}}
dns: {{nameservers: ["127.0.0.1:9"], timeout: 100}}
log: {{level: info, format: json}}
policy: {{file: policy.toml}}
{more}
"""
ABBY_YML = """
listen: {{host: 127.0.0.1, port: {abby}}}
tls: {{certificate: own.pem, key: own.key}}
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{guard}"]}}}}
staticApiTokens: [{{name: test, token: "${{file:token}}"}}, {{name: other, token: "${{file:other}}"}}]
"""


def write_tokens(folder: Path, token: str) -> None:
    (folder / ABBY_FILE).with_name("token").write_text(token)
    (folder / ABBY_FILE).with_name("other").write_text(TOKENS[2])


class Node(RunningCommand):
    """A running `gatepost serve`, with what a service manager would be told of it."""

    def __init__(self, folder: Path, next_hop: str = "") -> None:
        self.folder, self.data, self.next_hop = folder, folder / "data", next_hop
        self.ports = dict(zip(("abby", "guard", "smtp"), free_ports(3), strict=True))
        self.write_certificate()
        self.write()
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(folder / "notify"))
        self.manager.settimeout(240)
        self.start()

    def start(self) -> None:
        """Start as a service manager does, and wait until it serves."""
        told = {"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": "2000000"}
        super().__init__(self.folder / "output", "serve", "--config", self.folder, "--data", self.data, **told)
        try:
            self.await_notice("READY=1")
        except TimeoutError:
            self.popen.kill()
            self.popen.wait()
            raise

    def write(self, token: str = TOKENS[0], policy: str = "", slots: int = 6) -> None:
        more = f'delivery: {{nextHop: "{self.next_hop}", tls: "off"}}' if self.next_hop else ""
        values = {**self.ports, "more": more, "slots": slots}
        write_files(self.folder, GUARD_YML.format(**values), ABBY_YML.format(**values))
        (self.folder / GUARD_FILE).with_name("policy.toml").write_text(policy)
        write_tokens(self.folder, token)

    def write_certificate(self) -> int:
        """Write another certificate; returns its serial number."""
        pem, key = sign_certificate(["localhost", "127.0.0.1"], datetime.now(UTC))
        (self.folder / ABBY_FILE).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / ABBY_FILE).with_name("own.key").write_bytes(key)
        (self.folder / ABBY_FILE).with_name("own.pem").write_bytes(pem)
        return x509.load_pem_x509_certificate(pem).serial_number

    def await_notice(self, words: str) -> list[str]:
        """Wait until the service manager is told this; returns everything that it was told before."""
        told: list[str] = []
        while True:
            lines = self.manager.recv(4096).decode().split("\n")
            told += lines
            if words in lines:
                return told

    def count(self, event: str) -> int:
        return self.text.count(f'"{event}"')

    def reload(self, outcome: str = "configuration taken over") -> list[str]:
        """Have the files taken over; returns what the service manager was told."""
        before = self.count(outcome)
        self.popen.send_signal(signal.SIGHUP)
        self.await_notice("RELOADING=1")
        told = self.await_notice("READY=1")
        eventually(lambda: self.count(outcome) > before)
        return told

    def list_self(self) -> dict[str, Any]:
        """What `gatepost nodes` says of this node."""
        (found,) = json.loads(run_on(self, "nodes", "--json"))["nodes"]
        return dict(found)

    def scan(self, token: str, client: httpx.Client | None = None) -> httpx.Response:
        files = {"parameters": ("", PARAMETERS, "application/json"), "email": ("m", EXAMPLE, "message/rfc822")}
        with contextlib.ExitStack() as stack:
            client = client or stack.enter_context(self.client())
            return client.post(SCAN, files=files, headers={"Authorization": f"Bearer {token}"})

    def client(self) -> httpx.Client:
        url = f"https://127.0.0.1:{self.ports['abby']}"
        return httpx.Client(base_url=url, verify=False, trust_env=False, timeout=60)

    def serial(self, port: str) -> int:
        context = ssl._create_unverified_context()
        if port == "smtp":
            with smtplib.SMTP("127.0.0.1", self.ports["smtp"], timeout=30) as client:
                client.starttls(context=context)
                assert isinstance(client.sock, ssl.SSLSocket)
                der = client.sock.getpeercert(binary_form=True)
        else:
            address = ("127.0.0.1", self.ports[port])
            with socket.create_connection(address, 30) as raw, context.wrap_socket(raw) as secure:
                der = secure.getpeercert(binary_form=True)
        assert der
        return x509.load_der_x509_certificate(der).serial_number

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        try:
            return super().stop(number)
        finally:
            self.popen.kill()
            self.manager.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, lasting_next_hop: MailSink) -> Iterator[Node]:
    running = Node(tmp_path_factory.mktemp("node"), lasting_next_hop.url)
    yield running
    running.stop()


class Asking:
    """Requests that go on: on new connections, and on one that is kept. What fails is kept."""

    def __init__(self, node: Node) -> None:
        self._node, self._ended, self.failed, self.answered = node, threading.Event(), list[object](), 0
        self._threads = [threading.Thread(target=self._ask, args=(each,)) for each in (False, True)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(120)

    def _ask(self, keeps: bool) -> None:
        with self._node.client() as kept:
            while not self._ended.wait(0.05):
                try:
                    answer = self._node.scan(TOKENS[2], kept if keeps else None)
                    if answer.status_code != 200:
                        self.failed.append(answer.text)
                    self.answered += 1
                except httpx.HTTPError as fault:
                    self.failed.append(fault)


def begin_message(node: Node) -> smtplib.SMTP:
    """An SMTP session in the middle of a message."""
    client = smtplib.SMTP("127.0.0.1", node.ports["smtp"], timeout=120)
    for command in ("EHLO here", "MAIL FROM:<a@company.example>", "RCPT TO:<b@example.com>"):
        assert client.docmd(command)[0] == 250
    assert client.docmd("DATA")[0] == 354
    client.send(b"From: a@company.example\r\nSubject: under way\r\n\r\nnot yet ")
    return client


class HalfSent:
    """A scan of which the service has half."""

    def __init__(self, node: Node) -> None:
        files = {"parameters": ("", PARAMETERS, "application/json"), "email": ("m", EXAMPLE, "message/rfc822")}
        request = httpx.Request("POST", f"https://localhost{SCAN}", files=files)
        body = request.read()
        fields = {**request.headers, "Authorization": f"Bearer {TOKENS[2]}"}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        raw = socket.create_connection(("127.0.0.1", node.ports["abby"]), 120)
        self._connection, self._rest = ssl._create_unverified_context().wrap_socket(raw), body[100:]
        self._connection.sendall(f"POST {SCAN} HTTP/1.1\r\n{head}\r\n".encode() + body[:100])

    def finish(self) -> bytes:
        """Send the rest; returns the status line of the answer."""
        with self._connection:
            self._connection.sendall(self._rest)
            return self._connection.recv(4096).partition(b"\r\n")[0]


def test_a_change_loses_nothing_and_refuses_nobody(node: Node, lasting_next_hop: MailSink) -> None:
    pid, taken = node.popen.pid, len(lasting_next_hop.mail)
    assert node.scan(TOKENS[2]).json()["decision"] == "deliver"
    with Asking(node) as asking, contextlib.closing(begin_message(node)) as client:
        request = HalfSent(node)
        node.write(TOKENS[1], policy='[verdicts]\nclean = {decision = "drop"}\n', slots=9)
        begun, over = node.count("configuration change begins"), node.count("configuration taken over")
        node.popen.send_signal(signal.SIGHUP)
        eventually(lambda: node.count("configuration change begins") > begun)
        # It waits for both, and takes nobody else meanwhile.
        client.send(b"whole\r\n.\r\n")
        assert client.getreply()[0] == 250
        assert request.finish() == b"HTTP/1.1 200 OK"
        told = node.await_notice("READY=1")
        eventually(lambda: node.count("configuration taken over") > over)
        answered = asking.answered
        eventually(lambda: asking.answered > answered + 4)
    assert not asking.failed
    assert "RELOADING=1" in told
    assert any(line.startswith("MONOTONIC_USEC=") for line in told)
    assert len(lasting_next_hop.mail) == taken + 1
    assert node.popen.poll() is None
    assert node.popen.pid == pid
    assert node.scan(TOKENS[1]).json()["decision"] == "drop"
    assert node.scan(TOKENS[0]).status_code == 401
    with node.client() as asked:
        assert "gatepost_in_processing_maximum 9.0" in asked.get("/metrics").text
    assert '"guard.yml mainWorkerCount"' in node.text, "the log names what has changed"


def test_a_faulty_file_changes_nothing_and_is_reported(node: Node) -> None:
    begun = node.count("configuration change begins")
    good = (node.folder / GUARD_FILE).read_text()
    for fault, reason in (
        ("mainWorkerCont: 3\n", "mainWorkerCont"),
        ('metrics: {listen: "192.0.2.1:9"}\n', "this machine does not have that address"),
        ("yara: {folder: nowhere}\n", "does not exist"),
    ):
        (node.folder / GUARD_FILE).write_text(good + fault)
        assert "changed since" in run_on(node, "config", "check", code=None)
        node.reload("configuration not taken over")
        assert reason in read_state(node).fault
    assert node.scan(TOKENS[2]).status_code == 200
    assert node.count("configuration change begins") == begun
    (node.folder / GUARD_FILE).write_text(good)
    eventually(lambda: "does not exist" in node.list_self()["error"])
    (told,) = node.list_self()["reasons"]
    assert (told["code"], told["state"]) == ("configuration", "GREEN")
    assert "a changed configuration is not in force: " in told["sentence"]


def test_an_expired_certificate_is_refused(node: Node) -> None:
    own = (node.folder / ABBY_FILE).parent
    pem, key = sign_certificate(["localhost"], datetime.now(UTC) - VALIDITY - timedelta(days=1))
    (own / "old.pem").write_bytes(pem)
    (own / "old.key").write_bytes(key)
    good = (node.folder / ABBY_FILE).read_text()
    (node.folder / ABBY_FILE).write_text(good.replace("own.", "old."))
    node.reload("configuration not taken over")
    assert "tls.certificate expired on" in read_state(node).fault
    (node.folder / ABBY_FILE).write_text(good)


def test_a_configuration_that_cannot_be_run_gives_way_to_the_one_before(node: Node) -> None:
    """It names a database that nobody serves, which no check of the files can tell."""
    good = [(node.folder / file, (node.folder / file).read_text()) for file in (GUARD_FILE, ABBY_FILE)]
    for path, text in good:
        path.write_text(text + 'storage: {url: "postgresql://127.0.0.1:9/none"}\n')
    with Asking(node) as asking:
        node.reload("configuration not taken over")
        answered = asking.answered
        eventually(lambda: asking.answered > answered + 4)
    assert not asking.failed
    assert "127.0.0.1:9" in read_state(node).fault
    assert "the running guard has refused the files as they were" in run_on(node, "config", "check")
    for path, text in good:
        path.write_text(text)
    eventually(lambda: "127.0.0.1:9" in node.list_self()["error"])
    node.reload()
    assert not read_state(node).fault
    eventually(lambda: node.list_self()["error"] == "")


def read_maximum(node: Node) -> str:
    with node.client() as client:
        return client.get("/metrics").text.partition("\ngatepost_in_processing_maximum ")[2].partition("\n")[0]


def test_a_process_that_is_killed_on_trial_starts_again_with_the_configuration_before(node: Node) -> None:
    files, before = NodeFiles(DataFolder(node.data), "guard"), read_maximum(node)
    node.write(TOKENS[1], slots=11)
    node.popen.send_signal(signal.SIGHUP)

    def is_on_trial() -> bool:
        trial = files.trial()
        return trial is not None and trial.has_begun and not trial.fault

    eventually(is_on_trial)
    node.popen.kill()
    node.popen.wait()
    node.start()
    assert read_maximum(node) == before != "11.0"
    eventually(lambda: "ended before it was healthy" in read_state(node).fault)


def test_of_several_changes_in_a_row_the_last_is_in_force(node: Node) -> None:
    files = NodeFiles(DataFolder(node.data), "guard")
    for slots in (5, 6, 7):
        node.write(TOKENS[1], slots=slots)
        node.popen.send_signal(signal.SIGHUP)
        node.popen.send_signal(signal.SIGHUP)
        # The first is seen at once, and others while the process starts again.
        eventually(lambda: node.count("configuration change begins") > 0)
    eventually(lambda: read_maximum(node) == "7.0")
    eventually(lambda: files.trial() is None)


def test_changed_certificates_are_shown_without_a_signal(node: Node) -> None:
    before = {port: node.serial(port) for port in ("abby", "smtp")}
    over = node.count("certificate taken over")
    serial = node.write_certificate()
    node.until("certificate taken over")
    assert {port: node.serial(port) for port in before} == {"abby": serial, "smtp": serial}
    own = node.serial("guard")
    key = (node.folder / ABBY_FILE).with_name("own.key")
    key.write_bytes(key.read_bytes()[:40])
    node.until("changed certificate not taken over")
    assert node.serial("abby") == serial
    assert node.serial("guard") == own
    node.write_certificate()
    eventually(lambda: node.count("certificate taken over") == over + 2)


def test_a_published_version_takes_the_same_way(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.write(TOKENS[1], slots=8)
    publish = ("config", "publish", "--wait", "--reason", "why")
    assert "Version 1 is published; every node runs it" in run_on(node, *publish)
    assert read_maximum(node) == "8.0"
    assert node.list_self()["version"] == 1
    # Valid for whoever publishes, and not for the node.
    monkeypatch.setenv("TEST_SECRET", "6d" * 32)
    monkeypatch.setenv("TEST_HOOK", "https://hooks.example/x")
    good = (node.folder / GUARD_FILE).read_text()
    hook = 'events: {webhooks: [{url: "${env:TEST_HOOK}", secret: "${env:TEST_SECRET}"}]}\n'
    (node.folder / GUARD_FILE).write_text(good + hook)
    run_on(node, *publish, code=1)
    (node.folder / GUARD_FILE).write_text(good)
    eventually(lambda: "TEST_HOOK, which is not set" in node.list_self()["error"])
    assert node.list_self()["version"] == node.list_self()["wanted"] == 1
    assert read_maximum(node) == "8.0"


def test_the_watchdog_is_fed_and_a_stop_waits_for_no_idle_tls_client(node: Node) -> None:
    node.await_notice("WATCHDOG=1")
    context = ssl._create_unverified_context()
    with socket.create_connection(("127.0.0.1", node.ports["abby"])) as raw, context.wrap_socket(raw) as idle:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in idle.recv(4096)
        node.popen.terminate()
        told = node.await_notice("STOPPING=1")
        # The client neither reads nor closes; were it waited for, this would be 30 seconds.
        assert node.popen.wait(20) == 0
    assert "WATCHDOG=1" in told or told == ["STOPPING=1"]


def read_state(node: Node) -> LoadedFiles:
    """What the service has noted of its files."""
    state = load_state(DataFolder(node.data), "guard")
    assert state
    return state


def run_on(node: Node, *words: str, code: int | None = 0) -> str:
    """Run a command on the machine of the node; what it printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        ended, out, err = run_command(*words, "--config", node.folder, "--data", node.data)
    assert code is None or ended == code, err
    return out


@pytest.mark.variant
def test_inherited_sockets_are_used_and_refuse_nobody(tmp_path: Path) -> None:
    """As systemd does it: the port is open before the service runs, and stays open when it has ended."""
    folder = tmp_path
    abby, guard, smtp = free_ports(3)
    listening = socket.create_server(("127.0.0.1", abby), backlog=64)
    values = {"abby": abby, "guard": guard, "smtp": smtp, "slots": 4, "more": ""}
    plain = ABBY_YML.replace("tls: {{certificate: own.pem, key: own.key}}", 'tls: "off"')
    write_files(folder, GUARD_YML.format(**values), plain.format(**values))
    (folder / GUARD_FILE).with_name("policy.toml").write_text("")
    write_tokens(folder, TOKENS[0])
    waiting = socket.create_connection(("127.0.0.1", abby))
    waiting.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    script = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3, True); os.environ['LISTEN_PID'] = str(os.getpid());"
        "os.environ['LISTEN_FDS'] = '1'; os.execv(sys.executable, [sys.executable, '-m', 'gatepost', *sys.argv[2:]])"
    )
    command = [sys.executable, "-c", script, str(listening.fileno()), "serve", "--config", str(folder)]
    output = folder / "output"
    with output.open("wb") as sink:
        running = subprocess.Popen(
            [*command, "--data", str(folder / "data")], stdout=sink, stderr=sink, pass_fds=[listening.fileno()]
        )
    try:
        await_output(running, output, '"service listening"')
        assert b"200" in waiting.recv(4096)
        running.terminate()
        assert running.wait(180) == 0
        # Nobody serves, and nobody is refused.
        socket.create_connection(("127.0.0.1", abby)).close()
    finally:
        running.kill()
        waiting.close()
        listening.close()
