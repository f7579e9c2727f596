"""Refunds and fines that wait for a click."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.lures import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_REFUND_LURE

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "You are eligible for a tax refund. Claim your refund now, click here.",
            "Tax refund notification",
            AWAY,
            [TEXT_REFUND_LURE.id],
        ),
        (
            "Hiermit erhalten Sie Ihre Steuererstattung vom Finanzamt. Klicken Sie hier, dringend.",
            "Steuererstattung",
            AWAY,
            [TEXT_REFUND_LURE.id],
        ),
        ("The tax return is due in July; talk to your accountant.", "Taxes", AWAY, []),
        ("Your refund for order 4711 was sent to your card.", "Refund", HOME, []),
    ],
)
def test_refund_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
