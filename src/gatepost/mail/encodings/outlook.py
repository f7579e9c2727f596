r"""What Outlook and Exchange pack messages into: TNEF containers (MS-OXTNEF) and compressed rich text (MS-OXRTFCP).

TNEF is the winmail.dat around attachments: a signature, a key, then attributes: level, id, length, data, checksum.
Attachment attributes carry the data, a short name, and a table of MAPI properties with the long name, the MIME type or
an embedded message. Lengths are a stranger's claims: each is checked against what is left.

The text of a message is kept as RTF in a compression of its own ("LZFu": a ring of 4 KB that starts with the words
which most RTF begins with), in winmail.dat as in .msg files. Where the message was written in HTML, the RTF holds it
(MS-OXRTFEX): the tags stand in groups `{\*\htmltag…}`, and what only RTF needs stands between `\htmlrtf` and
`\htmlrtf0`.
"""

import re
import struct
from collections.abc import Iterator
from itertools import islice

import msgspec

from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.encodings.embedded import EmbeddedFile

MAX_TEXT = 1 << 20  # about half a second
_RING = 4096
_HEADER = 16
_COMPRESSED, _UNCOMPRESSED = b"LZFu", b"MELA"
_START = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor "
    b"MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)


def decompress_rtf(data: bytes, limit: int = MAX_TEXT) -> tuple[bytes, bool]:
    """Return the RTF in the clear, and whether it is whole. What is not compressed is returned as it stands."""
    kind = data[8:12]
    if kind == _UNCOMPRESSED:
        return data[_HEADER : _HEADER + limit], True
    if kind != _COMPRESSED:
        return data[:limit], data.startswith(b"{\\rtf")
    size = min(int.from_bytes(data[4:8], "little"), limit)
    ring = bytearray(_START.ljust(_RING, b" "))
    write, place = len(_START), _HEADER
    out = bytearray()
    while place < len(data) and len(out) < size:
        flags = data[place]
        place += 1
        for bit in range(8):
            if not flags >> bit & 1:
                run = data[place : place + 1]
                place += 1
            else:
                pair = int.from_bytes(data[place : place + 2], "big")
                place += 2
                start, count = pair >> 4, (pair & 15) + 2
                if start == write or place > len(data):  # the end is a reference to the place of writing
                    return bytes(out), place <= len(data)
                run = bytes(_read_ring(ring, start, write, count))
            for byte in run:
                ring[write] = byte
                write = (write + 1) % _RING
            out += run
    return bytes(out[:size]), len(out) >= size


def _read_ring(ring: bytearray, start: int, write: int, count: int) -> bytearray:
    """Return a run of the ring, which may reach into what it writes."""
    run = bytearray()
    distance = (write - start) % _RING
    for step in range(count):
        run.append(run[step - distance] if step >= distance else ring[(start + step) % _RING])
    return run


_TOKEN = re.compile(
    rb"\\\*|\\'([0-9a-fA-F]{2})|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\(.)|([{}])|([^\\{}\r\n]+)|[\r\n]+", re.DOTALL
)
_MAX_TOKENS = 200_000
_CHARACTERS = {b"par": b"\r\n", b"line": b"\r\n", b"tab": b"\t", b"lquote": b"'", b"rquote": b"'", b"bullet": b"*"}
_CHARACTERS |= {b"ldblquote": b'"', b"rdblquote": b'"', b"emdash": b"-", b"endash": b"-"}
_NOT_SHOWN = frozenset({b"fonttbl", b"colortbl", b"stylesheet", b"info", b"pict", b"mhtmltag", b"listtable"})


