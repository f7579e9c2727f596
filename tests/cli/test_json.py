"""`--json` on everything that prints a result, and what it prints is one JSON value."""

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.cli import main
from gatepost.cli.commands import COMMANDS, Command, list_parameters
from gatepost.cli.serve import greet, render_exports
from gatepost.service.commands import Started, prepare
from gatepost.service.data_folder import DataFolder

Run = Callable[..., Any]
# They run until they are stopped, and what they print is for people; or they print a script for a shell.
SERVICES = {"serve", "guard", "abby", "completion"}


@pytest.mark.parametrize(("name", "command"), [*COMMANDS.list_commands()])
def test_every_command_has_it(name: str, command: Command) -> None:
    options = {option for parameter in list_parameters(command) for option in parameter.names}
    assert ("--json" in options) is (name not in SERVICES)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    prepare(DataFolder(tmp_path), None)

    def called(*arguments: object, stdin: bytes = b"") -> Any:
        monkeypatch.setattr(sys, "argv", ["gatepost", *map(str, arguments), "--json", "--data", str(tmp_path)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code
        return json.loads(capsys.readouterr().out)

    return called


def test_users(run: Run) -> None:
    made = run("user", "create", "ann", "--role", "administrator")
    assert (made["name"], made["role"], len(made["password"]) > 10) == ("ann", "administrator", True)
    typed = run("user", "create", "bob", stdin=b"correct horse battery staple\n")
    assert "password" not in typed
    assert {made["passwordState"], typed["passwordState"]} == {"to be changed"}, "somebody else knows it"
    assert run("user", "create", "eve", "--final", stdin=b"correct horse battery staple\n")["passwordState"] == "set"
    assert run("user", "password", "ann")["password"] != made["password"]
    run("user", "password", "ann", "--final", stdin=b"correct horse battery staple\n")
    assert {each["name"]: each["passwordState"] for each in run("user", "list")}["ann"] == "set"
    assert run("user", "disable", "bob") == {"name": "bob", "state": "disabled"}
    assert run("user", "disable", "bob", "--enable") == {"name": "bob", "state": "active"}
    assert run("user", "forget-second-factor", "ann") == {"name": "ann", "secondFactor": "off"}


def test_tenants_and_keys(run: Run) -> None:
    tenant = run("tenant", "create", "one")
    key = run("apikey", "create", "feed", "--tenant", tenant["uid"])
    revoked = run("apikey", "revoke", key["id"])
    assert revoked["id"] == key["id"]
    assert revoked["revoked"]
    assert run("tenant", "delete", tenant["uid"], "--yes")["name"] == "one"


def test_storage(run: Run, tmp_path: Path) -> None:
    run("tenant", "create", "one")
    kept = tmp_path / "kept"
    written = run("backup", kept)
    assert written == {"file": str(kept), "bytes": kept.stat().st_size}
    target = str(tmp_path / "gatepost.db")
    restored = {"file": str(kept), "target": target, "secondFactorsEncrypted": 0, "secretsEncrypted": 0}
    assert run("restore", kept, "--force") == restored


def started(data: Path, config: Path, *, takes_scans: bool = True) -> Started:
    return Started("https://127.0.0.1:1", DataFolder(data), config, None, None, None, (), takes_scans)


def test_the_welcome_makes_commands_work_as_printed(tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    folder.mkdir()
    prepare(DataFolder(folder), None)
    line = render_exports(started(folder, folder))
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{line}; gatepost tenant create one; gatepost tenant list"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert " one " in ended.stdout


def test_the_welcome_of_a_service_that_takes_no_scans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    greet(started(tmp_path, tmp_path / "etc", takes_scans=False))
    text = capsys.readouterr().out
    assert "curl" not in text
    assert "restApi" in text
    assert f"GATEPOST_CONFIG={shlex.quote(str(tmp_path / 'etc'))}" in text
    greet(started(tmp_path, tmp_path))
    text = capsys.readouterr().out
    assert "curl" in text
    assert "GATEPOST_CONFIG" not in text
