"""Templates that show through."""

import pytest

from gatepost.checks.headers.bulk_tools import check
from gatepost.findings import Reading
from gatepost.kinds import HEADER_UNFILLED_TEMPLATE
from gatepost.mail.message import Field, Headers, Message


@pytest.mark.parametrize(
    ("name", "value", "kinds"),
    [
        ("x-mailer", "%XMAILER", [HEADER_UNFILLED_TEMPLATE.id]),
        ("message-id", "<%MSGIDNemo@camf.example>", [HEADER_UNFILLED_TEMPLATE.id]),
        ("reply-to", "reply-[nu_24]@shop.example", [HEADER_UNFILLED_TEMPLATE.id]),
        ("from", "{{sender.name}} <x@shop.example>", [HEADER_UNFILLED_TEMPLATE.id]),
        ("to", "##email##", [HEADER_UNFILLED_TEMPLATE.id]),
        ("from", "Ann <ann%corp@relay.example>", []),  # percent routing of old
        ("to", "[dev] list <dev@lists.example>", []),
        ("from", "[name] changed <x@shop.example>", [HEADER_UNFILLED_TEMPLATE.id]),
        ("message-id", "<a{b}c$d@corp.example>", []),
        ("message-id", "<000a$b1c2$d3@corp.example>", []),
        ("message-id", "<{4F2A-99}@corp.example>", []),
        ("subject", "Dear {First Name}", []),
        ("from", "Ann 100% <ann@corp.example>", []),
        ("x-mailer", "Foo [version 1.73]", []),
        ("to", "#general <general@corp.example>", []),
    ],
)
def test_template(name: str, value: str, kinds: list[str]) -> None:
    headers = Headers((Field(name, value, b""),))
    assert [finding.kind for finding in check(Reading(Message(headers=headers)))] == kinds
