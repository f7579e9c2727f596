"""Parcels that wait for a fee, an address or a click.

`Your package is held at customs: pay the fee of 1.99 here`. Everybody waits for some parcel. A carrier's own notice
links to the carrier; the lure links to wherever the form for the card number is.
"""

from collections.abc import Iterator

from gatepost.checks.lure import way_out
from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

LURE = Kind("text:parcel-lure", "The text says that a parcel waits, and links away from its sender")
KINDS = (LURE,)
THEMES = frozenset({"parcel"})

_LONG = 3_000


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("parcel")
    way = way_out(reading) if words and (len(words) > 1 or said.count("follow", "urgency")) else None
    if way is None:
        return
    degree = 0.3 * len(words) + 0.15 * (said.count("urgency") > 0)
    strength = round(min(1.0, degree) * way.distance * min(1.0, _LONG / max(said.size, 1)), 2)
    if strength >= 0.1:
        yield LURE.at(way.link.where, strength=strength, about=way.link.url, words=shown(words))
