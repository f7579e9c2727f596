"""Demands, and talk about money that is no threat."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.extortion import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_EXTORTION, TEXT_WALLET_ADDRESS

Letter = Callable[..., Reading]

HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            (
                "I have hacked your device and recorded you through your webcam on adult sites. Send $900 to my "
                "bitcoin wallet within 48 hours or I share the video with all your contacts: "
                "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"
            ),
            "I know your password",
            "",
            [TEXT_WALLET_ADDRESS.id, TEXT_EXTORTION.id],
        ),
        (
            (
                "Ich habe Ihr Gerät gehackt und Sie mit der Webcam gefilmt. Porno und Masturbation. Überweisen "
                "Sie an diese Bitcoin-Adresse, sonst an alle Ihre Kontakte: "
                "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
            ),
            "Ihr Konto",
            "",
            [TEXT_WALLET_ADDRESS.id, TEXT_EXTORTION.id],
        ),
        (
            "You can donate to the wallet of our project: 1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2",
            "Donations",
            "",
            [TEXT_WALLET_ADDRESS.id],
        ),
        ("The new webcam works; the old camera had a virus in its software.", "Webcam", "", []),
        ("Bitcoin fell by five percent, the bitcoin wallet software was updated.", "Market news", HOME, []),
    ],
)
def test_extortion(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
