"""Faxes, voice messages and documents that somebody shared.

`You have received a secure document. View document`. The page behind it asks for the password of the mailbox.
Services that do share documents link to themselves, and name who shared what.
"""

from collections.abc import Iterator

from gatepost.checks.lure import way_out
from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

LURE = Kind("text:document-lure", "The text announces a document or message, and links away from its sender")
KINDS = (LURE,)
THEMES = frozenset({"document"})

_LONG = 2_000


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("document")
    way = way_out(reading) if len(words) > 1 or (words and said.size < 600 and said.count("follow")) else None
    if way is None:
        return
    degree = 0.2 * len(words) + 0.15 * (said.count("follow") > 0) + 0.1 * ("document" in said.in_subject)
    strength = round(min(1.0, degree) * way.distance * min(1.0, _LONG / max(said.size, 1)), 2)
    if strength >= 0.1:
        yield LURE.at(way.link.where, strength=strength, about=way.link.url, words=shown(words))
