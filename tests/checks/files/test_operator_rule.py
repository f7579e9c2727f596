"""Files that a YARA rule of the operator matches."""

import pytest

from gatepost.checks.files.scanners import check
from gatepost.files.values import File, Trait
from gatepost.findings import Reading
from gatepost.kinds import FILE_YARA


def reading(*traits: Trait) -> Reading:
    return Reading(files=(File("1/a.exe", b"x", "exe", "0" * 64, traits=traits),))


@pytest.mark.parametrize(
    ("given", "rules"),
    [
        (reading(Trait("yara", "a.yar: Evil")), ["Evil"]),
        (reading(Trait("yara", "a.yar: Evil"), Trait("yara", "b: c.yar: More")), ["Evil", "More"]),
        (reading(Trait("macro", "a.yar: Evil")), []),
        (reading(), []),
        (Reading(), []),
    ],
)
def test_operator_rule(given: Reading, rules: list[str]) -> None:
    found = list(check(given))
    assert [finding.facts["rule"] for finding in found] == rules
    assert all((finding.kind, finding.where, finding.about) == (FILE_YARA.id, "1/a.exe", "0" * 64) for finding in found)
