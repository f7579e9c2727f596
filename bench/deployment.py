"""A deployment of abby and several guards on one PostgreSQL, as its operator would run it."""

import contextlib
import io
import json
import os
import signal
import smtplib
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

import httpx

from bench.ports import free_ports
from bench.processes import await_output
from gatepost.cli.config import nodes
from gatepost.cli.deployment import Deployment as CommandFolders
from gatepost.cli.printing import Output
from gatepost.service.certificates import sign_certificate
from gatepost.service.commands import EXAMPLE
from gatepost.settings.files import ABBY_FILE, GUARD_FILE

SECRET, TOKEN = "3b" * 32, "5f" * 32
PARAMETERS = '{"borderMtaData":{"envelopeFrom":"ann@example.org","envelopeRecipients":["bob@example.com"]}}'
GUARD_YML = """
mainWorkerCount: {slots}
workerProcesses: 1
scanSources:
  restApi: {{port: {port}, secret: "${{file:{secrets}/secret}}"}}
  smtp: {{port: {smtp}}}
{delivery}
dns: {{nameservers: ["127.0.0.1:9"], timeout: 100}}
storage: {{url: "{storage}"}}
log: {{format: json}}
policy: {{file: policy.toml}}
{more}
"""
ABBY_YML = """
listen: {{host: 127.0.0.1, port: {port}}}
serviceProviders:
  core: {{hosts: [{hosts}], secret: "${{file:{secrets}/secret}}", ca: "{ca}"}}
staticApiTokens: [{{name: test, token: "${{file:{secrets}/token}}"}}]
storage: {{url: "{storage}"}}
log: {{format: json}}
{more}
"""


class RunningNode:
    """One `gatepost guard` or `gatepost abby` with a folder and a data folder of its own."""

    def __init__(self, folder: Path, command: str) -> None:
        self.folder, self.data, self.command = folder, folder / "data", command
        self.output = folder / "output"
        self.popen: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.environment: dict[str, str] = {}

    def start(self) -> None:
        """Start, and wait until it serves."""
        self.starts += 1
        words = [sys.executable, "-m", "gatepost", self.command, "--config", str(self.folder)]
        with self.output.open("ab") as sink:
            command = [*words, "--data", str(self.data)]
            self.popen = subprocess.Popen(command, stdout=sink, stderr=sink, env=os.environ | self.environment)

    def await_start(self) -> None:
        """Wait until it serves for the first time."""
        assert self.popen
        await_output(self.popen, self.output, '"service listening"')

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.popen
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()

    @property
    def text(self) -> str:
        return self.output.read_text("utf-8", "replace")


