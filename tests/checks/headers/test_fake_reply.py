"""Answers to nothing."""

from collections.abc import Callable

import pytest

from gatepost.checks.headers.fake_reply import check
from gatepost.findings import Reading
from gatepost.kinds import HEADER_FAKE_REPLY

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Please see the offer.", "Re: your order", AWAY, [HEADER_FAKE_REPLY.id]),
        ("Bitte ansehen.", "AW: Ihre Bestellung", AWAY, [HEADER_FAKE_REPLY.id]),
        ("Fine with me.\n\n> Shall we meet?", "Re: meeting", "", []),  # quotes what it answers
        ("Ann wrote:\nShall we meet?\n\nYes.", "RE: meeting", "", []),
        ("Regarding the offer", "Regarding the offer", "", []),
        ("Hello", "Reorganisation: next steps", "", []),
    ],
)
def test_fake_reply(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
