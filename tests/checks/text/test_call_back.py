"""Numbers to call, and honest invoices."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.call_back import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_CALL_BACK

Letter = Callable[..., Reading]

HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            (
                "Your Norton subscription has been renewed. $399.99 will be debited from your account. If you "
                "did not authorize this, call us at +1 (888) 555-0100 to cancel the order."
            ),
            "Invoice",
            "",
            [TEXT_CALL_BACK.id],
        ),
        (
            (
                "Your antivirus plan is renewed; renewal amount $349. To cancel this subscription call our toll "
                "free helpline 888-555-0100. Invoice number 77."
            ),
            "Renewal",
            "",
            [TEXT_CALL_BACK.id],
        ),
        ("Thank you for your order 4711. See its state in our shop. Questions? 0800 555 0100", "Order 4711", HOME, []),
        ("Call me on 030 555 0100 when you are there.", "Dinner", "", []),
        ("The minutes are attached. My number is 020 7946 0100.", "Minutes", "", []),
    ],
)
def test_call_back(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
