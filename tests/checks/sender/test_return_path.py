"""Envelope senders and From."""

import pytest

from gatepost.checks.sender.envelope import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_ENVELOPE_FREEMAIL, SENDER_ENVELOPE_SCRIPT, SENDER_RETURN_PATH_MISMATCH
from gatepost.mail.message import Envelope, Field, Headers, Message
from gatepost.names import Address


@pytest.mark.parametrize(
    ("envelope", "domain", "fields", "kinds"),
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
def test_return_path(envelope: str, domain: str, fields: dict[str, str], kinds: list[str]) -> None:
    headers = Headers(tuple(Field(name, value, b"") for name, value in fields.items()))
    reading = Reading(Message(headers=headers, senders=(Address("", "x", domain),)), Envelope(envelope))
    assert [finding.kind for finding in check(reading)] == kinds
