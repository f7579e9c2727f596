"""SPF and DKIM, where they said something bad."""

import pytest

from gatepost.auth.results import Authentication, Dkim, Spf
from gatepost.checks.authentication import DKIM_FAIL, PERMERROR, SPF_FAIL, SPF_SOFTFAIL, TEMPERROR, check
from gatepost.findings import Reading


@pytest.mark.parametrize(
    ("spf", "dkim", "kinds"),
    [
        (Spf("fail"), (), [SPF_FAIL.id]),
        (Spf("softfail"), (), [SPF_SOFTFAIL.id]),
        (Spf("temperror"), (), [TEMPERROR.id]),
        (Spf("permerror"), (), [PERMERROR.id]),
        (Spf("pass"), (Dkim("fail"),), [DKIM_FAIL.id]),
        (Spf("pass"), (Dkim("fail"), Dkim("pass")), []),  # a list left the author's broken signature in place
        (Spf("neutral"), (), []),
        (Spf("none"), (Dkim("none"),), []),
        (Spf("pass"), (Dkim("pass"),), []),
    ],
)
def test_authentication(spf: Spf, dkim: tuple[Dkim, ...], kinds: list[str]) -> None:
    reading = Reading(authentication=Authentication(spf=spf, dkim=dkim))
    assert [finding.kind for finding in check(reading)] == kinds
