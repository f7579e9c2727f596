"""A real service that verifies recipients."""

import smtplib
from pathlib import Path

from bench.ports import free_ports
from tests.conftest import MailSink
from tests.data_folders import write_files
from tests.service.running_service import RunningService

LETTER = b"From: a@x.example\r\nSubject: plain\r\nMessage-ID: <1@x.example>\r\n\r\nSee you at noon.\r\n"


def send(port: int, recipient: str) -> tuple[int, str]:
    """The reply to a message, or to its recipient where that is refused."""
    with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
        client.ehlo()
        client.mail("a@x.example")
        code, said = client.rcpt(recipient)
        if code == 250:
            code, said = client.data(LETTER)
    return code, said.decode()


def test_unknown_recipients_are_refused_before_the_message(tmp_path: Path, next_hop: MailSink) -> None:
    rest, api, smtp = free_ports(3)
    guard = (
        f"workerProcesses: 1\nscanSources:\n  restApi: {{port: {rest}}}\n  smtp: {{port: {smtp}}}\n"
        f'delivery: {{nextHop: "{next_hop.url}"}}\ndns: {{nameservers: ["127.0.0.1:9"], timeout: 100}}\n'
        "recipientVerification:\n  rules:\n  - {domains: [y.example]}\n"
    )
    abby = f"listen: {{port: {api}}}\nserviceProviders: {{core: {{hosts: ['https://127.0.0.1:{rest}']}}}}\n"
    service = RunningService(write_files(tmp_path / "data", guard, abby), api)
    try:
        key = service.run("apikey", "create", "border").strip()
        assert send(smtp, "bob@y.example")[0] == 451, "the list is empty"
        body = {"listName": "known-recipients", "entries": [{"entry": "ann@y.example"}]}
        with service.client() as client:
            headers = {"Authorization": f"apikey {key}"}
            answer = client.post("/api/public/lists/v1/addEntries", json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            assert send(smtp, "bob@y.example") == (550, "5.1.1 No such recipient here")
            assert send(smtp, "ann@y.example")[0] == 250
            assert send(smtp, "anybody@z.example")[0] == 250, "no rule is for this domain"
            assert len(next_hop.mail) == 2
            assert 'gatepost_recipients_verified_total{finding="unknown"} 1.0' in client.get("/metrics").text
    finally:
        service.stop()
