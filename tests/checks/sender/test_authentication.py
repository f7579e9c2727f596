"""The checks of `sender/authentication`: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds
from tests.known_senders import NEVER, OFTEN, know_list

from gatepost.auth.results import Arc, Authentication, Dkim, Dmarc, Spf
from gatepost.checks.reading import Reading
from gatepost.checks.sender.authentication import authentication
from gatepost.mail.reader import read


# SPF and DKIM, where they said something bad.
@pytest.mark.parametrize(
    ("spf", "dkim", "kinds"),
    [
        (Spf("fail"), (), ["auth:spf-fail"]),
        (Spf("softfail"), (), ["auth:spf-softfail"]),
        (Spf("temperror"), (), ["auth:temperror"]),
        (Spf("permerror"), (), ["auth:permerror"]),
        (Spf("pass"), (Dkim("fail"),), ["auth:dkim-fail"]),
        (Spf("pass"), (Dkim("fail"), Dkim("pass")), []),  # a list left the author's broken signature in place
        (Spf("neutral"), (), []),
        (Spf("none"), (Dkim("none"),), []),
        (Spf("pass"), (Dkim("pass"),), []),
    ],
)
def test_authentication(spf: Spf, dkim: tuple[Dkim, ...], kinds: list[str]) -> None:
    reading = Reading(authentication=Authentication(spf=spf, dkim=dkim))
    assert find_kinds(authentication, reading) == kinds


# Signatures that prove little.
GOOD = Dkim("pass", "corp.example", "s")


@pytest.mark.parametrize(
    ("signatures", "kinds"),
    [
        ((Dkim("pass", "corp.example", "s", unsigned_bytes=900),), ["auth:dkim-partial"]),
        ((Dkim("pass", "corp.example", "s", testing=True),), ["auth:dkim-testing"]),
        ((Dkim("policy", "corp.example", "s", weak=True),), ["auth:dkim-weak-key"]),
        ((GOOD,), []),
        ((GOOD, Dkim("pass", "list.example", "s", unsigned_bytes=900)), []),
        ((GOOD, Dkim("pass", "list.example", "s", testing=True)), []),
        ((Dkim("fail", "corp.example", "s", unsigned_bytes=900),), ["auth:dkim-fail"]),
        ((), []),
    ],
)
def test_dkim_weakness(signatures: tuple[Dkim, ...], kinds: list[str]) -> None:
    assert find_kinds(authentication, Reading(authentication=Authentication(dkim=signatures))) == kinds


# What the owner of the From domain says.
@pytest.mark.parametrize(
    ("dmarc", "kinds"),
    [
        (Dmarc("fail", "a.example", "a.example", "reject"), ["auth:dmarc-fail", "auth:dmarc-reject"]),
        (Dmarc("fail", "a.example", "a.example", "quarantine"), ["auth:dmarc-fail"]),
        (Dmarc("fail", "a.example", "a.example", "none"), ["auth:dmarc-fail"]),
        (Dmarc("pass", "a.example", "a.example", "reject"), ["auth:dmarc-pass"]),
        (Dmarc("temperror", "a.example", "", ""), []),  # an outage of DNS proves nothing
        (Dmarc("none"), []),
    ],
)
def test_dmarc(dmarc: Dmarc, kinds: list[str]) -> None:
    seen = Authentication(dmarc=dmarc)
    assert find_kinds(authentication, Reading(authentication=seen)) == kinds


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
    kinds = find_kinds(authentication, reading)
    assert ("auth:dmarc-reject" not in kinds) == is_excused