def extract_html(rtf: bytes) -> bytes:
    """Return the HTML that the RTF was made from; b"" where it was not made from HTML."""
    if b"\\fromhtml" not in rtf[:4096]:
        return b""
    out: list[bytes] = []
    stack: list[tuple[bool, bool]] = []  # whether a group is shown, and whether it is part of a tag
    shown, tag, hidden, starred = True, False, False, False
    for token in islice(_TOKEN.finditer(rtf), _MAX_TOKENS):
        word, number, brace = token[2], token[3], token[5]
        if brace == b"{":
            stack.append((shown, tag))
        elif brace:
            shown, tag = stack.pop() if stack else (True, False)
        elif word == b"htmltag":
            shown, tag = True, True
        elif word == b"htmlrtf":
            hidden = number != b"0"
        elif word in _NOT_SHOWN or (word and starred):
            shown = False
        elif shown and (tag or not hidden):
            out.append(_show(token))
        starred = token[0] == b"\\*"
    return b"".join(out)[:MAX_TEXT]


def _show(token: "re.Match[bytes]") -> bytes:
    """Return what one token shows: text, a character by its number, or a control word that stands for one."""
    escaped, word, number, symbol, _, text = token.groups()
    if escaped:
        return bytes.fromhex(escaped.decode())
    if word == b"u" and number:
        return b"&#%d;" % (int(number) & 0xFFFF)
    return text or _CHARACTERS.get(word or b"", b"") or (symbol if symbol in (b"\\", b"{", b"}") else b"")


SIGNATURE = b"\x78\x9f\x3e\x22"
PACKED_RTF = "application/x-compressed-rtf"
_ATTACH_REND = 0x9002
_ATTACH_TITLE = 0x8010
_ATTACH_DATA = 0x800F
_ATTACH_PROPERTIES = 0x9005
_MESSAGE_PROPERTIES = 0x9003
_BODY = 0x800C
_LONG_NAMES = (0x3707, 0x3704, 0x3001)
_MIME_TAG = 0x370E
_ATTACH_OBJECT = 0x3701
_HTML = 0x1013
_PLAIN_BODY = 0x1000
_RTF = 0x1009
_FIXED = {0x02: 4, 0x03: 4, 0x04: 4, 0x05: 8, 0x06: 8, 0x07: 8, 0x0A: 4, 0x0B: 4, 0x14: 8, 0x40: 8, 0x48: 16}
_OBJECT, _STRING, _UNICODE, _BINARY = 0x0D, 0x1E, 0x1F, 0x102
_VARIABLE = frozenset({_OBJECT, _STRING, _UNICODE, _BINARY})
_BROKEN = -1
_MOST_ATTRIBUTES = 10_000
_MOST_PROPERTIES = 5_000


class MapiProperty(msgspec.Struct, frozen=True):
    """One value of a MAPI property."""

    id: int
    type: int
    value: bytes

    @property
    def text(self) -> str:
        return _decode_string(self.value, wide=self.type == _UNICODE)


