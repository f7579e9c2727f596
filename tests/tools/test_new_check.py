"""The skeleton of a check: complete, importable, and refused where a name is bad or taken."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.new_check import KINDS, POLICY, REGISTRY, ROOT, STRENGTHS, main

TOUCHED = (KINDS, REGISTRY, POLICY, STRENGTHS)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of what the command reads and writes."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "kind", "module"),
    [
        ("sender/zero_width", "sender:zero-width", "sender/zero_width.py"),
        ("headers/a_first_one", "header:a-first-one", "headers/a_first_one.py"),
        ("links/zz_last_one", "url:zz-last-one", "links/zz_last_one.py"),
        ("text/boundary_prefix", "text:boundary-prefix", "text/boundary_prefix.py"),
        ("files/encrypted_thing", "file:encrypted-thing", "files/encrypted_thing.py"),
    ],
)
def test_everything_is_written_and_fits_together(root: Path, name: str, kind: str, module: str) -> None:
    assert main([name, "--title", "A trick with a title of some length, which people read", "--strength"], root) == 0
    assert (root / "src/gatepost/checks" / module).exists()
    program = (
        "from gatepost.checks.registry import CHECKS\n"
        "from gatepost.kinds import BY_ID\n"
        "from gatepost.policy.rules import shipped_policy\n"
        "from gatepost.strengths import calculations\n"
        "found = {kind for check in CHECKS for kind in check.kinds}\n"
        f"kind = BY_ID[{kind!r}]\n"
        "assert found == set(BY_ID.values()) and set(shipped_policy().kinds) == set(BY_ID)\n"
        "assert list(calculations()[kind.id].coefficients) == ['weak']\n"
        "print(kind.title)\n"
    )
    run = [sys.executable, "-c", program]
    said = subprocess.run(run, capture_output=True, text=True, env={"PYTHONPATH": str(root / "src")}, check=False)
    assert (said.stdout, said.stderr) == ("A trick with a title of some length, which people read\n", "")
    stem = kind.replace(":", "-")
    assert (root / f"tests/golden/attacks/{stem}.eml").exists()
    assert len(list((root / "tests/golden/twins").glob("*.eml"))) == 1
    assert len(list((root / "tests/checks").rglob("test_*.py"))) == 1


def test_only_lines_are_added(root: Path) -> None:
    before = {path: (root / path).read_text("utf-8").splitlines() for path in TOUCHED}
    main(["links/some_trick"], root)
    for path, lines in before.items():
        after = (root / path).read_text("utf-8").splitlines()
        added = [line for line in after if line not in lines]
        assert [line for line in after if line not in added] == lines
        assert len(added) == {KINDS: 1, REGISTRY: 2, POLICY: 1, STRENGTHS: 0}[path]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("userinfo", "'userinfo' is not area/trick, where area is one of sender, headers, links, text, files."),
        ("mime/trick", "is not area/trick"),
        ("links/Data-Link", "'Data-Link' is no module name"),
        ("links/../evil", "is no module name"),
        ("links/", "is no module name"),
        ("links/utils", "'utils' says nothing"),
        ("headers/lures", "There is a check called lures already: src/gatepost/checks/text/lures.py."),
        ("links/userinfo", "There is a kind url:userinfo already, in src/gatepost/kinds.py."),
    ],
)
def test_bad_and_taken_names_are_refused(
    root: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert main([name], root) == 1
    assert reason in capsys.readouterr().err
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_it_says_what_to_do_next(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["text/some_trick"], root)
    said = capsys.readouterr().out
    assert "src/gatepost/checks/text/some_trick.py" in said
    assert "--regold" in said
    assert "make docs" in said
