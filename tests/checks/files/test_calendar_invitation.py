"""Invitations in another's name, beside those of colleagues, assistants and one's own."""

import pytest

from gatepost.checks.files.calendar_invitation import check
from gatepost.files.values import File, Trait
from gatepost.findings import Reading
from gatepost.kinds import FILE_CALENDAR_ORGANIZER
from gatepost.mail.message import Message
from gatepost.names import Address


@pytest.mark.parametrize(
    ("method", "organiser", "kinds"),
    [
        ("REQUEST", "boss@bank.example", [FILE_CALENDAR_ORGANIZER.id]),
        ("PUBLISH", "boss@bank.example", [FILE_CALENDAR_ORGANIZER.id]),
        ("REQUEST", "ann@sender.test", []),
        ("REQUEST", "room@rooms.sender.test", []),  # same owner
        ("REQUEST", "bob@receiver.test", []),  # an invitation of one's own, forwarded
        ("REPLY", "boss@bank.example", []),  # an answer names the organiser who asked
        ("CANCEL", "boss@bank.example", []),
        ("", "boss@bank.example", []),  # a calendar file, no invitation
    ],
)
def test_organiser(method: str, organiser: str, kinds: list[str]) -> None:
    traits = [Trait("calendar-organizer", organiser)] + ([Trait("calendar-method", method)] if method else [])
    file = File("1/a.ics", b"", "ics", "0" * 64, traits=tuple(traits))
    message = Message(senders=(Address("", "ann", "sender.test"),), recipients=(Address("", "bob", "receiver.test"),))
    assert [finding.kind for finding in check(Reading(message, files=(file,)))] == kinds
