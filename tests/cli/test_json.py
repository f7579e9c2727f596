"""`--json` on everything that prints a result, and what it prints is one JSON value."""

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from gatepost.cli.commands import COMMANDS, Command, list_parameters
from gatepost.cli.serve import greet, render_exports
from gatepost.service.commands import Started, prepare
from gatepost.service.data_folder import DataFolder

Print = Callable[..., Any]
# They run until they are stopped, and what they print is for people; or they print a script for a shell.
SERVICES = {"serve", "guard", "abby", "completion"}


@pytest.mark.parametrize(("name", "command"), [*COMMANDS.list_commands()])
def test_every_command_has_it(name: str, command: Command) -> None:
    options = {option for parameter in list_parameters(command) for option in parameter.names}
    assert ("--json" in options) is (name not in SERVICES)


@pytest.fixture
def printed(run: Run) -> Print:
    """The value that a command prints."""

    def called(*words: object, stdin: bytes = b"") -> Any:
        code, out, err = run(*words, "--json", stdin=stdin)
        assert code == 0, err
        return json.loads(out)

    return called


def test_users(printed: Print) -> None:
    made = printed("user", "create", "ann", "--role", "administrator")
    assert (made["name"], made["role"], len(made["password"]) > 10) == ("ann", "administrator", True)
    word = b"correct horse battery staple\n"
    typed = printed("user", "create", "bob", stdin=word)
    assert "password" not in typed
    assert {made["passwordState"], typed["passwordState"]} == {"to be changed"}, "somebody else knows it"
    assert printed("user", "create", "eve", "--final", stdin=word)["passwordState"] == "set"
    assert printed("user", "password", "ann")["password"] != made["password"]
    printed("user", "password", "ann", "--final", stdin=word)
    assert {each["name"]: each["passwordState"] for each in printed("user", "list")}["ann"] == "set"
    assert printed("user", "disable", "bob") == {"name": "bob", "state": "disabled"}
    assert printed("user", "disable", "bob", "--enable") == {"name": "bob", "state": "active"}
    assert printed("user", "forget-second-factor", "ann") == {"name": "ann", "secondFactor": "off"}


def test_tenants_and_keys(printed: Print) -> None:
    tenant = printed("tenant", "create", "one")
    key = printed("apikey", "create", "feed", "--tenant", tenant["uid"])
    revoked = printed("apikey", "revoke", key["id"])
    assert revoked["id"] == key["id"]
    assert revoked["revoked"]
    assert printed("tenant", "delete", tenant["uid"], "--yes")["name"] == "one"


def test_storage(printed: Print, tmp_path: Path) -> None:
    printed("tenant", "create", "one")
    kept = tmp_path / "kept"
    written = printed("backup", kept)
    assert written == {"file": str(kept), "bytes": kept.stat().st_size}
    target = str(tmp_path / "data/gatepost.db")
    restored = {"file": str(kept), "target": target, "secondFactorsEncrypted": 0, "secretsEncrypted": 0}
    assert printed("restore", kept, "--force") == restored


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
