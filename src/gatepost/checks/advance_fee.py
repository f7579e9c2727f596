"""Advance fee: a fortune waits, and only your help, your data and a small fee are missing.

The oldest letter of its kind has many plots (a widow, an heir, a general, a lottery) and one vocabulary. Any one of its
words is ordinary; half a dozen in a letter are not.
"""

from collections.abc import Iterator

from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

FORTUNE = Kind("text:advance-fee", "The text offers a fortune in return for help or data")
KINDS = (FORTUNE,)
THEMES = frozenset({"fortune"})

_ENOUGH = 4
_LONG = 6_000


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("fortune")
    if len(words) < _ENOUGH or reading.is_discussion:
        return
    degree = 0.14 * (len(words) - 2) * min(1.0, _LONG / max(said.size, 1)) - 0.1 * min(
        4, max(0, len(reading.sites) - 1)
    )
    if degree >= 0.25:
        yield FORTUNE.at("text", strength=round(min(1.0, degree), 2), words=shown(words))
