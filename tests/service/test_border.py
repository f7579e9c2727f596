"""A real service that verifies recipients."""

import signal
import smtplib
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from bench.ports import free_ports
from bench.processes import await_output
from tests.command_line import run_command

from gatepost.settings.files import ABBY_FILE, GUARD_FILE

LETTER = b"From: a@x.example\r\nSubject: plain\r\nMessage-ID: <1@x.example>\r\n\r\nSee you at noon.\r\n"


class Running(msgspec.Struct, frozen=True):
    data: Path
    api: int
    smtp: int
    sink: Any

    def send(self, raw: bytes, recipient: str) -> tuple[int, str]:
        """The reply to a message, or to its recipient where that is refused."""
        with smtplib.SMTP("127.0.0.1", self.smtp, timeout=60) as client:
            client.ehlo()
            client.mail("a@x.example")
            code, said = client.rcpt(recipient)
            if code == 250:
                code, said = client.data(raw)
        return code, said.decode()

    def command(self, *words: str) -> str:
        code, out, err = run_command(*words, "--data", self.data)
        assert code == 0, err
        return out

    def client(self) -> httpx.Client:
        context = ssl.create_default_context(cafile=str(self.data / "tls/certificate.pem"))
        return httpx.Client(base_url=f"https://127.0.0.1:{self.api}", verify=context, trust_env=False, timeout=60)

    def metric(self, name: str) -> float:
        text = httpx.get(f"https://127.0.0.1:{self.api}/metrics", verify=False).text
        return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name)), 0.0)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, lasting_next_hop: Any) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("border") / "data"
    rest, api, smtp = free_ports(3)
    (data / GUARD_FILE).parent.mkdir(parents=True)
    (data / ABBY_FILE).parent.mkdir(parents=True)
    (data / GUARD_FILE).write_text(
        f"workerProcesses: 1\nscanSources:\n  restApi: {{port: {rest}}}\n  smtp: {{port: {smtp}}}\n"
        f'delivery: {{nextHop: "{lasting_next_hop.url}"}}\ndns: {{nameservers: ["127.0.0.1:9"], timeout: 100}}\n'
        "recipientVerification:\n  rules:\n  - {domains: [y.example]}\n"
    )
    (data / ABBY_FILE).write_text(
        f"listen: {{host: 127.0.0.1, port: {api}}}\n"
        f'serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{rest}"]}}}}\n'
    )
    output = data.parent / "output"
    with output.open("wb") as sink:
        command = [sys.executable, "-m", "gatepost", "serve", "--data", str(data)]
        process = subprocess.Popen(command, stdout=sink, stderr=sink)
    await_output(process, output, '"service listening"')
    yield Running(data, api, smtp, lasting_next_hop)
    process.send_signal(signal.SIGTERM)
    process.wait(90)


def test_unknown_recipients_are_refused_before_the_message(running: Running) -> None:
    key = running.command("apikey", "create", "border").strip()
    assert running.send(LETTER, "bob@y.example")[0] == 451, "the list is empty"
    body = {"listName": "known-recipients", "entries": [{"entry": "ann@y.example"}]}
    headers = {"Authorization": f"apikey {key}"}
    with running.client() as client:
        answer = client.post("/api/public/lists/v1/addEntries", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    before = len(running.sink.mail)
    assert running.send(LETTER, "bob@y.example") == (550, "5.1.1 No such recipient here")
    assert running.send(LETTER, "ann@y.example")[0] == 250
    assert running.send(LETTER, "anybody@z.example")[0] == 250, "no rule is for this domain"
    assert len(running.sink.mail) == before + 2
    assert running.metric('gatepost_recipients_verified_total{finding="unknown"}') == 1
