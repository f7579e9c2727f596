"""Sender names that show the recipient's own domain, and those that may."""

import pytest

from gatepost.checks.sender.recipient_domain import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_RECIPIENT_DOMAIN
from gatepost.mail.message import Envelope, Message
from gatepost.names import Address


def reading(name: str, sender: str, recipient: str = "ann@house.com", envelope: str = "") -> Reading:
    local, _, domain = sender.partition("@")
    message = Message(senders=(Address(name, local, domain),))
    return Reading(message, Envelope(envelope or sender, (recipient,), "192.0.2.1"))


@pytest.mark.parametrize(
    ("name", "sender", "strength"),
    [
        ("house.com Webmail", "x@evil.com", 1.0),
        ("IT Support (HOUSE.COM)", "x@evil.com", 1.0),
        ("Voicemail | mail.house.com", "x@evil.com", 1.0),
        ("Mailbox: <house.com>", "x@evil.com", 1.0),
        ("house.com Tickets", "house@shop.zendesk.com", 0.4),  # a help desk that the company has hired
        ("Ann House", "x@evil.com", None),
        ("house.com", "carl@house.com", None),  # a colleague
        ("house.com alerts", "alerts@mail.house.com", None),
        ("house.com via Docs", "noreply@docs.com", None),
        ("other.com Webmail", "x@evil.com", None),
        ("house.company", "x@evil.com", None),
        ("warehouse.com", "sales@evil.com", None),
        ("ann@house.com", "x@evil.com", None),  # an address is found as such
        ("Dr. Ann House, M.D.", "x@evil.com", None),
        ("", "x@evil.com", None),
    ],
)
def test_recipient_domain(name: str, sender: str, strength: float | None) -> None:
    found = [(finding.kind, finding.strength) for finding in check(reading(name, sender))]
    assert found == ([(SENDER_RECIPIENT_DOMAIN.id, strength)] if strength else [])


def test_free_mail_is_not_the_recipients_own() -> None:
    assert not list(check(reading("gmail.com Team", "x@evil.com", "ann@gmail.com")))


def test_a_recipient_in_the_header_counts_as_well() -> None:
    message = Message(senders=(Address("house.com", "x", "evil.com"),), recipients=(Address("", "ann", "house.com"),))
    assert [finding.kind for finding in check(Reading(message))] == [SENDER_RECIPIENT_DOMAIN.id]


def test_the_own_domain_in_the_envelope_is_for_authentication_to_judge() -> None:
    assert not list(check(reading("house.com", "x@evil.com", envelope="bounces@house.com")))
