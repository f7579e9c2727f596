"""Mailboxes in trouble."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.lures import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_MAILBOX_LURE

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            (
                "Your mailbox quota has been exceeded. 7 pending messages are held. Upgrade your mailbox to "
                "release messages."
            ),
            "Mailbox full",
            AWAY,
            [TEXT_MAILBOX_LURE.id],
        ),
        (
            "Ihr Postfach ist voll. Zurückgehaltene Nachrichten warten. Ihr Passwort läuft heute ab, umgehend handeln.",
            "Postfach",
            AWAY,
            [TEXT_MAILBOX_LURE.id],
        ),
        (
            "Su buzón está lleno. Mensajes pendientes retenidos. Verifique su cuenta urgente.",
            "Buzón",
            AWAY,
            [TEXT_MAILBOX_LURE.id],
        ),
        ("Your mailbox is at 80 percent; see the settings.", "Storage", HOME, []),
        ("My inbox is full, I will answer next week.", "Re: plans", "", []),
        ("The mailbox at the corner was painted red.", "Walk", AWAY, []),
    ],
)
def test_mailbox_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
