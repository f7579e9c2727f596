"""Compiled templates are kept beside the compiled modules, and used only while they fit."""

import os
import sys
from pathlib import Path

import pytest
from jinja2 import Environment

import gatepost
from gatepost.web.rendering import build_environment

NAME = "error.html"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the templates that were compiled."""
    names: list[str] = []
    compiling = Environment.compile

    def compile_and_note(self: Environment, source: str, name: str, filename: str) -> object:
        names.append(name)
        return compiling(self, source, name, filename)

    monkeypatch.setattr(Environment, "compile", compile_and_note)
    return names


def load() -> None:
    assert build_environment({}).get_template(NAME).name == NAME


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_template_is_compiled_once(folder: Path, compiled: list[str]) -> None:
    load()
    load()
    assert compiled == [NAME]
    assert len(files(folder)) == 1


@pytest.mark.parametrize("content", [b"", b"\0" * 200, None], ids=["empty", "other", "cut"])
def test_a_damaged_file_is_compiled_again(folder: Path, compiled: list[str], content: bytes | None) -> None:
    load()
    [path] = files(folder)
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    load()
    load()
    assert compiled == [NAME, NAME]


def test_code_of_other_modules_is_not_used(
    folder: Path, compiled: list[str], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path_factory.mktemp("gatepost") / "__init__.py"
    package.write_text("")
    monkeypatch.setattr(gatepost, "__file__", str(package))
    load()
    os.utime(package, ns=(0, 0))
    load()
    assert compiled == [NAME, NAME]


@pytest.mark.parametrize("case", ["no bytecode", "no folder"])
def test_nothing_is_kept_where_python_keeps_nothing(
    folder: Path, compiled: list[str], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", case == "no bytecode")
    if case == "no folder":
        (folder / "file").write_text("")
        monkeypatch.setattr(sys, "pycache_prefix", str(folder / "file"))
    load()
    load()
    assert compiled == [NAME, NAME]
    assert [path.name for path in files(folder)] == (["file"] if case == "no folder" else [])
