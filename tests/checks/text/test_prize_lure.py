"""Prizes for nothing, and real ones."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.lures import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_PRIZE_LURE

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Congratulations! You have been selected. Answer a few questions and claim your reward today.",
            "You have won",
            AWAY,
            [TEXT_PRIZE_LURE.id],
        ),
        (
            "Herzlichen Glückwunsch! Sie haben gewonnen. Jetzt teilnehmen und Gutschein sichern.",
            "Gewinnspiel",
            AWAY,
            [TEXT_PRIZE_LURE.id],
        ),
        ("Félicitations, vous avez gagné un cadeau. Réclamez votre cadeau.", "Gagnant", AWAY, [TEXT_PRIZE_LURE.id]),
        ("Parabéns! Você ganhou um prêmio. Resgate seu prêmio agora.", "Prêmio", AWAY, [TEXT_PRIZE_LURE.id]),
        ("Congratulations on your new job! See you on Friday.", "Your news", "", []),
        ("Congratulations to Nathan for the release, notes are here.", "Release 2.0", AWAY, []),
        ("Your points: 120. Redeem them in our shop.", "Your points", HOME, []),
        ("The prize for the best paper went to Ann.", "Workshop", AWAY, []),
    ],
)
def test_prize_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
