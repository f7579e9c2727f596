"""Times that a message states in several places: Date, its time zone, and the clock inside Outlook's identifiers."""

import re
from collections.abc import Iterator

from gatepost.checks.headers.fields import parse_date
from gatepost.findings import Reading, check
from gatepost.kinds import (
    HEADER_CLOCKS_DIFFER,
    HEADER_FOREIGN_CHARSET,
    HEADER_FORGED_MESSAGE_ID,
    HEADER_ODD_ZONE,
    Finding,
)

_HOUR = 3_600
# A computer takes both from one clock; a letter that waits in the outbox gets both when it is sent.
_APART = _HOUR + 600
_LARGEST_ZONE = 14
_QUARTERS = frozenset({"00", "15", "30", "45"})
_ZONE = re.compile(r"[+-](\d\d)(\d\d)\s{0,3}(?:\(|\Z)")
_OUTLOOK_ID = re.compile(r"\s{0,3}<([0-9a-f]{0,4})([0-9a-f]{8})\$([0-9a-f]{8})\$[0-9a-f]{8}@", re.IGNORECASE)
_COUNTER = 4
# A Windows FILETIME counts tenths of microseconds from 1601 on.
_TICKS, _EPOCH = 10_000_000, 11_644_473_600


@check(HEADER_ODD_ZONE, HEADER_CLOCKS_DIFFER, HEADER_FORGED_MESSAGE_ID)
def clocks(reading: Reading) -> Iterator[Finding]:
    """Clocks that disagree within one header, and time zones that no country has.

    Outlook and Outlook Express write the time into each Message-ID: `<000b01c7b892$e7c7b770$5f0aa8c0@pc1>` holds a
    counter of four digits and a FILETIME, which is the moment of the Date field. Mass mailers copy the form and fill it
    with other digits, or compute it for another time zone. Zones are whole quarters of an hour up to fourteen hours
    (RFC 5322 section 3.3): `-0540` is none. Gateways and lists pass both fields on as they are. Programs other than
    Microsoft's do not write such identifiers.
    """
    date = reading.fields.get("date", "").strip()[:100]
    if (zone := _ZONE.search(date)) and (zone[2] not in _QUARTERS or int(zone[1]) > _LARGEST_ZONE):
        yield HEADER_ODD_ZONE.at("Date", date=date)
    identifier = reading.fields.get("message-id", "")
    found = _OUTLOOK_ID.match(identifier) if "$" in identifier else None
    if not found:
        return
    program = reading.fields.get("x-mailer", "").strip()
    # Lists may take the name of the program away; the form they leave as it was.
    is_named = program.startswith("Microsoft") or (not program and reading.is_discussion)
    is_forged = len(found[1]) != _COUNTER or not is_named
    if is_forged:
        yield HEADER_FORGED_MESSAGE_ID.at("Message-ID", value=identifier[:100], program=program[:80])
    written = parse_date(date)
    apart = abs(int(found[2] + found[3], 16) / _TICKS - _EPOCH - written) if written is not None else 0.0
    # Programs of list members write such identifiers with a clock of their own; there one of the two is enough.
    if apart > _APART and not (is_forged and reading.is_discussion):
        yield HEADER_CLOCKS_DIFFER.at("Message-ID", date=date, hours=round(apart / _HOUR))


_CHARSET = re.compile(r"charset\s{0,3}=\s{0,3}\"?([\w-]{2,20})", re.IGNORECASE)
_OTHER_ALPHABETS = frozenset(
    "windows-1250 windows-1251 windows-1253 windows-1255 windows-1256 iso-8859-2 iso-8859-5 iso-8859-7 koi8-r koi8-u "
    "gb2312 gbk gb18030 big5 euc-kr ks_c_5601-1987 shift_jis".split()
)
_ENOUGH_TEXT = 60


@check(HEADER_FOREIGN_CHARSET)
def foreign_charset(reading: Reading) -> Iterator[Finding]:
    """A character set of another alphabet for a text that has none of its letters.

    Mail programs declare what a text needs: for plain English that is us-ascii or utf-8, even where the program of a
    Russian or Chinese writer has koi8-r or gb2312 as its default. Mass-mailing tools declare the character set of their
    maker. Some old programs did so as well, and their users wrote a line or two in English, so short texts are left
    out.
    """
    charset = _CHARSET.search(reading.fields.get("content-type", "")[:500])
    if not charset or charset[1].lower() not in _OTHER_ALPHABETS or reading.is_discussion:
        return
    texts = [text.visible for text in reading.message.texts[:4] if not text.attached]
    if sum(map(len, texts)) >= _ENOUGH_TEXT and all(map(str.isascii, texts)) and reading.message.subject.isascii():
        yield HEADER_FOREIGN_CHARSET.at("Content-Type", charset=charset[1])
