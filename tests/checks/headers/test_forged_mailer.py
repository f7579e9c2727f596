"""Mail programs that are only claimed."""

import pytest

from gatepost.checks.headers.bulk_tools import check
from gatepost.findings import Reading
from gatepost.kinds import HEADER_FORGED_MAILER, HEADER_ODD_MAILER
from gatepost.mail.message import Field, Headers, Message

EXPRESS = {"x-mailer": "Microsoft Outlook Express 6.00.2800.1106"}
OLE = {"x-mimeole": "Produced By Microsoft MimeOLE V6.00"}
BAT = {"x-mailer": "The Bat! (v2.00.9) Personal"}
APPLE = {"x-mailer": "Apple Mail (2.3654.120.0.1.13)"}


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        (EXPRESS, [HEADER_FORGED_MAILER.id]),
        (EXPRESS | OLE | {"message-id": "<45a6b20$e8dea3c9@x>"}, [HEADER_FORGED_MAILER.id]),
        (BAT | {"message-id": "<817.60667578265184@thebat.net>"}, [HEADER_FORGED_MAILER.id]),
        (APPLE | {"message-id": "<12345@evil.test>"}, [HEADER_FORGED_MAILER.id]),
        ({"x-mailer": "6pHng"}, [HEADER_ODD_MAILER.id]),
        ({"x-mailer": "2"}, [HEADER_ODD_MAILER.id]),
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
