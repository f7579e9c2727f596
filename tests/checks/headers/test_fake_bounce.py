"""Bounces, and mail that only looks like one."""

from collections.abc import Callable

import pytest

from gatepost.checks.headers.fake_bounce import check
from gatepost.findings import Reading
from gatepost.kinds import HEADER_FAKE_BOUNCE

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Six messages could not reach you. Release them here.",
            "Mail delivery failed: returning message to sender",
            AWAY,
            [HEADER_FAKE_BOUNCE.id],
        ),
        ("Ihre Nachricht wartet. Hier ansehen.", "Unzustellbar: wichtige Nachricht", AWAY, [HEADER_FAKE_BOUNCE.id]),
        (
            "The following address failed: 550 5.1.1 user unknown",
            "Undelivered Mail Returned to Sender",
            AWAY,
            [],
        ),  # the server speaks
        (
            "Is the mail server broken?",
            "Re: Undelivered Mail Returned to Sender",
            AWAY,
            [],
        ),  # people who talk about one
        ("Your parcel was delivered.", "Delivered", AWAY, []),
    ],
)
def test_fake_bounce(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
