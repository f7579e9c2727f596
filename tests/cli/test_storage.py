"""`gatepost backup`, `restore` and `storage copy` as a person uses them."""

import io
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.command_line import run_command
from tests.data_folders import with_store

from gatepost.cli.commands import COMMANDS, list_parameters
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.store import name_storage


def test_backup_and_restore(run: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    _, before, _ = run("tenant", "create", "one")
    assert run("backup", file)[0] == 0
    assert run("tenant", "create", "two")[0] == 0
    code, _, fault = run("backup", file)
    assert (code, "exists" in fault) == (1, True)
    code, _, fault = run("restore", file)
    assert (code, "--force" in fault) == (1, True)
    assert "two" in run("tenant", "list")[1]
    assert run("restore", file, "--force")[0] == 0
    listed = run("tenant", "list")[1]
    assert before.strip() in listed
    assert "two" not in listed


def test_copy(run: Run, data: Path, postgres_url: str) -> None:
    run("tenant", "create", "one")
    asked = ("storage", "copy", "--from", "sqlite:gatepost.db", "--to", postgres_url)
    code, printed, fault = run(*asked)
    assert code == 0
    assert fault.startswith(f"Copies {data / 'gatepost.db'} to postgresql://")
    assert "2 rows copied" in printed, "the tenant and the line of the audit trail"
    code, _, fault = run(*asked)
    assert (code, "not empty" in fault) == (1, True)
    assert run(*asked, "--force")[0] == 0


def test_a_copy_beside_a_running_service_is_refused(run: Run, data: Path, tmp_path: Path) -> None:
    hold = f"""import sys; from pathlib import Path; from gatepost.service.data_folder import DataFolder
with DataFolder(Path({str(data)!r})).lock("guard"):
    print("held", flush=True); sys.stdin.read()"""
    run("tenant", "create", "one")
    asked = ("storage", "copy", "--to", "sqlite:new.db", "--from")
    there, elsewhere = (*asked, "sqlite:gatepost.db", "--data", data), (*asked, f"sqlite:{data / 'gatepost.db'}")
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as service:
        assert service.stdout
        assert service.stdout.readline() == b"held\n"
        for each in (there, (*elsewhere, "--data", tmp_path / "other")):
            code, _, fault = run_command(*each)
            words = "".join(fault.split())
            assert code == 1
            assert f"guardrunon{data}" in words
            assert "Stopeveryservice" in words
        assert not (data / "new.db").exists()
        service.communicate()
    code, printed, fault = run_command(*there)
    assert (code, "rows copied" in printed) == (0, True)
    assert fault.startswith(f"Copies {data / 'gatepost.db'} to {data / 'new.db'}.")


def test_a_restore_names_its_target_and_does_not_hit_production_by_accident(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, file = tmp_path / "trial", tmp_path / "kept.db"
    run("tenant", "create", "one")
    assert run("backup", file)[0] == 0
    prepare(DataFolder(trial), None)
    database = data / "gatepost.db"
    production = database.read_bytes()
    monkeypatch.setenv("GATEPOST_CONFIG", str(data))
    code, _, fault = run_command("restore", file, "--data", trial, "--force")
    said = "".join(fault.split())
    assert code == 1
    assert "unsetGATEPOST_CONFIG" in said
    assert str(data) in said
    assert database.read_bytes() == production
    code, printed, fault = run_command("restore", file, "--data", trial, "--config", trial, "--force")
    assert code == 0
    assert fault.startswith(f"Restores {file} into {trial / 'gatepost.db'}, and replaces all that is there.")
    assert str(trial / "gatepost.db") in "".join(printed.split())
    monkeypatch.delenv("GATEPOST_CONFIG")
    code, _, fault = run("restore", file)
    assert code == 1
    assert f"{database}isnotempty" in "".join(fault.split())


@pytest.mark.parametrize("command", [("tenant", "list"), ("lists", "drop", "x"), ("upgrade", "run"), ("doctor",)])
@pytest.mark.parametrize(("said", "variable"), [("--data", "GATEPOST_CONFIG"), ("--config", "GATEPOST_DATA")])
def test_no_command_mixes_a_folder_with_a_variable_of_another_service(
    command: tuple[str, ...], said: str, variable: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(DataFolder(tmp_path / "trial"), None)
    monkeypatch.setenv(variable, str(data))
    code, _, fault = run_command(*command, said, tmp_path / "trial")
    words = "".join(fault.split())
    assert code == 1
    assert f"{said}names{tmp_path / 'trial'},but{variable}names{data}" in words
    assert "Nothingwaschanged" in words


def test_a_folder_that_the_variables_name_too_is_no_surprise(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEPOST_CONFIG", str(data))
    monkeypatch.setenv("GATEPOST_DATA", str(data))
    assert run("tenant", "create", "one")[0] == 0
    assert "one" in run_command("tenant", "list", "--config", data)[1]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_restore_into_another_database(
    engine: str, run: Run, data: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = tmp_path / "kept.db"
    run("tenant", "create", "one")
    assert run("backup", file)[0] == 0
    database = (data / "gatepost.db").read_bytes()
    target = f"sqlite:{tmp_path / 'trial.db'}" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    code, _, fault = run("restore", file, "--to", target)
    assert code == 0, fault
    assert fault.startswith(f"Restores {file} into {name_storage(target, data)}.")
    assert (data / "gatepost.db").read_bytes() == database, "that of the service is not touched"
    code, _, fault = run("restore", file, "--to", target)
    assert (code, "isnotempty" in "".join(fault.split())) == (1, True)

    assert [each.name for each in with_store(data, lambda store: store.tenants.all(), target)] == ["one"]


def test_a_backup_is_proven_by_restoring_it(run: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    run("tenant", "create", "one")
    code, printed, _ = run("backup", file, "--verify")
    assert code == 0
    assert "was restored and has 2 rows" in printed.replace("\n", " ")
    before = file.read_bytes()
    run("tenant", "create", "two")
    code, printed, _ = run("backup", file, "--verify", "--json")
    assert (code, json.loads(printed)["rows"]) == (0, 2), "one that is there is proven as it is"
    assert file.read_bytes() == before
    assert run("backup", file, "--verify", "--force")[0] == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "kept.db"], "nothing is left beside it"
    file.write_bytes(before[: len(before) // 2])
    code, _, fault = run("backup", file, "--verify")
    assert code == 1
    assert str(file) in "".join(fault.split())


DESTRUCTIVE = ("delete", "drop", "clear", "revoke", "erase", "forget", "restore", "copy", "restart", "rotate", "remove",
               "retention", "move", "upgrade run")  # fmt: skip
# It undoes a removal and destroys nothing.
UNDOING = {"mailboxes restore"}


def test_what_destroys_something_can_be_confirmed_beforehand() -> None:
    found = {
        name: {option for parameter in list_parameters(command) for option in parameter.names}
        for name, command in COMMANDS.list_commands()
        if any(word in name for word in DESTRUCTIVE)
    }
    assert len(found) >= 13, sorted(found)
    assert {name for name, options in found.items() if "--yes" not in options} == UNDOING


def test_on_a_terminal_it_is_asked_what_is_named(run: Run, data: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    run("lists", "create", "mine", "--kind", "sender", "--category", "block")
    code, _, fault = run("lists", "drop", "mine", stdin=Terminal("n\n"))
    assert code == 1
    assert f"Deletes the list mine of all tenants with its entries from {data / 'gatepost.db'}." in fault
    assert "Aborted!" in fault
    assert run("lists", "drop", "mine", stdin=Terminal("y\n"))[0] == 0


def test_a_shorter_retention_says_what_it_deletes(run: Run, data: Path) -> None:
    uid = json.loads(run("tenant", "create", "mine", "--json")[1])["uid"]
    code, _, said = run("tenant", "retention", uid, "--history", "3")
    assert code == 0
    assert "results older than 3 days and held mail older than the configuration says" in said
    assert str(data / "gatepost.db") in said
    assert run("tenant", "retention", uid)[2] == "", "to look deletes nothing"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is a folder"),
        (b"", "is not a backup of Gatepost"),
        (b"junk" * 1_000, "is not a backup of Gatepost"),
        (b"SQLite format 3\0" + bytes(200), "is not a backup of Gatepost"),
    ],
)
def test_what_is_no_backup_is_named(run: Run, data: Path, tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "given"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    code, _, fault = run("restore", file, "--force")
    words = " ".join(fault.split())
    assert (code, said in words) == (1, True)
    assert ".restore-" not in fault, "a file that nobody knows is not blamed"


def test_a_damaged_backup_is_named_and_not_its_copy(run: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    run("tenant", "create", "one")
    assert run("backup", file)[0] == 0
    file.write_bytes(file.read_bytes()[:100] + b"\xff" * 8_000)
    code, _, fault = run("restore", file, "--force")
    assert code == 1
    assert str(file) in "".join(fault.split())
    assert ".restore-" not in fault


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite:g.db", "/d/g.db"),
        ("postgresql://u:secret@db.example:5433/g", "postgresql://u@db.example:5433/g"),
        ("postgresql://u:se@cret@db/g", "postgresql://u@db/g"),
        ("postgresql:///g?host=/run/pg&password=secret", "postgresql:///g?host=/run/pg"),
        ("postgresql://[bad:secret@x", "the database of storage.url"),
    ],
)
def test_passwords_are_not_shown(url: str, named: str) -> None:
    assert name_storage(url, Path("/d")) == named


def test_a_missing_source(run: Run, data: Path) -> None:
    code, _, fault = run("storage", "copy", "--from", "sqlite:absent.db", "--to", "sqlite:new.db")
    assert (code, "does not exist" in fault) == (1, True)


def test_a_backup_says_what_it_needs_and_a_restore_encrypts_what_is_old(run: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    run("user", "create", "ann")
    code, said, _ = run("backup", file)
    assert (code, "hashes of passwords" in said, "secrets.key" in said) == (0, True, False)
    with closing(sqlite3.connect(file)) as old, old:
        old.execute("UPDATE users SET totp_secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'")
    code, said, _ = run("restore", file, "--force")
    assert (code, "1 secrets of an older version are encrypted now" in said) == (0, True)
    with closing(sqlite3.connect(data / "gatepost.db")) as restored, restored:
        assert restored.execute("SELECT totp_secret FROM users").fetchone()[0].startswith("aesgcm:")
    assert "Keep a copy of" in run("backup", file, "--force")[1]
    assert run("user", "forget-second-factor", "ann")[0] == 0


def test_the_key_of_secrets_is_replaced(run: Run, data: Path) -> None:
    file = data / "secrets.key"
    assert run("secrets", "list")[0] == 0
    assert not file.exists(), "looking makes no key"
    code, said, _ = run("secrets", "rotate")
    assert (code, f"first key in {file}" in said) == (0, True)
    first = file.read_bytes()
    assert run("secrets", "rotate")[0] == 0
    assert file.read_bytes().splitlines()[1:] == first.splitlines()
    assert run("secrets", "rotate", "--forget")[0] == 0
    assert len(file.read_bytes().splitlines()) == 1
    assert '"current": 1' in run("secrets", "list", "--json")[1]
    file.unlink()
    code, _, fault = run("secrets", "rotate")
    assert (code, "is missing" in fault) == (1, True)
    assert run("secrets", "rotate", "--lost")[0] == 0
    assert '"lost": 0' in run("secrets", "list", "--json")[1]
    assert "secrets.rotate" in run("audit")[1]
