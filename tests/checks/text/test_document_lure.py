"""Documents that somebody shared."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.lures import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_DOCUMENT_LURE

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            (
                "You have received a secure document. A new document has been shared with you. View document "
                "below: click the button."
            ),
            "Secure document",
            AWAY,
            [TEXT_DOCUMENT_LURE.id],
        ),
        (
            "You have a new voicemail. Caller ID: unknown. Call duration 00:32. Play voicemail here.",
            "New voice message",
            AWAY,
            [TEXT_DOCUMENT_LURE.id],
        ),
        ("I put the minutes on the share, have a look.", "Minutes", AWAY, []),
        ("Ann shared the file with you.", "Ann shared budget.xlsx", HOME, []),
    ],
)
def test_document_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
