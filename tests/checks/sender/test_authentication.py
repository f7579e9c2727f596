"""SPF and DKIM, where they said something bad."""

import pytest

from gatepost.auth.results import Authentication, Dkim, Spf
from gatepost.checks.sender.authentication import check
from gatepost.findings import Reading
from gatepost.kinds import AUTH_DKIM_FAIL, AUTH_PERMERROR, AUTH_SPF_FAIL, AUTH_SPF_SOFTFAIL, AUTH_TEMPERROR


@pytest.mark.parametrize(
    ("spf", "dkim", "kinds"),
    [
        (Spf("fail"), (), [AUTH_SPF_FAIL.id]),
        (Spf("softfail"), (), [AUTH_SPF_SOFTFAIL.id]),
        (Spf("temperror"), (), [AUTH_TEMPERROR.id]),
        (Spf("permerror"), (), [AUTH_PERMERROR.id]),
        (Spf("pass"), (Dkim("fail"),), [AUTH_DKIM_FAIL.id]),
        (Spf("pass"), (Dkim("fail"), Dkim("pass")), []),  # a list left the author's broken signature in place
        (Spf("neutral"), (), []),
        (Spf("none"), (Dkim("none"),), []),
        (Spf("pass"), (Dkim("pass"),), []),
    ],
)
def test_authentication(spf: Spf, dkim: tuple[Dkim, ...], kinds: list[str]) -> None:
    reading = Reading(authentication=Authentication(spf=spf, dkim=dkim))
    assert [finding.kind for finding in check(reading)] == kinds
