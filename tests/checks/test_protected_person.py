"""Outsiders with the names of people who are protected."""

import pytest

from gatepost.checks.protected_person import POSE, check
from gatepost.findings import Protected, Reading
from gatepost.mail.message import Message
from gatepost.names import Address

PROTECTED = Protected(own_domains=frozenset({"corp.example"}), people=(Address("Ann Director", "ann", "corp.example"),))


@pytest.mark.parametrize(
    ("name", "address", "kinds"),
    [
        ("Ann Director", "ann.director@gmail.com", [POSE.id]),
        ("Director, Ann", "x@evil.test", [POSE.id]),
        ("ANN  DIRECTOR", "x@evil.test", [POSE.id]),
        ("Аnn Dirеctor", "x@evil.test", [POSE.id]),  # Cyrillic letters
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
