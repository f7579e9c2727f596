"""The command line as a person or a script uses it."""

import json
import os
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.command_line import run_command

from gatepost import cli
from gatepost.client.calls import UnreachableError
from gatepost.service.commands import EXAMPLE

EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
BAD = f"From: a@b.example\nSubject: \x1b[31mred\u202e\nContent-Type: application/octet-stream\n\n{EICAR}"
FROM = "From ann@example.org Tue Nov 10 09:12:00 2026\n"


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    file = tmp_path / "bad.eml"
    file.write_text(BAD)
    return file


@pytest.mark.process
def test_a_scan_shows_verdict_and_ledger_and_nothing_that_acts_on_the_terminal(bad: Path) -> None:
    code, out, _ = run_command("scan", bad)
    assert code == 0
    assert "malware → quarantine" in out
    assert "file:eicar" in out
    assert "DNS was not asked" in out
    assert "\x1b" not in out
    assert "\u202e" not in out


@pytest.mark.process
def test_json_is_the_shape_of_the_api(tmp_path: Path) -> None:
    mail = tmp_path / "mail.eml"
    mail.write_bytes(EXAMPLE.encode())
    code, out, _ = run_command("scan", mail, mail, "--json", "--from", "a@b.example", "--to", "c@d.example")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["file"] for line in lines] == [str(mail)] * 2
    assert lines[0]["borderMtaData"]["envelopeRecipients"] == ["c@d.example"]
    assert sum(finding["counted"] for finding in lines[0]["ledger"]["findings"]) == lines[0]["ledger"]["score"]


@pytest.mark.process
def test_standard_input_and_mailbox(tmp_path: Path) -> None:
    assert run_command("scan", "-", stdin=EXAMPLE.encode())[1].startswith("-: clean")
    box = tmp_path / "box"
    box.write_text(f"{FROM}{EXAMPLE}\n{FROM}{BAD}\n\n{FROM}{EXAMPLE}".replace("\r\n", "\n"))
    _, out, _ = run_command("scan", box)
    assert f"{box}#2: malware" in out
    assert [line.split()[:2] for line in out.splitlines()[-4:-1]] == [["malware", "1"], ["clean", "2"], ["all", "3"]]


@pytest.mark.process
@pytest.mark.parametrize(("verdicts", "code"), [([], 0), (["malware"], 3), (["spam"], 0), (["spam", "malware"], 3)])
def test_fail_on(bad: Path, verdicts: list[str], code: int) -> None:
    options = [option for verdict in verdicts for option in ("--fail-on", verdict)]
    assert run_command("scan", bad, *options)[0] == code


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["scan", "no-such-file"], 1, "no-such-file: no such file or directory."),
        (["scan", "-", "--remote-address", "here"], 2, "IPv4 or IPv6"),
        (["scan", "-", "--fail-on", "evil"], 2, "must be one of malware"),
        (["scan", "-", "--url", "https://127.0.0.1:1", "--data", "no-such-folder"], 1, "--token-file"),
        (["config", "check", "--data", "no-such-folder"], 1, ""),
        (["tenant", "create", "x", "--data", "no-such-folder"], 1, "cannot be read: no such file or directory"),
        (["guard", "--data", "/proc/nowhere"], 1, "/proc/nowhere cannot be written"),
        (["policy", "explain", "auth:dmarc-fial"], 2, "did you mean auth:dmarc-fail?"),
        (["policy", "explain", "dmarc-fail"], 2, "did you mean auth:dmarc-fail?"),
        (["policy", "explain", "auth:nope"], 2, "; auth: has "),
        (["policy", "explain", "url:nope"], 2, "; url: has "),
    ],
)
def test_faults_of_the_user_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    # `serve` makes files private for its whole process.
    mask = os.umask(0o022)
    try:
        ended, _, err = run_command(*arguments)
    finally:
        os.umask(mask)
    assert ended == code
    assert words in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_config_check(run: Run, data: Path) -> None:
    code, out, _ = run("config", "check")
    assert code == 0
    assert "Both files are valid" in out
    assert (data / "token").read_text() not in out
    (data / "guard/core/guard.yml").write_text("mainWorkerCont: 1\n")
    code, out, _ = run("config", "check", "--json")
    assert code == 1
    (fault,) = json.loads(out)["faults"]
    assert (fault["line"], fault["key"]) == (1, "mainWorkerCont")


def test_policy() -> None:
    assert "auth:dmarc-fail" in run_command("policy", "show")[1]
    assert json.loads(run_command("policy", "show", "--json")[1])["verdicts"]["malware"]["decision"] == "quarantine"
    assert "points to spoofing" in run_command("policy", "explain", "auth:dmarc-fail")[1]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("https://a.example cannot be reached: connection refused", "Start it, or name another one with --url."),
        (
            "https://a.example cannot be reached: [SSL: CERTIFICATE_VERIFY_FAILED] …",
            "Name its certificate with --cacert.",
        ),
    ],
)
def test_a_service_that_does_not_answer_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, fault: str, sentence: str
) -> None:
    def fail(_words: list[str]) -> None:
        raise UnreachableError(fault)

    monkeypatch.setattr(cli, "run", fail)
    assert run_command("messages", "search") == (1, "", f"{fault}. {sentence}\n")
