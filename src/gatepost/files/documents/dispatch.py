"""The readers of documents: the table that says which reader takes which file, and the readers of small formats.

Every reader takes any bytes, raises nothing, and reports what it did not read. Archives are opened by `files.archives`;
the parts of a zipped document (.docx, .odt) come here one by one when the walk through the zip comes to them, and each
is recognised by its content. The small formats are shortcuts (a name and an icon of one's choice for any command),
calendar invitations and cards, OneNote sections, PostScript and plain text.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from html import unescape
from itertools import islice
from typing import TypeAlias

from gatepost.files.archives import unpack, zip_archive
from gatepost.files.documents import (
    document_text,
    office_xml,
    ole,
    pdf,
    rtf,
    saved_messages,
    spreadsheets,
    web_page,
)
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.document_text import add_plain_text, is_readable, remove_nuls
from gatepost.files.documents.script_strings import expand_commands, find_addresses
from gatepost.files.file_types import CONTAINERS, find_last_extensions, identify, is_pdf
from gatepost.files.values import Contents, File, UnpackBudget
from gatepost.mail.encodings.transfer import decode_quoted_printable
from gatepost.mail.links import find_targets
from gatepost.mail.text import normalise_lines, unfold_calendar

Reader: TypeAlias = Callable[[ContentsBuilder], None]

MAX_STRING = 32_768
HAS_ID_LIST, HAS_LINK_INFO, IS_UNICODE = 0x01, 0x02, 0x80
_STRINGS = ((0x04, "name"), (0x08, "target"), (0x10, "folder"), (0x20, "arguments"), (0x40, "icon"))
_URL = re.compile(r"^[ \t]*(?:BASE)?URL[ \t]*=[ \t]*([^\r\n]{1,4096})", re.IGNORECASE | re.MULTILINE)
_ICON = re.compile(r"^[ \t]*(?:IconFile|WorkingDirectory)[ \t]*=[ \t]*([^\r\n]{1,1024})", re.IGNORECASE | re.MULTILINE)
_LIST_ADDRESS = re.compile(r"(?:https?|ftps?|file|smb|afp|nfs|vnc|ssh):/{0,5}[^\s<>\"\x00-\x1f]{3,2000}", re.IGNORECASE)
_PROPERTY_LISTS = frozenset({"webloc", "inetloc", "fileloc", "afploc", "ftploc", "mailloc"})
MAX_ADDRESSES = 20
_SHARE = re.compile(r"(?:file:)?[\\/]{2,5}[^\\/]", re.IGNORECASE)


def _inspect_shortcut(builder: ContentsBuilder) -> None:
    """Add target and arguments of a .lnk file (MS-SHLLINK)."""
    content = builder.file.content
    flags = int.from_bytes(content[20:24], "little")
    place = 76
    if flags & HAS_ID_LIST:
        place += 2 + int.from_bytes(content[place : place + 2], "little")
    target = ""
    if flags & HAS_LINK_INFO:
        size = int.from_bytes(content[place : place + 4], "little")
        target = _find_local_path(content[place : place + min(size, MAX_STRING)])
        place += size
    found = _read_strings(content, place, flags)
    command = " ".join(part for part in (target or found.get("target", ""), found.get("arguments", "")) if part)
    builder.add_trait("shortcut", command)
    if found.get("arguments"):
        builder.add_trait("shortcut-arguments", found["arguments"].strip())
    builder.add_member("command", expand_commands(command))


def _find_local_path(info: bytes) -> str:
    start = int.from_bytes(info[16:20], "little")
    end = info.find(b"\0", start) if 28 <= start < len(info) else -1
    return info[start:end].decode("cp1252", "replace") if end > 0 else ""


def _read_strings(content: bytes, place: int, flags: int) -> dict[str, str]:
    """Return the counted strings whose flags are set (section 2.4)."""
    found: dict[str, str] = {}
    width = 2 if flags & IS_UNICODE else 1
    for flag, name in _STRINGS:
        if flags & flag:
            size = int.from_bytes(content[place : place + 2], "little") * width
            raw = content[place + 2 : place + 2 + size]
            found[name] = raw.decode("utf-16-le" if width == 2 else "cp1252", "replace")
            place += 2 + size
    return found


def _is_property_list(file: File) -> bool:
    """Return whether this is a shortcut of macOS (.webloc, .inetloc, .fileloc): a property list with one address."""
    return any(_PROPERTY_LISTS.intersection(find_last_extensions(name)) for name in file.names)


def _inspect_property_list(builder: ContentsBuilder) -> None:
    """Add the address of a shortcut of macOS, which is XML or binary; one of a file is opened as a program would be."""
    text = builder.file.content[:65_536].decode("latin-1")
    for match in islice(_LIST_ADDRESS.finditer(text), MAX_ADDRESSES):
        target = unescape(match.group().strip())
        builder.add_link(target)
        is_file = target.lower().startswith(("file:", "smb:", "afp:", "nfs:"))
        builder.add_trait("shortcut-to-share" if is_file else "internet-shortcut", target)


def _inspect_internet_shortcut(builder: ContentsBuilder) -> None:
    """Add the address of a .url file; one on a file share is opened as a program would be."""
    text = builder.file.content[:65_536].decode("utf-8", "replace")
    for match in _URL.finditer(text):
        target = match.group(1).strip()
        builder.add_link(target)
        builder.add_trait("shortcut-to-share" if _SHARE.match(target) else "internet-shortcut", target)
    for match in _ICON.finditer(text):
        if _SHARE.match(match.group(1)):
            builder.add_trait("shortcut-to-share", match.group(1))


MAX_CALENDAR = 4 << 20
MAX_LINES = 100_000
_READABLE = frozenset({"SUMMARY", "DESCRIPTION", "LOCATION", "URL", "CONTACT", "COMMENT", "X-ALT-DESC"})
_ADDRESS = re.compile(r"mailto:([^\s;,\"]{1,320})", re.IGNORECASE)
_FILE_NAME = re.compile(r"(?:FILENAME|X-FILENAME|X-APPLE-FILENAME)=\"?([^;:\"]{1,200})", re.IGNORECASE)
_FOLD = re.compile(r"\n[ \t]")


def _inspect_calendar(builder: ContentsBuilder) -> None:
    """Add method, organiser, number of attendees and links of an invitation (iCalendar, RFC 5545; iTIP, RFC 5546), and
    the files attached within. Mail programs enter invitations by themselves, links and all."""
    content = builder.file.content
    if len(content) > MAX_CALENDAR:
        builder.add_unread("size")
    text = _FOLD.sub("", normalise_lines(content[:MAX_CALENDAR].decode("utf-8", "replace")))
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
    if builder.file.shown:
        builder.add_links(find_targets("\n".join(readable)))
    else:
        builder.add_text("\n".join(readable))
    if attendees:
        builder.add_trait("calendar-attendees", str(attendees))


def _inspect_card(builder: ContentsBuilder) -> None:
    """Add the text and links of a card (vCard, RFC 6350) that was not read with the message."""
    if builder.file.shown:
        return
    content = builder.budget.take_text_source(builder.file.content)
    if b"QUOTED-PRINTABLE" in content.upper():  # vCard 2.1
        content = decode_quoted_printable(content).content
    text = _FOLD.sub("", normalise_lines(content.decode("utf-8", "replace")))
    values = (line.partition(":") for line in text.split("\n") if "BASE64" not in line[:200].upper())
    # Line breaks inside a value are written out last: a line of a note may itself begin with `https:`.
    builder.add_text("\n".join(unfold_calendar(value or head) for head, _, value in values))


def _add_attachment(head: str, value: str, builder: ContentsBuilder) -> None:
    if "BASE64" not in head.upper():
        builder.add_link(value.strip())
        return
    name = _FILE_NAME.search(head)
    builder.add_base64(name.group(1) if name else "attachment", value, len(value))


MAX_OBJECTS = 500
MAX_NAMES = 20_000
_MARK = bytes.fromhex("e716e3bd65261145a4c48d4d0b7a9eac")
_HEAD = 36
_PACKAGED = bytes.fromhex("2fe98d63d4a6c14b9a36b3fc2511a5b7")
MAX_RUNS = 2_000
MIN_BLANKS = 3
# Letters of alphabets whose characters have a small first byte: Latin, Greek, Cyrillic, Hebrew, Arabic.
_WIDE_RUN = re.compile(rb"(?:[\t\n\r\x20-\x7e\xa0-\xff]\0|[^\x00][\x01-\x06]|[\x10-\x3f]\x20){16,}+")
_NARROW_RUN = re.compile(rb"[\t\n\r\x20-\x7e\xa0-\xff]{24,}+")
_PICTURES = frozenset({"png", "jpeg", "gif", "bmp", "tiff", "webp"})
_CHARACTERS = frozenset(range(0x20, 0x7F)) - frozenset(b'/\\"<>|*?')
# An extension, and what may stand behind it in a name that hides it: dots, blanks of all sorts, the mark of a stream.
_ENDING = re.compile(
    rb"(?:[A-Za-z0-9-]\0){1,24}+(?:[ .:$\"'_A-Z\xa0]\0|[\x00-\x6f]\x20|\x00\x30|\x00\x28|\xff\xfe){0,40}+(?=\0\0)"
)


def _inspect_onenote(builder: ContentsBuilder) -> None:
    """Add the attached files, the text and the links of a OneNote section (MS-ONESTORE). Attached files stand in it as
    they are, each behind a fixed mark and its length. A section that was saved from the web has another form inside
    (section 2.8, of MS-FSSHTTPB); its files are not read, and that is said."""
    content = builder.file.content
    names = list(dict.fromkeys(_find_note_names(content)))
    place = content.find(_MARK)
    count = 0
    while place >= 0:
        count += 1
        if count > MAX_OBJECTS:
            builder.add_unread("count")
            break
        size = int.from_bytes(content[place + 16 : place + 24], "little")
        start = place + _HEAD
        _add_attached(content[start : start + min(size, len(content))], names, builder)
        place = content.find(_MARK, start)
    if content[48:64] == _PACKAGED:
        builder.add_unread("unsupported")
    builder.add_links(find_addresses(content))
    builder.add_text("\n".join(_find_note_texts(builder.budget.take_text_source(content))))


def _find_note_texts(content: bytes) -> Iterator[str]:
    """Yield what is written on the pages: runs of characters, in two bytes or, where all are Latin, in one
    (MS-ONE sections 2.3.51 and 2.3.52); titles of fonts and the like are shorter."""
    for match in islice(_WIDE_RUN.finditer(content), MAX_RUNS):
        yield match.group().decode("utf-16-le", "replace")
    for match in islice(_NARROW_RUN.finditer(content), MAX_RUNS):
        if match.group().count(b" ") >= MIN_BLANKS:
            yield match.group().decode("cp1252", "replace")


def _find_note_names(content: bytes) -> Iterator[str]:
    """Yield whatever looks like the name of a file, in characters of two bytes."""
    place = content.find(b".\0")
    for _ in range(MAX_NAMES):
        if place < 0:
            return
        ending = _ENDING.match(content, place + 2)
        start = place
        while (
            ending
            and start >= 2
            and place - start < 240
            and content[start - 2] in _CHARACTERS
            and not content[start - 1]
        ):
            start -= 2
        if ending and start < place:
            yield content[start : ending.end()].decode("utf-16-le")
        place = content.find(b".\0", place + 2)


def _add_attached(content: bytes, names: list[str], builder: ContentsBuilder) -> None:
    """Add one attached file. Pictures are part of the page; any other file may bear any of the names in the section."""
    if identify(content) in _PICTURES:
        builder.add_member("picture", content)
        return
    builder.add_trait("embedded-object", names[0] if names else "attached file")
    builder.add_member(tuple(names[:8]) or ("attached file",), content)


_POSTSCRIPT = re.compile(rb"\s{0,9}%!PS")
_PIPE = re.compile(rb"\(\s{0,9}(%pipe%[^()]{1,300})")
MAX_PIPES = 20


def _inspect_postscript(builder: ContentsBuilder) -> None:
    """Inspect a page of PostScript, which is a program: some interpreters start others by the name of a file
    (`(%pipe%…) (w) file`)."""
    for match in islice(_PIPE.finditer(builder.file.content), MAX_PIPES):
        builder.add_trait("program-action", match.group(1).decode("latin-1"))


def _inspect_plain(builder: ContentsBuilder) -> None:
    add_plain_text(builder.file.content, builder)


def _find_addresses(builder: ContentsBuilder) -> None:
    """Add the addresses in data that is text (JSON, a playlist, a map): no prose, and a program follows them."""
    if b"://" in builder.file.content:
        builder.add_links(find_addresses(builder.budget.take_text_source(builder.file.content)), "script")


def _inspect_comments(builder: ContentsBuilder) -> None:
    """Add the text of an archive's comments, which unpackers show before anything else."""
    find = zip_archive.find_comments if builder.file.type == "zip" else unpack.find_gzip_comments
    if comments := find(builder.file.content):
        add_plain_text(b"\n".join(comments), builder)


