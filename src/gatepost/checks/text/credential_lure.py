"""Lures for passwords: the account is in danger, so prove here that it is yours.

`Your mailbox has been limited. Verify your account within 24 hours: Sign in`. Three things come together: a request to
confirm an identity or a secret, a reason to be afraid or in haste, and a link that leads away from the sender. A real
password-reset mail has the first one only, and its link leads home; a bank that warns of such mail has no such link.
"""

from collections.abc import Iterator

from gatepost.checks.link_away import find_link_away
from gatepost.checks.phrases import find_phrases, quote
from gatepost.findings import Reading
from gatepost.kinds import TEXT_CREDENTIAL_LURE, Finding
from gatepost.strengths import coefficients

KINDS = (TEXT_CREDENTIAL_LURE,)
THEMES = frozenset({"credential", "limitation"})

_LETTER = 3_000
_LONG = 6_000
_PER_REQUEST, _PER_THREAT, _URGENCY, _EXPLAINED, _LEAST = coefficients(
    TEXT_CREDENTIAL_LURE, "per_request", "per_threat", "urgency", "explained", "least"
)


def check(reading: Reading) -> Iterator[Finding]:
    phrases = find_phrases(reading)
    asks, fears = phrases.of("credential"), phrases.of("limitation")
    alarm = len(fears) > 1 and phrases.length < _LETTER
    if not alarm and not (asks and (fears or phrases.count_of("urgency", "follow"))):
        return
    away = find_link_away(reading)
    if away is None:
        return
    degree = min(1.0, _PER_REQUEST * len(asks) + _PER_THREAT * len(fears) + _URGENCY * ("urgency" in phrases.themes))
    # Warnings that explain how such mail looks use its words, too.
    if phrases.count_of("warning") > 1 or phrases.length > _LONG:
        degree *= _EXPLAINED
    strength = round(degree * away.distance, 2)
    if strength >= _LEAST:
        yield TEXT_CREDENTIAL_LURE.at(
            away.link.where, strength=strength, about=away.link.url, words=quote((*asks, *fears))
        )
