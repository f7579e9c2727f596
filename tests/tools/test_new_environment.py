"""Which Python the environment is made on."""

import sys
import tomllib
from pathlib import Path

import pytest
from tools import new_environment
from tools.new_environment import LEAST, NEWEST, PLACES, Interpreter, choose, describe_interpreter, explain

PLAIN = Interpreter("/home/ann/python3", (3, 11, 7), optimised=False, headers=True)
DEBIAN = Interpreter("/usr/bin/python3", (3, 11, 2), optimised=True, headers=True)
OLD = Interpreter("/usr/bin/python3", (3, 9, 2), optimised=True, headers=True)
BARE = Interpreter("/usr/bin/python3", (3, 13, 0), optimised=True, headers=False)
BESIDE = Interpreter("/usr/bin/python3.13", (3, 13, 5), optimised=True, headers=True)
TOO_NEW = Interpreter("/usr/bin/python3", (NEWEST[0], NEWEST[1] + 1, 0), optimised=True, headers=True)


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
        (DEBIAN, [BESIDE], DEBIAN),  # the version does not decide among optimised ones
        (OLD, [DEBIAN._replace(version=(3, 9, 2)), BESIDE], BESIDE),
        (TOO_NEW, [PLAIN, BESIDE], BESIDE),
        (TOO_NEW, [PLAIN], PLAIN),
        (TOO_NEW, [BARE], BARE),
        (PLAIN, [TOO_NEW], PLAIN),
        (TOO_NEW, [OLD], TOO_NEW),
    ],
)
def test_the_fastest_that_lacks_nothing(
    given: Interpreter, others: list[Interpreter], chosen: Interpreter | None
) -> None:
    assert choose(given, others) == chosen


def test_the_choice_is_explained() -> None:
    assert explain(DEBIAN, DEBIAN) == ""
    assert explain(PLAIN, DEBIAN).endswith("(3.11.2), since /home/ann/python3 was built without optimisation.")
    assert explain(OLD, PLAIN).endswith("since /usr/bin/python3 is too old.")
    assert explain(TOO_NEW, BESIDE).endswith("(3.13.5), since /usr/bin/python3 is newer than its libraries.")
    assert "was not tested on Python" in explain(TOO_NEW, TOO_NEW)


def test_the_supported_versions_are_those_of_the_package() -> None:
    """The versions that are looked for, those that the package names, and the least that it asks for are the same."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    named = [
        each.rsplit(" ", 1)[1]
        for each in project["classifiers"]
        if each.startswith("Programming Language :: Python :: 3.")
    ]
    assert named == [f"3.{minor}" for minor in range(LEAST[1], NEWEST[1] + 1)]
    assert project["requires-python"] == f">={LEAST[0]}.{LEAST[1]}"
    assert [place for place in PLACES if "3." in place] == [f"/usr/bin/python{each}" for each in reversed(named)]


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
