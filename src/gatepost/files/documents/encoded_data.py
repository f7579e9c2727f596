"""Data that stands in a file as text: files in base64 or hexadecimal digits, and the data of PDF forms.

Cards and calendars have forms in XML and JSON (RFC 6321, 6351, 7095, 7265), comments on a PDF travel as XFDF (ISO
19444-1), a saved page of Safari is a property list. Each has a field for files, and programs take them out. What such a
field is called does not matter here: a run of digits that is a file of a known type is one.

Data of a form travels without it as FDF (ISO 32000-1 section 12.7.7) or XFDF. A program that opens such a file gets the
form from where it says, on the author's server or file share, with scripts of the author in it that run before and
after the data are filled in.
"""

import re
import zlib
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from html import unescape
from itertools import islice

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.file_types import identify
from gatepost.files.values import File

MAX_SOURCE = 4 << 20
MAX_FORMS = 20
_SPACE = rb"[\0\t\n\f\r ]{0,20}"
_TEXT = rb"\(((?>[^\\()]|\\.|\([^()]{0,500}\)){1,20000}+)\)"
_FORM = re.compile(rb"/U?F" + _SPACE + rb"(?:" + _TEXT + rb"|<([0-9A-Fa-f\s]{4,8000}+)>)", re.DOTALL)
_SCRIPT = re.compile(rb"/(?:Before|After|AfterPermsReady|JS)" + _SPACE + _TEXT, re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_XML_FORM = re.compile(r"<(?:[\w.-]{1,40}:)?f\s[^<>]{0,200}?href\s{0,9}=\s{0,9}[\"']([^\"'<>]{3,2000})", re.IGNORECASE)
_XML_SCRIPT = re.compile(r"<(?:[\w.-]{1,40}:)?(?:JavaScript|Launch)\b[^<>]{0,2000}>([^<]{0,20000}+)", re.IGNORECASE)
_ELSEWHERE = re.compile(r"(?:https?|ftp|file):/{0,9}[^/\s]|[\\/]{2}[^\\/\s]", re.IGNORECASE)


def is_form_data(content: bytes) -> bool:
    """Return whether the content is XFDF; FDF is a PDF by its first bytes."""
    return b"ns.adobe.com/xfdf" in content[:2_048]


def inspect_fdf(builder: ContentsBuilder) -> None:
    """Add where FDF takes its form from, and its scripts."""
    content = builder.file.content[:MAX_SOURCE]
    if not content.startswith(b"%FDF-"):
        return
    for match in islice(_FORM.finditer(content), MAX_FORMS):
        hexadecimal = match[2] and bytes.fromhex("".join(match[2].decode("ascii").split())[: len(match[2]) & ~1])
        _add_form(_decode(hexadecimal or _ESCAPE.sub(_unescape_text, match[1] or b"")), builder)
    for match in islice(_SCRIPT.finditer(content), MAX_FORMS):
        _add_script(_decode(_ESCAPE.sub(_unescape_text, match[1])), builder)


def inspect_xfdf(builder: ContentsBuilder) -> None:
    """Add where XFDF takes its form from, and its scripts."""
    text = builder.file.content[:MAX_SOURCE].decode("utf-8", "replace")
    for match in islice(_XML_FORM.finditer(text), MAX_FORMS):
        _add_form(unescape(match[1]), builder)
    for match in islice(_XML_SCRIPT.finditer(text), MAX_FORMS):
        _add_script(unescape(match[1]), builder)


def _add_form(target: str, builder: ContentsBuilder) -> None:
    """A form on the reader's own disk is named without a server."""
    if _ELSEWHERE.match(target.strip()):
        builder.add_link(target.strip())
        builder.add_trait("remote-template", target.strip())


def _add_script(source: str, builder: ContentsBuilder) -> None:
    """Data have no scripts: those who export them save values."""
    builder.add_trait("pdf-javascript", source[:100])
    builder.add_command("program-action", "script", source)


def _decode(text: bytes) -> str:
    if text[:2] in (b"\xfe\xff", b"\xff\xfe"):
        return text.decode("utf-16", "replace")
    return text.decode("utf-8", "replace")


def _unescape_text(match: re.Match[bytes]) -> bytes:
    sign = match[1]
    if sign[:1].isdigit():
        return bytes([int(sign, 8) & 0xFF])
    return {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\n": b""}.get(sign, sign)


MAX_RUNS = 20_000
MAX_FOUND = 200
MAX_OBJECTS = 20_000
RUN = 60  # digits of a line; encoders break lines at 64 or 76
HEAD = 1_024  # digits by which a run is recognised
_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_MASK = bytes(65 if byte in _DIGITS else 66 if byte in b" \t\r\n" else 0 for byte in range(256))
_NEEDLE = b"A" * RUN
_RUN_END = re.compile(rb"A*+(?>B{1,40}+A++)*+")
_HEX = re.compile(rb"[0-9A-Fa-f]+")
# How JSON may write the signs of base64.
_ESCAPES = tuple(
    (before, after)
    for sign, after in ((b"2b", b"+"), (b"2f", b"/"))
    for before in (b"\\u00" + sign, b"\\u00" + sign.upper())
)
# Types whose marks are long enough that no other bytes bear them by chance.
_TYPES = frozenset(
    {"exe", "elf", "macho", "java-class", "dex", "lnk", "script", "zip", "pdf", "ole", "msi", "rtf", "onenote", "cab"}
    | {"chm", "rar", "7z", "gzip", "html", "svg", "eml"}
)


def holds_files(file: File) -> bool:
    """Return whether data may hold a file: it has a long run of digits, or is a list with bytes of its own."""
    if file.type == "data":
        return file.content.startswith(b"bplist00")
    return not file.is_body and file.type in ("text", "xml") and _NEEDLE in _unescape(file.content).translate(_MASK)


def inspect(builder: ContentsBuilder) -> None:
    """Add the files in the data."""
    content = builder.file.content
    room = builder.allowance(len(content))
    found = _find_list_data(content) if builder.file.type == "data" else _find_runs(_unescape(content), room)
    for number, inner in enumerate(found, 1):
        if number > MAX_FOUND:
            builder.add_unread("count")
            return
        builder.add_member(f"data {number}", inner, len(inner))


def _unescape(content: bytes) -> bytes:
    """Return text in which line breaks and the signs of base64 are written as they are."""
    if b"\\" not in content:
        return content
    content = content.replace(b"\\/", b"/").replace(b"\\r", b"\r").replace(b"\\n", b"\n")
    for before, after in _ESCAPES:
        content = content.replace(before, after)
    return content


def _find_runs(content: bytes, room: int) -> Iterator[bytes]:
    """Yield the files in runs of digits, at most `room` bytes. The first bytes decide whether a run is decoded."""
    mask = content.translate(_MASK)
    place = mask.find(_NEEDLE)
    for _ in range(MAX_RUNS):
        if place < 0:
            return
        # A run ends with the line that is shorter than those before it.
        end = place + RUN
        match = _RUN_END.match(mask, end)
        end = match.end() if match else end
        head = content[place : place + HEAD].split(b"=", 1)[0]
        decode = _decode_hex if _HEX.fullmatch(b"".join(head.split())[:200]) else _decode_base64
        if identify(decode(content[place : min(end, place + HEAD)], HEAD)) in _TYPES:
            inner = decode(content[place:end], room)
            if identify(inner) != "exe" or len(inner) > HEAD or b"PE\0\0" in inner:
                yield inner
        place = mask.find(_NEEDLE, end)


def _decode_hex(digits: bytes, room: int) -> bytes:
    """Return the bytes of hexadecimal digits; those of XFDF may be deflated."""
    digits = b"".join(digits.split())
    try:
        content = bytes.fromhex(digits[: len(digits) & ~1].decode("ascii"))
    except ValueError:
        return b""
    if content[:1] != b"\x78":
        return content
    try:
        return zlib.decompressobj().decompress(content, max(1, room))
    except zlib.error:
        return content


def _decode_base64(digits: bytes, _room: int) -> bytes:
    digits = b"".join(digits.split())
    digits = digits[: len(digits) - (len(digits) % 4 == 1)]
    try:
        return b64decode(digits + b"=" * (-len(digits) % 4))
    except Error:
        return b""


def _find_list_data(content: bytes) -> Iterator[bytes]:
    """Yield the files among the data objects of a binary property list: a table at its end says where each object is,
    and the first byte of one whether it is data (0x4n, where n is its length, or 15 before a number)."""
    trailer = content[-32:]
    width, count = trailer[6], min(int.from_bytes(trailer[8:16], "big"), MAX_OBJECTS)
    table = int.from_bytes(trailer[24:32], "big")
    if len(content) < 40 or not 1 <= width <= 8 or table >= len(content):
        return
    for number in range(count):
        entry = content[table + number * width : table + (number + 1) * width]
        place = int.from_bytes(entry, "big")
        if len(entry) < width or place >= len(content) or content[place] != 0x4F:
            continue  # fourteen bytes are no file
        digits = 1 << (content[place + 1] & 3) if place + 1 < len(content) else 0
        start = place + 2 + digits
        size = int.from_bytes(content[place + 2 : start], "big")
        inner = content[start : start + size]
        if identify(inner) in _TYPES:
            yield inner
