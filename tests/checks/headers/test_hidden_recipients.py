"""The check of `headers/fields` that looks at recipients: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds
from tests.known_senders import know_member

from gatepost.checks.headers.fields import hidden_recipients
from gatepost.checks.reading import Reading
from gatepost.mail.reader import read

SHOP, FREE = "From: x@shop.example\n", "From: x@gmail.com\n"
NOBODY = "To: undisclosed-recipients:;\n"
POSTED = NOBODY + "List-Post: <mailto:l@lists.example>\nReply-To: y@gmail.com\n"


@pytest.mark.parametrize(
    ("header", "text", "kinds"),
    [
        (SHOP, "text", ["header:no-recipients"]),
        (SHOP + NOBODY, "text", ["header:no-recipients"]),
        (SHOP + NOBODY + "Reply-To: y@gmail.com\n", "text", ["header:no-recipients", "header:blind-copy-reply"]),
        (FREE + NOBODY + "Reply-To: y@gmail.com\n", "text", ["header:no-recipients", "header:blind-copy-reply"]),
        (FREE + NOBODY, "text", ["header:no-recipients", "header:blind-copy-freemail"]),
        (
            SHOP + "To: Recipients <x@shop.example>\nReply-To: y@gmail.com\n",
            "text",
            ["header:addressed-to-sender", "header:blind-copy-reply"],
        ),
        (SHOP + "To: x@shop.example\nReply-To: y@other.example\n", "text", ["header:addressed-to-sender"]),
        (
            FREE + "To: y@gmx.net\nReply-To: y@gmx.net\n",
            "text",
            ["header:addressed-to-sender", "header:blind-copy-reply"],
        ),
        # A newsletter that hides its recipients has a site, and a club wants answers where it wrote from.
        (FREE + NOBODY, "see https://club.example/", ["header:no-recipients"]),
        (SHOP + NOBODY + "Reply-To: x@shop.example\n", "text", ["header:no-recipients"]),
        (SHOP + NOBODY + "Reply-To: y@other.example\n", "text", ["header:no-recipients"]),
        (SHOP + "To: ann@corp.example\nReply-To: y@gmail.com\n", "text", []),
        (SHOP + "Cc: ann@corp.example\n", "text", []),
        (SHOP + "To: x@shop.example\n", "text", []),
        # A list has its own address in To and in Reply-To.
        (SHOP + "To: l@lists.example\nReply-To: l@lists.example\n", "text", []),
        (SHOP + POSTED, "text", ["header:no-recipients", "header:blind-copy-reply"]),
        ("", "text", []),
    ],
)
def test_hidden_recipients(header: str, text: str, kinds: list[str]) -> None:
    reading = Reading(read(f"{header}Subject: x\n\n{text}\n".encode()))
    assert find_kinds(hidden_recipients, reading) == kinds


def test_a_known_list_hides_its_members() -> None:
    reading = Reading(read(f"{SHOP}{POSTED}Subject: x\n\ntext\n".encode()))
    assert not list(hidden_recipients(know_member(reading)))
