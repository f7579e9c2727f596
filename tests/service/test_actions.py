"""A real service with actions, an outbound port and signing keys: what the next hop gets, and what is held."""

import base64
import json
import smtplib
import time
from collections.abc import Iterator
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import dkim  # type: ignore[import-untyped]
import pytest
from bench.ports import free_ports
from tests.command_line import run_command
from tests.data_folders import write_files
from tests.service.running_service import RunningService

from gatepost.checks.text.advertising import GTUBE
from gatepost.service.signing import make_record
from gatepost.settings.files import GUARD_FILE
from gatepost.smtp.signing import read_private_key

EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
SPAM = f"From: a@x.example\r\nSubject: =?utf-8?q?gr=C3=BC=C3=9Fe?=\r\n\r\n{GTUBE}\r\n".encode()
PLAIN = b"From: a@x.example\r\nSubject: plain\r\nMessage-ID: <1@x.example>\r\n\r\nSee you at noon.\r\n"
LETTER = b"From: Ann <ann@own.example>\r\nTo: b@world.example\r\nSubject: minutes\r\n\r\nHere they are.\r\n"
VIRUS = (
    b'From: a@x.example\r\nSubject: invoice\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n'
    b"--b\r\nContent-Type: text/plain\r\n\r\nSee you at noon.\r\n"
    b'--b\r\nContent-Type: application/octet-stream; name="invoice.com"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    + base64.b64encode(EICAR.encode())
    + b"\r\n--b--\r\n"
)
POLICY = """
[verdicts]
spam = { action = "tag", mark = "[SPAM] " }
malware = { action = "strip", mark = "[!] " }
clean = { action = "copy", to = "copy@audit.example" }
"""
OUTBOUND = '[verdicts]\nclean = { action = "" }\nspam = { decision = "bounce", action = "" }\n'


class Running(RunningService):
    """A service with two SMTP ports, which sends on to a sink."""

    def __init__(self, data: Path, ports: list[int], sink: Any) -> None:
        super().__init__(data, ports[0])
        _, self.smtp, self.outbound = ports
        self.sink = sink

    def send(self, raw: bytes, *, port: int = 0, sender: str = "a@x.example") -> int:
        with smtplib.SMTP("127.0.0.1", port or self.smtp, timeout=60) as client:
            try:
                client.sendmail(sender, ["b@y.example"], raw)
            except smtplib.SMTPDataError as refused:
                return refused.smtp_code
        return 250

    def last(self) -> tuple[str, tuple[str, ...], Any]:
        sender, recipients, raw = self.sink.mail[-1]
        return sender, recipients, message_from_bytes(raw, policy=policy.default)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, lasting_next_hop: Any) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("actions") / "data"
    rest, api, smtp, outbound = free_ports(4)
    made = run_command("dkim", "key", "--domain", "own.example", "--selector", "s1", "--json", "--data", data)
    assert made[0] == 0, made[2]
    key = json.loads(made[1])
    guard = (
        f"workerProcesses: 1\nscanSources:\n  restApi: {{port: {rest}}}\n"
        f"  smtp:\n    port: {smtp}\n    outbound: {{port: {outbound}, senderLimits: {{messages: 2}}}}\n"
        f'delivery: {{nextHop: "{lasting_next_hop.url}"}}\npolicy: {{file: policy.toml, outbound: outbound.toml}}\n'
        f"dkim: {{keys: [{{domain: own.example, selector: s1, file: {key['file']}}}]}}\n"
        f"arc: {{key: {{domain: own.example, selector: s1, file: {key['file']}}}}}\n"
        f'dns: {{nameservers: ["127.0.0.1:9"], timeout: 100}}\nevents: {{file: {{}}}}\n'
    )
    abby = (
        f"listen: {{host: 127.0.0.1, port: {api}}}\n"
        f'serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{rest}"]}}}}\n'
        "staticApiTokens: [{name: t, token: t, permissions: [messages.read, messages.release,"
        " messages.releaseDangerous]}]\n"
    )
    write_files(data, guard, abby)
    (data / GUARD_FILE).with_name("policy.toml").write_text(POLICY)
    (data / GUARD_FILE).with_name("outbound.toml").write_text(OUTBOUND)
    service = Running(data, [api, smtp, outbound], lasting_next_hop)
    yield service
    service.stop()


def call(running: Running, method: str, path: str, **rest: Any) -> Any:
    with running.client() as client:
        answer = client.request(method, path, headers={"Authorization": "Bearer t"}, **rest)
    assert answer.status_code == 200, answer.text
    return answer.json()


