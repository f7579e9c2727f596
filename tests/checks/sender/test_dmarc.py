"""What the owner of the From domain says."""

import pytest

from gatepost.auth.results import Arc, Authentication, Dmarc
from gatepost.checks.sender.authentication import check
from gatepost.findings import Reading
from gatepost.kinds import AUTH_DMARC_FAIL, AUTH_DMARC_PASS, AUTH_DMARC_REJECT


@pytest.mark.parametrize(
    ("dmarc", "arc", "kinds"),
    [
        (Dmarc("fail", "a.example", "a.example", "reject"), "none", [AUTH_DMARC_FAIL.id, AUTH_DMARC_REJECT.id]),
        (
            Dmarc("fail", "a.example", "a.example", "reject"),
            "pass",
            [AUTH_DMARC_FAIL.id],
        ),  # a list that sealed what it broke
        (Dmarc("fail", "a.example", "a.example", "quarantine"), "none", [AUTH_DMARC_FAIL.id]),
        (Dmarc("fail", "a.example", "a.example", "none"), "none", [AUTH_DMARC_FAIL.id]),
        (Dmarc("pass", "a.example", "a.example", "reject"), "none", [AUTH_DMARC_PASS.id]),
        (Dmarc("temperror", "a.example", "", ""), "none", []),  # an outage of DNS proves nothing
        (Dmarc("none"), "none", []),
    ],
)
def test_dmarc(dmarc: Dmarc, arc: str, kinds: list[str]) -> None:
    seen = Authentication(dmarc=dmarc, arc=Arc("pass" if arc == "pass" else "none"))
    assert [finding.kind for finding in check(Reading(authentication=seen))] == kinds
