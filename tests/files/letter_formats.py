"""The same letter in every form in which a person would read it: documents, messages, pages, comments of archives.

`LETTER_FORMATS` is the matrix of texts: `test_document_text` proves each row, and `tools.reference` makes a table of
it.
"""

import base64
import gzip
import io
import struct
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from html import escape

import msgspec
from tests.files import document_formats as d
from tests.files.compound_files import make_compound

Lines = tuple[str, ...]
Make = Callable[[Lines], bytes]


def _zipped(**parts: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def docx(lines: Lines) -> bytes:
    """Word splits a line into runs wherever it likes."""
    runs = (
        "".join(f"<w:r><w:t xml:space='preserve'>{escape(half)}</w:t></w:r>" for half in _halves(line))
        for line in lines
    )
    body = "".join(f"<w:p>{run}</w:p>" for run in runs)
    return _zipped(
        **{
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f"<?xml version='1.0'?><w:document><w:body>{body}</w:body></w:document>",
        }
    )


def _halves(line: str) -> tuple[str, str]:
    return line[: len(line) // 2], line[len(line) // 2 :]


def xlsx(lines: Lines) -> bytes:
    items = "".join(f"<si><t>{escape(line)}</t></si>" for line in lines)
    return _zipped(
        **{"[Content_Types].xml": "<Types/>", "xl/sharedStrings.xml": f"<?xml version='1.0'?><sst>{items}</sst>"}
    )


def pptx(lines: Lines) -> bytes:
    items = "".join(f"<a:p><a:r><a:t>{escape(line)}</a:t></a:r></a:p>" for line in lines)
    return _zipped(
        **{"[Content_Types].xml": "<Types/>", "ppt/slides/slide1.xml": f"<?xml version='1.0'?><p:sld>{items}</p:sld>"}
    )


def odf(kind: str) -> Make:
    def make(lines: Lines) -> bytes:
        items = "".join(f"<text:p><text:span>{escape(line)}</text:span></text:p>" for line in lines)
        body = f"<office:{kind}>{items}</office:{kind}>"
        text = (
            f"<?xml version='1.0'?><office:document-content><office:body>{body}</office:body></office:document-content>"
        )
        return _zipped(mimetype="application/vnd.oasis.opendocument", **{"content.xml": text})

    return make


def pdf(lines: Lines) -> bytes:
    shown = " ".join(f"({line.replace('(', chr(92) + '(').replace(')', chr(92) + ')')}) Tj T*" for line in lines)
    commands = f"BT /F1 9 Tf 12 TL 40 800 Td {shown} ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(commands), commands),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body = b"".join(b"%d 0 obj%s endobj\n" % (number, each) for number, each in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R/Size 6>>\n%%EOF\n"


def plain(lines: Lines) -> bytes:
    return "\r\n".join(lines).encode()


def wide(lines: Lines) -> bytes:
    return b"\xff\xfe" + "\r\n".join(lines).encode("utf-16-le")


def html(lines: Lines) -> bytes:
    return ("<html><body>" + "".join(f"<p>{escape(line)}</p>" for line in lines) + "</body></html>").encode()


def csv(lines: Lines) -> bytes:
    return "\n".join(f'1,"{line}"' for line in lines).encode()


def rtf(lines: Lines) -> bytes:
    r"""Word writes tables of fonts first, and other letters than Latin ones as numbers."""
    shown = "\\par ".join(line.replace("\\", "\\\\").replace("i", "\\u105?") for line in lines)
    head = r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Times New Roman;}}{\*\generator Msftedit;}{\info{\title x}}"
    return f"{head}\\f0 {shown}\\par}}".encode("ascii", "replace")


def doc(lines: Lines) -> bytes:
    """Word 97: the text in two pieces, one with two bytes to a character, behind a table in a second stream."""
    first, second = "\r".join(lines[:2]) + "\r", "\r".join(lines[2:]) + "\r"
    head = bytearray(0x600)
    head[:2] = b"\xec\xa5"
    pieces = struct.pack("<III", 0, len(first), len(first) + len(second))
    pieces += struct.pack("<HIH", 0, 0x600, 0)
    pieces += struct.pack("<HIH", 0, (0x600 + 2 * len(first)) * 2 | 1 << 30, 0)
    table = b"\x01\x02\0ab\x02" + struct.pack("<I", len(pieces)) + pieces
    head[0x1A2:0x1AA] = struct.pack("<II", 16, len(table))
    text = bytes(head) + first.encode("utf-16-le") + second.encode("cp1252")
    return make_compound({"WordDocument": text, "0Table": bytes(16) + table})


