"""Outsiders with the names of people who are protected."""

import pytest

from gatepost.checks.sender.protected_person import check
from gatepost.findings import Protected, Reading
from gatepost.kinds import SENDER_PROTECTED_PERSON
from gatepost.mail.message import Message
from gatepost.names import Address

PROTECTED = Protected(own_domains=frozenset({"corp.example"}), people=(Address("Ann Director", "ann", "corp.example"),))


@pytest.mark.parametrize(
    ("name", "address", "kinds"),
    [
        ("Ann Director", "ann.director@gmail.com", [SENDER_PROTECTED_PERSON.id]),
        ("Director, Ann", "x@evil.test", [SENDER_PROTECTED_PERSON.id]),
        ("ANN  DIRECTOR", "x@evil.test", [SENDER_PROTECTED_PERSON.id]),
        ("Аnn Dirеctor", "x@evil.test", [SENDER_PROTECTED_PERSON.id]),  # Cyrillic letters
        ("Ann Director", "ann@corp.example", []),
        ("Ann Director", "Ann@Corp.Example", []),
        ("Ann Director", "ann.director@mail.corp.example", []),  # a namesake inside
        ("Ann Director-Smith", "x@evil.test", []),
        ("Ann", "x@evil.test", []),
        ("Bob Example", "x@evil.test", []),
        ("", "x@evil.test", []),
    ],
)
def test_protected_person(name: str, address: str, kinds: list[str]) -> None:
    local, _, domain = address.partition("@")
    reading = Reading(Message(senders=(Address(name, local, domain),)), protected=PROTECTED)
    assert [finding.kind for finding in check(reading)] == kinds


def test_nobody_is_protected_by_default() -> None:
    assert list(check(Reading(Message(senders=(Address("Ann Director", "x", "evil.test"),))))) == []
