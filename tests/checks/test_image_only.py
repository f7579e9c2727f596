"""Pictures and bare links."""

from collections.abc import Callable

import pytest

from gatepost.checks.image_only import BARE, check
from gatepost.findings import Reading

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Look", "Look", AWAY, [BARE.id]),
        ("", "Deal", AWAY, [BARE.id]),
        (
            (
                "Here are the minutes of the meeting on Tuesday. We agreed on the budget for the coming year and "
                "on the dates of the next three meetings, which are listed on the page below. Please write to me "
                "if anything is missing or wrong, so that it can be corrected before Friday."
            ),
            "Minutes",
            AWAY,
            [],
        ),
        ("See you on Friday.", "Dinner", "", []),
    ],
)
def test_image_only(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
