"""Mail that went to many."""

import pytest

from gatepost.checks.headers.bulk_mail import check
from gatepost.findings import Reading
from gatepost.kinds import (
    BULK_DISCUSSION_LIST,
    BULK_MAILING_SERVICE,
    BULK_PRECEDENCE,
    BULK_UNSUBSCRIBE,
    BULK_UNSUBSCRIBE_LINK,
)
from gatepost.mail.message import Field, Headers, Link, Message


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"list-unsubscribe": "<https://shop.example/u>"}, [BULK_UNSUBSCRIBE.id]),
        ({"list-unsubscribe": "<mailto:u@shop.example>", "list-unsubscribe-post": "x"}, [BULK_UNSUBSCRIBE.id]),
        ({"list-unsubscribe": "<mailto:u@l.example>", "list-post": "<mailto:l@l.example>"}, [BULK_DISCUSSION_LIST.id]),
        ({"list-unsubscribe": "<mailto:u@l.example>", "list-post": "NO"}, [BULK_UNSUBSCRIBE.id]),  # announcements only
        ({"precedence": "Bulk"}, [BULK_PRECEDENCE.id]),
        ({"feedback-id": "1:2:3:mailer"}, [BULK_MAILING_SERVICE.id]),
        ({"precedence": "first-class"}, []),
        ({"list-id": "<l.example>"}, []),
        ({"x-mailer": "Mutt"}, []),
        ({}, []),
    ],
)
def test_newsletter(fields: dict[str, str], kinds: list[str]) -> None:
    headers = Headers(tuple(Field(name, value, b"") for name, value in fields.items()))
    assert [finding.kind for finding in check(Reading(Message(headers=headers)))] == kinds


@pytest.mark.parametrize(
    ("shown", "kinds"),
    [
        ("Unsubscribe", [BULK_UNSUBSCRIBE_LINK.id]),
        ("Hier abmelden", [BULK_UNSUBSCRIBE_LINK.id]),
        ("Read more", []),
        ("", []),
    ],
)
def test_a_link_to_unsubscribe(shown: str, kinds: list[str]) -> None:
    link = Link("https://shop.example/u", "https://shop.example/u", "shop.example", shown, "1", "html")
    assert [finding.kind for finding in check(Reading(Message(links=(link,))))] == kinds
