"""Filters of PDF streams (ISO 32000-1 section 7.4): a chain of them may stand before the data, and any link of the
chain may be a bomb, so each is bounded by the same limit."""

import re
from base64 import a85decode
from collections.abc import Callable
from itertools import groupby

from gatepost.files import inflate
from gatepost.files.pdfvalues import Name, Value
from gatepost.files.tree import Unread

MAX_FILTERS = 8
_SLOW = frozenset({"ASCII85Decode", "A85", "RunLengthDecode", "RL", "LZWDecode", "LZW"})
_PICTURES = frozenset({"DCTDecode", "DCT", "JPXDecode", "CCITTFaxDecode", "CCF", "JBIG2Decode"})


def decoded(
    data: bytes, filters: Value, parameters: Value, limit: int, slowly: Callable[[int], bool]
) -> tuple[bytes, Unread | None]:
    """The data through all filters; `slowly` is asked before bytes are worked on one by one."""
    chain = filters if isinstance(filters, list) else [filters] if filters is not None else []
    settings = parameters if isinstance(parameters, list) else [parameters]
    if len(chain) > MAX_FILTERS:
        return b"", "depth"
    worst: Unread | None = None
    for index, link in enumerate(chain):
        name = link.text if isinstance(link, Name) else ""
        if name in _SLOW and not slowly(len(data)):
            return b"", "size"
        data, unread = _one(name, data, limit)
        worst = unread or worst
        setting = settings[index] if index < len(settings) else None
        if isinstance(setting, dict) and "Predictor" in setting and slowly(len(data) // 4):
            data = _unpredicted(data, setting)
    return data[:limit], worst


def _one(name: str, data: bytes, limit: int) -> tuple[bytes, Unread | None]:
    match name:
        case "FlateDecode" | "Fl":
            # Past the two bytes of zlib's head; the checksum at its end is nothing that PDF readers look at.
            return inflate.deflate(memoryview(data.lstrip(b"\r\n"))[2:], limit)
        case "ASCIIHexDecode" | "AHx":
            digits = re.sub(rb"[^0-9A-Fa-f]", b"", data.partition(b">")[0])
            return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode("ascii")), None
        case "ASCII85Decode" | "A85":
            return _ascii85(data)
        case "RunLengthDecode" | "RL":
            return _run_lengths(data, limit)
        case "LZWDecode" | "LZW":
            return _lzw(data, limit)
        case "Crypt" | "":
            return data, None
    return data, None if name in _PICTURES else "unsupported"


def _ascii85(data: bytes) -> tuple[bytes, Unread | None]:
    digits = re.sub(rb"[^!-uz]", b"", data.removeprefix(b"<~").partition(b"~")[0])
    try:
        return a85decode(digits), None
    except ValueError:
        return b"", "damaged"


def _run_lengths(data: bytes, limit: int) -> tuple[bytes, Unread | None]:
    out = bytearray()
    place = 0
    while place < len(data) and data[place] != 128:
        length = data[place]
        if length < 128:
            out += data[place + 1 : place + 2 + length]
            place += length + 2
        else:
            out += data[place + 1 : place + 2] * (257 - length)
            place += 2
        if len(out) > limit:
            return bytes(out[:limit]), "size"
    return bytes(out), None


def _lzw(data: bytes, limit: int) -> tuple[bytes, Unread | None]:
    """Codes of 9 to 12 bits, high bit first, one code early as most writers do."""
    table = [bytes([byte]) for byte in range(256)] + [b"", b""]
    out: list[bytes] = []
    size = bits = held = 0
    width = 9
    last = b""
    for byte in data:
        held = (held << 8 | byte) & 0xFFFFFF
        bits += 8
        if bits < width:
            continue
        bits -= width
        code = held >> bits & (1 << width) - 1
        if code == 257:
            break
        if code == 256:
            del table[258:]
            width, last = 9, b""
            continue
        if code > len(table) or (code == len(table) and not last):
            return b"".join(out), "damaged"
        entry = table[code] if code < len(table) else last + last[:1]
        if last and len(table) < 4096:
            table.append(last + entry[:1])
        width = min(12, max(9, (len(table) + 1).bit_length()))
        last = entry
        out.append(entry)
        size += len(entry)
        if size > limit:
            return b"".join(out)[:limit], "size"
    return b"".join(out), None


def _unpredicted(data: bytes, setting: dict[str, Value]) -> bytes:
    """PNG's predictors undone where they are the plain "up" or "none" that tables use; others belong to pictures."""
    predictor, columns = setting.get("Predictor"), setting.get("Columns")
    if not isinstance(predictor, float) or predictor < 10 or not isinstance(columns, float):
        return data
    width = int(columns)
    if not 0 < width <= 65_536:
        return data
    rows = [data[place : place + width + 1] for place in range(0, len(data), width + 1)]
    if any(kind not in (0, 2) for kind, _ in groupby(row[0] for row in rows)):
        return data
    above = bytes(width)
    out = []
    for row in rows:
        line = row[1:] if row[0] == 0 else bytes((one + two) & 0xFF for one, two in zip(row[1:], above, strict=False))
        out.append(line)
        above = line
    return b"".join(out)
