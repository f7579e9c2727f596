"""From an empty folder to a working configuration; interrupted or repeated, it comes out the same."""

import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.data_folders import with_store

from gatepost.cli.serve import greet
from gatepost.service import commands
from gatepost.service.commands import Started, _welcome_operator, create_administrator, prepare
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.plan import Plan
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load
from gatepost.store.audit import SYSTEM
from gatepost.store.store import Store
from gatepost.store.users import Credentials
from gatepost.web.credentials import PasswordHashes, generate_password


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("port", [commands.API_PORT, commands.REST_PORT])
def test_a_port_that_is_taken_leaves_nothing_behind_that_keeps_ports_from_moving(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_prepare_process", lambda _data: None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(StartError, match=rf"127\.0\.0\.1:{taken} .*another program uses it\. .*--port-base 19000"):
            commands.serve(DataFolder(tmp_path), None, lambda _started: None, taken - port)
    assert not (tmp_path / GUARD_FILE).exists()
    assert not (tmp_path / ABBY_FILE).exists()


def test_a_first_start_can_move_all_ports(tmp_path: Path) -> None:
    both = load(prepare(DataFolder(tmp_path), None, 21_000))
    assert both.abby.listen.port == 21_081
    assert both.abby.service_providers.core.hosts == ["https://127.0.0.1:21785"]
    source = both.guard.scan_sources.rest_api
    assert source
    assert source.port == 21_785
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.yml")}
    with pytest.raises(StartError, match="for a first start: change"):
        prepare(DataFolder(tmp_path), None, 22_000)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.yml")} == before


def test_an_empty_folder_becomes_a_working_configuration(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    both = load(prepare(data, None))
    (token,) = both.abby.static_api_tokens
    assert re.fullmatch("[0-9a-f]{64}", token.token or "")
    assert token.permissions == ["messages.read"]
    assert token.token == data.token.read_text()
    assert token.token not in (tmp_path / ABBY_FILE).read_text(), "the file refers to the token"
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert load(moved).abby.static_api_tokens == both.abby.static_api_tokens
    moved.rename(tmp_path)
    assert both.abby.listen.host == "127.0.0.1"
    assert both.guard.scan_sources.rest_api
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()} == {0o600}


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    prepare(data, None)
    before = contents(tmp_path)
    prepare(data, None)
    assert contents(tmp_path) == before


def test_a_start_that_was_killed_is_completed(tmp_path: Path) -> None:
    """Whatever prefix of the files was written, the next start adds the rest and keeps what is there."""
    whole = tmp_path / "whole"
    prepare(DataFolder(whole), None)
    names = [GUARD_FILE, Path("token"), ABBY_FILE, Path("secret"), Path("example.eml")]
    for count in range(len(names)):
        place = tmp_path / str(count)
        for name in names[:count]:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes((whole / name).read_bytes())
        both = load(prepare(DataFolder(place), None))
        assert both.abby.static_api_tokens[0].token == (place / "token").read_text()
        for name in names[:count]:
            assert (place / name).read_bytes() == (whole / name).read_bytes()


def test_abby_is_written_to_match_the_guard_that_is_there(tmp_path: Path) -> None:
    (tmp_path / GUARD_FILE).parent.mkdir(parents=True)
    (tmp_path / GUARD_FILE).write_text("scanSources: {restApi: {port: 4711, secret: s}}\nstorage: {url: sqlite:x.db}\n")
    core = load(prepare(DataFolder(tmp_path), None)).abby.service_providers.core
    assert (core.hosts, core.secret) == (["https://127.0.0.1:4711"], "s")


def test_a_configuration_elsewhere_is_never_written(tmp_path: Path) -> None:
    data, config = DataFolder(tmp_path / "data"), tmp_path / "config"
    config.mkdir()
    assert prepare(data, config) == config
    assert contents(config) == {}
    assert not (data.path / ABBY_FILE).exists()
    assert data.secret.exists()


@pytest.mark.variant
def test_the_administrator_is_kept_as_a_hash(tmp_path: Path) -> None:
    password = generate_password()
    assert len(password) >= 20

    async def kept(store: Store) -> tuple[Credentials | None, bool]:
        await create_administrator(store.users, password)
        found = await store.users.credentials("admin")
        return found, await PasswordHashes().verify(found.password if found else None, password)

    found, right = with_store(tmp_path, kept)
    assert found
    assert right
    assert found.password.startswith("$argon2id$")
    assert (found.user.role, found.user.tenant) == ("administrator", None)


def test_the_first_password_is_in_a_file_until_it_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = DataFolder(tmp_path)
    both = load(prepare(data, None))
    plan = Plan(data, both.guard, both.abby)

    async def starts(store: Store) -> None:
        await _welcome_operator(data, tmp_path, greet, plan, 9081, store)
        password = data.first_password.read_text().strip()
        found = await store.users.credentials("admin")
        assert found
        assert await PasswordHashes().verify(found.password, password)
        assert stat.S_IMODE(data.first_password.stat().st_mode) == 0o600
        journal = capsys.readouterr().out
        assert password not in journal
        assert f"password in {data.first_password}" in journal
        # The same password for as long as it works, and no trace of it afterwards.
        await _welcome_operator(data, tmp_path, greet, plan, 9081, store)
        assert f"password in {data.first_password}" in capsys.readouterr().out
        assert data.first_password.read_text().strip() == password
        await store.users.set_password(found.user.uid, "another hash", SYSTEM)
        await _welcome_operator(data, tmp_path, greet, plan, 9081, store)
        assert "admin, password" not in capsys.readouterr().out
        assert not data.first_password.exists()

    with_store(tmp_path, starts)


def test_a_terminal_is_shown_the_first_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = Started(
        *("https://127.0.0.1:9081", DataFolder(tmp_path), tmp_path, None, None, "a-long-first-password", ()),
        password_file=tmp_path / "first-password",
    )
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    greet(started)
    assert "a-long-first-password" in capsys.readouterr().out


def test_one_service_at_a_time(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    program = (
        "import pathlib, sys; from gatepost.service.data_folder import *\n"
        "with DataFolder(pathlib.Path(sys.argv[1])).lock('abby'): print('has it', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout
        assert other.stdout.readline() == "has it\n"
        assert data.is_locked("abby")
        with data.lock("guard"):
            pass
        with pytest.raises(StartError, match=rf"process {other.pid}\) already runs"), data.lock("guard", "abby"):
            pytest.fail("both have it")
        other.communicate("")
    with data.lock("guard", "abby"):
        pass


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="cannot be written"):
        DataFolder(tmp_path / "file" / "data").make()
