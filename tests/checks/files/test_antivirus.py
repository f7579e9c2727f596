"""What the antivirus says."""

import pytest

from gatepost.checks.files.scanners import check
from gatepost.findings import Reading
from gatepost.questions import Antivirus


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        (Antivirus("found", "Win.Test.EICAR_HDB-1"), ["file:antivirus"]),
        (Antivirus("found", "Heuristics.Encrypted.Zip"), ["file:antivirus-heuristic"]),
        (Antivirus("found", "PUA.Win.Tool.X"), ["file:antivirus-heuristic"]),
        (Antivirus("failed", "clamd did not answer"), ["limit:antivirus"]),
        (Antivirus("clean"), []),
        (Antivirus(), []),  # there is none
    ],
)
def test_antivirus(said: Antivirus, kinds: list[str]) -> None:
    found = list(check(Reading(antivirus=said)))
    assert [finding.kind for finding in found] == kinds
    assert all(said.detail in finding.facts.values() for finding in found)
