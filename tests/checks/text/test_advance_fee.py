"""Fortunes for a helper, and charities."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.advance_fee import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_ADVANCE_FEE

Letter = Callable[..., Reading]

HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            (
                "Dear friend, I am the barrister of a late client who left 12 million dollars. You will be the "
                "beneficiary as next of kin. I need your assistance to transfer the fund. Send your full name "
                "and bank account. Strictly 100% risk free."
            ),
            "Business proposal",
            "",
            [TEXT_ADVANCE_FEE.id],
        ),
        (
            (
                "Greetings to you. My late husband deposited millions US dollars; I am a widow dying of cancer "
                "and want to donate to charity. Reply with your telephone number. God bless."
            ),
            "From Mrs Ada",
            "",
            [TEXT_ADVANCE_FEE.id],
        ),
        ("Please donate to our charity run against cancer. Every donation helps.", "Charity run", HOME, []),
        ("The barrister will call about the inheritance of aunt Mary next week.", "Aunt Mary", "", []),
        ("We met in Ghana last year; I hope you are well.", "Hello", "", []),
    ],
)
def test_advance_fee(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.3] == kinds
