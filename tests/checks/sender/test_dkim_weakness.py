"""Signatures that prove little."""

import pytest

from gatepost.auth.results import Authentication, Dkim
from gatepost.checks.sender.authentication import check
from gatepost.findings import Reading
from gatepost.kinds import AUTH_DKIM_FAIL, AUTH_DKIM_PARTIAL, AUTH_DKIM_TESTING, AUTH_DKIM_WEAK_KEY

GOOD = Dkim("pass", "corp.example", "s")


@pytest.mark.parametrize(
    ("signatures", "kinds"),
    [
        ((Dkim("pass", "corp.example", "s", unsigned_bytes=900),), [AUTH_DKIM_PARTIAL.id]),
        ((Dkim("pass", "corp.example", "s", testing=True),), [AUTH_DKIM_TESTING.id]),
        ((Dkim("policy", "corp.example", "s", weak=True),), [AUTH_DKIM_WEAK_KEY.id]),
        ((GOOD,), []),
        ((GOOD, Dkim("pass", "list.example", "s", unsigned_bytes=900)), []),
        ((GOOD, Dkim("pass", "list.example", "s", testing=True)), []),
        ((Dkim("fail", "corp.example", "s", unsigned_bytes=900),), [AUTH_DKIM_FAIL.id]),
        ((), []),
    ],
)
def test_dkim_weakness(signatures: tuple[Dkim, ...], kinds: list[str]) -> None:
    assert [finding.kind for finding in check(Reading(authentication=Authentication(dkim=signatures)))] == kinds
