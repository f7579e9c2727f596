"""Haste, and letters that only mention it."""

from collections.abc import Callable

import pytest

from gatepost.checks.urgency import URGENCY, check
from gatepost.findings import Reading

Letter = Callable[..., Reading]


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Act now! This offer expires today. Don't delay.", "Final notice", "", [URGENCY.id]),
        ("Handeln Sie jetzt, nur noch heute, sonst läuft es heute ab. Dringend!", "Letzte Mahnung", "", [URGENCY.id]),
        ("Please send me the minutes as soon as possible.", "Minutes", "", []),
        ("We will answer within 24 hours.", "Your ticket", "", []),
    ],
)
def test_urgency(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
