"""The command line as a person or a script uses it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from gatepost import cli, describe_build
from gatepost.client.calls import UnreachableError
from gatepost.service.commands import EXAMPLE

EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
BAD = f"From: a@b.example\nSubject: \x1b[31mred\u202e\nContent-Type: application/octet-stream\n\n{EICAR}"
FROM = "From ann@example.org Tue Nov 10 09:12:00 2026\n"


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    file = tmp_path / "mail.eml"
    file.write_bytes(EXAMPLE.encode())
    return file


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"gatepost {describe_build()}\n", "")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["scan", "--help"], ["serve", "--help"]])
def test_help_loads_neither_analysis_nor_service(arguments: list[str]) -> None:
    program = (
        "import sys; from gatepost.cli import main\n"
        f"sys.argv = ['gatepost', *{arguments}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = ('gatepost.analysis.stages', 'gatepost.guard', 'gatepost.settings.keys', 'starlette', 'httpx',"
        " 'asyncio')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == "[]\n"


def test_commands_on_storage_load_no_check_no_parser_and_no_model(data: Path) -> None:
    program = (
        "import sys; from gatepost.cli import main\n"
        f"sys.argv = ['gatepost', 'tenant', 'list', '--data', {str(data)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "parts = ('checks', 'files', 'textmodel', 'analysis', 'guard', 'abby', 'web', 'workers', 'client')\n"
        "heavy = {*('gatepost.' + part for part in parts), 'gatepost.mail.reader', 'numpy', 'selectolax', 'httpx'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == "[]\n"


@pytest.mark.process
def test_a_scan_shows_verdict_and_ledger(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.eml"
    file.write_text(BAD)
    code, out, _ = run("scan", file)
    assert code == 0
    assert "malware → quarantine" in out
    assert "file:eicar" in out
    assert "DNS was not asked" in out


@pytest.mark.process
def test_a_message_cannot_act_on_the_terminal(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.eml"
    file.write_text(BAD)
    _, out, _ = run("scan", file)
    assert "\x1b" not in out
    assert "\u202e" not in out


@pytest.mark.process
def test_json_is_the_shape_of_the_api(run: Run, mail: Path) -> None:
    code, out, _ = run("scan", mail, mail, "--json", "--from", "a@b.example", "--to", "c@d.example")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["file"] for line in lines] == [str(mail)] * 2
    assert lines[0]["borderMtaData"]["envelopeRecipients"] == ["c@d.example"]
    assert sum(finding["counted"] for finding in lines[0]["ledger"]["findings"]) == lines[0]["ledger"]["score"]


@pytest.mark.process
def test_standard_input_and_mailbox(run: Run, tmp_path: Path) -> None:
    assert run("scan", "-", stdin=EXAMPLE.encode())[1].startswith("-: clean")
    box = tmp_path / "box"
    box.write_text(f"{FROM}{EXAMPLE}\n{FROM}{BAD}\n\n{FROM}{EXAMPLE}".replace("\r\n", "\n"))
    _, out, _ = run("scan", box)
    assert f"{box}#2: malware" in out
    assert [line.split()[:2] for line in out.splitlines()[-4:-1]] == [["malware", "1"], ["clean", "2"], ["all", "3"]]


@pytest.mark.process
@pytest.mark.parametrize(("verdicts", "code"), [([], 0), (["malware"], 3), (["spam"], 0), (["spam", "malware"], 3)])
def test_fail_on(run: Run, tmp_path: Path, verdicts: list[str], code: int) -> None:
    file = tmp_path / "bad.eml"
    file.write_text(BAD)
    options = [option for verdict in verdicts for option in ("--fail-on", verdict)]
    assert run("scan", file, *options)[0] == code


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
        (["nonsense"], 2, "There is no command nonsense."),
    ],
)
def test_faults_of_the_user_are_sentences(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    # `serve` makes files private for its whole process.
    mask = os.umask(0o022)
    try:
        ended, _, err = run(*arguments)
    finally:
        os.umask(mask)
    assert ended == code
    assert words in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_config_check(run: Run, data: Path) -> None:
    code, out, _ = run("config", "check", "--data", data)
    assert code == 0
    assert "Both files are valid" in out
    assert (data / "token").read_text() not in out
    (data / "guard/core/guard.yml").write_text("mainWorkerCont: 1\n")
    code, out, _ = run("config", "check", "--data", data, "--json")
    assert code == 1
    (fault,) = json.loads(out)["faults"]
    assert (fault["line"], fault["key"]) == (1, "mainWorkerCont")


def test_tenants(run: Run, data: Path) -> None:
    code, uid, _ = run("tenant", "create", "Acme", "--data", data)
    assert code == 0
    assert len(uid.strip()) == 36
    assert run("tenant", "create", "Acme", "--data", data) == (1, "", "A tenant named Acme already exists.\n")
    assert uid.strip() in run("tenant", "list", "--data", data)[1]
    assert json.loads(run("tenant", "list", "--data", data, "--json")[1])[0]["name"] == "Acme"


def test_policy(run: Run) -> None:
    assert "auth:dmarc-fail" in run("policy", "show")[1]
    assert json.loads(run("policy", "show", "--json")[1])["verdicts"]["malware"]["decision"] == "quarantine"
    assert "points to spoofing" in run("policy", "explain", "auth:dmarc-fail")[1]


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
    run: Run, monkeypatch: pytest.MonkeyPatch, fault: str, sentence: str
) -> None:
    def fail(_words: list[str]) -> None:
        raise UnreachableError(fault)

    monkeypatch.setattr(cli, "run", fail)
    assert run("messages", "search") == (1, "", f"{fault}. {sentence}\n")
