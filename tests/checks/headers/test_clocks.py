"""The checks of `headers/clocks`: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds
from tests.known_senders import know_list, know_member

from gatepost.checks.headers.fields import clocks, foreign_charset
from gatepost.checks.reading import Reading
from gatepost.mail.reader import read

# Both say 27 June 2007, 08:12:29 UTC.
IDENTIFIER = "<000b01c7b892$e7c7b770$5f0aa8c0@pc1>"
DATE = "Wed, 27 Jun 2007 17:12:29 +0900"
OUTLOOK = "X-Mailer: Microsoft Outlook Express 6.00\n"
LIST = "List-Post: <mailto:l@lists.example>\n"


@pytest.mark.parametrize(
    ("identifier", "date", "header", "kinds"),
    [
        (IDENTIFIER, "Wed, 27 Jun 2007 08:12:29 +0900", OUTLOOK, ["header:clocks-differ"]),
        (IDENTIFIER, "Wed, 1 Jul 2009 17:12:29 +0900", OUTLOOK, ["header:clocks-differ"]),
        (IDENTIFIER, DATE, "", ["header:forged-message-id"]),
        (IDENTIFIER, DATE, "X-Mailer: The Bat!\n", ["header:forged-message-id"]),
        ("<01c7b892$e7c7b770$5f0aa8c0@pc1>", DATE, OUTLOOK, ["header:forged-message-id"]),
        ("<1@pc1>", "Wed, 27 Jun 2007 17:12:29 -0540", "", ["header:odd-zone"]),
        ("<1@pc1>", "Wed, 27 Jun 2007 17:12:29 +2300", "", ["header:odd-zone"]),
        (IDENTIFIER, "Wed, 1 Jul 2009 17:12:29 +0900", "", ["header:forged-message-id", "header:clocks-differ"]),
        (
            IDENTIFIER,
            "Wed, 1 Jul 2009 17:12:29 +0900",
            f"X-Mailer: A program\n{LIST}",
            ["header:forged-message-id", "header:clocks-differ"],
        ),
        (IDENTIFIER, DATE, OUTLOOK, []),
        (IDENTIFIER, DATE, LIST, ["header:forged-message-id"]),
        (IDENTIFIER, "whenever", OUTLOOK, []),
        ("<20261110.$1.desk$2@notice.example>", DATE, "", []),
        ("<1@pc1>", "Wed, 27 Jun 2007 17:12:29 +0545", "", []),
        ("<1@pc1>", "Wed, 27 Jun 2007 17:12:29 +1400 (LINT)", "", []),
        ("<1@pc1>", "Wed, 27 Jun 2007 17:12:29 GMT", "", []),
    ],
)
def test_clocks(identifier: str, date: str, header: str, kinds: list[str]) -> None:
    reading = Reading(read(f"Message-ID: {identifier}\nDate: {date}\n{header}\ntext\n".encode()))
    assert find_kinds(clocks, reading) == kinds


@pytest.mark.parametrize(
    ("date", "header", "kinds"),
    [
        ("Wed, 1 Jul 2009 17:12:29 +0900", f"X-Mailer: A program\n{LIST}", ["header:forged-message-id"]),
        ("Wed, 1 Jul 2009 17:12:29 +0900", LIST, ["header:clocks-differ"]),
        (DATE, LIST, []),
        (DATE, "", ["header:forged-message-id"]),  # it names no list
    ],
)
def test_clocks_of_members_of_a_known_list(date: str, header: str, kinds: list[str]) -> None:
    reading = Reading(read(f"Message-ID: {IDENTIFIER}\nDate: {date}\n{header}\ntext\n".encode()))
    assert find_kinds(clocks, know_list(reading)) == kinds


TEXT = b"The list of parcels for this week is with the front desk, and the next one comes on Friday."


@pytest.mark.parametrize(
    ("charset", "text", "header", "found"),
    [
        ("koi8-r", TEXT, "", 1),
        ('"gb2312"', TEXT, "", 1),
        ("utf-8", TEXT, "", 0),
        ("iso-8859-1", TEXT, "", 0),
        ("koi8-r", b"Thank you.", "", 0),
        ("koi8-r", TEXT + "Привет".encode("koi8-r"), "", 0),
        ("koi8-r", TEXT, "Subject: =?utf-8?b?0J/RgNC40LLQtdGC?=\n", 0),
        ("koi8-r", TEXT, LIST, 1),
    ],
)
def test_foreign_charset(charset: str, text: bytes, header: str, found: int) -> None:
    raw = f"{header}Content-Type: text/plain; charset={charset}\n\n".encode() + text
    assert find_kinds(foreign_charset, Reading(read(raw))) == ["header:foreign-charset"] * found


def test_members_of_a_known_list_write_in_every_charset() -> None:
    reading = Reading(read(f"{LIST}Content-Type: text/plain; charset=koi8-r\n\n".encode() + TEXT))
    assert not list(foreign_charset(know_member(reading)))
