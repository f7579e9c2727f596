"""The mails of `gatepost examples` are what the page says they are."""

import json
import subprocess
import sys
from email import message_from_bytes
from pathlib import Path

import pytest
from tests.command_line import run_command

from gatepost.cli.examples import MAILS

EXPECTED = {
    "clean": ("clean", "deliver"),
    "phish": ("phishing", "quarantine"),
    "eicar": ("malware", "quarantine"),
    "smuggling": ("suspicious", "quarantine"),
    "listed": ("clean", "deliver"),
}


def test_all_are_listed() -> None:
    code, said, _ = run_command("examples", "--json")
    assert code == 0
    assert [each["name"] for each in json.loads(said)] == list(EXPECTED) == list(MAILS)
    code, _, fault = run_command("examples", "other")
    assert (code != 0, "must be one of clean, phish" in fault) == (True, True)


@pytest.mark.process
def test_a_mail_is_printed_byte_for_byte() -> None:
    command = [sys.executable, "-m", "gatepost", "examples", "smuggling"]
    printed = subprocess.run(command, capture_output=True, timeout=180, check=True).stdout
    assert message_from_bytes(printed)["Subject"] == "Scanned document"
    assert printed.count(b"\r\n") == printed.count(b"\n") > 20


@pytest.mark.process
def test_verdicts(tmp_path: Path) -> None:
    for name, mail in MAILS.items():
        (tmp_path / f"{name}.eml").write_bytes(mail.make().as_bytes())
    _, said, _ = run_command("scan", *(tmp_path / f"{name}.eml" for name in MAILS), "--json")
    found = [json.loads(line) for line in said.splitlines()]
    assert {Path(each["file"]).stem: (each["verdict"], each["decision"]) for each in found} == EXPECTED
