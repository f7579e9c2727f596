"""Parcels that wait, and parcels that come."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.lures import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_PARCEL_LURE

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Your package is on hold. Pay the customs fee of 1.99 within 24 hours to reschedule your delivery.",
            "Delivery problem",
            AWAY,
            [TEXT_PARCEL_LURE.id],
        ),
        (
            "Ihr Paket konnte nicht zugestellt werden. Bitte die Zollgebühr zahlen und die Lieferadresse bestätigen.",
            "Ihr Paket",
            AWAY,
            [TEXT_PARCEL_LURE.id],
        ),
        (
            "Votre colis est en attente. Réglez les frais de livraison et confirmer votre livraison.",
            "Colis",
            AWAY,
            [TEXT_PARCEL_LURE.id],
        ),
        (
            "Sua encomenda foi retida. Pague a taxa de importação e liberar sua encomenda.",
            "Correios",
            AWAY,
            [TEXT_PARCEL_LURE.id],
        ),
        (
            "Your package arrives tomorrow between 2 and 4. Track your package.",
            "Delivery tomorrow",
            HOME,
            [],
        ),  # a carrier's own notice
        ("Your order has been shipped.", "Order 4711", HOME, []),
        ("Das Paket kam gestern an, vielen Dank!", "Paket", "", []),
        ("Merci pour le colis, il est arrivé hier.", "Colis", AWAY, []),
    ],
)
def test_parcel_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
