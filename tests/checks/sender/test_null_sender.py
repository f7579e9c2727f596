"""Letters that pose as reports."""

import pytest

from gatepost.checks.sender.envelope import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_NULL_SENDER
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read

LETTER = "From: Shop <x@shop.com>\nSubject: Win\n\nhttps://evil.com/\n"


@pytest.mark.parametrize(
    ("text", "envelope", "kinds"),
    [
        (LETTER, "", [SENDER_NULL_SENDER.id]),
        (LETTER, "<>", [SENDER_NULL_SENDER.id]),
        (LETTER, "x@shop.com", []),
        (LETTER.replace("https://evil.com/", "plain"), "", []),
        (LETTER.replace("Win", "Undeliverable: Win"), "", []),
        (LETTER.replace("Shop <x@shop.com>", "MAILER-DAEMON@shop.com"), "", []),
        (f"Auto-Submitted: auto-replied\n{LETTER}", "", []),
        (f"Content-Type: message/rfc822\n{LETTER}", "", []),
    ],
)
def test_null_sender(text: str, envelope: str, kinds: list[str]) -> None:
    reading = Reading(read(text.encode()), Envelope(envelope, remote_address="192.0.2.1"))
    assert [finding.kind for finding in check(reading)] == kinds


def test_an_unknown_envelope_is_no_null_sender() -> None:
    assert list(check(Reading(read(LETTER.encode()), Envelope("")))) == []
