"""`gatepost digest` as a person uses it: preview, send, status, and a new key."""

import json
from email import message_from_string
from pathlib import Path

import pytest
from tests.command_line import run_command
from tests.conftest import MailSink
from tests.data_folders import with_store

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.settings.files import GUARD_FILE
from gatepost.store.audit import CLI
from gatepost.store.digests import DigestPreferences
from gatepost.store.message_records import MessageRecord
from gatepost.times import now


@pytest.fixture
def data(data: Path, next_hop: MailSink) -> Path:
    """A data folder with mail that is held for bob, in a deployment without tenants."""
    with (data / GUARD_FILE).open("a") as file:
        file.write(f'delivery: {{nextHop: "{next_hop.url}"}}\npublicUrl: https://mail.example\n')
    report = Report("spam", "quarantine", (), 700, "it adds up", subject="Offer", senders=("ann@x.example",))
    envelope = Envelope("ann@x.example", ("bob@example.com",))
    record = MessageRecord(new_id(), now(), now(), envelope, 9, "ab" * 32, report)
    with_store(data, lambda store: store.quarantine.hold(record))
    return data


def test_from_preview_to_a_new_key(data: Path, next_hop: MailSink) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        return run_command("digest", *words, "--data", data)

    code, out, err = run("preview", "bob@example.com")
    assert code == 0, err
    assert message_from_string(out)["To"] == "bob@example.com"
    assert "https://mail.example/digest/" in out.replace("=\r\n", "")
    assert run("preview", "eve@example.com")[:2] == (1, "")
    assert "No tenant has switched digests on." in run("status")[1]
    assert "switched off" in run("send")[2]
    wanted = DigestPreferences(enabled=True, domains=("example.com",))
    assert with_store(data, lambda store: store.digests.put_preferences(None, wanted, 0, CLI))
    assert "1 digests sent, 0 not." in run("send")[1]
    assert [recipients for _, recipients, _ in next_hop.mail] == [("bob@example.com",)]
    (row,) = json.loads(run("status", "--json")[1])["scopes"]
    assert (row["enabled"], row["sent"], row["waiting"]) == (True, 1, 0)
    assert "key 2" in run("rotate-key")[1]
    assert "revoked" in run("rotate-key", "--revoke")[1]
    assert len(with_store(data, lambda store: store.digests.keys())) == 1


def test_what_is_missing_is_said(data: Path) -> None:
    file = data / GUARD_FILE
    file.write_text(file.read_text().replace("publicUrl: https://mail.example\n", ""))
    assert "no publicUrl" in run_command("digest", "preview", "bob@example.com", "--data", data)[2]
    file.write_text(file.read_text() + "publicUrl: http://mail.example/x\n")
    assert "https://host" in run_command("digest", "preview", "bob@example.com", "--data", data)[2]
