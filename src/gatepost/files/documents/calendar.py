"""Calendar invitations (iCalendar, RFC 5545; iTIP, RFC 5546) and cards (vCard, RFC 6350).

Mail programs enter invitations by themselves, links and all.
"""

import re
from base64 import b64decode
from binascii import Error

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.values import Contents, File, UnpackBudget
from gatepost.mail.encodings.transfer import decode_quoted_printable
from gatepost.mail.links import find_targets
from gatepost.mail.text import normalise_lines, unfold_calendar

MAX_TEXT = 4 << 20
MAX_LINES = 100_000
_READABLE = frozenset({"SUMMARY", "DESCRIPTION", "LOCATION", "URL", "CONTACT", "COMMENT", "X-ALT-DESC"})
_ADDRESS = re.compile(r"mailto:([^\s;,\"]{1,320})", re.IGNORECASE)
_FILE_NAME = re.compile(r"(?:FILENAME|X-FILENAME|X-APPLE-FILENAME)=\"?([^;:\"]{1,200})", re.IGNORECASE)
_FOLD = re.compile(r"\n[ \t]")


def inspect(file: File, budget: UnpackBudget) -> Contents:
    """Return an invitation's method, organiser, number of attendees, links, and the files attached within."""
    builder = ContentsBuilder(file, budget)
    if len(file.content) > MAX_TEXT:
        builder.add_unread("size")
    text = _FOLD.sub("", normalise_lines(file.content[:MAX_TEXT].decode("utf-8", "replace")))
    attendees = 0
    readable: list[str] = []
    for line in text.split("\n", MAX_LINES)[:MAX_LINES]:
        head, _, value = line.partition(":")
        name = head.partition(";")[0].strip().upper()
        if name == "ATTENDEE":
            attendees += 1
        elif name == "METHOD":
            builder.add_trait("calendar-method", value.strip().upper())
        elif name == "ORGANIZER" and (match := _ADDRESS.search(line)):
            builder.add_trait("calendar-organizer", match.group(1).lower())
        elif name == "ATTACH":
            _add_attachment(head, value, builder)
        elif name in _READABLE:
            readable.append(unfold_calendar(value))
    if file.shown:
        builder.add_links(find_targets("\n".join(readable)))
    else:
        builder.add_text("\n".join(readable))
    if attendees:
        builder.add_trait("calendar-attendees", str(attendees))
    return builder.build()


def inspect_card(file: File, budget: UnpackBudget) -> Contents:
    """Return the text and links of a card that was not read with the message."""
    builder = ContentsBuilder(file, budget)
    if not file.shown:
        content = budget.take_text_source(file.content)
        if b"QUOTED-PRINTABLE" in content.upper():  # vCard 2.1
            content = decode_quoted_printable(content).content
        text = _FOLD.sub("", normalise_lines(content.decode("utf-8", "replace")))
        values = (line.partition(":") for line in text.split("\n") if "BASE64" not in line[:200].upper())
        # Line breaks inside a value are written out last: a line of a note may itself begin with `https:`.
        builder.add_text("\n".join(unfold_calendar(value or head) for head, _, value in values))
    return builder.build()


def _add_attachment(head: str, value: str, builder: ContentsBuilder) -> None:
    if "BASE64" not in head.upper():
        builder.add_link(value.strip())
        return
    name = _FILE_NAME.search(head)
    digits = re.sub(r"[^A-Za-z0-9+/]", "", value)
    try:
        content = b64decode(digits + "=" * (-len(digits) % 4))
    except Error:
        builder.add_unread("damaged")
        return
    builder.add_member(name.group(1) if name else "attachment", content, len(value))
