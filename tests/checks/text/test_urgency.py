"""Haste, and letters that only mention it."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.urgency import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_URGENCY

Letter = Callable[..., Reading]


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Act now! This offer expires today. Don't delay.", "Final notice", "", [TEXT_URGENCY.id]),
        (
            "Handeln Sie jetzt, nur noch heute, sonst läuft es heute ab. Dringend!",
            "Letzte Mahnung",
            "",
            [TEXT_URGENCY.id],
        ),
        ("Please send me the minutes as soon as possible.", "Minutes", "", []),
        ("We will answer within 24 hours.", "Your ticket", "", []),
    ],
)
def test_urgency(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
