"""Names dressed up."""

import pytest

from gatepost.checks.name_dress import DECORATED, INVISIBLE, check
from gatepost.findings import Reading
from gatepost.mail.message import Message
from gatepost.names import Address


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("V\u200be\u200bh\u200bicle", [INVISIBLE.id]),
        ("\U0001d5db\U0001d5fc\U0001d5fa\U0001d5f2", [INVISIBLE.id]),
        ("✅ BONUS", [DECORATED.id]),
        ("➥➥ Vehicle", [DECORATED.id]),
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
