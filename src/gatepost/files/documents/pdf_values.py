"""Values of a PDF (ISO 32000-1 section 7.3) and the filters of its streams (section 7.4).

Values are names, strings, numbers, references, arrays and dictionaries. `/J#61vaScript` is `/JavaScript`, a string may
hold parentheses and escapes, a comment may stand anywhere. The parser keeps its own stack, takes anything, and stops
after so many tokens.

A chain of filters may stand before the data of a stream, and any link of the chain may be a bomb, so each is bounded by
the same limit.
"""

import re
from base64 import a85decode
from collections.abc import Callable
from itertools import groupby
from typing import TypeAlias

import msgspec

from gatepost.files.archives import decompress
from gatepost.files.values import UnreadReason

MAX_TOKENS = 50_000
MAX_DEPTH = 64
MAX_STRING = 1 << 20

_TOKEN = re.compile(
    rb"%[^\r\n]*+|(?P<ref>(\d{1,10})[\0\t\n\f\r ]{1,20}\d{1,5}[\0\t\n\f\r ]{1,20}R(?![A-Za-z]))|(?P<mark><<|>>|[\[\]])"
    rb"|/(?P<name>[^\0\t\n\f\r ()<>\[\]{}/%]{0,1000}+)|(?P<text>\()|<(?P<hex>[0-9A-Fa-f\0\t\n\f\r ]*+)>"
    rb"|(?P<number>[+-]?[\d.]{1,30}+)|(?P<word>[A-Za-z*'\"]{1,30}+)"
)
_PLAIN = re.compile(rb"[^\\()]*+(?:\\.[^\\()]*+)*+", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|\r\n|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f", b"\n": b"", b"\r": b""}
_HEX_NAME = re.compile(rb"#([0-9A-Fa-f]{2})")


class PdfName(msgspec.Struct, frozen=True, gc=False):
    """A name object, without its slash."""

    text: str


class PdfReference(msgspec.Struct, frozen=True, gc=False):
    """A reference to an indirect object by its number."""

    number: int


Value: TypeAlias = "bool | float | bytes | PdfName | PdfReference | list[Value] | dict[str, Value] | None"


def parse_value(body: bytes) -> Value:
    """Return the first value in `body`; None where there is none."""
    stack: list[list[Value]] = [[]]
    place = 0
    for _ in range(MAX_TOKENS):
        match = _TOKEN.search(body, place)
        if match is None:
            break
        place = match.end()
        if match.group("mark"):
            _open_or_close(match.group("mark"), stack)
        elif match.group("text"):
            text, place = _read_string(body, place)
            stack[-1].append(text)
        else:
            _add_simple(match, stack[-1])
        if len(stack) == 1 and stack[0]:
            return stack[0][0]
    while len(stack) > 1:
        _open_or_close(b">>", stack)
    return stack[0][0] if stack[0] else None


def _open_or_close(mark: bytes, stack: list[list[Value]]) -> None:
    if mark in (b"<<", b"["):
        if len(stack) < MAX_DEPTH:
            stack.append([])
    elif len(stack) > 1:
        items = stack.pop()
        stack[-1].append(_make_dictionary(items) if mark == b">>" else items)


def _make_dictionary(items: list[Value]) -> Value:
    """Return a dictionary from pairs of a name and a value; items that are out of step are skipped."""
    found: dict[str, Value] = {}
    place = 0
    while place + 1 < len(items):
        key = items[place]
        if isinstance(key, PdfName):
            found[key.text] = items[place + 1]
            place += 2
        else:
            place += 1
    return found


def _add_simple(match: "re.Match[bytes]", into: list[Value]) -> None:
    name, digits, number, word = match.group("name", "hex", "number", "word")
    if match.group("ref"):
        into.append(PdfReference(int(match.group(2))))
    elif name is not None:
        into.append(PdfName(_unescape_name(name)))
    elif digits is not None:
        into.append(_decode_hex(digits))
    elif number is not None:
        try:
            into.append(float(number))
        except ValueError:
            into.append(0.0)
    elif word in (b"true", b"false", b"null"):
        into.append({b"true": True, b"false": False}.get(word))


def _unescape_name(name: bytes) -> str:
    if b"#" in name:
        name = _HEX_NAME.sub(lambda match: bytes([int(match.group(1), 16)]), name)
    return name.decode("latin-1")


def _decode_hex(digits: bytes) -> bytes:
    digits = digits.translate(None, b"\0\t\n\f\r ")
    return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode("ascii"))


