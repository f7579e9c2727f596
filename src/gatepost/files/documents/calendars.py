"""Calendar invitations (iCalendar, RFC 5545) and cards (vCard, RFC 6350)."""

import re
from itertools import islice

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.mail.encodings.transfer import decode_quoted_printable
from gatepost.mail.links import find_targets
from gatepost.mail.text import normalise_lines, unfold_calendar

MAX_CALENDAR = 4 << 20
MAX_LINES = 100_000
_READABLE = frozenset(
    {"SUMMARY", "DESCRIPTION", "LOCATION", "URL", "CONTACT", "COMMENT", "X-ALT-DESC", "STYLED-DESCRIPTION", "NAME"}
    | {"CONFERENCE", "LINK", "SOURCE"}
)
_ATTACHED = frozenset({"ATTACH", "IMAGE", "STRUCTURED-DATA"})
# The name of a property and its parameters; values of these may have colons, in quotes.
_LINE = re.compile(r"((?>[^\":]|\"[^\"]*+\")*+):(.*)", re.DOTALL)
_ADDRESS = re.compile(r"mailto:([^\s;,\"]{1,320})", re.IGNORECASE)
_FILE_NAME = re.compile(r"(?:FILENAME|X-FILENAME|X-APPLE-FILENAME)=\"?([^;:\"]{1,200})", re.IGNORECASE)
_FOLD = re.compile(r"\n[ \t]")
_ENCODED = re.compile(r"BASE64|ENCODING=\"?B\b", re.IGNORECASE)
_DATA = re.compile(r"\s{0,9}data:[^,]{0,200};base64,", re.IGNORECASE)
LONG_VALUE = 64
# A property that may hold a file or name one, with its folded lines; and one that begins as a picture does.
_HOLDING = re.compile(
    rb"(?:^|[\r\n])(?:(?:ATTACH|STRUCTURED-DATA|IMAGE|SOUND|KEY|PHOTO|LOGO)\b"
    rb"|[^\r\n]{0,200}?(?:BASE64|;ENCODING=\"?B\b))[^\r\n]*+(?>\r?\n?[ \t][^\r\n]*+)*+",
    re.IGNORECASE,
)
_PORTRAIT = re.compile(rb":\s{0,80}(?:data:image/[\w+-]{1,20};base64,)?(?:/9j/|iVBOR|R0lGOD|UklGR)", re.IGNORECASE)
MAX_HOLDING = 300


def inspect_calendar(builder: ContentsBuilder) -> None:
    """Add method, organiser, number of attendees and links of an invitation (iCalendar, RFC 5545; iTIP, RFC 5546), and
    the files attached within. Mail programs enter invitations by themselves, links and all."""
    text = _FOLD.sub("", normalise_lines(_take_content(builder).decode("utf-8", "replace")))
    attendees = 0
    readable: list[str] = []
    for line in text.split("\n", MAX_LINES)[:MAX_LINES]:
        head, value = _split_line(line)
        name = head.partition(";")[0].strip().upper()
        if name == "ATTENDEE":
            attendees += 1
        elif name == "METHOD":
            builder.add_trait("calendar-method", value.strip().upper())
        elif name == "ORGANIZER" and (match := _ADDRESS.search(line)):
            builder.add_trait("calendar-organizer", match.group(1).lower())
        elif name in _ATTACHED:
            _add_attachment(head, value, builder)
        elif name == "ACTION" and value.strip().upper() == "PROCEDURE":
            # RFC 2445 section 4.8.6.1: it runs what it attaches.
            builder.add_trait("program-action", "alarm of a calendar")
        elif name in _READABLE:
            readable.append(unfold_calendar(value))
    if builder.file.shown:
        builder.add_links(find_targets("\n".join(readable)))
    else:
        builder.add_text("\n".join(readable))
    if attendees:
        builder.add_trait("calendar-attendees", str(attendees))


def _take_content(builder: ContentsBuilder) -> bytes:
    """Return the start of a calendar or card, and of the rest what may hold a file, without portraits."""
    content = builder.file.content
    if len(content) <= MAX_CALENDAR and content.count(b"\n") + content.count(b"\r") <= MAX_LINES:
        return content
    builder.add_unread("text")
    found = [match.group() for match in islice(_HOLDING.finditer(content), MAX_LINES)]
    holding = [each for each in found if not _PORTRAIT.search(each[:400])]
    if len(found) == MAX_LINES or len(holding) > MAX_HOLDING or sum(map(len, holding)) > MAX_CALENDAR * 4:
        builder.add_unread("size")
        holding = holding[:MAX_HOLDING]
    return b"\n".join([*holding, content[:MAX_CALENDAR]])


def inspect_card(builder: ContentsBuilder) -> None:
    """Add the files in a card (vCard, RFC 6350); and its text and links, where they were not read with the message."""
    if _has_payload(builder.file.content):
        _add_card_files(builder)
    if builder.file.shown:
        return
    content = builder.take_source(builder.file.content)
    if b"QUOTED-PRINTABLE" in content.upper():  # vCard 2.1
        content = decode_quoted_printable(content).content
    text = _FOLD.sub("", normalise_lines(content.decode("utf-8", "replace")))
    values = (line.partition(":") for line in text.split("\n") if "BASE64" not in line[:200].upper())
    # Line breaks inside a value are written out last: a line of a note may itself begin with `https:`.
    builder.add_text("\n".join(unfold_calendar(value or head) for head, _, value in values))


def _split_line(line: str) -> tuple[str, str]:
    """Return the head of a line, which is the name of a property with its parameters, and the value."""
    found = _LINE.match(line)
    if found:
        return found[1], found[2]
    head, _, value = line.partition(":")
    return head, value


def _has_payload(content: bytes) -> bool:
    return len(content) > LONG_VALUE and any(
        mark in content.lower() for mark in (b"base64", b"encoding=b", b'encoding="b', b"quoted-printable")
    )


def _add_card_files(builder: ContentsBuilder) -> None:
    """Add every value in base64, whatever property it is said to be: KEY, PHOTO, LOGO, SOUND, ATTACH."""
    text = _FOLD.sub("", normalise_lines(_take_content(builder).decode("utf-8", "replace")))
    for line in text.split("\n", MAX_LINES)[:MAX_LINES]:
        head, value = _split_line(line)
        if "QUOTED-PRINTABLE" in head.upper() and len(value) > LONG_VALUE:
            content = decode_quoted_printable(value.encode("utf-8", "replace")).content
            if b"\0" in content:
                builder.add_member(head.partition(";")[0].strip().lower() or "value", content, len(value))
        is_payload = _ENCODED.search(head) is not None or _DATA.match(value) is not None
        if is_payload and len(value) > LONG_VALUE:
            _add_attachment(head, value, builder, head.partition(";")[0].strip().lower() or "value")


def _add_attachment(head: str, value: str, builder: ContentsBuilder, title: str = "attachment") -> None:
    inline = _DATA.match(value)
    if not inline and _ENCODED.search(head) is None:
        builder.add_link(value.strip())
        return
    name = _FILE_NAME.search(head)
    builder.add_base64(name.group(1) if name else title, value[inline.end() :] if inline else value, len(value))
