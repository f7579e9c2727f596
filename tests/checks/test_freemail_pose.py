"""Offices at free mailboxes."""

import pytest

from gatepost.checks.freemail_pose import POSE, check
from gatepost.findings import Reading
from gatepost.mail.message import Message
from gatepost.names import Address


@pytest.mark.parametrize(
    ("name", "domain", "kinds"),
    [
        ("Federal Bank Head Office", "gmail.com", [POSE.id]),
        ("FBI", "outlook.com", [POSE.id]),
        ("Payment Department", "yahoo.com", [POSE.id]),
        ("Account Support", "mail.ru", [POSE.id]),
        ("Federal Bank Head Office", "bank.example", []),
        ("Ann Court Example", "corp.example", []),
        ("Ann Example", "gmail.com", []),
        ("Ann Service", "gmail.com", []),  # one such word may be a name
        ("Flower Shop Studio", "gmail.com", []),
        ("", "gmail.com", []),
    ],
)
def test_freemail_pose(name: str, domain: str, kinds: list[str]) -> None:
    assert [finding.kind for finding in check(Reading(Message(senders=(Address(name, "x", domain),))))] == kinds
