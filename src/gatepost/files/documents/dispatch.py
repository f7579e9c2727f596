"""The table of document readers. Every reader takes any bytes, raises nothing, and reports what it did not read.

Archives are opened by `files.archives`; the parts of a zipped document (.docx, .odt) come here one by one when the walk
through the zip comes to them, and each is recognised by its content.
"""

import re
from collections.abc import Callable, Iterable
from itertools import islice

from gatepost.files.archives import unpack, zip_archive
from gatepost.files.documents import (
    calendar,
    document_text,
    mail_message,
    office_xml,
    ole,
    onenote,
    pdf,
    rtf,
    shortcut,
    spreadsheets,
    web_page,
)
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.document_text import is_readable, read_plain_text, remove_nuls
from gatepost.files.documents.script_strings import find_addresses
from gatepost.files.file_types import CONTAINERS, is_pdf
from gatepost.files.values import Contents, File, UnpackBudget

_NOTHING = Contents()
_READERS: dict[str, Callable[[File, UnpackBudget], Contents]] = {
    "ole": ole.inspect,
    "rtf": rtf.inspect,
    "pdf": pdf.inspect,
    "onenote": onenote.inspect,
    "lnk": shortcut.inspect,
    "ics": calendar.inspect,
    "vcard": calendar.inspect_card,
    "html": web_page.inspect,
    "svg": web_page.inspect,
    "xml": office_xml.inspect,
    "eml": mail_message.inspect,
    "mbox": mail_message.inspect_mailbox,
    "tnef": mail_message.inspect_tnef,
    "cms": mail_message.inspect_cms,
}
_MESSAGES = frozenset({"eml", "mbox", "tnef", "cms"})
_POSTSCRIPT = re.compile(rb"\s{0,9}%!PS")
_PIPE = re.compile(rb"\(\s{0,9}(%pipe%[^()]{1,300})")
MAX_PIPES = 20
_LISTS = frozenset({"xml", "text", "data"})
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BINARY_PARTS = (spreadsheets.SUPBOOK_PART, spreadsheets.WORKBOOK_PART)


def inspect(file: File, budget: UnpackBudget, passwords: Iterable[str] = ()) -> Contents:
    """Return the contents of one file that is no archive; `passwords` are those that the mail gives away."""
    if file.type == "pdf" or (file.type in CONTAINERS and is_pdf(file.content)):
        return pdf.inspect(file, budget, passwords)
    if file.type == "ole":
        return ole.inspect(file, budget, passwords)
    if file.type in _LISTS and shortcut.is_property_list(file):
        return shortcut.inspect_property_list(file, budget)
    if file.type == "xml" and not file.within and web_page.is_xml_page(file.content):
        return web_page.inspect_xml(file, budget)
    if reader := _READERS.get(file.type):
        return reader(file, budget)
    if file.type == "text":
        return _inspect_text(file, budget)
    if file.type == "data":
        return _inspect_data(file, budget)
    if file.type in ("zip", "gzip"):
        return _inspect_comments(file, budget)
    return _NOTHING


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


def _inspect_text(file: File, budget: UnpackBudget) -> Contents:
    """Inspect text by what its name makes of it: a table, a shortcut, a page. The message's own text is none of
    these."""
    if file.declared.startswith("text/") and not file.names:
        return _NOTHING if file.shown else _read_plain(file, budget)
    if shortcut.is_internet_shortcut(file.content):
        return shortcut.inspect_internet(file, budget)
    if document_text.is_encoded(file):
        return document_text.inspect(file, budget)
    if _POSTSCRIPT.match(file.content):
        return _inspect_postscript(file, budget)
    if spreadsheets.is_text_table(file):
        return spreadsheets.inspect_text_table(file, budget)
    if web_page.is_page(file):
        return web_page.inspect(file, budget)
    if office_xml.is_xml(file.content):
        return office_xml.inspect(file, budget)
    if file.shown:
        return _NOTHING
    return _read_plain(file, budget) if is_readable(file) else _find_addresses(file, budget)


def _find_addresses(file: File, budget: UnpackBudget) -> Contents:
    """Return the addresses in data that is text (JSON, a playlist, a map): no prose, and a program follows them."""
    if b"://" not in file.content:
        return _NOTHING
    builder = ContentsBuilder(file, budget)
    builder.add_links(find_addresses(budget.take_text_source(file.content)), "script")
    return builder.build()


def _inspect_postscript(file: File, budget: UnpackBudget) -> Contents:
    """Inspect a page of PostScript, which is a program: some interpreters start others by the name of a file
    (`(%pipe%…) (w) file`)."""
    builder = ContentsBuilder(file, budget)
    for match in islice(_PIPE.finditer(file.content), MAX_PIPES):
        builder.add_trait("program-action", match.group(1).decode("latin-1"))
    return builder.build()


def _read_plain(file: File, budget: UnpackBudget) -> Contents:
    builder = ContentsBuilder(file, budget)
    builder.add_text(read_plain_text(budget.take_text_source(file.content)))
    return builder.build()


def _inspect_comments(file: File, budget: UnpackBudget) -> Contents:
    """Return the text of an archive's comments, which unpackers show before anything else."""
    comments = (zip_archive.find_comments if file.type == "zip" else unpack.find_gzip_comments)(file.content)
    if not comments:
        return _NOTHING
    builder = ContentsBuilder(file, budget)
    builder.add_text(read_plain_text(budget.take_text_source(b"\n".join(comments))))
    return builder.build()


def _inspect_data(file: File, budget: UnpackBudget) -> Contents:
    if file.content.startswith(_BINARY_PARTS):
        builder = ContentsBuilder(file, budget)
        spreadsheets.inspect_workbook_part(file.content, builder)
        return builder.build()
    if web_page.is_page(file):  # with two bytes to a character
        return web_page.inspect(file, budget)
    if file.content[:2] in _WIDE_MARKS and not file.shown and is_readable(file):
        return _read_plain(file, budget)
    if not file.shown and is_readable(file) and (text := remove_nuls(file.content)):
        builder = ContentsBuilder(file, budget)
        builder.add_text(read_plain_text(budget.take_text_source(text)))
        return builder.build()
    if b"\0" in file.content[:4] and office_xml.is_xml(file.content):
        return office_xml.inspect(file, budget)
    return _NOTHING
