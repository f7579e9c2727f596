"""Data from other programs: shells beside price feeds."""

import pytest

from gatepost.checks.files.commands import FEED, check
from gatepost.files.values import File, Trait
from gatepost.findings import Reading


@pytest.mark.parametrize(
    ("command", "strength"),
    [
        ('DDEAUTO c:\\\\windows\\\\system32\\\\cmd.exe "/k calc.exe"', 1.0),
        ("cmd /c calc", 1.0),
        ("cmd|'/c calc'!A0", 1.0),
        ('DDE "C:\\\\Programs\\\\Microsoft\\\\Office\\\\MSWord.exe" x', 1.0),
        ("BLP M!'EUR Curncy;LAST'", FEED),  # a price feed
        ("REUTER IDN 'EUR='", FEED),
        ("Excel Book1.xls!R1C1", FEED),
    ],
)
def test_dde(command: str, strength: float) -> None:
    file = File("1/a.doc", b"", "ole", "0" * 64, traits=(Trait("dde", command),))
    assert [finding.strength for finding in check(Reading(files=(file,)))] == [strength]


def test_a_document_without() -> None:
    assert list(check(Reading(files=(File("1/a.doc", b"DDEAUTO", "ole", "0" * 64),)))) == []
