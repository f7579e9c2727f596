"""Gift cards as money, and as gifts."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.payment_requests import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_GIFT_CARDS

Letter = Callable[..., Reading]

HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "I need you to get me some gift cards from the nearest store. Scratch the back and send me the pictures.",
            "Favor",
            "",
            [TEXT_GIFT_CARDS.id],
        ),
        (
            (
                "Bitte besorgen Sie Gutscheinkarten. Kaufen Sie Geschenkkarten und senden: Codes senden Sie mir. "
                "Rubbeln Sie die Karten."
            ),
            "Bitte",
            "",
            [TEXT_GIFT_CARDS.id],
        ),
        ("Gift cards make a great present. Order now at our shop.", "Gift cards", HOME, []),
        ("Thank you for your gift card order. The codes are in your account.", "Order 12", HOME, []),
    ],
)
def test_gift_cards(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
