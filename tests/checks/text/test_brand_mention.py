"""Companies that are spoken for, and companies that are spoken of."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.brand_mention import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_BRAND_WITHOUT_LINK

Letter = Callable[..., Reading]
AWAY = "https://elsewhere.example/x"
LIMITED = "Your account has been limited. Please verify your account."


@pytest.mark.parametrize(
    ("subject", "text", "link", "sender", "kinds"),
    [
        ("Your Netflix account", LIMITED, AWAY, "x@sender.example", [TEXT_BRAND_WITHOUT_LINK.id]),
        (
            "PayPal: Konto gesperrt",
            "Bestätigen Sie Ihre Daten.",
            AWAY,
            "x@sender.example",
            [TEXT_BRAND_WITHOUT_LINK.id],
        ),
        ("Notice", f"Netflix\n{LIMITED}", AWAY, "x@sender.example", [TEXT_BRAND_WITHOUT_LINK.id]),
        ("Your Netflix account", LIMITED, "https://www.netflix.com/x", "x@sender.example", []),  # leads there
        ("Your Netflix account", LIMITED, AWAY, "info@netflix.com", []),  # comes from there
        ("Netflix has a new film", "Shall we watch it?", AWAY, "x@sender.example", []),  # speaks of it
        ("Your account", LIMITED, AWAY, "x@sender.example", []),
        ("Your Netflix account", LIMITED, "", "x@sender.example", []),
    ],
)
def test_brand_mention(letter: Letter, subject: str, text: str, link: str, sender: str, kinds: list[str]) -> None:
    reading = letter(text, subject, link=link, sender=sender, envelope=sender)
    assert [finding.kind for finding in check(reading)] == kinds
