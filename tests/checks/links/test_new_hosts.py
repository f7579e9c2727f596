"""Sites that nobody was sent to before."""

from collections.abc import Callable

import msgspec
import pytest

from gatepost.checks.links.new_hosts import MAX_FOUND, check
from gatepost.findings import Protected, Reading
from gatepost.kinds import URL_NEW_HOST
from gatepost.questions import FacetAge
from gatepost.sender_history import SenderHistory

Letter = Callable[..., Reading]
NEVER, OFTEN = FacetAge(), FacetAge(9, 30)


def seen(reading: Reading, hosts: dict[str, FacetAge], protected: Protected | None = None) -> list[str]:
    met = SenderHistory(ready=True, hosts=hosts)
    reading = msgspec.structs.replace(reading, sender_history=met, protected=protected or Protected())
    return [finding.facts["host"] for finding in check(reading)]


@pytest.mark.parametrize(
    ("link", "hosts", "found"),
    [
        ("https://a.pages.example/x", {"pages.example": NEVER}, ["pages.example"]),
        ("https://a.pages.example/x", {"pages.example": OFTEN}, []),
        ("https://www.sender.example/x", {"sender.example": NEVER}, []),  # as new as the sender
        ("https://a.pages.example/x", {}, []),  # was not asked for
    ],
)
def test_new_hosts(letter: Letter, link: str, hosts: dict[str, FacetAge], found: list[str]) -> None:
    assert seen(letter("See", link=link), hosts) == found


def test_the_finding_is_about_its_link(letter: Letter) -> None:
    reading = letter("See", link="https://a.pages.example/x")
    met = SenderHistory(ready=True, hosts={"pages.example": NEVER})
    (finding,) = check(msgspec.structs.replace(reading, sender_history=met))
    assert (finding.kind, finding.about) == (URL_NEW_HOST.id, "https://a.pages.example/x")


def test_own_and_partner_sites_are_not_new(letter: Letter) -> None:
    reading = letter("See", link="https://a.pages.example/x")
    for protected in (Protected(frozenset({"pages.example"})), Protected(partner_domains=frozenset({"pages.example"}))):
        assert seen(reading, {"pages.example": NEVER}, protected) == []


def test_a_list_links_to_all_sorts_of_things(letter: Letter) -> None:
    reading = letter("See", link="https://a.pages.example/x", fields="List-Post: <mailto:l@lists.example>\n")
    assert seen(reading, {"pages.example": NEVER}) == []


def test_a_few_are_enough(letter: Letter) -> None:
    hosts = {f"p{number}.example": NEVER for number in range(10)}
    reading = letter(" ".join(f"https://www.{host}/" for host in hosts))
    assert len(seen(reading, hosts)) == MAX_FOUND
