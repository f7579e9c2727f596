"""Message identifiers."""

import pytest

from gatepost.checks.headers.message_id import check
from gatepost.findings import Reading
from gatepost.kinds import HEADER_BAD_MESSAGE_ID, HEADER_NO_MESSAGE_ID
from gatepost.mail.message import Envelope, Field, Headers, Message


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (None, [HEADER_NO_MESSAGE_ID.id]),
        ("", [HEADER_BAD_MESSAGE_ID.id]),
        ("<@>", [HEADER_BAD_MESSAGE_ID.id]),
        ("%MSGID", [HEADER_BAD_MESSAGE_ID.id]),
        ("<a@b@c>", [HEADER_BAD_MESSAGE_ID.id]),
        ("<a@b>", []),
        ("<a.b$c=d@mail.corp.example>", []),
        ("  <a@b>  ", []),
        ("<long-\r\n part@b>", []),
        ("<a@b> (added by postmaster@b)", []),
    ],
)
def test_message_id(value: str | None, kinds: list[str]) -> None:
    headers = Headers(() if value is None else (Field("message-id", value, b""),))
    reading = Reading(Message(headers=headers), Envelope(remote_address="192.0.2.1"))
    assert [finding.kind for finding in check(reading)] == kinds


def test_a_draft_was_never_sent() -> None:
    assert list(check(Reading(Message()))) == []
