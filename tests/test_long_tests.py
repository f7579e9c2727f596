"""Tests that `make test` leaves out are counted, also where workers collect them, and targets run them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_is_left_out_is_said() -> None:
    options = ["-n", "1", "-k", "nothing_of_this_name", "tests/files/test_attacks.py", "tests/files/test_bombs.py"]
    said = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    assert "LEFT TO make test-variants: 2, make test-long: 14" in said


def test_every_test_that_is_left_out_has_another_one_beside_it() -> None:
    """A file is not left out as a whole."""
    marked = [
        file for file in (ROOT / "tests").rglob("test_*.py") if re.search(r"mark\.(variant|long)", file.read_text())
    ]
    assert len(marked) > 20
    for file in marked:
        text = file.read_text("utf-8")
        assert not re.search(r"^pytestmark.*mark\.(variant|long)", text, re.MULTILINE), file
        left = len(re.findall(r"^@pytest\.mark\.(variant|long)$", text, re.MULTILINE))
        assert len(re.findall(r"^def test_", text, re.MULTILINE)) > left, file


def test_the_checks_of_a_change_run_them() -> None:
    checks, targets = (ROOT / ".ci/run").read_text("utf-8"), (ROOT / "Makefile").read_text("utf-8")
    assert "\nmake test-variants\n" in checks
    assert re.search(r"then make test-long; else echo \"not run: ", checks)
    assert re.search(r"^test-variants: ", targets, re.MULTILINE)
    assert re.search(r"^test-long: ", targets, re.MULTILINE)
