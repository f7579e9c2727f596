"""Who asks, and for what."""

from collections.abc import Callable

import msgspec
import pytest

from gatepost.checks.sender.stranger_asks import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_STRANGER_ASKS, URL_NEW_HOST_ASKS
from gatepost.questions import FacetAge
from gatepost.sender_history import NO_HISTORY, SenderHistory, Standing

Letter = Callable[..., Reading]

PAY = "Our bank details have changed. Please send all future payments to our new bank account."
LURE = "Your mailbox has been limited. Verify your account within 24 hours."
PAGE = "https://sign-in.example/x"
NEW = SenderHistory(ready=True, hosts={"sign-in.example": FacetAge(), "sender.example": FacetAge()})
OLD = SenderHistory(
    ready=True,
    address=Standing(FacetAge(9, 90)),
    domain=Standing(FacetAge(9, 90)),
    hosts={"sign-in.example": FacetAge(9, 90), "sender.example": FacetAge(9, 90)},
)


@pytest.mark.parametrize(
    ("text", "link", "met", "kinds"),
    [
        (PAY, "", NEW, [SENDER_STRANGER_ASKS.id]),
        (PAY, "", OLD, []),
        (PAY, "", NO_HISTORY, []),
        (LURE, PAGE, NEW, [URL_NEW_HOST_ASKS.id]),
        (LURE, PAGE, OLD, []),
        (LURE, PAGE, NO_HISTORY, []),
        (LURE, "https://sender.example/x", NEW, []),  # at home
        ("Here is the programme of the fair.", PAGE, NEW, []),
        ("Thank you for your order. The invoice is attached, payable within 30 days.", "", NEW, []),
        (PAY + "\n" + "We have written about this at length. " * 100, "", NEW, []),  # no letter
    ],
)
def test_stranger_asks(letter: Letter, text: str, link: str, met: SenderHistory, kinds: list[str]) -> None:
    reading = msgspec.structs.replace(letter(text, link=link), sender_history=met)
    assert [finding.kind for finding in check(reading)] == kinds


def test_a_known_sender_with_a_page_that_is_new(letter: Letter) -> None:
    """A mailbox that was taken over: the sender is known, where it leads to is not."""
    met = msgspec.structs.replace(OLD, hosts={"sign-in.example": FacetAge()})
    reading = msgspec.structs.replace(letter(LURE, link=PAGE), sender_history=met)
    assert [finding.kind for finding in check(reading)] == [URL_NEW_HOST_ASKS.id]