def _read_string(body: bytes, place: int) -> tuple[bytes, int]:
    """Return a string from behind its first parenthesis to its last one."""
    depth, start = 1, place
    while place < len(body) and place - start < MAX_STRING:
        match = _PLAIN.match(body, place)
        place = match.end() if match else place
        mark = body[place : place + 1]
        place += 1
        depth += (mark == b"(") - (mark == b")")
        if not depth:
            break
    raw = body[start : place - 1]
    return (_ESCAPE.sub(_unescape_match, raw) if b"\\" in raw else raw), place


def _unescape_match(match: "re.Match[bytes]") -> bytes:
    octal, character = match.groups()
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    return _ESCAPED.get(character, character) if character else b""


def decode_text(value: bytes) -> str:
    """Return a string as text: UTF-16 or UTF-8 by its mark, else one byte to a character."""
    if value[:2] == b"\xfe\xff":
        return value[2:].decode("utf-16-be", "replace")
    if value[:2] == b"\xff\xfe":
        return value[2:].decode("utf-16-le", "replace")
    if value[:3] == b"\xef\xbb\xbf":
        return value[3:].decode("utf-8", "replace")
    return value.decode("latin-1")


MAX_FILTERS = 8
_SLOW = frozenset({"ASCII85Decode", "A85", "RunLengthDecode", "RL", "LZWDecode", "LZW"})
_PICTURES = frozenset({"DCTDecode", "DCT", "JPXDecode", "CCITTFaxDecode", "CCF", "JBIG2Decode"})


def apply_filters(
    data: bytes, filters: Value, parameters: Value, limit: int, take_slow: Callable[[int], bool]
) -> tuple[bytes, UnreadReason | None]:
    """Return the data through all filters, and why there is not more. `take_slow` is asked before bytes are worked on
    one by one."""
    chain = filters if isinstance(filters, list) else [filters] if filters is not None else []
    settings = parameters if isinstance(parameters, list) else [parameters]
    if len(chain) > MAX_FILTERS:
        return b"", "depth"
    worst: UnreadReason | None = None
    for index, link in enumerate(chain):
        name = link.text if isinstance(link, PdfName) else ""
        if name in _SLOW and not take_slow(len(data)):
            return b"", "size"
        data, unread = _apply_filter(name, data, limit)
        worst = unread or worst
        setting = settings[index] if index < len(settings) else None
        if isinstance(setting, dict) and "Predictor" in setting and take_slow(len(data) // 4):
            data = _undo_predictor(data, setting)
    return data[:limit], worst


def _apply_filter(name: str, data: bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    match name:
        case "FlateDecode" | "Fl":
            # Past the two bytes of zlib's head; the checksum at its end is nothing that PDF readers look at.
            return decompress.deflate(memoryview(data.lstrip(b"\r\n"))[2:], limit)
        case "ASCIIHexDecode" | "AHx":
            digits = re.sub(rb"[^0-9A-Fa-f]", b"", data.partition(b">")[0])
            return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode("ascii")), None
        case "ASCII85Decode" | "A85":
            return _decode_ascii85(data)
        case "RunLengthDecode" | "RL":
            return _decode_run_lengths(data, limit)
        case "LZWDecode" | "LZW":
            return _decode_lzw(data, limit)
        case "Crypt" | "":
            return data, None
    return data, None if name in _PICTURES else "unsupported"


def _decode_ascii85(data: bytes) -> tuple[bytes, UnreadReason | None]:
    digits = re.sub(rb"[^!-uz]", b"", data.removeprefix(b"<~").partition(b"~")[0])
    try:
        return a85decode(digits), None
    except ValueError:
        return b"", "damaged"


def _decode_run_lengths(data: bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
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


def _decode_lzw(data: bytes, limit: int) -> tuple[bytes, UnreadReason | None]:
    """Decode LZW: codes of 9 to 12 bits, high bit first, one code early as most writers do."""
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


def _undo_predictor(data: bytes, setting: dict[str, Value]) -> bytes:
    """Undo PNG's predictors where they are the plain "up" or "none" that tables use; others belong to pictures."""
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