class Deployment:
    """abby and guards; `admin` is the folder that is published."""

    node_type = RunningNode
    # How long a command of the operator may take.
    command_seconds = 300.0

    def __init__(self, folder: Path, storage: str, guards: int, next_hop: str = "") -> None:
        self.folder, self.storage, self.next_hop = folder, storage, next_hop
        ports = free_ports(1 + 2 * guards)
        self.abby_port, self.guard_ports, self.smtp_ports = ports[0], ports[1 : 1 + guards], ports[1 + guards :]
        self.environment: dict[str, str] = {}
        self.secrets, self.admin = folder / "secrets", folder / "admin"
        self.secrets.mkdir()
        (self.secrets / "secret").write_text(SECRET)
        (self.secrets / "token").write_text(TOKEN)
        self.nodes = [self.node_type(folder / f"guard{number}", "guard") for number in range(guards)]
        self.abby = self.node_type(folder / "abby", "abby")
        self._write_certificates()
        for number, node in enumerate(self.nodes):
            self.write_guard(node.folder, number)
        self.write_abby(self.abby.folder)
        self.edit()

    @property
    def all_nodes(self) -> list[RunningNode]:
        return [*self.nodes, self.abby]

    def _write_certificates(self) -> None:
        from datetime import UTC, datetime

        pems = []
        for node in self.nodes:
            pem, key = sign_certificate(["127.0.0.1", "localhost"], datetime.now(UTC))
            (node.data / "tls").mkdir(parents=True)
            (node.data / "tls/certificate.pem").write_bytes(pem)
            (node.data / "tls/key.pem").write_bytes(key)
            pems.append(pem)
        (self.folder / "cores.pem").write_bytes(b"".join(pems))

    def write_guard(self, folder: Path, number: int = 0, slots: int = 6, more: str = "", policy: str = "") -> None:
        """Write a guard.yml and its policy."""
        path = folder / GUARD_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        delivery = f'delivery: {{nextHop: "{self.next_hop}", tls: "off"}}' if self.next_hop else ""
        path.write_text(
            GUARD_YML.format(
                slots=slots,
                port=self.guard_ports[number],
                smtp=self.smtp_ports[number],
                secrets=self.secrets,
                storage=self.storage,
                delivery=delivery,
                more=more,
            )
        )
        path.with_name("policy.toml").write_text(policy)

    def write_abby(self, folder: Path, more: str = "") -> None:
        """Write an abby.yml."""
        path = folder / ABBY_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        hosts = ", ".join(f'"https://127.0.0.1:{port}"' for port in self.guard_ports)
        values = {"port": self.abby_port, "hosts": hosts, "secrets": self.secrets, "storage": self.storage}
        path.write_text(ABBY_YML.format(**values, ca=self.folder / "cores.pem", more=more))

    def edit(self, slots: int = 6, policy: str = "", guard: str = "", abby: str = "") -> None:
        """Write the files that are published next."""
        self.write_guard(self.admin, 0, slots, guard, policy)
        self.write_abby(self.admin, abby)

    def start(self) -> None:
        """Start all nodes at once, and wait until all serve."""
        for node in self.all_nodes:
            node.start()
        for node in self.all_nodes:
            node.await_start()

    def stop(self) -> None:
        """End all nodes."""
        for node in self.all_nodes:
            if node.popen and node.popen.poll() is None:
                node.popen.terminate()
        for node in self.all_nodes:
            if node.popen:
                try:
                    node.popen.wait(60)
                finally:
                    node.popen.kill()

    def run(self, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as the operator does, on the machine of abby."""
        place = folder or self.admin
        command = [sys.executable, "-m", "gatepost", *words, "--config", str(place), "--data", str(self.folder / "cli")]
        given = os.environ | self.environment
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=self.command_seconds, env=given
        )

    def publish(self, reason: str, *, wait: bool = True) -> subprocess.CompletedProcess[str]:
        """Publish the files of `admin`."""
        return self.run("config", "publish", "--reason", reason, *(["--wait"] if wait else []))

    def list_nodes(self) -> dict[str, Any]:
        """What `gatepost nodes` says."""
        ended = self.run("nodes", "--json")
        assert ended.returncode == 0, ended.stderr
        found: dict[str, Any] = json.loads(ended.stdout)
        return found

    def watch_nodes(self) -> dict[str, Any]:
        """The same without a process of its own, for who asks again and again."""
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            place = CommandFolders(config=self.nodes[0].folder, data=self.folder / "cli")
            nodes(place=place, output=Output(json=True))
        found: dict[str, Any] = json.loads(told.getvalue())
        return found

    def await_version(self, number: int, seconds: float = 240) -> None:
        """Wait until all nodes run a version and nobody has a turn."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.watch_nodes()
            if not found["turn"] and {node["version"] for node in found["nodes"]} == {number}:
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.5)

    def client(self) -> httpx.Client:
        """A client of abby that keeps its connection."""
        base = f"https://127.0.0.1:{self.abby_port}"
        return httpx.Client(base_url=base, verify=False, trust_env=False, timeout=120)

    @staticmethod
    def scan(client: httpx.Client) -> httpx.Response:
        """Have the example scanned."""
        files = {"parameters": ("p", PARAMETERS, "application/json"), "email": ("e", EXAMPLE, "message/rfc822")}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return client.post("/v1/messageQueue/submitEmail", files=files, headers=headers)

    def log(self, event: str) -> list[dict[str, Any]]:
        """Lines of all logs with this event, by time."""
        found = [
            {**json.loads(line), "of": node.folder.name}
            for node in self.all_nodes
            for line in node.text.splitlines()
            if f'"event":"{event}"' in line
        ]
        return sorted(found, key=lambda line: str(line["time"]))


class Load:
    """Scans and SMTP sessions that go on while nodes change; what fails is kept."""

    def __init__(self, deployment: Deployment, pause: float = 0.1) -> None:
        self._deployment, self._pause = deployment, pause
        self._ended = threading.Event()
        self.scans = self.sessions = 0
        self.failed: list[object] = []
        self._threads = [threading.Thread(target=each) for each in (self._scan, self._connect)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(120)

    def _scan(self) -> None:
        with self._deployment.client() as client:
            while not self._ended.wait(self._pause):
                try:
                    answer = self._deployment.scan(client)
                    if answer.status_code != 200:
                        self.failed.append(("scan", answer.status_code, answer.text))
                except httpx.HTTPError as fault:
                    self.failed.append(("scan", fault))
                self.scans += 1

    def _connect(self) -> None:
        """A reply of 4xx is no fault: the client comes again. A refused connection is one."""
        while not self._ended.wait(2 * self._pause):
            for port in self._deployment.smtp_ports:
                try:
                    with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
                        code = client.ehlo()[0]
                        if code >= 500:
                            self.failed.append((port, code))
                except smtplib.SMTPServerDisconnected:
                    pass  # 421 between greeting and EHLO
                except smtplib.SMTPResponseException as fault:  # to the connection, or to QUIT
                    if fault.smtp_code >= 500:
                        self.failed.append((port, fault))
                except OSError as fault:
                    self.failed.append((port, fault))
                self.sessions += 1
