"""A real service that verifies recipients and takes reports about its domains."""

import json
import signal
import smtplib
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from bench.ports import free_ports
from bench.processes import await_output
from tests.command_line import run_command
from tests.files.report_samples import DAY, aggregate, gzipped, mail

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
        "domainReports: {addresses: [dmarc@gate.example], domains: [own.example], acceptUnproven: true}\n"
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


def test_a_report_by_mail_is_read_in_a_worker_and_listed(running: Running) -> None:
    today = int(time.time()) // DAY * DAY
    text = aggregate(domain="own.example", begin=today, end=today + DAY - 1)
    raw = mail(("r.example!own.example!1!2.xml.gz", "application/gzip", gzipped(text)))
    before = len(running.sink.mail)
    code, said = running.send(raw, "dmarc@gate.example")
    assert (code, said[:18]) == (250, "2.6.0 Report taken")
    assert running.send(raw, "dmarc@gate.example")[0] == 250
    other = raw.replace(b"own.example", b"foe.example")
    assert running.send(other, "dmarc@gate.example")[0] == 250, "the content decides, and it is the same"
    assert running.send(LETTER, "dmarc@gate.example") == (
        550,
        "5.6.0 No report about a domain could be read in this message",
    )
    foreign = mail(("r.xml", "text/xml", aggregate(domain="foe.example", begin=today, end=today + DAY - 1).encode()))
    assert running.send(foreign, "dmarc@gate.example") == (550, "5.7.1 Reports about this domain are not taken here")
    (found,) = json.loads(running.command("reports", "list", "--json"))
    assert (found["domain"], found["messages"], found["passed"]) == ("own.example", 1, 1)
    assert len(running.sink.mail) == before, "no report is delivered"
    assert running.metric('gatepost_smtp_domain_reports_total{kind="dmarc",outcome="kept"}') == 1
    assert running.metric('gatepost_smtp_domain_reports_total{kind="dmarc",outcome="known"}') == 2
