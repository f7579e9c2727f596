"""Mail that a real service holds, released over HTTPS and from the command line beside it; abby and guard apart."""

import contextlib
import json
import signal
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from bench.ports import free_ports
from tests.command_line import run_command
from tests.conftest import MailSink
from tests.data_folders import write_files
from tests.events.receivers import eventually
from tests.service.running_service import RunningCommand, connect

from gatepost.client import Client

EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
MAIL = f"From: a@x.example\r\nContent-Type: application/octet-stream\r\n\r\n{EICAR}\r\n".encode()
PARAMETERS = {"borderMtaData": {"envelopeFrom": "a@x.example", "envelopeRecipients": ["b@y.example"]}}


def scan(client: httpx.Client) -> str:
    files = {
        "parameters": (None, json.dumps(PARAMETERS).encode(), "application/json"),
        "email": ("m.eml", MAIL, "message/rfc822"),
    }
    answer = client.post("/v1/messageQueue/submitEmail", files=files, headers=bearer("plain"))
    assert answer.json()["decision"] == "quarantine", answer.text
    return str(answer.json()["ggrid"])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def release(client: httpx.Client, ggrid: str, token: str = "desk") -> httpx.Response:
    return client.post(f"/v1/messages/{ggrid}/release", headers=bearer(token))


