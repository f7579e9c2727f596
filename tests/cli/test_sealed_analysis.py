"""The command line analyses in sealed workers: a message that breaks one is unscannable, and the rest goes on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gatepost.cli import sealed_analysis
from gatepost.files.archives import libarchive
from gatepost.files.values import UnpackBudget
from gatepost.questions import Antivirus, AskAntivirus, AskCampaign, AskSightings, Campaign, Dns, DnsAnswer, Sightings

FAULT_INJECTION = str(Path(__file__).parents[1] / "fault_injection.py")
PLAIN = b"From: Ann <ann@sender.example>\r\nSubject: hello\r\n\r\nhello\r\n"


def scan(*arguments: object, faults: str = "") -> tuple[int, list[dict[str, object]], str]:
    command = [sys.executable, "-m", "gatepost", *map(str, arguments), "--json"]
    environment = {"PATH": "/usr/bin:/bin", "GATEPOST_FAULT_INJECTION": faults, "HOME": "/nonexistent"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr


@pytest.mark.variant
def test_a_message_that_kills_its_worker_is_unscannable_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "1.eml").write_bytes(PLAIN)
    (tmp_path / "2.eml").write_bytes(b"X-Gatepost-Fault: check:die\r\n" + PLAIN)
    (tmp_path / "3.eml").write_bytes(b"X-Gatepost-Fault: parse:die\r\n" + PLAIN)
    (tmp_path / "4.eml").write_bytes(PLAIN)
    code, results, _ = scan("scan", tmp_path, "--data", tmp_path / "none", faults=FAULT_INJECTION)
    assert code == 0
    found = [(Path(str(result["file"])).name, result["verdict"], result["decision"]) for result in results]
    assert found == [
        ("1.eml", "clean", "deliver"),
        ("2.eml", "unscannable", "quarantine"),
        ("3.eml", "unscannable", "undecided"),
        ("4.eml", "clean", "deliver"),
    ]


def test_a_process_that_is_not_sealed_calls_no_native_decoder() -> None:
    assert not libarchive.is_usable(UnpackBudget(native=False))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (Dns("a.example", "A"), DnsAnswer("failed")),
        (AskSightings(), Sightings()),
        (AskCampaign(()), Campaign()),
        (AskAntivirus(), Antivirus()),
    ],
)
def test_questions_without_a_service(question: Dns, answer: DnsAnswer) -> None:
    assert sealed_analysis.answer_nothing(question, DnsAnswer("failed")) == answer
