"""Answers that go elsewhere."""

import pytest

from gatepost.checks.sender.reply_to import check
from gatepost.findings import Reading
from gatepost.kinds import SENDER_REPLY_TO_FREEMAIL, SENDER_REPLY_TO_MISMATCH
from gatepost.mail.message import Envelope, Field, Headers, Message
from gatepost.names import Address


def address(text: str) -> Address:
    local, _, domain = text.partition("@")
    return Address("", local, domain)


@pytest.mark.parametrize(
    ("sender", "reply", "kinds"),
    [
        ("ceo@corp.example", "ceo.private.office@gmail.com", [SENDER_REPLY_TO_FREEMAIL.id]),
        ("info@corp.example", "someone@yahoo.com", [SENDER_REPLY_TO_FREEMAIL.id]),
        ("ann@gmail.com", "bob@outlook.com", [SENDER_REPLY_TO_FREEMAIL.id]),
        ("info@shop.example", "help@other.example", [SENDER_REPLY_TO_MISMATCH.id]),
        ("info@shop.example", "help@shop.example", []),
        ("info@mail.shop.example", "help@shop.example", []),
        ("info@shop.example", "bounce@relay.example", []),  # the envelope's organisation
        ("info@shop.example", "me@recipient.example", []),  # back to the recipient's own
        ("ann.example@corp.example", "annexample@gmail.com", []),  # the same person
        ("info@shop.example", "info@shop.example", []),
        ("info@shop.example", "nowhere", []),
    ],
)
def test_reply_to(sender: str, reply: str, kinds: list[str]) -> None:
    message = Message(
        senders=(address(sender),), reply_to=(address(reply),), recipients=(address("x@recipient.example"),)
    )
    reading = Reading(message, Envelope("b@relay.example"))
    assert [finding.kind for finding in check(reading)] == kinds


def test_a_list_may_set_it() -> None:
    headers = Headers((Field("list-post", "<mailto:l@lists.example>", b""),))
    message = Message(headers=headers, senders=(address("ann@corp.example"),), reply_to=(address("ann@gmail.com"),))
    assert list(check(Reading(message))) == []
