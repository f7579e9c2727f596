"""Names that show another address."""

import pytest

from gatepost.checks.sender.display_name import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_DISPLAY_NAME_SPOOF
from gatepost.mail.message import Message
from gatepost.names import Address


@pytest.mark.parametrize(
    ("name", "domain", "kinds"),
    [
        ("billing@bank.example", "evil.test", [SENDER_DISPLAY_NAME_SPOOF.id]),
        ("Billing <billing@bank.example>", "evil.test", [SENDER_DISPLAY_NAME_SPOOF.id]),
        ("billing@bank.example", "bank.example", []),
        ("billing@bank.example", "mail.bank.example", []),  # same owner
        ("ann@bank.example via list", "lists.test", []),  # a list that says for whom it writes
        ("Ann Example", "evil.test", []),
        ("Ann @ Example", "evil.test", []),
        ("", "evil.test", []),
        ("ann@bank.example", "", []),
    ],
)
def test_display_name(name: str, domain: str, kinds: list[str]) -> None:
    reading = Reading(Message(senders=(Address(name, "x", domain),)))
    assert [finding.kind for finding in check(reading)] == kinds
