"""A running service whose files change: what SIGHUP takes over, what waits for a restart, what a fault changes, and
what the service manager is told. Real processes."""

import contextlib
import signal
import smtplib
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from bench.ports import free_ports
from bench.processes import await_output
from cryptography import x509
from tests.command_line import run_command
from tests.data_folders import write_files
from tests.events.receivers import eventually
from tests.service.running_service import RunningCommand

from gatepost.service.certificates import sign_certificate
from gatepost.service.commands import EXAMPLE
from gatepost.service.data_folder import DataFolder
from gatepost.service.reloading import LoadedFiles, find_changed_files, load_state
from gatepost.settings.files import ABBY_FILE, GUARD_FILE

TOKENS = ("5f" * 32, "7a" * 32, "9c" * 32)
PARAMETERS = '{"borderMtaData":{"envelopeFrom":"ann@example.org","envelopeRecipients":["bob@example.com"]}}'
SCAN = "/v1/messageQueue/submitEmail"
GUARD_YML = """
workerProcesses: 2
mainWorkerCount: {slots}
scanSources: {{restApi: {{port: {guard}}}, smtp: {{port: {smtp}}}}}
dns: {{nameservers: ["127.0.0.1:9"], timeout: 100}}
log: {{level: info, format: json}}
policy: {{file: policy.toml}}
"""
ABBY_YML = """
listen: {{host: 127.0.0.1, port: {abby}}}
tls: {{certificate: own.pem, key: own.key}}
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{guard}"]}}}}
staticApiTokens: [{{name: test, token: "{token}"}}, {{name: other, token: "{other}"}}]
"""


class Node(RunningCommand):
    """A running `gatepost serve`, with what a service manager would be told of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.ports = dict(zip(("abby", "guard", "smtp"), free_ports(3), strict=True))
        self.write_certificate()
        self.write()
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(folder / "notify"))
        self.manager.settimeout(240)
        told = {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "2000000"}
        super().__init__(folder / "output", "serve", "--config", folder, "--data", self.data, **told)
        try:
            self.await_notice("READY=1")
        except TimeoutError:
            self.popen.kill()
            self.popen.wait()
            raise

    def write(self, token: str = TOKENS[0], policy: str = "", slots: int = 6) -> None:
        values = {**self.ports, "token": token, "slots": slots, "other": TOKENS[2]}
        write_files(self.folder, GUARD_YML.format(**values), ABBY_YML.format(**values))
        (self.folder / GUARD_FILE).with_name("policy.toml").write_text(policy)

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

    def reload(self) -> list[str]:
        self.popen.send_signal(signal.SIGHUP)
        return self.await_notice("READY=1")

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
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    running = Node(tmp_path_factory.mktemp("node"))
    yield running
    running.stop()


def test_sighup_takes_over_tokens_and_policy_and_no_request_fails(node: Node) -> None:
    failed: list[object] = []
    stop = threading.Event()

    def keep_asking() -> None:
        """New connections and one that is kept: neither may notice the reload."""
        with node.client() as kept:
            while not stop.wait(0.05):
                try:
                    for client in (kept, None):
                        answer = node.scan(TOKENS[2], client)
                        if answer.status_code != 200:
                            failed.append(answer.text)
                except httpx.HTTPError as fault:
                    failed.append(fault)

    assert node.scan(TOKENS[0]).json()["decision"] == "deliver"
    asking = threading.Thread(target=keep_asking)
    asking.start()
    node.write(TOKENS[1], policy='[verdicts]\nclean = {decision = "drop"}\n')
    told = node.reload()
    assert "RELOADING=1" in told
    assert any(line.startswith("MONOTONIC_USEC=") for line in told)
    assert node.scan(TOKENS[1]).json()["decision"] == "drop"
    assert node.scan(TOKENS[0]).status_code == 401
    stop.set()
    asking.join(60)
    assert not failed


def test_what_needs_a_restart_is_named_and_keeps_its_value(node: Node) -> None:
    node.write(TOKENS[1], slots=9)
    node.reload()
    node.until("service restart needed")
    state = read_state(node)
    assert state.restart == ("guard.yml mainWorkerCount",)
    check = run_on(node, "config", "check")
    assert "holds after a restart: guard.yml mainWorkerCount" in check
    with node.client() as client:
        assert "gatepost_in_processing_maximum 6.0" in client.get("/metrics").text


def test_a_faulty_file_changes_nothing_and_is_reported(node: Node) -> None:
    node.write(TOKENS[0])
    good = (node.folder / GUARD_FILE).read_text()
    (node.folder / GUARD_FILE).write_text(good + "mainWorkerCont: 3\n")
    assert "changed since" in run_on(node, "config", "check", code=1)
    node.reload()
    node.until("configuration files not taken over")
    assert node.scan(TOKENS[1]).status_code == 200
    assert node.scan(TOKENS[0]).status_code == 401
    state = read_state(node)
    assert "mainWorkerCont" in state.fault
    assert len(find_changed_files(state)) == 2
    (node.folder / GUARD_FILE).write_text(good)
    node.reload()
    assert node.scan(TOKENS[0]).status_code == 200
    state = read_state(node)
    assert not state.fault
    assert not find_changed_files(state)


def test_changed_certificates_are_shown_without_a_signal(node: Node) -> None:
    before = {port: node.serial(port) for port in ("abby", "smtp")}
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
    eventually(lambda: node.text.count("certificate taken over") == 2)


def test_counters_never_fall_over_a_reload(node: Node) -> None:
    def count() -> dict[str, float]:
        with node.client() as client:
            lines = client.get("/metrics").text.splitlines()
        counted = [line.rpartition(" ") for line in lines if line.startswith("gatepost_") and "_total" in line]
        return {name: float(value) for name, _, value in counted}

    before = count()
    assert before["gatepost_admitted_total"] > 0
    node.reload()
    after = count()
    assert not {name: (value, after.get(name)) for name, value in before.items() if after.get(name, 0) < value}


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


def run_on(node: Node, *words: str, code: int = 0) -> str:
    """Run a command on the machine of the node; what it printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        ended, out, err = run_command(*words, "--config", node.folder, "--data", node.data)
    assert ended == code, err
    return out


@pytest.mark.variant
def test_inherited_sockets_are_used_and_refuse_nobody(tmp_path: Path) -> None:
    """As systemd does it: the port is open before the service runs, and stays open when it has ended."""
    folder = tmp_path
    abby, guard, smtp = free_ports(3)
    listening = socket.create_server(("127.0.0.1", abby), backlog=64)
    values = {"abby": abby, "guard": guard, "smtp": smtp, "token": TOKENS[0], "slots": 4, "other": TOKENS[2]}
    plain = ABBY_YML.replace("tls: {{certificate: own.pem, key: own.key}}", 'tls: "off"')
    write_files(folder, GUARD_YML.format(**values), plain.format(**values))
    (folder / GUARD_FILE).with_name("policy.toml").write_text("")
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
