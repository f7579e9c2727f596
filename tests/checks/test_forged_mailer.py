"""Mail programs that are only claimed."""

import pytest

from gatepost.checks.forged_mailer import FORGED, NAMELESS, check
from gatepost.findings import Reading
from gatepost.mail.message import Field, Headers, Message

EXPRESS = {"x-mailer": "Microsoft Outlook Express 6.00.2800.1106"}
OLE = {"x-mimeole": "Produced By Microsoft MimeOLE V6.00"}
BAT = {"x-mailer": "The Bat! (v2.00.9) Personal"}
APPLE = {"x-mailer": "Apple Mail (2.3654.120.0.1.13)"}


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        (EXPRESS, [FORGED.id]),
        (EXPRESS | OLE | {"message-id": "<45a6b20$e8dea3c9@x>"}, [FORGED.id]),
        (BAT | {"message-id": "<817.60667578265184@thebat.net>"}, [FORGED.id]),
        (APPLE | {"message-id": "<12345@evil.test>"}, [FORGED.id]),
        ({"x-mailer": "6pHng"}, [NAMELESS.id]),
        ({"x-mailer": "2"}, [NAMELESS.id]),
        (EXPRESS | OLE | {"message-id": "<001a01c1a2b3$c4d5e6f0$0100007f@host>"}, []),
        (EXPRESS | OLE | {"message-id": "<BAY1-DAV123@phx.gbl>"}, []),  # through Hotmail
        (BAT | {"message-id": "<1234567.20030714123456@corp.example>"}, []),
        (APPLE | {"message-id": "<9A2B4C6D-1234-5678-9ABC-DEF012345678@corp.example>"}, []),
        (EXPRESS | {"list-post": "<mailto:l@l.example>"}, []),  # lists take fields away
        ({"x-mailer": "Microsoft Office Outlook 11", "thread-index": "AcY"}, []),
        ({"x-mailer": "MailUp"}, []),
        ({"x-mailer": "Mutt/1.5"}, []),
        ({"x-mailer": "exmh"}, []),
        ({"user-agent": "VM"}, []),
        ({}, []),
    ],
)
def test_forged_mailer(fields: dict[str, str], kinds: list[str]) -> None:
    headers = Headers(tuple(Field(name, value, b"") for name, value in fields.items()))
    assert [finding.kind for finding in check(Reading(Message(headers=headers)))] == kinds
