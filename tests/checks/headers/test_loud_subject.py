"""Subjects that shout."""

from collections.abc import Callable

import pytest

from gatepost.checks.headers.subject import check
from gatepost.findings import Reading
from gatepost.kinds import (
    HEADER_INVISIBLE_SUBJECT,
    HEADER_MONEY_SUBJECT,
    HEADER_SHOUTING_SUBJECT,
    HEADER_STYLED_SUBJECT,
)

Letter = Callable[..., Reading]


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("x", "YOU HAVE BEEN CHOSEN TODAY", "", [HEADER_SHOUTING_SUBJECT.id]),
        ("x", "Free!!! Now!!!", "", [HEADER_SHOUTING_SUBJECT.id]),
        ("x", "Claim your $1,000,000", "", [HEADER_MONEY_SUBJECT.id]),
        ("x", "𝗗𝗼𝗻'𝘁 𝗺𝗶𝘀𝘀", "", [HEADER_STYLED_SUBJECT.id]),
        ("x", "Pay\u200bPal no\u200btice", "", [HEADER_INVISIBLE_SUBJECT.id]),
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
