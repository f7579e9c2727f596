"""Mail from its own recipient."""

import pytest

from gatepost.auth.results import Authentication, Dmarc
from gatepost.checks.sender.self_sent import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_SELF_SENT
from gatepost.mail.message import Envelope, Message
from gatepost.names import Address

PROVEN = Authentication(dmarc=Dmarc("pass", dkim_aligned=True))


@pytest.mark.parametrize(
    ("envelope", "recipient", "authentication", "kinds"),
    [
        ("x@evil.test", "ann@corp.example", Authentication(), [SENDER_SELF_SENT.id]),
        ("x@evil.test", "ANN@corp.example", Authentication(), [SENDER_SELF_SENT.id]),
        ("ann@corp.example", "ann@corp.example", Authentication(), []),
        ("x@evil.test", "ann@corp.example", PROVEN, []),
        ("x@evil.test", "bob@corp.example", Authentication(), []),
        ("", "ann@corp.example", Authentication(), []),  # the envelope is not known
    ],
)
def test_self_sent(envelope: str, recipient: str, authentication: Authentication, kinds: list[str]) -> None:
    message = Message(senders=(Address("", "ann", "corp.example"),), recipients=(Address("", "x", "other.example"),))
    reading = Reading(message, Envelope(envelope, (recipient,)), authentication)
    assert [finding.kind for finding in check(reading)] == kinds