_NOTHING = Contents()
_READERS: dict[str, Reader] = {
    "ole": ole.inspect,
    "rtf": rtf.inspect,
    "pdf": pdf.inspect,
    "onenote": _inspect_onenote,
    "lnk": _inspect_shortcut,
    "ics": _inspect_calendar,
    "vcard": _inspect_card,
    "html": web_page.inspect,
    "svg": web_page.inspect,
    "xml": office_xml.inspect,
    "eml": saved_messages.inspect_message,
    "mbox": saved_messages.inspect_mailbox,
    "tnef": saved_messages.inspect_tnef,
    "cms": saved_messages.inspect_cms,
}
_MESSAGES = frozenset({"eml", "mbox", "tnef", "cms"})
_LISTS = frozenset({"xml", "text", "data"})
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BINARY_PARTS = (spreadsheets.SUPBOOK_PART, spreadsheets.WORKBOOK_PART)


def inspect(file: File, budget: UnpackBudget, passwords: Iterable[str] = ()) -> Contents:
    """Return the contents of one file that is no archive; `passwords` are those that the mail gives away."""
    reader = _choose_reader(file)
    if reader is None:
        return _NOTHING
    builder = ContentsBuilder(file, budget, passwords)
    reader(builder)
    return builder.build()


def _choose_reader(file: File) -> Reader | None:
    if file.type == "pdf" or (file.type in CONTAINERS and is_pdf(file.content)):
        return pdf.inspect
    if file.type in _LISTS and _is_property_list(file):
        return _inspect_property_list
    if file.type == "xml" and not file.within and web_page.is_xml_page(file.content):
        return web_page.inspect_xml
    if reader := _READERS.get(file.type):
        return reader
    if file.type == "text":
        return _choose_text_reader(file)
    if file.type == "data":
        return _choose_data_reader(file)
    return _inspect_comments if file.type in ("zip", "gzip") else None


