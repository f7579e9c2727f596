"""Names dressed up."""

import pytest

from gatepost.checks.sender.decorated_name import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_DECORATED_NAME, SENDER_INVISIBLE_CHARACTERS
from gatepost.mail.message import Message
from gatepost.names import Address


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("V\u200be\u200bh\u200bicle", [SENDER_INVISIBLE_CHARACTERS.id]),
        ("\U0001d5db\U0001d5fc\U0001d5fa\U0001d5f2", [SENDER_INVISIBLE_CHARACTERS.id]),
        ("✅ BONUS", [SENDER_DECORATED_NAME.id]),
        ("➥➥ Vehicle", [SENDER_DECORATED_NAME.id]),
        ("Ann Example", []),
        ("Jörg Müller", []),
        ("Иван Иванов", []),
        ("日本郵便", []),
        ("می\u200cخواهم", []),  # Persian needs its joiner
        ("Shop™ – Café", []),
        ("", []),
    ],
)
def test_name_dress(name: str, kinds: list[str]) -> None:
    assert [finding.kind for finding in check(Reading(Message(senders=(Address(name, "x", "a.example"),))))] == kinds
