"""Mailboxes that are full, out of date, or hold mail back.

`Your mailbox quota is exceeded: upgrade here to release 7 pending messages`. Only the reader's own provider could
know, and its pages are on its own domain, from which it writes.
"""

from collections.abc import Iterator

from gatepost.checks.lure import way_out
from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

LURE = Kind("text:mailbox-lure", "The text says that the mailbox is in trouble, and links away from its sender")
KINDS = (LURE,)
THEMES = frozenset({"mailbox"})

_LONG = 3_000


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("mailbox")
    way = way_out(reading) if len(words) > 1 or (words and said.count("credential", "limitation", "urgency")) else None
    if way is None:
        return
    degree = 0.25 * len(words) + 0.2 * (said.count("credential") > 0) + 0.15 * (said.count("urgency") > 0)
    strength = round(min(1.0, degree) * way.distance * min(1.0, _LONG / max(said.size, 1)), 2)
    if strength >= 0.1:
        yield LURE.at(way.link.where, strength=strength, about=way.link.url, words=shown(words))