def _choose_text_reader(file: File) -> Reader | None:
    """Choose the reader of text by what its name makes of it: a table, a shortcut, a page. The message's own text is
    none of these."""
    if file.is_body:
        return None if file.shown else _inspect_plain
    if b"[internetshortcut" in file.content[:512].lower():
        return _inspect_internet_shortcut
    if document_text.is_encoded(file):
        return document_text.inspect
    if _POSTSCRIPT.match(file.content):
        return _inspect_postscript
    if spreadsheets.is_text_table(file):
        return spreadsheets.inspect_text_table
    if web_page.is_page(file):
        return web_page.inspect
    if office_xml.is_xml(file.content):
        return office_xml.inspect
    if file.shown:
        return None
    return _inspect_plain if is_readable(file) else _find_addresses


def _choose_data_reader(file: File) -> Reader | None:
    if file.content.startswith(_BINARY_PARTS):
        return spreadsheets.inspect_workbook_part
    if web_page.is_page(file):  # with two bytes to a character
        return web_page.inspect
    if not file.shown and is_readable(file):
        if file.content[:2] in _WIDE_MARKS:
            return _inspect_plain
        if text := remove_nuls(file.content):
            return lambda builder: add_plain_text(text, builder)
    return office_xml.inspect if b"\0" in file.content[:4] and office_xml.is_xml(file.content) else None


def has_reader(file: File) -> bool:
    """Return whether the file is a document by its type, and an archive only by accident."""
    return file.type in _READERS


def is_document(file: File) -> bool:
    """Return whether the files inside are parts of a document rather than files that a person packed."""
    if file.type != "zip":
        return has_reader(file)
    return b"[Content_Types].xml" in file.content or file.content[30:50] == b"mimetypeapplication/"


def is_message(file: File) -> bool:
    """Return whether the file is mail, so that the files inside are attachments and no parts of a document."""
    return file.type in _MESSAGES
