"""Signatures that prove little."""

import pytest

from gatepost.auth.results import Authentication, Dkim
from gatepost.checks.dkim_weakness import PARTIAL, TESTING, WEAK, check
from gatepost.findings import Reading

GOOD = Dkim("pass", "corp.example", "s")


@pytest.mark.parametrize(
    ("signatures", "kinds"),
    [
        ((Dkim("pass", "corp.example", "s", unsigned_bytes=900),), [PARTIAL.id]),
        ((Dkim("pass", "corp.example", "s", testing=True),), [TESTING.id]),
        ((Dkim("policy", "corp.example", "s", weak=True),), [WEAK.id]),
        ((GOOD,), []),
        ((GOOD, Dkim("pass", "list.example", "s", unsigned_bytes=900)), []),
        ((GOOD, Dkim("pass", "list.example", "s", testing=True)), []),
        ((Dkim("fail", "corp.example", "s", unsigned_bytes=900),), []),
        ((), []),
    ],
)
def test_dkim_weakness(signatures: tuple[Dkim, ...], kinds: list[str]) -> None:
    assert [finding.kind for finding in check(Reading(authentication=Authentication(dkim=signatures)))] == kinds
