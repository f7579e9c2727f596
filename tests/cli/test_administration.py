"""`gatepost-admin`: the environment of the service from its file, its user instead of root, and nothing else."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.cli.administration import AdministrationError, build_environment, read_environment
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder

START = "import sys; from gatepost.cli.administration import main; main()"
OTHER = "nobody"
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root can become another user")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter. Those of pytest are for one user, and each run on a machine makes them so."""
    with tempfile.TemporaryDirectory(prefix="gatepost-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def write(folder: Path, text: str, mode: int = 0o644) -> Path:
    file = folder / "gatepost.env"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_an_environment_file_is_read_as_systemd_reads_it(tmp_path: Path) -> None:
    text = """# a comment
; another

GATEPOST_DATA=/srv/mail data
  PASSWORD="a \\"quoted\\" word $HOME"
SECRET='it is \\ as it is'
EMPTY=
"""
    assert read_environment(write(tmp_path, text)) == {
        "GATEPOST_DATA": "/srv/mail data",
        "PASSWORD": 'a "quoted" word $HOME',
        "SECRET": "it is \\ as it is",
        "EMPTY": "",
    }
    assert read_environment(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("GATEPOST_DATA", 0o644, r"line 1: it must be NAME=value"),
        ("A=1\nexport B=2", 0o644, r"line 2: it must be NAME=value"),
        ("A='half", 0o644, r"line 1: the quotes must end"),
        ('A="a" b"', 0o644, r"line 1: the quotes must end"),
        ("A=1", 0o664, r"can be changed by others"),
        ("A=1", 0o646, r"can be changed by others"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(text: str, mode: int, said: str, tmp_path: Path) -> None:
    with pytest.raises(AdministrationError, match=said):
        read_environment(write(tmp_path, text, mode))


def test_little_of_the_callers_environment_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/home/eve/evil")
    monkeypatch.setenv("PGPASSFILE", "/home/eve/.pgpass")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("GATEPOST_CONFIG", "/another/service")
    user = pwd.getpwuid(os.geteuid())
    built = build_environment(write(tmp_path, f"GATEPOST_USER={user.pw_name}\nGATEPOST_DATA=/srv/gatepost\n"))
    assert {"PYTHONPATH", "PGPASSFILE"}.isdisjoint(built)
    assert built["LC_ALL"] == "C.UTF-8"
    assert (built["GATEPOST_CONFIG"], built["GATEPOST_DATA"]) == ("/etc/gatepost", "/srv/gatepost")
    assert (built["HOME"], built["USER"]) == (user.pw_dir, user.pw_name)
    with pytest.raises(AdministrationError, match="There is no user no-such-user"):
        build_environment(write(tmp_path, "GATEPOST_USER=no-such-user\n"))


def run_as_root(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GATEPOST_ENVIRONMENT": str(folder / "gatepost.env"), "HOME": "/root", **more}
    command = [sys.executable, "-I", "-c", START, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)


@pytest.mark.variant
@is_root
def test_a_command_of_root_runs_as_the_user_of_the_service(open_folder: Path) -> None:
    user, prepared = pwd.getpwnam(OTHER), open_folder / "prepared"
    prepare(DataFolder(prepared), None)
    data = open_folder / "data"
    (data / "abby/abby").mkdir(parents=True)
    # As root has written it: the service may read it.
    shutil.copyfile(prepared / "abby/abby/abby.yml", data / "abby/abby/abby.yml")
    shutil.copyfile(prepared / "token", data / "token")
    for each in (data, *data.rglob("*")):
        os.chown(each, user.pw_uid, user.pw_gid)
    write(open_folder, f"GATEPOST_USER={OTHER}\nGATEPOST_CONFIG={data}\nGATEPOST_DATA={data}\n", 0o600)
    # A module of the folder that root is in must not run.
    (open_folder / "gatepost.py").write_text("raise SystemExit('taken over')")
    made = run_as_root(open_folder, "tenant", "create", "acme", "--json", GATEPOST_DATA="/home/eve/another")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["name"] == "acme"
    made_files = [file for file in data.iterdir() if file.name.startswith("gatepost.db")]
    owners = {(file.stat().st_uid, file.stat().st_mode & 0o077) for file in made_files}
    assert owners == {(user.pw_uid, 0)}, "the service can read them, and nobody else"
    (open_folder / "gatepost.env").chmod(0o666)
    assert "can be changed by others" in run_as_root(open_folder, "tenant", "list").stderr


@is_root
def test_another_user_is_told_to_use_sudo(open_folder: Path) -> None:
    write(open_folder, "GATEPOST_USER=root\n")
    ended = subprocess.run(
        [sys.executable, "-I", "-c", START, "doctor"],
        capture_output=True,
        text=True,
        env={**os.environ, "GATEPOST_ENVIRONMENT": str(open_folder / "gatepost.env")},
        user=OTHER,
        cwd="/",
        check=False,
    )
    assert "must be run by root or by root, for example with sudo" in ended.stderr
