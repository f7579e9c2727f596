"""The check of `headers/fields` that looks at recipients: the tricks, and what looks like them."""

import pytest
from tests.known_senders import know_member

from gatepost.checks.headers.fields import hidden_recipients
from gatepost.checks.reading import Reading
from gatepost.findings.kinds import (
    HEADER_ADDRESSED_TO_SENDER,
    HEADER_BLIND_COPY_FREEMAIL,
    HEADER_BLIND_COPY_REPLY,
    HEADER_NO_RECIPIENTS,
    Kind,
)
from gatepost.mail.reader import read

SHOP, FREE = "From: x@shop.example\n", "From: x@gmail.com\n"
NOBODY = "To: undisclosed-recipients:;\n"
POSTED = NOBODY + "List-Post: <mailto:l@lists.example>\nReply-To: y@gmail.com\n"


@pytest.mark.parametrize(
    ("header", "text", "kinds"),
    [
        (SHOP, "text", [HEADER_NO_RECIPIENTS]),
        (SHOP + NOBODY, "text", [HEADER_NO_RECIPIENTS]),
        (SHOP + NOBODY + "Reply-To: y@gmail.com\n", "text", [HEADER_NO_RECIPIENTS, HEADER_BLIND_COPY_REPLY]),
        (FREE + NOBODY + "Reply-To: y@gmail.com\n", "text", [HEADER_NO_RECIPIENTS, HEADER_BLIND_COPY_REPLY]),
        (FREE + NOBODY, "text", [HEADER_NO_RECIPIENTS, HEADER_BLIND_COPY_FREEMAIL]),
        (
            SHOP + "To: Recipients <x@shop.example>\nReply-To: y@gmail.com\n",
            "text",
            [HEADER_ADDRESSED_TO_SENDER, HEADER_BLIND_COPY_REPLY],
        ),
        (SHOP + "To: x@shop.example\nReply-To: y@other.example\n", "text", [HEADER_ADDRESSED_TO_SENDER]),
        (FREE + "To: y@gmx.net\nReply-To: y@gmx.net\n", "text", [HEADER_ADDRESSED_TO_SENDER, HEADER_BLIND_COPY_REPLY]),
        # A newsletter that hides its recipients has a site, and a club wants answers where it wrote from.
        (FREE + NOBODY, "see https://club.example/", [HEADER_NO_RECIPIENTS]),
        (SHOP + NOBODY + "Reply-To: x@shop.example\n", "text", [HEADER_NO_RECIPIENTS]),
        (SHOP + NOBODY + "Reply-To: y@other.example\n", "text", [HEADER_NO_RECIPIENTS]),
        (SHOP + "To: ann@corp.example\nReply-To: y@gmail.com\n", "text", []),
        (SHOP + "Cc: ann@corp.example\n", "text", []),
        (SHOP + "To: x@shop.example\n", "text", []),
        # A list has its own address in To and in Reply-To.
        (SHOP + "To: l@lists.example\nReply-To: l@lists.example\n", "text", []),
        (SHOP + POSTED, "text", [HEADER_NO_RECIPIENTS, HEADER_BLIND_COPY_REPLY]),
        ("", "text", []),
    ],
)
def test_hidden_recipients(header: str, text: str, kinds: list[Kind]) -> None:
    reading = Reading(read(f"{header}Subject: x\n\n{text}\n".encode()))
    assert [finding.kind for finding in hidden_recipients(reading)] == [kind.id for kind in kinds]


def test_a_known_list_hides_its_members() -> None:
    reading = Reading(read(f"{SHOP}{POSTED}Subject: x\n\ntext\n".encode()))
    assert not list(hidden_recipients(know_member(reading)))
