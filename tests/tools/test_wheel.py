"""A wheel is the same, byte for byte, wherever and whenever it is built from the same sources."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "contrib", "src", "tools")
BUILD = "from hatchling.build import build_wheel; print(build_wheel('dist'))"

pytestmark = pytest.mark.process


def build(folder: Path, when: int) -> Path:
    """Build the wheel in a copy of the sources whose files are of that time."""
    folder.mkdir(parents=True)
    skip = shutil.ignore_patterns("__pycache__", "*.so", "*.new", "*.pyc")
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=skip)
        else:
            shutil.copy(source, folder / name)
    for path in folder.rglob("*"):
        os.utime(path, (when, when))
    environment = {**os.environ, "TZ": "Asia/Tokyo" if when % 2 else "UTC", "PYTHONHASHSEED": str(when % 7)}
    environment.pop("SOURCE_DATE_EPOCH", None)
    done = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "dist" / done.stdout.split()[-1]


@pytest.mark.variant
def test_two_builds_are_the_same(tmp_path: Path) -> None:
    first = build(tmp_path / "here", 1_700_000_000)
    second = build(tmp_path / "elsewhere" / "deeper", 1_700_086_401)
    assert first.name == second.name
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as other:
        assert one.namelist() == other.namelist()
        assert [name for name in one.namelist() if one.read(name) != other.read(name)] == []
        inside = b"".join(one.read(name) for name in one.namelist() if name.endswith(".so"))
    assert first.read_bytes() == second.read_bytes()
    assert str(tmp_path).encode() not in inside
