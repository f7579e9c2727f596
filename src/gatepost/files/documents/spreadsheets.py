"""Spreadsheets that are no XML: Excel's binary forms, and tables as text.

Binary workbooks are records in a row (MS-XLS for .xls, MS-XLSB for the parts of .xlsb). Macros were cells once: a sheet
of formulas (Excel 4.0, "XLM") runs without any Visual Basic. A link to another program (DDE) stands among the
workbook's links to other files.

Excel opens .csv and SYLK (.slk) with formulas, links to programs and even old macros.
"""

import re
from collections.abc import Iterator
from itertools import islice

from gatepost.files.documents import office_encryption
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.document_text import add_plain_text
from gatepost.files.documents.old_office import read_shared_strings
from gatepost.files.documents.script_strings import find_addresses
from gatepost.files.values import File

MAX_RECORDS = 500_000
MAX_CELLS = 10_000
FILEPASS, BOUNDSHEET, SUPBOOK, EXTERNSHEET, NAME, HLINK = 0x2F, 0x85, 0x1AE, 0x17, 0x18, 0x1B8
SST, CONTINUE, LABEL = 0xFC, 0x3C, 0x204
MACRO_SHEET = 1
SUPBOOK_PART = b"\xe8\x02"  # how a part starts with the record BEGIN_SUPBOOK of MS-XLSB
WORKBOOK_PART = b"\x83\x01\x00"
_HIDDEN = {1: "hidden", 2: "very hidden"}
_AUTORUN = {1: "Auto_Open", 2: "Auto_Close", 10: "Auto_Activate", 11: "Auto_Deactivate"}


def inspect_workbook(content: bytes, builder: ContentsBuilder) -> None:
    """Inspect the stream `Workbook` or `Book` of an .xls."""
    shared: list[bytes] = []
    labels: list[str] = []
    for kind, data in _read_records(content, builder):
        if kind == FILEPASS:
            _inspect_encrypted(content, builder)
            return  # from here on records are unreadable
        if kind == SST:
            shared.append(data)
        elif kind == LABEL and len(labels) < MAX_CELLS:
            labels.append(_read_label(data))
        elif kind == BOUNDSHEET and len(data) > 6 and data[5] == MACRO_SHEET:
            builder.add_trait("macro", "Excel 4.0")
            builder.add_trait("macro-cells", _HIDDEN.get(data[4] & 3, "visible"))
        elif kind == NAME:
            _inspect_name(data, builder)
        elif kind in (SUPBOOK, EXTERNSHEET):
            _inspect_external_book(data, kind, builder)
        elif kind == HLINK:
            builder.add_links(find_addresses(data))
    builder.add_text("\n".join([read_shared_strings(shared), *labels]))


def _read_label(data: bytes) -> str:
    """Return the text of a cell that has its own (MS-XLS section 2.4.148; BIFF5 has no flag)."""
    if data[8:9] in (b"\0", b"\x01"):
        return data[9:].decode("utf-16-le" if data[8] else "latin-1", "replace")
    return data[8:].decode("cp1252", "replace")


def _inspect_encrypted(content: bytes, builder: ContentsBuilder) -> None:
    """Inspect an encrypted workbook; once a password has opened it, its encryption record is gone."""
    plain = builder.try_passwords(1, lambda password: office_encryption.decrypt_workbook(content, password))
    if plain:
        inspect_workbook(plain, builder)
    else:
        builder.add_trait("encrypted", "Excel")


def inspect_workbook_part(builder: ContentsBuilder) -> None:
    """Inspect a part of an .xlsb for links to other programs and macros that start by themselves."""
    content = builder.file.content
    if content.startswith(WORKBOOK_PART):
        if "Auto_Open".encode("utf-16-le").lower() in content.lower():
            builder.add_trait("macro-autorun", "Auto_Open")
        return
    _, place = _read_packed_number(content, 0, 2)
    size, place = _read_packed_number(content, place, 4)
    data = content[place : place + size]
    if data[:2] == b"\x01\0":
        service, place = _read_wide_string(data, 2)
        topic, _ = _read_wide_string(data, place)
        builder.add_command("dde", "DDE command", f"{service} {topic}")


def _read_records(content: bytes, builder: ContentsBuilder) -> Iterator[tuple[int, bytes]]:
    """Yield the records that are wanted; what continues the table of strings is part of it."""
    place = 0
    in_table = False
    for _ in range(MAX_RECORDS):
        if place + 4 > len(content):
            return
        kind = content[place] | content[place + 1] << 8
        size = content[place + 2] | content[place + 3] << 8
        in_table = kind == SST or (in_table and kind == CONTINUE)
        if in_table or kind in _WANTED:
            yield SST if in_table else kind, content[place + 4 : place + 4 + size]
        place += 4 + size
    builder.add_unread("count")


_WANTED = frozenset({FILEPASS, BOUNDSHEET, SUPBOOK, EXTERNSHEET, NAME, HLINK, SST, LABEL})


