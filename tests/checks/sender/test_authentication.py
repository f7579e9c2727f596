"""The checks of `sender/authentication`: the tricks, and what looks like them."""

import pytest

from gatepost.auth.results import Arc, Authentication, Dkim, Dmarc, Spf
from gatepost.checks.sender.authentication import authentication
from gatepost.findings import Reading
from gatepost.kinds import (
    AUTH_DKIM_FAIL,
    AUTH_DKIM_PARTIAL,
    AUTH_DKIM_TESTING,
    AUTH_DKIM_WEAK_KEY,
    AUTH_DMARC_FAIL,
    AUTH_DMARC_PASS,
    AUTH_DMARC_REJECT,
    AUTH_PERMERROR,
    AUTH_SPF_FAIL,
    AUTH_SPF_SOFTFAIL,
    AUTH_TEMPERROR,
)


# SPF and DKIM, where they said something bad.
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
    assert [finding.kind for finding in authentication(reading)] == kinds


# Signatures that prove little.
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
    assert [
        finding.kind for finding in authentication(Reading(authentication=Authentication(dkim=signatures)))
    ] == kinds


# What the owner of the From domain says.
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
    assert [finding.kind for finding in authentication(Reading(authentication=seen))] == kinds
