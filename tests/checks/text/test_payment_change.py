"""Payments led astray, and honest talk about money."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.payment_requests import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_ERRAND, TEXT_PAYMENT_CHANGE

Letter = Callable[..., Reading]


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            (
                "Please note that our bank details have changed. Kindly update your records; all future payments "
                "should go to the new bank account below. IBAN: DE02"
            ),
            "Invoice 4711",
            "",
            [TEXT_PAYMENT_CHANGE.id],
        ),
        (
            (
                "Unsere Bankverbindung hat sich geändert. Künftige Zahlungen bitte nur auf die neue "
                "Kontoverbindung, dringend."
            ),
            "Rechnung",
            "",
            [TEXT_PAYMENT_CHANGE.id],
        ),
        (
            "Nos coordonnées bancaires ont changé. Merci de faire le virement urgent sur le nouveau compte bancaire.",
            "Facture",
            "",
            [TEXT_PAYMENT_CHANGE.id],
        ),
        (
            "Are you available? I need you to handle a task. I am in a meeting and can't talk, keep this confidential.",
            "Quick request",
            "",
            [TEXT_ERRAND.id],
        ),
        ("Please find the invoice for October attached. Payment is due in 30 days. IBAN: DE02", "Invoice 4712", "", []),
        ("Are you in the office on Monday?", "Monday", "", []),
        ("I will be in a meeting until three.", "Later", "", []),
        ("Die Rechnung ist bezahlt, danke.", "Rechnung", "", []),
    ],
)
def test_payment_change(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
