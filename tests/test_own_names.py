"""No test replaces a clock, a sleep or a system call for the whole process."""

import ast
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.own_names import replace_in

from gatepost.process import background_work

ROOT = Path(__file__).parents[1]
SHARED = {"asyncio", "os", "select", "signal", "socket", "threading", "time"}


def replaced_for_all(source: str) -> Iterator[int]:
    """The lines of a test that replace an attribute of a module which threads of other tests use as well."""
    if "setattr" not in source:
        return
    for call in ast.walk(ast.parse(source)):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "setattr"):
            continue
        target = call.args[0]
        if isinstance(target, ast.Constant):
            parts = str(target.value).split(".")[:-1]
        else:
            parts = ast.unparse(target).split(".")
        if SHARED & set(parts):
            yield call.lineno


def test_it_finds_both_forms() -> None:
    source = """
monkeypatch.setattr("gatepost.feeds.run.time.sleep", f)
monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", f)
monkeypatch.setattr(os, "fsync", f)
monkeypatch.setattr("gatepost.times.now", f)
monkeypatch.setattr(module, "time", f)
"""
    assert list(replaced_for_all(source)) == [2, 3, 4]


def test_no_test_does_it() -> None:
    # `started_processes` notes what every test starts, and changes nothing of it.
    files = [each for each in (ROOT / "tests").rglob("*.py") if each.name != "started_processes.py"]
    found = {f"{file.relative_to(ROOT)}:{line}" for file in files for line in replaced_for_all(file.read_text("utf-8"))}
    assert found == set()


def test_a_replacement_is_seen_by_one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    replace_in(monkeypatch, background_work, "time", sleep=slept.append)
    seen = vars(background_work)["time"]
    seen.sleep(3.0)
    assert slept == [3.0]
    assert seen.monotonic is time.monotonic
    assert time.sleep is not seen.sleep
