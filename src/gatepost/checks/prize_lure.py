"""Prizes and rewards for nothing or a short survey.

`Congratulations! Answer a few questions and claim your reward`. The prize costs a card number for its postage. Shops
do give vouchers to their customers, and link to themselves.
"""

from collections.abc import Iterator

from gatepost.checks.lure import way_out
from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

LURE = Kind("text:prize-lure", "The text promises a prize or reward, and links away from its sender")
KINDS = (LURE,)
THEMES = frozenset({"prize"})

_LONG = 2_500


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("prize")
    way = way_out(reading) if len(words) > 1 or "prize" in said.in_subject else None
    if way is None:
        return
    degree = 0.22 * len(words) + 0.15 * ("prize" in said.in_subject) + 0.1 * (said.count("urgency") > 0)
    strength = round(min(1.0, degree) * way.distance * min(1.0, _LONG / max(said.size, 1)), 2)
    if strength >= 0.1:
        yield LURE.at(way.link.where, strength=strength, about=way.link.url, words=shown(words))
