"""Lures for passwords: the account is in danger, so prove here that it is yours.

`Your mailbox has been limited. Verify your account within 24 hours: Sign in`. Three things come together: a request to
confirm an identity or a secret, a reason to be afraid or in haste, and a link that leads away from the sender. A real
password-reset mail has the first one only, and its link leads home; a bank that warns of such mail has no such link.
"""

from collections.abc import Iterator

from gatepost.checks.lure import way_out
from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

LURE = Kind("text:credential-lure", "The text asks to confirm an account or a secret, and links away from its sender")
KINDS = (LURE,)
THEMES = frozenset({"credential", "limitation"})

_LETTER = 3_000
_LONG = 6_000


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    asks, fears = said.said("credential"), said.said("limitation")
    alarm = len(fears) > 1 and said.size < _LETTER
    if not alarm and not (asks and (fears or said.count("urgency", "follow"))):
        return
    way = way_out(reading)
    if way is None:
        return
    degree = min(1.0, 0.2 * len(asks) + 0.3 * len(fears) + 0.15 * (said.count("urgency") > 0))
    # Who explains how such mail looks uses its words, too.
    if said.count("warning") > 1 or said.size > _LONG:
        degree *= 0.5
    strength = round(degree * way.distance, 2)
    if strength >= 0.1:
        yield LURE.at(way.link.where, strength=strength, about=way.link.url, words=shown((*asks, *fears)))
