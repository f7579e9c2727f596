"""Words that only people can read."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.filter_evasion import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_DISGUISED_WORDS, TEXT_MIXED_SCRIPT_WORDS

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Buy v1agra and c1al1s here", "Offer", AWAY, [TEXT_DISGUISED_WORDS.id]),
        ("Confirm your pa$$word", "Access", AWAY, [TEXT_DISGUISED_WORDS.id]),
        ("Best C-A-S-I-N-O and V I A G R A offers", "Offer", AWAY, [TEXT_DISGUISED_WORDS.id]),
        ("Your Pаypаl аccоunt is lосkеd, vеrify yоur pаsswоrd nоw", "Nоtiсe", AWAY, [TEXT_MIXED_SCRIPT_WORDS.id]),
        ("My password is h4rd2guess and the part is x86-64.", "Access", "", []),
        ("Встреча с компанией Gatepost в четверг, привет.", "Встреча", "", []),
        ("The angle α and the length β are given; 5µm is enough.", "Physics", "", []),
        ("A B C D E F G are letters.", "School", "", []),
    ],
)
def test_salting(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
