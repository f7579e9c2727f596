"""`gatepost upgrade check` as an operator runs it before the first start of a new version, on both engines."""

import json
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.command_line import run_command
from tests.store.old_schema import make_old_storage, run_statements

from gatepost import SCHEMA
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor import examination
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.store import upgrading
from gatepost.store.upgrading import SchemaState

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(params=["sqlite", "postgres"])
def storage_url(request: pytest.FixtureRequest) -> str:
    return "sqlite:gatepost.db" if request.param == "sqlite" else str(request.getfixturevalue("empty_postgres_url"))


@pytest.fixture
def data(data: Path, storage_url: str) -> Path:
    for name in (GUARD_FILE, ABBY_FILE):
        text = (data / name).read_text()
        (data / name).write_text(text.replace('"sqlite:gatepost.db"', json.dumps(storage_url)))
    return data


class Checked:
    """The rows of one run, and its exit code."""

    def __init__(self, data: Path) -> None:
        self.code, printed, _ = run_command("upgrade", "check", "--json", "--data", data)
        self.rows: dict[str, dict[str, Any]] = {row["what"]: row for row in json.loads(printed)}

    @property
    def states(self) -> dict[str, str]:
        return {what: row["state"] for what, row in self.rows.items()}


def test_before_the_first_start_of_all(data: Path) -> None:
    found = Checked(data)
    assert found.code == 0
    assert found.states == {"version": "ok", "configuration": "ok", "database": "ok", "services": "ok"}
    assert "no data yet" in found.rows["database"]["found"]
    assert not (data / "gatepost.db").exists()


def test_an_older_schema_is_announced_and_nothing_is_changed(data: Path, storage_url: str) -> None:
    make_old_storage(storage_url, data)
    for _ in range(2):
        found = Checked(data)
        assert found.code == 0
        assert f"has schema 31 of {SCHEMA}" in found.rows["database"]["found"]
        assert "older versions cannot open it" in found.rows["database"]["advice"]
        assert found.states["backup"] == "warn"
        assert "gatepost backup FILE" in found.rows["backup"]["advice"]
    assert found.states["space"] == ("ok" if storage_url.startswith("sqlite") else "warn")
    assert "password" not in str(found.rows)


def test_a_newer_schema_fails(data: Path, storage_url: str) -> None:
    make_old_storage(storage_url, data)
    run_statements(storage_url, data, "UPDATE meta SET value = '999' WHERE key <> 'normal_forms'")
    found = Checked(data)
    assert found.code == 1
    assert found.states["database"] == "fail"
    assert "schema 999; this version knows" in found.rows["database"]["found"]
    assert "backup" not in found.rows


def test_a_schema_that_is_too_old_fails(run: Run, data: Path, storage_url: str) -> None:
    make_old_storage(storage_url, data, 30)
    found = Checked(data)
    assert found.code == 1
    assert found.states["database"] == "fail"
    assert "has schema 30; this version upgrades 31 and later" in found.rows["database"]["found"]
    assert "version 0.1.0 first" in found.rows["database"]["advice"]
    assert "backup" not in found.rows
    code, _, fault = run("upgrade", "run")
    assert (code, "upgrade to version 0.1.0 first, then to this one" in fault) == (1, True)


def test_one_of_several_databases_fails(data: Path, storage_url: str) -> None:
    make_old_storage(storage_url, data)
    run_statements(storage_url, data, "INSERT INTO meta VALUES ('database', 'first 0'), ('database.west', '1')")
    found = Checked(data)
    assert (found.code, found.states["database"]) == (1, "fail")
    assert "is the first of several databases (also west)" in found.rows["database"]["found"]
    assert "gatepost tenant move UID first" in found.rows["database"]["advice"]


@pytest.mark.parametrize("storage_url", ["sqlite"], indirect=True)
class TestOnOneMachine:
    def test_too_little_space_for_the_upgrade(
        self, data: Path, storage_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_old_storage(storage_url, data)
        size = (data / "gatepost.db").stat().st_size
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, examination.ROOM * size - 1))
        assert (Checked(data).code, Checked(data).states["space"]) == (1, "fail")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, examination.ROOM * size))
        assert (Checked(data).code, Checked(data).states["space"]) == (0, "ok")

    def test_old_and_unknown_keys(self, data: Path) -> None:
        guard = data / GUARD_FILE
        text = guard.read_text()
        guard.write_text(f"{text}acquaintance: {{retention: 90}}\n")
        found = Checked(data)
        assert (found.code, found.states["configuration"]) == (0, "warn")
        assert "acquaintance is now called senderHistory" in found.rows["configuration"]["found"]
        guard.write_text(f"{text}mainWorkers: 3\n")
        found = Checked(data)
        assert (found.code, found.states["configuration"]) == (1, "fail")
        assert "mainWorkers is not a known key" in found.rows["configuration"]["found"]

    def test_a_database_that_cannot_be_read(self, data: Path) -> None:
        (data / "gatepost.db").write_text("not a database" * 100)
        found = Checked(data)
        assert (found.code, found.states["database"]) == (1, "fail")

    def test_a_running_service_is_named_and_not_disturbed(self, data: Path) -> None:
        hold = "import sys, pathlib; from gatepost.service.data_folder import DataFolder as D\n"
        hold += "with D(pathlib.Path(sys.argv[1])).lock('guard', 'abby'): print('held', flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", hold, str(data)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout
            assert holder.stdout.readline() == b"held\n"
            found = Checked(data)
            assert "guard and abby run on" in found.rows["services"]["found"]
            assert found.code == 0
            holder.communicate(b"", timeout=60)

    def test_a_table_for_people(self, run: Run) -> None:
        code, shown, _ = run("upgrade", "check")
        assert (code, "what to do" in shown) == (0, True)


def test_what_an_upgrade_does_to_nodes_of_the_version_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade that only adds lets them go on, and is no reason to warn; any other one is."""
    added = SchemaState(present=32, size=1, needed=32)
    changed = SchemaState(present=31, size=1, needed=31)
    newer = SchemaState(present=35, size=1, needed=32)
    monkeypatch.setattr(upgrading, "SCHEMA", 34)
    monkeypatch.setattr(examination, "SCHEMA", 34)
    rows = [examination._check_schema(each, "sqlite:g.db") for each in (added, changed, newer)]
    assert [row.state for row in rows] == ["ok", "warn", "ok"]
    assert "the upgrade only adds" in rows[0].found
    assert "go on" in rows[0].advice
    assert "cannot open it afterwards" in rows[1].advice
    assert "a newer version has added to it; nothing to upgrade" in rows[2].found
    assert [examination._advise_backup(each).state for each in (added, changed)] == ["ok", "warn"]


def test_run_upgrades_the_database(run: Run, data: Path, storage_url: str) -> None:
    make_old_storage(storage_url, data)
    for before in (31, SCHEMA):
        code, printed, _ = run("upgrade", "run", "--json")
        assert (code, json.loads(printed)) == (0, {"before": before, "schema": SCHEMA})
    assert "nothing to upgrade" in Checked(data).rows["database"]["found"]


def test_run_refuses_beside_a_service_that_needs_the_old_schema(
    run: Run, data: Path, storage_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old_storage(storage_url, data)
    monkeypatch.setattr(DataFolder, "is_locked", lambda _self, service: service == "guard")
    code, _, fault = run("upgrade", "run")
    assert (code, "stop all services" in fault) == (1, True)
