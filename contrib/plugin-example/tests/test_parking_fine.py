"""The check for made-up parking fines: the trick, and what looks like it."""

import pytest
from gatepost_example.checks import PARKING_FINE, parking_fine

from gatepost.checks.reading import Reading
from gatepost.mail.reader import read


def letter(text: str, sender: str = "office@city-desk.example", fields: str = "") -> Reading:
    return Reading(message=read(f"From: {sender}\nSubject: Hello\n{fields}\n{text}\n".encode()))


@pytest.mark.parametrize(
    ("text", "sender", "fields", "strength"),
    [
        ("Your parking fine: https://pay.example", "office@city-desk.example", "", 0.4),
        ("Your unpaid toll charge, within 24 hours: https://pay.example", "office@city-desk.example", "", 0.6),
        ("Your parking fine: https://www.city.example/pay", "office@city.example", "", None),  # the sender's own site
        ("Your parking fine is paid.", "office@city-desk.example", "", None),  # nowhere to go
        (
            "Who paid a parking fine? https://forum.example",
            "ann@house.example",
            "List-Post: <mailto:l@x.example>\n",
            0.4,
        ),  # a list that nobody knows
    ],
)
def test_parking_fine(text: str, sender: str, fields: str, strength: float | None) -> None:
    found = list(parking_fine(letter(text, sender, fields)))
    assert [(each.kind, each.strength) for each in found] == ([(PARKING_FINE.id, strength)] if strength else [])
