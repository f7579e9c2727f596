"""Tax offices, fines and refunds that wait for a click.

`You are eligible for a tax refund of 438.90`. Money from the state, or owed to it, is what nobody ignores. Tax
offices write from their own domains and link there.
"""

from collections.abc import Iterator

from gatepost.checks.lure import way_out
from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

LURE = Kind("text:refund-lure", "The text promises a refund or threatens with a fine, and links away from its sender")
KINDS = (LURE,)
THEMES = frozenset({"refund"})

_LONG = 3_000


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("refund")
    way = way_out(reading) if words and said.count("follow", "urgency", "credential", "limitation") else None
    if way is None:
        return
    degree = 0.3 * len(words) + 0.15 * (said.count("urgency") > 0)
    strength = round(min(1.0, degree) * way.distance * min(1.0, _LONG / max(said.size, 1)), 2)
    if strength >= 0.1:
        yield LURE.at(way.link.where, strength=strength, about=way.link.url, words=shown(words))
