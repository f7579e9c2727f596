"""`gatepost backup`, `restore` and `storage copy` as a person uses them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.cli import main
from gatepost.service.data_folder import DataFolder
from gatepost.service.first_start import prepare

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
