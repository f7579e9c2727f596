"""The audit of the lock file: licences are allowed by name, and what was not looked up is not passed as clean."""

import json
from pathlib import Path

import pytest
from tools.audit import build_bill, check_licences, describe, is_allowed, read_advisories
from tools.licences import read_pins

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


def test_the_bill_of_materials_is_that_of_the_lock_file() -> None:
    lock = LOCK.read_text("utf-8")
    bill = build_bill(lock, "1.2.3")
    assert bill == build_bill(lock, "1.2.3"), "the same bytes again"
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = bill["components"]
    # A package may be pinned twice, for two versions of Python.
    assert sorted({each["name"] for each in listed}, key=str.lower) == read_pins(lock)
    for each in listed:
        assert f"{each['name']}=={each['version']}" in lock
        (source,) = each["externalReferences"]
        assert source["hashes"]
        assert all(f"--hash=sha256:{digest['content']}" in lock for digest in source["hashes"])
    total = sum(len(each["externalReferences"][0]["hashes"]) for each in listed)
    assert total == lock.count("--hash=sha256:")
    (own, *others) = bill["dependencies"]
    assert set(own["dependsOn"]) == {each["ref"] for each in others} == {each["bom-ref"] for each in listed}
    assert bill["serialNumber"] != build_bill(lock.replace("a", "b", 1), "1.2.3")["serialNumber"]


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
