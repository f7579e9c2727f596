"""Pay and benefits, as the staff office would write of them.

`Your revised salary structure is attached, sign in to view`. It poses as somebody inside the house, whose pages are
on the house's own domain or a service that everybody there knows.
"""

from collections.abc import Iterator

from gatepost.checks.lure import way_out
from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

LURE = Kind("text:salary-lure", "The text poses as news about pay or benefits, and links away from its sender")
KINDS = (LURE,)
THEMES = frozenset({"salary"})

_LONG = 3_000


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("salary")
    way = way_out(reading) if words and said.count("follow", "document", "urgency", "credential", "scan") else None
    if way is None:
        return
    degree = 0.35 * len(words) + 0.15 * (said.count("document", "scan") > 0)
    strength = round(min(1.0, degree) * way.distance * min(1.0, _LONG / max(said.size, 1)), 2)
    if strength >= 0.1:
        yield LURE.at(way.link.where, strength=strength, about=way.link.url, words=shown(words))
