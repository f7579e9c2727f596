"""The audit of the lock file: licences are allowed by name, and what was not looked up is not passed as clean."""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tools.audit import build_bill, check_licences, describe, divide_pins, is_allowed, main, read_advisories
from tools.licences import read_pins

ROOT = Path(__file__).parents[2]
LOCK, UV = ROOT / "requirements" / "run.txt", ROOT / "requirements" / "uv.txt"


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
        (answer({"name": "a", "version": "1", "vulns": []}), "1 packages looked up, no known vulnerability"),
        (answer({"name": "a", "skip_reason": "not found on PyPI"}), "not run"),
        (
            answer({"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "x"}),
            "1 of 2 packages looked",
        ),
        (answer({"name": "a", "version": "1", "vulns": [{"id": "CVE-1"}]}), "known vulnerabilities in a 1: CVE-1"),
        ("", "not run"),
        ("{}", "not run"),
    ],
)
def test_advisories(out: str, expected: str) -> None:
    assert expected in describe(read_advisories(out))


TOOLS = ROOT / ".venv" / "audit" / "bin"


class Database(BaseHTTPRequestHandler):
    """One that speaks OSV's protocol and knows one vulnerability."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, version = query["package"]["name"], query["version"]
        self.asked.append((name, version))
        known: dict[str, Any] = {
            "id": "PYSEC-2014-13",
            "summary": "redirects",
            "affected": [],
            "aliases": ["CVE-2014-1829"],
        }
        body = json.dumps({"vulns": [known]} if (name, version) == ("requests", "2.2.1") else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.process
@pytest.mark.skipif(not (TOOLS / "pip-audit").exists(), reason="not run: `make audit` was never run in this checkout")
def test_a_vulnerable_version_in_a_lock_file_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pip-audit itself, and a database of our own."""
    planted = tmp_path / "planted.txt"
    planted.write_text(LOCK.read_text("utf-8") + "requests==2.2.1 \\\n    --hash=sha256:" + "0" * 64 + "\n")
    Database.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Database) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        osv = f"http://127.0.0.1:{server.server_port}/v1/query"
        options = ["--also", str(UV), "--tools", str(TOOLS), "--output", str(tmp_path / "bill.json"), "--osv", osv]
        assert _audit(str(planted), *options) == 1
        assert "known vulnerabilities in requests 2.2.1: PYSEC-2014-13" in capsys.readouterr().out
        pinned = [
            (name, version)
            for part in divide_pins([planted.read_text(), UV.read_text()])
            for name, version in part.items()
        ]
        # Also what the lock file has for other versions of Python and other platforms.
        assert sorted(Database.asked) == sorted(((canonical(name), version) for name, version in pinned))
        assert len({version for name, version in pinned if name == "numpy"}) == 2
        assert _audit(str(LOCK), *options, "--strict") == 0
        assert f"{len(pinned) - 1} packages looked up, no known vulnerability" in capsys.readouterr().out
        server.shutdown()
    assert _audit(str(planted), *options) == 0
    assert "advisories: not run, the database could not be reached" in capsys.readouterr().out
    assert _audit(str(planted), *options, "--strict") == 1
    missing = ["--tools", str(tmp_path), *options[4:]]
    assert _audit(str(LOCK), *missing, "--strict") == 1
    assert "not run" in capsys.readouterr().out


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _audit(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["audit", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def test_every_lock_file_is_audited_or_for_those_who_work_on_gatepost_alone() -> None:
    """What an installation uses, by the recipes and by `make serve`."""
    recipe = re.search(r"(?m)^audit:.*\n\t(.*)$", (ROOT / "Makefile").read_text("utf-8"))
    assert recipe
    audited = set(re.findall(r"requirements/(\w+)\.txt", recipe[1]))
    others = {"dev", "fuzz", "audit"}
    assert audited | others == {path.stem for path in (ROOT / "requirements").glob("*.txt")}
    shipped = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "contrib").rglob("*"), ROOT / "pyproject.toml"]
    named = {
        name
        for path in shipped
        if path.is_file()
        for name in re.findall(r"requirements/(\w+)\.txt", path.read_text("utf-8", "replace"))
    }
    assert named <= audited
