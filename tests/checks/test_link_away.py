"""Where a lure leads."""

from collections.abc import Callable

import pytest

from gatepost.auth.results import Authentication, Dmarc
from gatepost.checks.link_away import find_link_away
from gatepost.findings import Reading

Letter = Callable[..., Reading]
LIST = "List-Post: <mailto:l@lists.example>\n"


@pytest.mark.parametrize(
    ("link", "fields", "distance"),
    [
        ("https://elsewhere.example/x", "", 1.0),
        ("https://www.sender.example/x", "", 0.35),
        ("https://elsewhere.example/x", LIST, 0.3),
        ("https://www.sender.example/x", LIST, 0.105),
    ],
)
def test_how_far_it_leads(letter: Letter, link: str, fields: str, distance: float) -> None:
    way = find_link_away(letter("text", link=link, fields=fields))
    assert way is not None
    assert way.distance == pytest.approx(distance)
    assert way.link.url == link


@pytest.mark.parametrize("link", ["", "mailto:ann@elsewhere.example"])
def test_nothing_to_follow(letter: Letter, link: str) -> None:
    assert find_link_away(letter("text", link=link)) is None


def test_a_proven_sender_who_links_home_is_hardly_a_lure(letter: Letter) -> None:
    reading = letter("text", link="https://www.sender.example/x")
    proven = Authentication(dmarc=Dmarc(dkim_aligned=True))
    way = find_link_away(Reading(reading.message, reading.envelope, proven))
    assert way is not None
    assert way.distance == 0.15
