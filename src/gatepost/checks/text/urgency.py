"""Haste: within 24 hours, final notice, or else.

Every lure needs it, so that its reader does not stop to think. Reminders and sales need it as well: alone it weighs
next to nothing, and beside other signs it says that the reader is being pressed.
"""

from collections.abc import Iterator

from gatepost.checks.phrases import find_phrases, quote
from gatepost.findings import Reading
from gatepost.kinds import TEXT_URGENCY, Finding
from gatepost.strengths import coefficients

KINDS = (TEXT_URGENCY,)
THEMES = frozenset({"urgency"})

_LETTER = 4_000
_PER_PHRASE, _LONG = coefficients(TEXT_URGENCY, "per_phrase", "long")


def check(reading: Reading) -> Iterator[Finding]:
    phrases = find_phrases(reading)
    words = phrases.of("urgency")
    if len(words) >= 2 or (words and "urgency" in phrases.in_subject):
        strength = min(1.0, _PER_PHRASE * len(words)) * (_LONG if phrases.length > _LETTER else 1.0)
        yield TEXT_URGENCY.at("text", strength=round(strength, 2), words=quote(words))
