"""Which Python the environment is made on."""

import sys
from pathlib import Path

import pytest
from tools import new_environment
from tools.new_environment import Interpreter, choose, describe_interpreter

PLAIN = Interpreter("/home/ann/python3", (3, 11, 7), optimised=False, headers=True)
DEBIAN = Interpreter("/usr/bin/python3", (3, 11, 2), optimised=True, headers=True)
OLD = Interpreter("/usr/bin/python3", (3, 9, 2), optimised=True, headers=True)
BARE = Interpreter("/usr/bin/python3", (3, 13, 0), optimised=True, headers=False)


@pytest.mark.parametrize(
    ("given", "others", "chosen"),
    [
        (PLAIN, [DEBIAN], DEBIAN),
        (PLAIN, [OLD], PLAIN),
        (PLAIN, [BARE], PLAIN),  # without headers there are no native speedups
        (PLAIN._replace(headers=False), [BARE], BARE),
        (PLAIN, [], PLAIN),
        (DEBIAN, [PLAIN], DEBIAN),
        (OLD, [PLAIN], PLAIN),
        (OLD, [PLAIN, DEBIAN], DEBIAN),
        (OLD, [], None),
    ],
)
def test_the_fastest_that_lacks_nothing(
    given: Interpreter, others: list[Interpreter], chosen: Interpreter | None
) -> None:
    assert choose(given, others) == chosen


@pytest.mark.process
def test_a_python_is_asked_about_itself(tmp_path: Path) -> None:
    found = describe_interpreter(sys.executable)
    assert found is not None
    assert found[:2] == (sys.executable, sys.version_info[:3])
    assert describe_interpreter(str(tmp_path / "python3")) is None
    (tmp_path / "python3").write_text("#!/bin/sh\necho nonsense\n")
    (tmp_path / "python3").chmod(0o755)
    assert describe_interpreter(str(tmp_path / "python3")) is None


@pytest.mark.process
def test_one_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(new_environment, "LEAST", (4, 0))
    said = new_environment.main([str(tmp_path / "venv"), "requirements/uv.txt"])
    assert said == "Gatepost needs Python 3.11 or newer; set PYTHON=… to one."
    assert not (tmp_path / "venv").exists()


@pytest.mark.process
def test_the_given_one_is_used_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[tuple[Path, str]] = []
    monkeypatch.setattr(new_environment, "PLACES", (str(tmp_path / "absent"),))
    monkeypatch.setattr(new_environment, "make_environment", lambda folder, _lock, path: made.append((folder, path)))
    assert new_environment.main([str(tmp_path), "uv.txt", "--this"]) == 0
    assert new_environment.main([str(tmp_path), "uv.txt"]) == 0
    assert made == [(tmp_path, sys.executable)] * 2
