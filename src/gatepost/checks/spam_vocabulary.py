"""The vocabulary of unsolicited advertising: pills, casinos, loans, fake watches, penny stocks, quick money.

One word proves nothing: people write about medicine and mortgages. What counts is how many different phrases of one
ware stand in how short a text. A pharmacy's own newsletter or a list that talks about spam has some of them in a long
text; an advertisement has nothing else. Talk on discussion lists counts less.
"""

from collections.abc import Iterator

from gatepost.checks.wording import WARES, Wording, shown, wording
from gatepost.findings import Finding, Kind, Reading

VOCABULARY = Kind("text:spam-vocabulary", "The text is made of the phrases of unsolicited advertising")
EXCUSE = Kind("text:spam-excuse", "The text explains why it is no spam, or how to be taken off its list")
KINDS = (VOCABULARY, EXCUSE)

_NO_WARE = frozenset({"excuse", "pitch"})
_WARES = tuple(theme for theme in WARES if theme not in _NO_WARE)
THEMES = frozenset({*_WARES, "excuse"})
_ROOM = 1_500
_NOTE = 500


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    ware = max(_WARES, key=said.count)
    degree = _degree(said, ware) * (0.3 if reading.is_discussion else 1.0)
    if degree >= 0.15:
        yield VOCABULARY.at(
            "text", strength=round(min(1.0, degree), 2), ware=ware, words=shown(said.said(ware, "pitch"))
        )
    excuses = said.said("excuse")
    if len(excuses) >= 2 and not reading.is_discussion:
        yield EXCUSE.at("text", strength=min(1.0, 0.25 * len(excuses)), words=shown(excuses))


def _degree(said: Wording, ware: str) -> float:
    """How much of the text is advertising for a ware: its phrases, less those that a text of this length may have."""
    count = said.count(ware) + 1.0 * (ware in said.in_subject)
    # One phrase in a letter is a mention.
    if not said.count(ware) or (count == 1 and said.size > _NOTE):
        return 0.0
    count += 0.4 * (said.count(*_WARES) - said.count(ware))
    helped = min(2.0, 0.5 * said.count("pitch", "excuse") + 0.3 * said.count("urgency"))
    expected = 1.0 + said.size / _ROOM
    return 0.25 * (count + helped - expected)