class Machine:
    """Services on one data folder, which end when the tests are over."""

    def __init__(self, folder: Path, next_hop: MailSink) -> None:
        self.next_hop, self._folder = next_hop, folder
        core, self.port, self.smtp = free_ports(3)
        guard = (
            f"scanSources: {{restApi: {{port: {core}, keep: held}}, smtp: {{port: {self.smtp}}}}}\n"
            f'delivery: {{nextHop: "{next_hop.url}"}}\nworkerProcesses: 1\n'
        )
        abby = (
            f"listen: {{host: 127.0.0.1, port: {self.port}}}\n"
            f'serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{core}"]}}}}\n'
            "staticApiTokens:\n  - {name: mta, token: plain}\n"
            "  - {name: desk, token: desk, permissions: [messages.read, messages.release, messages.releaseDangerous]}\n"
            "  - {name: soar, token: soar,"
            " permissions: [messages.search, messages.read, messages.release,"
            " messages.releaseDangerous, messages.delete]}\n"
        )
        self.data = write_files(folder / "data", guard, abby)
        self._started: list[RunningCommand] = []

    def start(self, service: str) -> RunningCommand:
        output = self._folder / f"{service}{len(self._started)}.log"
        self._started.append(RunningCommand(output, service, "--data", self.data))
        return self._started[-1]

    def client(self) -> httpx.Client:
        return connect(self.data, self.port)

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError, httpx.HTTPError), self.client() as client:
            return client.get("/readyz").status_code == 200
        return False

    def command(self, *words: str, group: str = "quarantine", code: int = 0) -> str:
        """The command line; what changes something runs in a process of its own, beside the service."""
        if words[0] == "release":
            command = [sys.executable, "-m", "gatepost", group, *words, "--data", str(self.data)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            ended, out, err = done.returncode, done.stdout, done.stderr
        else:
            ended, out, err = run_command(group, *words, "--data", self.data)
        assert ended == code, err
        return out

    def sent(self, since: int) -> list[tuple[str, tuple[str, ...], bool]]:
        """What the next hop got since then but for alerts, and whether each is the message that was held."""
        got = [each for each in self.next_hop.mail[since:] if not each[0].startswith("gatepost@")]
        return [(sender, to, raw.endswith(b"\r\n" + MAIL)) for sender, to, raw in got]

    def stop(self) -> None:
        for each in self._started:
            each.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def apart(
    tmp_path_factory: pytest.TempPathFactory, lasting_next_hop: MailSink
) -> Iterator[tuple[Machine, RunningCommand]]:
    """abby and guard in a process each; the second is that of guard."""
    machine = Machine(tmp_path_factory.mktemp("apart"), lasting_next_hop)
    guard = machine.start("guard")
    machine.start("abby")
    eventually(machine.is_ready, 120)
    yield machine, guard
    machine.stop()


@pytest.fixture
def machine(tmp_path: Path, lasting_next_hop: MailSink) -> Iterator[Machine]:
    made = Machine(tmp_path, lasting_next_hop)
    yield made
    made.stop()


DELIVERED = ("a@x.example", ("b@y.example",), True)


def test_messages_over_the_api(apart: tuple[Machine, RunningCommand], tmp_path: Path) -> None:
    """An investigation from another machine: search, read, release, delete; abby and guard are apart."""
    machine, _ = apart
    before = len(machine.next_hop.mail)
    token = tmp_path / "token"
    token.write_text("soar\n")

    def run(*words: str, code: int = 0) -> Any:
        return json.loads(machine.command(*words, "--token-file", str(token), "--json", group="messages", code=code))

    with (
        machine.client() as http,
        Client(f"https://127.0.0.1:{machine.port}", "soar", ca=machine.data / "tls/certificate.pem") as client,
    ):
        ggrids = [scan(http) for _ in range(3)]
        digest = client.message(ggrids[0]).files[0].sha256
        assert [each.ggrid for each in client.messages(file_hash=digest)] == ggrids[::-1]
        assert [each.ggrid for each in client.held_messages(sender="a@x.example")] == ggrids[::-1]
        text = client.message_text(ggrids[0])
        assert ("From", "a@x.example") in [(field.name, field.value) for field in text.headers]

        assert [each["ggrid"] for each in run("search", "--file-hash", digest, "--limit", "2")] == ggrids[:0:-1]
        assert [each["ggrid"] for each in run("search", "--held", "--recipient", "y.example")] == ggrids[::-1]
        assert run("search", "--since", "2100-01-01") == []
        assert run("show", ggrids[0])["ledger"]["score"] > 0
        assert run("text", ggrids[0])["ggrid"] == ggrids[0]
        shown = machine.command("text", ggrids[0], "--token-file", str(token), group="messages")
        assert "From: a@x.example" in shown
        released = run("release", ggrids[0])
        assert (released[0]["outcome"], machine.sent(before)) == ("released", [DELIVERED])
        results = run("delete", ggrids[1], ggrids[0], code=1)
        assert [each["outcome"] for each in results] == ["deleted", "failed"]
        assert client.delete(ggrids[2]).ggrid == ggrids[2]
        assert list(client.held_messages()) == []
        machine.command("search", "--token-file", str(machine.data / "nothing"), group="messages", code=1)


@pytest.mark.variant
def test_held_by_one_process_and_released_through_another(apart: tuple[Machine, RunningCommand]) -> None:
    machine, guard = apart
    before = len(machine.next_hop.mail)
    with machine.client() as client:
        first, second, third = (scan(client) for _ in range(3))
        assert release(client, first, "plain").status_code == 403
        answer = release(client, first)
        assert answer.status_code == 200, answer.text
        assert answer.json()["releasedBy"] == "token:desk"
        assert machine.sent(before) == [DELIVERED]

        # The command line does it in a process of its own, beside the service.
        assert [each["ggrid"] for each in json.loads(machine.command("list", "--json"))] == [third, second]
        assert "is a right of its own" in machine.command("release", second, code=1)
        assert machine.command("release", second, "--dangerous") == f"{second}: released to b@y.example\n"
        assert release(client, second).json()["releasedBy"] == "cli"
        assert machine.sent(before) == [DELIVERED] * 2

        # What was answered survives a kill of the core that holds it.
        guard.stop(signal.SIGKILL)
        assert release(client, third).status_code == 503
        machine.start("guard")
        eventually(lambda: release(client, third).status_code != 503)
        assert release(client, third).status_code == 200
        assert machine.sent(before) == [DELIVERED] * 3
        record = client.get(f"/v1/messages/{third}", headers=bearer("desk")).json()
        assert (record["decision"], record["release"]["recipients"]) == ("quarantine", ["b@y.example"])
    assert machine.command("list", "--json") == "[]\n"
    assert not list((machine.data / "quarantine").rglob("*.eml"))


@pytest.mark.variant
def test_what_smtp_answered_250_for_outlives_the_process(machine: Machine) -> None:
    """abby and guard in one process, which is killed."""
    before = len(machine.next_hop.mail)
    served = machine.start("serve")
    eventually(machine.is_ready, 120)
    with machine.client() as client:
        ggrid = scan(client)
        assert release(client, ggrid).status_code == 200
        assert release(client, ggrid).status_code == 200
    assert machine.sent(before) == [DELIVERED]
    with smtplib.SMTP("127.0.0.1", machine.smtp, timeout=60) as session:
        assert session.sendmail("a@x.example", ["b@y.example"], MAIL) == {}
        served.stop(signal.SIGKILL)
        session.close()
    assert machine.sent(before) == [DELIVERED]
    (held,) = json.loads(machine.command("list", "--json"))
    assert held["envelopeRecipients"] == ["b@y.example"]
    # No service is needed to let it go, and it is not caught again.
    machine.command("release", held["ggrid"], "--dangerous")
    assert machine.sent(before) == [DELIVERED] * 2
