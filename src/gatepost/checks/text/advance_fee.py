"""Advance fee: a fortune waits, and only your help, your data and a small fee are missing.

The oldest letter of its kind has many plots (a widow, an heir, a general, a lottery) and one vocabulary. Any one of its
words is ordinary; half a dozen in a letter are not.
"""

from collections.abc import Iterator

from gatepost.checks.phrases import find_phrases, quote
from gatepost.findings import Reading
from gatepost.kinds import TEXT_ADVANCE_FEE, Finding
from gatepost.strengths import coefficients

KINDS = (TEXT_ADVANCE_FEE,)
THEMES = frozenset({"fortune"})

_ENOUGH = 4
_MOST_SITES = 4
_PER_PHRASE, _FULL_LENGTH, _PER_SITE, _LEAST = coefficients(
    TEXT_ADVANCE_FEE, "per_phrase", "full_length", "per_site", "least"
)


def check(reading: Reading) -> Iterator[Finding]:
    phrases = find_phrases(reading)
    words = phrases.of("fortune")
    if len(words) < _ENOUGH or reading.is_discussion:
        return
    brevity = min(1.0, _FULL_LENGTH / max(phrases.length, 1))
    further_sites = min(_MOST_SITES, max(0, len(reading.sites) - 1))
    degree = _PER_PHRASE * (len(words) - 2) * brevity - _PER_SITE * further_sites
    if degree >= _LEAST:
        yield TEXT_ADVANCE_FEE.at("text", strength=round(min(1.0, degree), 2), words=quote(words))
