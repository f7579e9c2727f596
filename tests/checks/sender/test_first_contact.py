"""Strangers, and who is none."""

from collections.abc import Callable

import msgspec
import pytest

from gatepost.checks.sender.first_contact import check
from gatepost.findings import Protected, Reading
from gatepost.kinds import SENDER_FIRST_CONTACT
from gatepost.questions import FacetAge
from gatepost.sender_history import NO_HISTORY, SenderHistory, Standing

Letter = Callable[..., Reading]
NEW, OLD = Standing(), Standing(proven=FacetAge(3, 9))
CLAIMED = Standing(claimed=FacetAge(1, 1))


def met(address: Standing = NEW, domain: Standing = NEW) -> SenderHistory:
    return SenderHistory(ready=True, address=address, domain=domain)


@pytest.mark.parametrize(
    ("sender", "known", "kinds"),
    [
        ("a@new.example", met(), [SENDER_FIRST_CONTACT.id]),
        ("a@known.example", met(domain=OLD), []),  # a colleague of somebody who is known
        ("a@gmail.com", met(domain=OLD), [SENDER_FIRST_CONTACT.id]),  # everybody has that domain
        ("a@gmail.com", met(OLD, OLD), []),
        ("a@known.example", met(CLAIMED), []),
        ("a@new.example", NO_HISTORY, []),  # too little is remembered to tell
    ],
)
def test_first_contact(letter: Letter, sender: str, known: SenderHistory, kinds: list[str]) -> None:
    reading = msgspec.structs.replace(letter("Hello", sender=sender), sender_history=known)
    assert [finding.kind for finding in check(reading)] == kinds


@pytest.mark.parametrize(
    "protected",
    [
        Protected(own_domains=frozenset({"new.example"})),
        Protected(partner_domains=frozenset({"new.example"})),
        Protected(host_trusted=True),
    ],
)
def test_the_own_house_and_partners_are_no_strangers(letter: Letter, protected: Protected) -> None:
    reading = letter("Hello", sender="a@mail.new.example")
    assert not list(check(msgspec.structs.replace(reading, sender_history=met(), protected=protected)))


def test_people_on_lists_are_no_strangers(letter: Letter) -> None:
    reading = letter("Hello", sender="a@new.example", fields="List-Post: <mailto:l@lists.example>\n")
    assert not list(check(msgspec.structs.replace(reading, sender_history=met())))


def test_no_sender_is_no_stranger() -> None:
    assert not list(check(Reading(sender_history=met())))
