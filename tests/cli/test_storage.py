"""`gatepost backup`, `restore` and `storage copy` as a person uses them."""

import io
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gatepost.cli import main
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def called(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gatepost", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return called


@pytest.fixture
def data(tmp_path: Path) -> Path:
    prepare(DataFolder(tmp_path / "data"), None)
    return tmp_path / "data"


def test_backup_and_restore(run: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    _, before, _ = run("tenant", "create", "one", "--data", data)
    assert run("backup", file, "--data", data)[0] == 0
    assert run("tenant", "create", "two", "--data", data)[0] == 0
    code, _, fault = run("backup", file, "--data", data)
    assert (code, "exists" in fault) == (1, True)
    code, _, fault = run("restore", file, "--data", data)
    assert (code, "--force" in fault) == (1, True)
    assert "two" in run("tenant", "list", "--data", data)[1]
    assert run("restore", file, "--data", data, "--force")[0] == 0
    listed = run("tenant", "list", "--data", data)[1]
    assert before.strip() in listed
    assert "two" not in listed


def test_copy(run: Run, data: Path, postgres_url: str) -> None:
    run("tenant", "create", "one", "--data", data)
    asked = ("storage", "copy", "--from", "sqlite:gatepost.db", "--to", postgres_url, "--data", data)
    code, printed, fault = run(*asked)
    assert (code, fault) == (0, "")
    assert "2 rows copied" in printed, "the tenant and the line of the audit trail"
    code, _, fault = run(*asked)
    assert (code, "not empty" in fault) == (1, True)
    assert run(*asked, "--force")[0] == 0


def test_a_missing_source(run: Run, data: Path) -> None:
    code, _, fault = run("storage", "copy", "--from", "sqlite:absent.db", "--to", "sqlite:new.db", "--data", data)
    assert (code, "does not exist" in fault) == (1, True)


def test_a_backup_says_what_it_needs_and_a_restore_encrypts_what_is_old(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    file = tmp_path / "kept.db"
    run("user", "create", "ann", "--data", data)
    code, said, _ = run("backup", file, "--data", data)
    assert (code, "hashes of passwords" in said, "secrets.key" in said) == (0, True, False)
    with closing(sqlite3.connect(file)) as old, old:
        old.execute("UPDATE users SET totp_secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'")
    code, said, _ = run("restore", file, "--data", data, "--force")
    assert (code, "1 secrets of an older version are encrypted now" in said) == (0, True)
    with closing(sqlite3.connect(data / "gatepost.db")) as restored, restored:
        assert restored.execute("SELECT totp_secret FROM users").fetchone()[0].startswith("aesgcm:")
    assert "Keep a copy of" in run("backup", file, "--data", data, "--force")[1]
    assert run("user", "forget-second-factor", "ann", "--data", data)[0] == 0


def test_the_key_of_secrets_is_replaced(run: Run, data: Path) -> None:
    file = data / "secrets.key"
    assert run("secrets", "list", "--data", data)[0] == 0
    assert not file.exists(), "looking makes no key"
    code, said, _ = run("secrets", "rotate", "--data", data)
    assert (code, f"first key in {file}" in said) == (0, True)
    first = file.read_bytes()
    assert run("secrets", "rotate", "--data", data)[0] == 0
    assert file.read_bytes().splitlines()[1:] == first.splitlines()
    assert run("secrets", "rotate", "--forget", "--data", data)[0] == 0
    assert len(file.read_bytes().splitlines()) == 1
    assert '"current": 1' in run("secrets", "list", "--json", "--data", data)[1]
    file.unlink()
    code, _, fault = run("secrets", "rotate", "--data", data)
    assert (code, "is missing" in fault) == (1, True)
    assert run("secrets", "rotate", "--lost", "--data", data)[0] == 0
    assert '"lost": 0' in run("secrets", "list", "--json", "--data", data)[1]
    assert "secrets.rotate" in run("audit", "--data", data)[1]
