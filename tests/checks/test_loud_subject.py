"""Subjects that shout."""

from collections.abc import Callable

import pytest

from gatepost.checks.loud_subject import CAPITALS, INVISIBLE, MONEY, STYLED, check
from gatepost.findings import Reading

Letter = Callable[..., Reading]


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("x", "YOU HAVE BEEN CHOSEN TODAY", "", [CAPITALS.id]),
        ("x", "Free!!! Now!!!", "", [CAPITALS.id]),
        ("x", "Claim your $1,000,000", "", [MONEY.id]),
        ("x", "𝗗𝗼𝗻'𝘁 𝗺𝗶𝘀𝘀", "", [STYLED.id]),
        ("x", "Pay\u200bPal no\u200btice", "", [INVISIBLE.id]),
        ("x", "Minutes of the NATO seminar", "", []),
        ("x", "Great news!", "", []),
        ("x", "RFC 5322", "", []),
        ("x", "Budget 2026", "", []),
        ("x", "Grüße aus Köln", "", []),
    ],
)
def test_loud_subject(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
