"""Packages that are plug-ins: the example of `contrib`, built and installed as any package, and faulty ones."""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "contrib" / "plugin-example"
DECLARED = """
api = 2
namespace = "faulty"
about = "A plug-in of a test"
[kinds."faulty:thing"]
title = "A thing"
weight = 2.0
verdict = "spam"
"""
CODE = """
from gatepost.checks.plugins import this_plugin
from gatepost.checks.reading import check
PLUGIN = this_plugin(__package__)
THING = PLUGIN.kind("faulty:thing")
@check(THING)
def thing(reading):
    {body}
CHECKS = (thing,)
"""
FINDS = 'yield THING.at("text")'

MakePlugin = Callable[..., str]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example installed in it."""
    place = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, place / "source", ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place / "wheels")]
    subprocess.run(build, cwd=place / "source", check=True, capture_output=True)
    (wheel,) = (place / "wheels").iterdir()
    install = [sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--no-index", "--offline"]
    subprocess.run([*install, "--target", str(place / "site"), str(wheel)], check=True, capture_output=True)
    return place / "site"


@pytest.fixture
def example(built: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the example, which this process and its children find."""
    _install(built, monkeypatch)
    return "gatepost-example"


@pytest.fixture
def make_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakePlugin:
    """Make a plug-in of a test and install it; returns its name."""
    site = tmp_path / "site"
    site.mkdir()
    _install(site, monkeypatch)

    def make(
        declared: str = DECLARED,
        body: str = FINDS,
        *,
        code: str = "",
        name: str = "gatepost-faulty",
        entries: str = "faulty = {package}.checks:CHECKS",
        version: str = "0.1",
    ) -> str:
        package = name.replace("-", "_")
        (site / package).mkdir()
        (site / package / "__init__.py").write_text("")
        (site / package / "checks.py").write_text(code or CODE.format(body=body))
        if declared:
            (site / package / "gatepost.toml").write_text(declared)
        metadata = site / f"{package}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text(f"[gatepost.checks]\n{entries.format(package=package)}\n")
        importlib.invalidate_caches()
        return name

    return make


def _install(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and its children find what is installed in a folder; code that it imports is forgotten again."""
    monkeypatch.syspath_prepend(str(site))
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(site), before))))
    for name in [each for each in sys.modules if each.partition(".")[0] in ("gatepost_example", "gatepost_faulty")]:
        monkeypatch.delitem(sys.modules, name)