def _inspect_name(data: bytes, builder: ContentsBuilder) -> None:
    """Inspect a defined name; built-in ones are a number (MS-XLS section 2.5.66)."""
    text = data[14:] if len(data) < 400 else data[14:400]
    if data[:1] and data[0] & 0x20 and text[:1] == b"\0" and text[1:2] and text[1] in _AUTORUN:
        builder.add_trait("macro-autorun", _AUTORUN[text[1]])
    elif data[:1] and data[0] & 0x20 and text[:1] and text[0] in _AUTORUN:  # BIFF5: no flag byte
        builder.add_trait("macro-autorun", _AUTORUN[text[0]])
    elif text.lower().replace(b"\0", b"").startswith((b"auto_open", b"auto_close")):
        builder.add_trait("macro-autorun", "Auto_Open")


def _inspect_external_book(data: bytes, kind: int, builder: ContentsBuilder) -> None:
    """Inspect a link to something outside; `program<03>topic` is one to another program."""
    if kind == SUPBOOK and len(data) > 5:
        text = data[5:].decode("utf-16-le" if data[4] & 1 else "latin-1", "replace")
    else:
        text = data[1:].decode("latin-1")
    service, mark, topic = text.partition("\x03")
    if mark and service and len(service) < 200:  # before a name alone, the mark means this very book
        builder.add_command("dde", "DDE command", f"{service} {topic}")


def _read_packed_number(content: bytes, place: int, most: int) -> tuple[int, int]:
    """Return a number in bytes of seven bits."""
    value = 0
    for index in range(most):
        byte = content[place + index] if place + index < len(content) else 0
        value |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return value, place + index + 1
    return value, place + most


def _read_wide_string(data: bytes, place: int) -> tuple[str, int]:
    end = place + 4 + 2 * int.from_bytes(data[place : place + 4], "little")
    return data[place + 4 : end].decode("utf-16-le", "replace"), end


MAX_TEXT = 8 << 20
MAX_FORMULAS = 200
MAX_LINKS = 10_000
MAX_COMMAND = 2_000
_TABLE_NAMES = (".csv", ".slk", ".tsv", ".dif", ".iqy")
# A cell that starts a formula, then `program|topic`: Excel asks another program for the value.
_DDE_CELL = re.compile(
    r"(?:^|(?<=[,;\t\"']))[ ]{0,3}+(?:[=+@-]|(?<=;)E)[\w.\\/:()+ -]{1,200}+\|[ ]?['\"\w/\\.-]", re.MULTILINE
)
_MACRO = re.compile(r"^(?:O;[^\r\n]{0,200}\bE\b|NN;Nauto_?open)", re.IGNORECASE | re.MULTILINE)
_FORMULA_LINK = re.compile(r"(?:HYPERLINK|WEBSERVICE)\(\s{0,5}\"{1,2}([^\"\r\n]{4,2000})", re.IGNORECASE)
# Functions that fetch what they name as soon as the table is opened, with cells of it in the address.
_FETCHING = re.compile(
    r"[=+@-][^\r\n|]{0,200}?\b(?:WEBSERVICE|RTD|IMPORTXML|IMPORTDATA|IMPORTHTML|IMPORTFEED)\(\s{0,5}\"{0,2}([^\"\r\n)]{4,2000})",
    re.IGNORECASE,
)
_QUERY = re.compile(r"\AWEB\s{1,4}\d{1,3}\s{1,4}(\S{1,2000})", re.IGNORECASE)


def is_text_table(file: File) -> bool:
    """Return whether text is a table, by its start (SYLK) or its name, by which a program opens it."""
    return file.content.startswith(b"ID;") or any(name.lower().endswith(_TABLE_NAMES) for name in file.names)


def inspect_text_table(builder: ContentsBuilder) -> None:
    """Add the links to programs, macros and links in a table that is text."""
    content = builder.file.content[:MAX_TEXT]
    if b"|" in content or b"(" in content or content.startswith(b"ID;") or content[:3].upper() == b"WEB":
        text = content.decode("utf-8", "replace")
        for match in islice(_DDE_CELL.finditer(text), MAX_FORMULAS):
            command = text[match.start() : match.end() + MAX_COMMAND].lstrip("=+@- ").splitlines()[0]
            builder.add_command("dde", "DDE command", command)
        if text.startswith("ID;"):
            for match in islice(_MACRO.finditer(text), MAX_FORMULAS):
                is_autorun = match.group().upper().startswith("NN")
                builder.add_trait("macro-autorun" if is_autorun else "macro", "SYLK")
                builder.add_trait("macro-cells", "SYLK")
        builder.add_links(match.group(1) for match in islice(_FORMULA_LINK.finditer(text), MAX_LINKS))
        if any(mark in content.upper() for mark in (b"SERVICE(", b"IMPORT", b"RTD(")):
            for match in islice(_FETCHING.finditer(text), MAX_FORMULAS):
                builder.add_trait("remote-object", match.group(1))
        if query := _QUERY.match(text):
            builder.add_link(query.group(1))
            builder.add_trait("remote-object", query.group(1))
    if not builder.file.shown:
        add_plain_text(content, builder)
