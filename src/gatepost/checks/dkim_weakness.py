"""Signatures that prove less than they seem (RFC 6376 sections 3.5, 3.6.1 and 8.2).

`l=` signs only the first bytes of the body, and anybody may add the rest; a key in test mode asks to be ignored; a
short key can be computed. What counts is whether another signature does better.
"""

from collections.abc import Iterator

from gatepost.auth.results import Dkim
from gatepost.findings import Finding, Kind, Reading

PARTIAL = Kind("auth:dkim-partial", "The signature leaves a part of the body unsigned")
TESTING = Kind("auth:dkim-testing", "The only valid signature is by a key in test mode")
WEAK = Kind("auth:dkim-weak-key", "The signature is by a key that is too short")
KINDS = (PARTIAL, TESTING, WEAK)
NEEDS = frozenset({"signature"})


def check(reading: Reading) -> Iterator[Finding]:
    signatures = reading.authentication.dkim
    if not signatures:
        return
    passed = [each for each in signatures if each.result == "pass"]
    if passed and all(each.unsigned_bytes > 0 for each in passed):
        # A list's footer is what l= was made for; it is short.
        yield PARTIAL.at(_where(passed[0]), unsigned_bytes=passed[0].unsigned_bytes)
    if passed and all(each.testing for each in passed):
        yield TESTING.at(_where(passed[0]))
    for each in signatures:
        if each.weak:
            yield WEAK.at(_where(each), result=each.result)
            return


def _where(signature: Dkim) -> str:
    return f"DKIM {signature.selector}._domainkey.{signature.domain}"
