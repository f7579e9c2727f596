"""Tests that `make test` leaves out are counted, also where workers collect them, and a target runs them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_is_left_out_is_said() -> None:
    options = ["-n", "1", "-k", "nothing_of_this_name", "tests/files/test_attacks.py"]
    said = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    assert "LEFT TO make test-long: 14" in said


def test_every_long_test_has_a_short_form_beside_it() -> None:
    """A file is not left out as a whole."""
    marked = [file for file in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.long" in file.read_text("utf-8")]
    assert len(marked) > 5
    for file in marked:
        text = file.read_text("utf-8")
        assert not re.search(r"^pytestmark.*mark\.long", text, re.MULTILINE), file
        assert len(re.findall(r"^def test_", text, re.MULTILINE)) > text.count("@pytest.mark.long\n"), file


def test_the_checks_of_a_change_run_them() -> None:
    assert re.search(r"then make test-long; else echo \"not run: ", (ROOT / ".ci/run").read_text("utf-8"))
    assert re.search(r"^test-long: ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
