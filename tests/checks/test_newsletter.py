"""Mail that went to many."""

import pytest

from gatepost.checks.newsletter import DISCUSSION, NEWSLETTER, check
from gatepost.findings import Reading
from gatepost.mail.message import Field, Headers, Message


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"list-unsubscribe": "<https://shop.example/u>"}, [NEWSLETTER.id]),
        ({"list-unsubscribe": "<mailto:u@shop.example>", "list-unsubscribe-post": "x"}, [NEWSLETTER.id]),
        ({"list-unsubscribe": "<mailto:u@l.example>", "list-post": "<mailto:l@l.example>"}, [DISCUSSION.id]),
        ({"list-unsubscribe": "<mailto:u@l.example>", "list-post": "NO"}, [NEWSLETTER.id]),  # announcements only
        ({"list-id": "<l.example>"}, []),
        ({}, []),
    ],
)
def test_newsletter(fields: dict[str, str], kinds: list[str]) -> None:
    headers = Headers(tuple(Field(name, value, b"") for name, value in fields.items()))
    assert [finding.kind for finding in check(Reading(Message(headers=headers)))] == kinds
