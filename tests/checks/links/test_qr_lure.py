"""Codes to scan."""

from collections.abc import Callable

import pytest

from gatepost.checks.links.qr_codes import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_QR_LURE

Letter = Callable[..., Reading]

HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Your password will expire. Scan the QR code with your phone to verify your account.",
            "Two-factor update",
            "",
            [TEXT_QR_LURE.id],
        ),
        (
            (
                "Scannen Sie den QR-Code mit dem Handy: Dokument anzeigen. Ihr Konto wurde gesperrt. Bestätigen "
                "Sie Ihre Daten."
            ),
            "Wichtig",
            "",
            [TEXT_QR_LURE.id],
        ),
        ("Your ticket: scan the code at the entrance.", "Your ticket", HOME, []),
        ("The scanner in room 3 is broken.", "Scanner", "", []),
    ],
)
def test_qr_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
