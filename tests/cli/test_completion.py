"""Completion by real shells, and manual pages that a real formatter reads."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.command_line import run_command
from tools.man_pages import render_man_pages

from gatepost.cli.commands import COMMANDS

ASK = """
source {script}
COMP_WORDS=({words})
COMP_CWORD={place}
_gatepost
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def script(shell: str, folder: Path) -> Path:
    code, text, _ = run_command("completion", shell)
    assert code == 0
    (folder / f"gatepost.{shell}").write_text(text)
    return folder / f"gatepost.{shell}"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("gatepost se", {"serve", "secrets"}),
        ("gatepost lists im", {"import"}),
        ("gatepost lists import --sk", {"--skip-invalid"}),
        ("gatepost serve --port", {"--port-base"}),
    ],
)
def test_bash(tmp_path: Path, typed: str, expected: set[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("not run: there is no bash")
    words = typed.split()
    asked = ASK.format(script=script("bash", tmp_path), words=" ".join(words), place=len(words) - 1)
    found = subprocess.run([bash, "-c", asked], capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    assert set(found.stdout.split()) == expected


def test_other_shells_are_refused() -> None:
    code, _, fault = run_command("completion", "csh")
    assert (code != 0, "must be one of bash, zsh" in fault) == (True, True)


def test_every_command_has_a_manual_page_that_can_be_formatted(tmp_path: Path) -> None:
    pages = render_man_pages()
    assert set(pages) == {"gatepost.1", *(f"gatepost-{name}.1" for name in COMMANDS.commands)}
    assert "\\-\\-skip\\-invalid" in pages["gatepost-lists.1"]
    formatter = shutil.which("man")
    if formatter is None:
        pytest.skip("not run: there is no man")
    (tmp_path / "lists.1").write_text(pages["gatepost-lists.1"])
    command = [formatter, "--warnings", "-E", "UTF-8", "-l", "-Tutf8", str(tmp_path / "lists.1")]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if shown.returncode:
        pytest.skip("not run: man cannot format here")
    assert shown.stderr == ""
    assert "gatepost lists import" in re.sub(r".\x08", "", shown.stdout)
