"""Gift cards as money: buy some, scratch them, send me the codes.

Codes are cash that cannot be called back. Shops advertise gift cards all day; nobody but a thief wants pictures of
scratched ones.
"""

from collections.abc import Iterator

from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

CARDS = Kind("text:gift-cards", "The text asks to buy gift cards and to send their codes")
KINDS = (CARDS,)
THEMES = frozenset({"gift"})


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("gift")
    letter = said.size < 2_500 and len(reading.sites) <= 2
    if words and letter and (len(words) >= 2 or said.count("errand")):
        yield CARDS.at("text", strength=min(1.0, 0.4 * len(words) + 0.2 * said.count("errand")), words=shown(words))
