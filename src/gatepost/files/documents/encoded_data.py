"""Files that stand in data as text: in base64 or hexadecimal digits in JSON, XML and property lists.

Cards and calendars have forms in XML and JSON (RFC 6321, 6351, 7095, 7265), comments on a PDF travel as XFDF (ISO
19444-1), a saved page of Safari is a property list. Each has a field for files, and programs take them out. What such a
field is called does not matter here: a run of digits that is a file of a known type is one.
"""

import re
import zlib
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.file_types import identify
from gatepost.files.values import File

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
    """Yield the files in runs of digits, of which `room` bytes may come out. A glance at the first bytes decides
    whether a run is decoded."""
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
