"""The checks of `sender/authentication`: the tricks, and what looks like them."""

import pytest
from tests.known_senders import NEVER, OFTEN, know_list

from gatepost.auth.results import Arc, Authentication, Dkim, Dmarc, Spf
from gatepost.checks.reading import Reading
from gatepost.checks.sender.authentication import authentication
from gatepost.findings.kinds import (
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
from gatepost.mail.reader import read


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
    ("dmarc", "kinds"),
    [
        (Dmarc("fail", "a.example", "a.example", "reject"), [AUTH_DMARC_FAIL.id, AUTH_DMARC_REJECT.id]),
        (Dmarc("fail", "a.example", "a.example", "quarantine"), [AUTH_DMARC_FAIL.id]),
        (Dmarc("fail", "a.example", "a.example", "none"), [AUTH_DMARC_FAIL.id]),
        (Dmarc("pass", "a.example", "a.example", "reject"), [AUTH_DMARC_PASS.id]),
        (Dmarc("temperror", "a.example", "", ""), []),  # an outage of DNS proves nothing
        (Dmarc("none"), []),
    ],
)
def test_dmarc(dmarc: Dmarc, kinds: list[str]) -> None:
    seen = Authentication(dmarc=dmarc)
    assert [finding.kind for finding in authentication(Reading(authentication=seen))] == kinds


# A seal proves who sealed. What the first of a chain states excuses a forgery where all of them are believed.
@pytest.mark.parametrize(
    ("arc", "is_known", "is_excused"),
    [
        (Arc("pass", 1, ("google.com",), origin="pass"), False, True),
        (Arc("pass", 1, ("anybody.example",), origin="pass"), False, False),
        (Arc("pass", 2, ("anybody.example", "google.com"), origin="pass"), False, False),
        (Arc("pass", 1, ("google.com",), origin="fail"), False, False),
        (Arc("pass", 1, ("google.com",)), False, False),
        (Arc("fail", 1, ("google.com",), origin="pass"), False, False),
        (Arc("pass", 2, ("google.com", "lists.club.example"), origin="pass"), True, True),
        (Arc("pass", 2, ("google.com", "lists.club.example"), origin="pass"), False, False),
        (Arc("pass", 2, ("anybody.example", "lists.club.example"), origin="pass"), True, False),
    ],
)
def test_seals_of_anybody_excuse_nothing(arc: Arc, is_known: bool, is_excused: bool) -> None:
    seen = Authentication(dmarc=Dmarc("fail", "a.example", "a.example", "reject"), arc=arc)
    message = read(b"From: ann@a.example\r\nList-Post: <mailto:talk@lists.club.example>\r\n\r\nHello\r\n")
    reading = know_list(Reading(message=message, authentication=seen), OFTEN if is_known else NEVER)
    kinds = [finding.kind for finding in authentication(reading)]
    assert (AUTH_DMARC_REJECT.id not in kinds) == is_excused