def old_doc(lines: Lines) -> bytes:
    """Word 95: the text stands between two places."""
    text = "\r".join(lines).encode("cp1252")
    head = bytearray(0x300)
    head[:2] = b"\xdc\xa5"
    head[0x18:0x20] = struct.pack("<II", 0x300, 0x300 + len(text))
    return make_compound({"WordDocument": bytes(head) + text})


def _record(kind: int, data: bytes) -> bytes:
    return struct.pack("<HH", kind, len(data)) + data


def xls(lines: Lines) -> bytes:
    """Excel 97: the shared strings go on in a second record, in the middle of a string."""
    strings = [struct.pack("<HB", len(line), 0) + line.encode("latin-1") for line in lines[:-1]]
    last = lines[-1]
    half = len(last) // 2
    strings.append(struct.pack("<HBH", len(last), 8, 1) + last[:half].encode("latin-1"))
    rest = b"\x01" + last[half:].encode("utf-16-le") + bytes(4)
    table = struct.pack("<II", len(lines), len(lines)) + b"".join(strings)
    start = _record(0x809, struct.pack("<HHHH", 0x600, 5, 0, 0))
    return make_compound({"Workbook": start + _record(0xFC, table) + _record(0x3C, rest) + _record(0x0A, b"")})


def old_xls(lines: Lines) -> bytes:
    """Excel 95: each cell has its own text."""
    cells = (struct.pack("<HHHH", row, 0, 0, len(line)) + line.encode("cp1252") for row, line in enumerate(lines))
    return make_compound({"Book": _record(0x809, bytes(8)) + b"".join(_record(0x204, cell) for cell in cells)})


def ppt(lines: Lines) -> bytes:
    def atom(kind: int, data: bytes) -> bytes:
        return struct.pack("<HHI", 0, kind, len(data)) + data

    first, rest = "\r".join(lines[:2]), "\r".join(lines[2:])
    slide = atom(0xFA0, first.encode("utf-16-le")) + atom(0xFA8, rest.encode("latin-1"))
    whole = struct.pack("<HHI", 0xF, 0x3EE, len(slide)) + slide
    return make_compound({"PowerPoint Document": whole, "Current User": bytes(40)})


def msg(property_: str) -> Make:
    """A message that Outlook saved, with one sort of body."""

    def make(lines: Lines) -> bytes:
        body = {
            "1000001F": lambda: "\r\n".join(lines).encode("utf-16-le"),
            "10130102": lambda: html(lines),
            "10090102": lambda: _compressed(rtf(lines)),
        }[property_]()
        return make_compound({"__properties_version1.0": bytes(32), f"__substg1.0_{property_}": body})

    return make


def _compressed(rtf_: bytes) -> bytes:
    return struct.pack("<II", len(rtf_) + 12, len(rtf_)) + b"MELA" + bytes(4) + rtf_


def eml(lines: Lines) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ann <ann@a.example>", "bob@b.example", "Hello"
    message["Date"], message["Message-ID"] = "Tue, 10 Nov 2026 09:12:00 +0000", "<1@a.example>"
    message.set_content("\n".join(lines), cte="base64")
    return message.as_bytes()


def mbox(lines: Lines) -> bytes:
    start = b"From ann@a.example Tue Nov 10 09:12:00 2026\n"
    return start + eml(("Hello",)) + b"\n" + start + eml(lines) + b"\n"


def web_archive(lines: Lines) -> bytes:
    return (
        b'MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary="x"\r\n\r\n--x\r\nContent-Type: text/html\r\n'
        b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(html(lines)) + b"\r\n--x--\r\n"
    )


def signed(lines: Lines) -> bytes:
    data, sign = (bytes.fromhex(f"2a864886f70d01070{number}") for number in (1, 2))
    content = d.der(0x30, d.der(6, data), d.der(0xA0, d.der(4, eml(lines))))
    body = d.der(0x30, d.der(2, b"\x01"), d.der(0x31), content, d.der(0x31))
    return d.der(0x30, d.der(6, sign), d.der(0xA0, body))


