"""The source distribution and the wheel that is built from it: complete, described, and good for a first command."""

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from bench.corpus import extract
from packaging.requirements import Requirement
from tests.doc_blocks import ROOT
from trove_classifiers import classifiers

from gatepost import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def build(kind: str, source: Path, target: Path) -> Path:
    """Build with the tools of this environment: nothing is fetched."""
    uv = str(Path(sys.executable).parent / "uv")
    command = [uv, "build", f"--{kind}", "--no-build-isolation", "--offline", "-p", sys.executable, "-o", str(target)]
    ended = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    (made,) = (path for path in target.iterdir() if path.suffix in {".gz", ".whl"})
    return made


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that is built from the unpacked source distribution alone."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        extract(archive, folder)
    (source,) = folder.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_string(archive.read(name).decode("utf-8"))


@pytest.mark.variant
def test_the_source_distribution_has_what_is_needed_and_nothing_of_this_machine(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = "src/gatepost/_speedups.c src/gatepost/native/mail.c"
    assert {"LICENSE", "README.md", "pyproject.toml", "docs/README.md", *sources.split()} <= names
    assert not [name for name in names if re.search(r"\.(so|pyc|db)$|__pycache__|^data/|^\.venv|^build/", name)]


@pytest.mark.variant
def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "src" / "gatepost"
    wanted = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".so"} and ".dev" not in path.name
    }
    with zipfile.ZipFile(wheel) as archive:
        assert wanted <= set(archive.namelist())
        assert not [name for name in archive.namelist() if name.startswith(("tests/", "tools/", "bench/"))]


@pytest.mark.variant
def test_the_metadata_describe_it(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("gatepost", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Summary"] == PROJECT["description"]
    assert set(metadata["Keywords"].split(",")) >= {"email", "security", "dkim"}
    assert set(metadata.get_all("Classifier") or ()) <= classifiers
    assert metadata["Description-Content-Type"] == "text/markdown"
    # An index shows this text alone: a link into the repository would lead nowhere.
    assert not re.search(r"\]\(", str(metadata.get_payload()))


def test_there_is_no_extra(metadata: Message) -> None:
    assert not metadata.get_all("Provides-Extra")
    assert not re.search(r"gatepost\[(\w+)\]", (ROOT / "docs/install.md").read_text("utf-8"))


def test_users_get_none_of_the_tools(metadata: Message) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    tools = {Requirement(text).name for text in (*groups["dev"], *groups["site"])}
    plain = {Requirement(text) for text in metadata.get_all("Requires-Dist") or ()}
    assert not tools & {each.name for each in plain if not each.marker or each.marker.evaluate({"extra": ""})}
    locked = (ROOT / "requirements" / "run.txt").read_text("utf-8")
    assert not [tool for tool in tools - {"hatchling"} if re.search(rf"^{tool}==", locked, re.MULTILINE)]


@pytest.mark.variant
def test_the_installed_wheel_answers(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    environment = {**os.environ, "PYTHONPATH": str(target)}

    def run(*arguments: str) -> str:
        ended = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    assert run("-c", "import gatepost; print(gatepost.__file__)") == str(target / "gatepost" / "__init__.py")
    assert run("-m", "gatepost", "--version").startswith(f"gatepost {__version__} (schema ")
    (tmp_path / "mail.eml").write_bytes(
        b"From: a@example.org\r\nTo: b@example.com\r\nSubject: Minutes\r\n\r\nHello\r\n"
    )
    assert '"verdict"' in run("-m", "gatepost", "scan", "--json", "mail.eml")
