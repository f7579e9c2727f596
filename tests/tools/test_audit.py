"""The audit of the lock file: licences are allowed by name, and what was not looked up is not passed as clean."""

import json
from pathlib import Path

import pytest
from tools.audit import check_licences, describe, is_allowed, read_advisories

LOCK = Path(__file__).parents[2] / "requirements" / "run.txt"


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("(MIT OR Apache-2.0) AND BSD-3-Clause", True),
        ("Apache Software License, MIT License", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("Apache-2.0, dependency licenses", False),
        ("not stated", False),
        ("", False),
    ],
)
def test_licences(licence: str, expected: bool) -> None:
    assert is_allowed(licence) is expected


def test_every_package_of_the_lock_file_has_an_allowed_licence() -> None:
    assert check_licences(LOCK.read_text("utf-8")) == {}


def answer(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": packages})


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        (answer({"name": "a", "vulns": []}), "1 packages looked up, no known vulnerability"),
        (answer({"name": "a", "skip_reason": "not found on PyPI"}), "not run"),
        (answer({"name": "a", "vulns": []}, {"name": "b", "skip_reason": "x"}), "1 of 2 packages looked up"),
        (answer({"name": "a", "vulns": [{"id": "CVE-1"}]}), "known vulnerabilities in a: CVE-1"),
        ("", "not run"),
        ("{}", "not run"),
    ],
)
def test_advisories(out: str, expected: str) -> None:
    assert expected in describe(read_advisories(out))