class _Attachment:
    """One attachment while its attributes are read."""

    __slots__ = ("data", "kind", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.data = b""
        self.kind = "application/octet-stream"

    def to_file(self, *, whole: bool) -> EmbeddedFile:
        return EmbeddedFile("tnef", tuple(dict.fromkeys(filter(None, self.names))), self.data, self.kind, whole)

    def add_property(self, prop: MapiProperty) -> None:
        if prop.id in _LONG_NAMES:
            self.names.append(prop.text)
        elif prop.id == _MIME_TAG:
            self.kind = prop.text.lower() or self.kind
        elif prop.id == _ATTACH_OBJECT and not self.data:
            # An embedded object begins with 16 bytes that say what it is.
            self.data = prop.value[16:] if prop.type == _OBJECT else prop.value


def find_tnef(content: bytes, most_rtf: int = MAX_TEXT) -> Iterator[EmbeddedFile]:
    """Yield the bodies and attachments in a TNEF container; a broken one gives what stands before the break. Past
    `most_rtf` bytes, compressed RTF is yielded as it stands, with the type `PACKED_RTF`."""
    attachment, whole, room = _Attachment(), True, _RtfRoom(most_rtf)
    for attribute, value in _read_attributes(content):
        if attribute == _ATTACH_REND:
            if attachment.data:
                yield attachment.to_file(whole=True)
            attachment = _Attachment()
        elif attribute == _ATTACH_TITLE:
            attachment.names.append(_decode_string(value, wide=False))
        elif attribute == _ATTACH_DATA:
            attachment.data = value
        elif attribute == _ATTACH_PROPERTIES:
            for prop in _read_properties(value):
                attachment.add_property(prop)
        elif attribute == _MESSAGE_PROPERTIES:
            yield from _find_bodies(value, room)
        elif attribute == _BODY:
            yield EmbeddedFile("tnef", (), value.rstrip(b"\0"), "text/plain")
        elif attribute == _BROKEN:
            whole = False
    if attachment.data or not whole:
        yield attachment.to_file(whole=whole)


def read_message_properties(content: bytes) -> Iterator[MapiProperty]:
    """Yield the MAPI properties of the message in a TNEF container, without those of its attachments."""
    for attribute, value in _read_attributes(content):
        if attribute == _MESSAGE_PROPERTIES:
            yield from _read_properties(value)


class _RtfRoom(msgspec.Struct):
    """How much compressed RTF may still be unpacked."""

    left: int


def _find_bodies(value: bytes, room: _RtfRoom) -> Iterator[EmbeddedFile]:
    kinds = {_HTML: "text/html", _PLAIN_BODY: "text/plain"}
    for prop in _read_properties(value):
        if prop.id in kinds and prop.value:
            yield EmbeddedFile("tnef", (), prop.value.rstrip(b"\0"), kinds[prop.id])
        elif prop.id == _RTF and prop.value and int.from_bytes(prop.value[4:8], "little") > room.left:
            yield EmbeddedFile("tnef", (), prop.value, PACKED_RTF)
        elif prop.id == _RTF and prop.value:
            rtf, whole = decompress_rtf(prop.value, room.left)
            room.left -= len(rtf)
            html = extract_html(rtf)
            yield EmbeddedFile("tnef", (), rtf, "application/rtf", whole)
            if html:
                yield EmbeddedFile("tnef", (), html, "text/html")


def _read_attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    position = 6
    for _ in range(_MOST_ATTRIBUTES):
        if position + 9 > len(content):
            return
        level, attribute, _, size = struct.unpack_from("<BHHI", content, position)
        position += 9
        value = content[position : position + size]
        yield attribute, value
        position += size + 2
        if level not in {1, 2} or len(value) < size:
            yield _BROKEN, b""
            return


def _read_properties(table: bytes) -> Iterator[MapiProperty]:
    """Yield the properties of a MAPI table (MS-OXTNEF section 2.1.3.4)."""
    position = 4
    for _ in range(_MOST_PROPERTIES):
        if position + 4 > len(table):
            return
        kind, name = struct.unpack_from("<HH", table, position)
        position += 4
        if name >= 0x8000:
            position = _skip_name(table, position)
        base, several = kind & 0x0FFF, bool(kind & 0x1000)
        if base in _VARIABLE:
            count, position = _read_number(table, position)
            for _ in range(min(count, _MOST_PROPERTIES)):
                size, position = _read_number(table, position)
                if position + size > len(table):
                    return
                yield MapiProperty(name, base, table[position : position + size])
                position += (size + 3) & ~3
        elif base in _FIXED:
            count = 1
            if several:
                count, position = _read_number(table, position)
            position += count * _FIXED[base]
        else:
            return


def _skip_name(table: bytes, position: int) -> int:
    """Skip a named property's GUID and its number or text."""
    by_text, position = _read_number(table, position + 16)
    size, position = _read_number(table, position)
    return position + ((size + 3) & ~3) if by_text else position


def _read_number(table: bytes, position: int) -> tuple[int, int]:
    return int.from_bytes(table[position : position + 4], "little"), position + 4


def _decode_string(value: bytes, *, wide: bool) -> str:
    return decode_charset(value, "utf-16le" if wide else None)[0].rstrip("\0").partition("\0")[0]
