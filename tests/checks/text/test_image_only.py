"""Pictures and bare links."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.image_only import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_BARE_LINK, TEXT_IMAGE_ONLY

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Look", "Look", AWAY, [TEXT_BARE_LINK.id]),
        ("", "Deal", AWAY, [TEXT_BARE_LINK.id]),
        (
            (
                "Here are the minutes of the meeting on Tuesday. We agreed on the budget for the coming year and "
                "on the dates of the next three meetings, which are listed on the page below. Please write to me "
                "if anything is missing or wrong, so that it can be corrected before Friday."
            ),
            "Minutes",
            AWAY,
            [],
        ),
        ("See you on Friday.", "Dinner", "", []),
    ],
)
def test_image_only(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds


def test_a_picture_that_links(letter: Letter) -> None:
    (found,) = check(letter("", "Look", link=AWAY, picture=True))
    assert (found.kind, found.strength) == (TEXT_IMAGE_ONLY.id, 1.0)


def test_a_newsletter_of_pictures_counts_less(letter: Letter) -> None:
    (found,) = check(letter("", "News", link=AWAY, picture=True, fields="List-Unsubscribe: <https://x.example/u>\n"))
    assert found.strength < 0.5


def test_a_picture_that_links_nowhere_is_a_picture(letter: Letter) -> None:
    assert list(check(letter("", "The garden", picture=True))) == []