def tnef(lines: Lines) -> bytes:
    """winmail.dat with a body (attBody, MS-OXTNEF section 2.1.3.3)."""

    def attribute(level: int, number: int, value: bytes) -> bytes:
        return struct.pack("<BII", level, number, len(value)) + value + struct.pack("<H", sum(value) & 0xFFFF)

    return b"\x78\x9f\x3e\x22\x01\0" + attribute(1, 0x0002800C, plain(lines) + b"\0")


def onenote(lines: Lines) -> bytes:
    head = d.onenote("x", b"")[:1024]
    return (
        head + bytes(9) + lines[0].encode("utf-16-le") + bytes(8) + "\r\n".join(lines[1:]).encode("cp1252") + bytes(64)
    )


def invitation(lines: Lines) -> bytes:
    text = "\\n".join(line.replace("\\", "\\\\").replace(",", "\\,").replace(";", "\\;") for line in lines)
    folded = "\r\n ".join(text[at : at + 70] for at in range(0, len(text), 70))
    return f"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDESCRIPTION:{folded}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n".encode()


def card(lines: Lines) -> bytes:
    text = "\\n".join(line.replace(",", "\\,").replace(";", "\\;") for line in lines)
    return f"BEGIN:VCARD\r\nVERSION:4.0\r\nFN:Ann\r\nNOTE:{text}\r\nEND:VCARD\r\n".encode()


def zip_comment(lines: Lines) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("empty.txt", "-")
        archive.comment = plain(lines)
    return out.getvalue()


def entry_comment(lines: Lines) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        entry = zipfile.ZipInfo("empty.txt")
        entry.comment = plain(lines)
        archive.writestr(entry, "-")
    return out.getvalue()


def gzip_comment(lines: Lines) -> bytes:
    packed = gzip.compress(b"-", mtime=0)
    return packed[:3] + b"\x10" + packed[4:10] + plain(lines) + b"\0" + packed[10:]


class LetterFormat(msgspec.Struct, frozen=True):
    """One row: what people call the format, the name under which it is mailed, and how to make one."""

    title: str
    extension: str
    make: Make


LETTER_FORMATS: tuple[LetterFormat, ...] = (
    LetterFormat("Word", "docx", docx),
    LetterFormat("Excel", "xlsx", xlsx),
    LetterFormat("PowerPoint", "pptx", pptx),
    LetterFormat("OpenDocument text", "odt", odf("text")),
    LetterFormat("OpenDocument spreadsheet", "ods", odf("spreadsheet")),
    LetterFormat("OpenDocument presentation", "odp", odf("presentation")),
    LetterFormat("PDF", "pdf", pdf),
    LetterFormat("Word 97 to 2003", "doc", doc),
    LetterFormat("Word 95", "doc", old_doc),
    LetterFormat("Excel 97 to 2003", "xls", xls),
    LetterFormat("Excel 95", "xls", old_xls),
    LetterFormat("PowerPoint 97 to 2003", "ppt", ppt),
    LetterFormat("rich text", "rtf", rtf),
    LetterFormat("rich text under the name of a document", "doc", rtf),
    LetterFormat("OneNote section", "one", onenote),
    LetterFormat("plain text", "txt", plain),
    LetterFormat("plain text, UTF-16", "txt", wide),
    LetterFormat("plain text under the name of a document", "doc", plain),
    LetterFormat("plain text without an extension", "", plain),
    LetterFormat("comma-separated values", "csv", csv),
    LetterFormat("web page", "html", html),
    LetterFormat("web page under the name of a document", "doc", html),
    LetterFormat("calendar", "ics", invitation),
    LetterFormat("card", "vcf", card),
    LetterFormat("Outlook message, plain body", "msg", msg("1000001F")),
    LetterFormat("Outlook message, HTML body", "msg", msg("10130102")),
    LetterFormat("Outlook message, rich body", "msg", msg("10090102")),
    LetterFormat("message", "eml", eml),
    LetterFormat("mailbox", "mbox", mbox),
    LetterFormat("web archive", "mht", web_archive),
    LetterFormat("signed message (S/MIME)", "p7m", signed),
    LetterFormat("winmail.dat (TNEF)", "dat", tnef),
    LetterFormat("comment of a zip", "zip", zip_comment),
    LetterFormat("comment of a file in a zip", "zip", entry_comment),
    LetterFormat("comment of gzip", "gz", gzip_comment),
)
