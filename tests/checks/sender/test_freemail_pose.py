"""Offices at free mailboxes."""

import pytest

from gatepost.checks.sender.freemail_pose import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_FREEMAIL_POSE
from gatepost.mail.message import Message
from gatepost.names import Address


@pytest.mark.parametrize(
    ("name", "domain", "kinds"),
    [
        ("Federal Bank Head Office", "gmail.com", [SENDER_FREEMAIL_POSE.id]),
        ("FBI", "outlook.com", [SENDER_FREEMAIL_POSE.id]),
        ("Payment Department", "yahoo.com", [SENDER_FREEMAIL_POSE.id]),
        ("Account Support", "mail.ru", [SENDER_FREEMAIL_POSE.id]),
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