def await_event(running: Running, words: str) -> dict[str, Any]:
    """The event that has these words; events are written beside the work that they tell of."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        for line in (running.data / "events" / "events.jsonl").read_text().splitlines():
            if words in line:
                found: dict[str, Any] = json.loads(line)
                return found
        time.sleep(0.05)
    raise AssertionError(f"no event with {words}")


def record(running: Running, name: bytes) -> bytes:
    assert name == b"s1._domainkey.own.example."
    return make_record(read_private_key(running.data / "dkim" / "own.example.s1.pem")).encode()


def test_spam_is_marked_delivered_and_sealed_and_the_api_holds_it(running: Running) -> None:
    assert running.send(SPAM) == 250
    _, recipients, message = running.last()
    assert recipients == ("b@y.example",)
    assert message["Subject"] == "[SPAM] grüße"
    assert (message["X-Gatepost-Action"], message["X-Gatepost-Verdict"]) == ("tag", "spam")
    chain = dkim.arc_verify(running.sink.mail[-1][2], dnsfunc=lambda name, timeout=5: record(running, name))
    assert chain[0] == b"pass"
    told = call(running, "GET", f"/v1/messages/{message['X-Gatepost-Id']}")
    assert told["decision"] == "quarantine"
    assert told["action"]["name"] == "tag"
    assert "marked [SPAM]" in told["action"]["summary"]
    parameters = {"borderMtaData": {"envelopeFrom": "a@x.example", "envelopeRecipients": ["b@y.example"]}}
    parts = {
        "parameters": (None, json.dumps(parameters), "application/json"),
        "email": ("m.eml", SPAM, "message/rfc822"),
    }
    scanned = call(running, "POST", "/v1/messageQueue/submitEmail", files=parts)
    assert scanned["decision"] == "quarantine"
    assert call(running, "GET", f"/v1/messages/{scanned['ggrid']}").get("action") is None


def test_an_attachment_is_taken_out_and_the_original_can_be_released(running: Running) -> None:
    assert running.send(VIRUS) == 250
    _, recipients, message = running.last()
    text, notice = message.iter_parts()
    assert (recipients, message["Subject"]) == (("b@y.example",), "[!] invoice")
    assert text.get_content() == "See you at noon."
    assert "invoice.com" in notice.get_content()
    assert EICAR.encode() not in running.sink.mail[-1][2]
    ggrid = message["X-Gatepost-Id"]
    assert ggrid in notice.get_content()
    shown = running.run("quarantine", "show", ggrid)
    assert "It was delivered without 1 of its attachments (invoice.com), and is held whole" in shown
    call(running, "POST", f"/v1/messages/{ggrid}/release")
    assert running.sink.mail[-1][2].endswith(VIRUS[-200:])


def test_clean_mail_is_copied_and_the_event_says_so(running: Running) -> None:
    assert running.send(PLAIN) == 250
    assert running.last()[1] == ("b@y.example", "copy@audit.example")
    event = await_event(running, '"action":"copy"')
    assert (event["event"], event["actionTo"]) == ("message.scanned", "copy@audit.example")


def test_outbound_mail_is_signed_has_its_own_policy_and_limits(running: Running) -> None:
    out = running.outbound
    assert running.send(LETTER, port=out, sender="ann@own.example") == 250
    _, recipients, message = running.last()
    assert recipients == ("b@y.example",)
    assert message["X-Gatepost-Verdict"] is None
    assert dkim.verify(running.sink.mail[-1][2], dnsfunc=lambda name, timeout=5: record(running, name))
    assert running.send(SPAM, port=out, sender="ann@own.example") == 550
    count = len(running.sink.mail)
    with pytest.raises(smtplib.SMTPSenderRefused) as refused:
        running.send(LETTER, port=out, sender="ann@own.example")
    assert refused.value.smtp_code == 451
    assert len(running.sink.mail) == count
    event = await_event(running, '"sender.limited"')
    assert (event["sender"], event["limit"], event["count"]) == ("ann@own.example", "messages", 2)


def test_the_keys_and_their_records_are_listed(running: Running) -> None:
    listed = json.loads(running.run("dkim", "list", "--json"))
    assert [(each["selector"], each["state"]) for each in listed] == [("s1", "unknown"), ("s1", "unknown")]
    assert listed[0]["record"].encode() == record(running, b"s1._domainkey.own.example.")
    assert "PRIVATE" not in json.dumps(listed)
