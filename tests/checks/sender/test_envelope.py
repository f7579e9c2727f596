"""The checks of `sender/envelope`: the tricks, and what looks like them."""

import pytest

from gatepost.checks.sender.envelope import envelope, malformed_envelope
from gatepost.findings import Reading
from gatepost.kinds import (
    SENDER_ENVELOPE_FREEMAIL,
    SENDER_ENVELOPE_SCRIPT,
    SENDER_MALFORMED_ENVELOPE,
    SENDER_NULL_SENDER,
    SENDER_RETURN_PATH_MISMATCH,
)
from gatepost.mail.message import Envelope, Field, Headers, Message
from gatepost.mail.reader import read
from gatepost.names import Address

# Letters that pose as reports.
LETTER = "From: Shop <x@shop.com>\nSubject: Win\n\nhttps://evil.com/\n"


@pytest.mark.parametrize(
    ("text", "sender", "kinds"),
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
def test_null_sender(text: str, sender: str, kinds: list[str]) -> None:
    reading = Reading(read(text.encode()), Envelope(sender, remote_address="192.0.2.1"))
    assert [finding.kind for finding in envelope(reading)] == kinds


def test_an_unknown_envelope_is_no_null_sender() -> None:
    assert list(envelope(Reading(read(LETTER.encode()), Envelope("")))) == []


# Envelope senders and From.
@pytest.mark.parametrize(
    ("sender", "domain", "fields", "kinds"),
    [
        ("someone@hotmail.com", "bank.example", {}, [SENDER_ENVELOPE_FREEMAIL.id]),
        ("nobody@server.example", "bank.example", {}, [SENDER_ENVELOPE_SCRIPT.id]),
        ("www-data@server.example", "bank.example", {}, [SENDER_ENVELOPE_SCRIPT.id]),
        ("x@other.example", "bank.example", {}, [SENDER_RETURN_PATH_MISMATCH.id]),
        ("x@bank.example", "bank.example", {}, []),
        ("x@mail.bank.example", "bank.example", {}, []),
        ("root@bank.example", "bank.example", {}, []),
        ("bounce-123@other.example", "shop.example", {}, []),
        ("b+ann=corp.example@other.example", "shop.example", {}, []),  # VERP
        ("x@u1.sendgrid.net", "shop.example", {}, []),
        ("l-owner@lists.example", "corp.example", {"list-id": "<l.lists.example>"}, []),
        ("x@other.example", "corp.example", {"sender": "x@other.example"}, []),  # sent on behalf, and says so
        ("", "corp.example", {}, []),
        ("x@other.example", "", {}, []),
    ],
)
def test_return_path(sender: str, domain: str, fields: dict[str, str], kinds: list[str]) -> None:
    headers = Headers(tuple(Field(name, value, b"") for name, value in fields.items()))
    reading = Reading(Message(headers=headers, senders=(Address("", "x", domain),)), Envelope(sender))
    assert [finding.kind for finding in envelope(reading)] == kinds


# Addresses of the envelope that are none.
@pytest.mark.parametrize(
    ("sender", "recipient", "found"),
    [
        ("plain", "bob@example.com", 1),
        ("a b@example.org", "bob@example.com", 1),
        (f"{'a' * 300}@example.org", "bob@example.com", 1),
        ("@example.org", "bob@example.com", 1),
        ("a@b@example.org", "bob@example.com", 1),
        ("ann@", "bob@example.com", 1),
        ("ann@exa mple.org", "bob@example.com", 1),
        ("ann@example.org", "", 1),
        ("ann@example.org", "not an address", 1),
        ("plain", "none", 2),
        ("", "bob@example.com", 0),
        ("<>", "bob@example.com", 0),
        ("<ann@example.org>", "<bob@example.com>", 0),
        ("ann@example.org", "Postmaster", 0),
        ("b+bob=example.com@bounces.example.org", "bob@example.com", 0),
        (f"bounce-{'0123456789' * 9}@bounces.example.org", "bob@example.com", 0),
        ("ann..ann.@docomo.example", "bob@example.com", 0),
        ('"ann example"@example.org', "bob@example.com", 0),
        ("ann@[192.0.2.1]", "bob@[IPv6:2001:db8::1]", 0),
        ("pelé@exämple.example", "bob@a_b.example", 0),
        ("srs0=ab=cd=example.org=ann@forward.example", "bob@localhost", 0),
    ],
)
def test_malformed_envelope(sender: str, recipient: str, found: int) -> None:
    reading = Reading(Message(), Envelope(sender, (recipient,)))
    assert [finding.kind for finding in malformed_envelope(reading)] == [SENDER_MALFORMED_ENVELOPE.id] * found


def test_many_malformed_recipients_are_one_finding() -> None:
    reading = Reading(Message(), Envelope("ann@example.org", ("x",) * 1_000))
    assert len(list(malformed_envelope(reading))) == 1
