"""The systemd units, and the pages about running the service: both name what is really there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bench.__main__ import BENCHMARKS, LONG

from gatepost.cli.administration import DEFAULTS, FILE, read_environment

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "contrib" / "systemd").glob("*.service"))
SOURCES = [path.read_text("utf-8") for path in (ROOT / "src" / "gatepost").rglob("*.py")]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="not run: systemd is not installed")
def test_systemd_takes_them(tmp_path: Path) -> None:
    for unit in (*UNITS, *(ROOT / "contrib" / "systemd").glob("*.socket")):
        text = unit.read_text("utf-8").replace("/opt/gatepost/.venv/bin/gatepost", sys.executable)
        (tmp_path / unit.name).write_text(re.sub(r"(?m)^(User|Group)=gatepost$", r"\1=root", text))
    ended = subprocess.run(
        ["systemd-analyze", "verify", *tmp_path.iterdir()], capture_output=True, text=True, check=False, timeout=60
    )
    ours = [line for line in ended.stderr.splitlines() if "gatepost" in line]
    assert not ours


def test_instances_have_what_a_core_has_but_folders_of_their_own() -> None:
    """The template differs from the unit of one core by its folders and its description alone."""
    single, template = (
        (ROOT / "contrib/systemd" / name).read_text("utf-8").split("[Unit]\n", 1)[1]
        for name in ("gatepost-guard.service", "gatepost@.service")
    )
    assert template.replace("/%i", "").replace(" %i", "") == single


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.stem))
def test_each_runs_its_command_and_may_take_its_time_to_stop(unit: Path) -> None:
    text = unit.read_text("utf-8")
    commands = {"gatepost": "serve", "gatepost-guard": "guard", "gatepost-abby": "abby", "gatepost@": "guard"}
    command, own = commands[unit.stem], "/%i" if unit.stem.endswith("@") else ""
    assert f"bin/gatepost {command}\n" in text
    # What gatepost-admin uses where the file is not there.
    assert f"Environment=GATEPOST_CONFIG=/etc/gatepost{own} GATEPOST_DATA=/var/lib/gatepost{own}\n" in text
    assert f"EnvironmentFile=-{FILE.parent}{own}/{FILE.name}\n" in text
    assert f"StateDirectory=gatepost{own}\n" in text
    assert {"GATEPOST_CONFIG": "/etc/gatepost", "GATEPOST_DATA": "/var/lib/gatepost"}.items() <= DEFAULTS.items()
    # Longer than sessions, analyses and the throttle may take to end (45 + 45 seconds).
    assert int(re.findall(r"(?m)^TimeoutStopSec=(\d+)$", text)[0]) >= 100
    assert "Restart=always" in text


def test_the_environment_file_can_be_read_and_names_the_folders_of_the_units(tmp_path: Path) -> None:
    file = shutil.copyfile(ROOT / "contrib" / "systemd" / "gatepost.env", tmp_path / "gatepost.env")
    file.chmod(0o600)
    assert read_environment(file) == {name: DEFAULTS[name] for name in ("GATEPOST_CONFIG", "GATEPOST_DATA")}


def test_every_metric_is_on_the_page() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    names = {name for text in SOURCES for name in re.findall(r'"(gatepost_[a-z_]+)"', text)}
    assert len(names) > 30
    assert not {name for name in names if not re.search(rf"`{name}(_total)?`", page)}


def test_every_proof_is_there() -> None:
    page = (ROOT / "docs" / "internals" / "gateway.md").read_text("utf-8")
    proofs = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(proofs) > 30
    for file, name in proofs:
        assert f"def {name}(" in (ROOT / file).read_text("utf-8"), f"{file}::{name}"
    assert set(re.findall(r"`bench (\w+)`", page)) <= {*BENCHMARKS, *LONG}
