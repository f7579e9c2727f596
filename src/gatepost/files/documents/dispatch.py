"""The readers of documents: the table that says which reader takes which file, and what needs no reader of its own.

Every reader takes any bytes, raises nothing, and reports what it did not read. Archives are opened by `files.archives`;
the parts of a zipped document (.docx, .odt) come here one by one when the walk through the zip comes to them, and each
is recognised by its content.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from gatepost.files.archives import unpack, zip_archive
from gatepost.files.documents import (
    calendars,
    document_text,
    encoded_data,
    office_xml,
    ole,
    onenote,
    pdf,
    rtf,
    saved_messages,
    shortcuts_and_settings,
    spreadsheets,
    web_page,
)
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.document_text import add_plain_text, is_readable, remove_nuls
from gatepost.files.documents.script_strings import find_addresses
from gatepost.files.file_types import CONTAINERS, is_pdf
from gatepost.files.values import Contents, File, UnpackBudget
from gatepost.mail.encodings import openpgp

Reader: TypeAlias = Callable[[ContentsBuilder], None]

_POSTSCRIPT = re.compile(rb"\s{0,9}%!PS")
_PIPE = re.compile(rb"\(\s{0,9}(%pipe%[^()]{1,300})")
MAX_PIPES = 20


def _inspect_postscript(builder: ContentsBuilder) -> None:
    """Inspect a PostScript program: some interpreters start others by the name of a file (`(%pipe%…) (w) file`)."""
    for match in islice(_PIPE.finditer(builder.file.content), MAX_PIPES):
        builder.add_trait("program-action", match.group(1).decode("latin-1"))


def _inspect_plain(builder: ContentsBuilder) -> None:
    add_plain_text(builder.file.content, builder)


def _inspect_xml_page(builder: ContentsBuilder) -> None:
    """Inspect XML that a browser shows: it may be a document or a program of Office as well."""
    if builder.file.type == "xml":
        office_xml.inspect(builder)
    web_page.inspect_xml(builder)


def _find_addresses(builder: ContentsBuilder) -> None:
    """Add the addresses in data that is text (JSON, a playlist, a map): no prose, and a program follows them."""
    if b"://" in builder.file.content:
        builder.add_links(find_addresses(builder.take_source(builder.file.content)), "script")


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
    "onenote": onenote.inspect,
    "lnk": shortcuts_and_settings.inspect_shortcut,
    "ics": calendars.inspect_calendar,
    "vcard": calendars.inspect_card,
    "html": web_page.inspect,
    "svg": web_page.inspect,
    "xml": office_xml.inspect,
    "eml": saved_messages.inspect_message,
    "mbox": saved_messages.inspect_mailbox,
    "tnef": saved_messages.inspect_tnef,
    "cms": saved_messages.inspect_cms,
    "pgp": saved_messages.inspect_openpgp,
}
_MESSAGES = frozenset({"eml", "mbox", "tnef", "cms", "pgp"})
_LISTS = frozenset({"xml", "text", "data"})
# Types of which a page may bear the first bytes: they are shown as text.
_DISGUISES = frozenset(
    {"png", "jpeg", "gif", "bmp", "webp", "tiff", "ico", "pdf", "zip", "gzip", "mp3", "mp4", "wav", "rtf", "exe"}
)
_XML_TYPES = frozenset({"xml", "svg", "html", "text"})
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BINARY_PARTS = (spreadsheets.SUPBOOK_PART, spreadsheets.WORKBOOK_PART)


def inspect(file: File, budget: UnpackBudget, passwords: Iterable[str] = ()) -> Contents:
    """Return the contents of one file that is no archive; `passwords` are those that the mail gives away."""
    reader = _choose_reader(file)
    readers = [*([reader] if reader else ()), *_find_further_readers(file)]
    if not readers:
        return _NOTHING
    builder = ContentsBuilder(file, budget, passwords)
    for read in readers:
        read(builder)
    return builder.build()


def _find_further_readers(file: File) -> Iterator[Reader]:
    """Yield the readers of what a file may hold beside what it is."""
    if file.type == "text" and openpgp.MARK in file.content:
        yield saved_messages.inspect_openpgp
    if file.type == "pdf" and file.content.startswith(b"%FDF-"):
        yield encoded_data.inspect_fdf
    if file.type in _DISGUISES and web_page.is_page(file) and b"<" in file.content:
        yield web_page.inspect  # a browser goes by the name
    if file.type in _LISTS:
        if encoded_data.is_form_data(file.content):
            yield encoded_data.inspect_xfdf
        if shortcuts_and_settings.is_obeyed(file):
            yield shortcuts_and_settings.inspect_commands
        if encoded_data.holds_files(file):
            yield encoded_data.inspect


def _choose_reader(file: File) -> Reader | None:
    if file.type == "pdf" or (file.type in CONTAINERS and is_pdf(file.content)):
        return pdf.inspect
    if file.type in _LISTS and shortcuts_and_settings.is_property_list(file):
        return shortcuts_and_settings.inspect_property_list
    if file.type in _XML_TYPES and web_page.is_xml_page(file):
        return _inspect_xml_page
    if reader := _READERS.get(file.type):
        return reader
    if file.type == "text":
        return _choose_text_reader(file)
    if file.type == "data":
        return _choose_data_reader(file)
    return _inspect_comments if file.type in ("zip", "gzip") else None


def _choose_text_reader(file: File) -> Reader | None:
    """Choose the reader of text by its name: a table, a shortcut, a page. The message's own text has no name."""
    if file.is_body:
        return None if file.shown else _inspect_plain
    if shortcuts_and_settings.is_connection(file):
        return shortcuts_and_settings.inspect_connection
    if any(mark in file.content[:512].lower() for mark in (b"[internetshortcut", b"[.shellclassinfo")):
        return shortcuts_and_settings.inspect_internet_shortcut
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
        return web_page.inspect_xml if web_page.is_named_xml(file) else web_page.inspect
    if file.content[:2] in _WIDE_MARKS and web_page.is_xml_page(file):
        return web_page.inspect_xml
    if not file.shown and is_readable(file):
        if file.content[:2] in _WIDE_MARKS:
            return _inspect_plain
        if text := remove_nuls(file.content):
            return lambda builder: add_plain_text(text, builder)
    if openpgp.is_named_openpgp(file.names):
        return saved_messages.inspect_openpgp
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
