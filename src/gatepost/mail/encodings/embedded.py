"""Files that are carried inside text: uuencode, BinHex and yEnc.

uuencode (POSIX, also its base64 form) stands between `begin 644 name` and `end`. Mail programs of the nineties put
attachments there, and some still show them as such. Lines are decoded one by one: a bad line gives what it can and the
file goes on.

BinHex 4.0 (RFC 1741 appendix A) stands between colons, as old Macintosh programs wrote it: six-bit letters like base64
in another alphabet, then run-length encoding with 0x90, then a small header with the name and two forks. The lengths
bound the output.

yEnc 1.3 stands between `=ybegin` and `=yend`: each byte plus 42, four critical ones escaped.
"""

import binascii
import re
from collections.abc import Iterator

import msgspec

from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.encodings.transfer import decode_base64

# Beginnings of files that are looked at in one text; more than that is named as a limit.
MOST_EMBEDDED_FILES = 500


class EmbeddedFile(msgspec.Struct, frozen=True):
    """One file carried in text or in a container: `label` says how ("uu", "yenc", "binhex", "tnef")."""

    label: str
    names: tuple[str, ...]
    content: bytes
    content_type: str = "application/octet-stream"
    whole: bool = True


_UU_BEGIN = re.compile(rb"^[ \t]*begin(-base64)? [0-7]{3,6} +([^\r\n]{1,255})\r?$", re.MULTILINE)
_UU_END = re.compile(rb"^(?:end[ \t]*|====)\r?$", re.MULTILINE)
_EMPTY = frozenset({b"`", b" "})
_UU_CHUNK = 1 << 20
_UU_OUTSIDE = bytes(set(range(256)) - set(range(0x20, 0x61)))


def find_uuencoded(content: bytes) -> Iterator[EmbeddedFile]:
    """Yield the uuencoded files in a text."""
    position = 0
    for _ in range(MOST_EMBEDDED_FILES):
        # The plain search is quick on the many texts that have nothing to find.
        if content.find(b"begin", position) < 0:
            return
        begin = _UU_BEGIN.search(content, position)
        if begin is None:
            return
        position = begin.end()
        if begin[1] or _is_uu(content[position : position + 200].lstrip(b"\r\n")):
            end = _UU_END.search(content, position)
            until = end.start() if end else len(content)
            data, whole = _decode_uu(content, position, until, base64=bool(begin[1]))
            name = decode_charset(begin[2].strip(), None)[0]
            yield EmbeddedFile("uu", (name,), data, whole=whole and end is not None)
            position = until


def decode_uuencoded(content: bytes) -> tuple[bytes, bool]:
    """Decode a body whose transfer encoding is uuencode, with or without its begin line."""
    for file in find_uuencoded(content):
        return file.content, file.whole
    return _decode_uu(content, 0, len(content), base64=False)


def _is_uu(body: bytes) -> bool:
    """Return whether the first line is as long as its first letter says, which prose with "begin" is not."""
    line = body[:100].partition(b"\n")[0].rstrip(b"\r")
    if not line:
        return False
    needed = (((line[0] - 0x20) & 0x3F) + 2) // 3 * 4
    return 0x20 <= line[0] <= 0x60 and needed - 3 <= len(line) - 1 <= needed + 2


def _decode_uu(content: bytes, start: int, end: int, *, base64: bool) -> tuple[bytes, bool]:
    if base64:
        decoded = decode_base64(content[start:end])
        return decoded.content, decoded.whole
    data = bytearray()
    whole = True
    for line in _split_lines(content, start, end):
        if not line or line in _EMPTY:
            continue
        if line.rstrip() == b"end":
            break
        try:
            data += binascii.a2b_uu(line)
        except binascii.Error:
            whole = False
            data += _decode_uu_line(line)
    return bytes(data), whole


def _split_lines(content: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield the lines between two places, without splitting a large text all at once."""
    while start < end:
        cut = content.find(b"\n", start + _UU_CHUNK, end)
        until = cut + 1 if cut >= 0 else end
        for line in content[start:until].split(b"\n"):
            yield line.rstrip(b"\r")
        start = until


def _decode_uu_line(line: bytes) -> bytes:
    size = (line[0] - 0x20) & 0x3F
    letters = line[1:].translate(None, _UU_OUTSIDE)[: (size + 2) // 3 * 4]
    try:
        return binascii.a2b_uu(bytes([0x20 + size]) + letters)
    except binascii.Error:
        return b""


_MARK = b"must be converted with BinHex"
_BODY = re.compile(rb"^:([^:]+):?", re.MULTILINE)
_ALPHABET = b"!\"#$%&'()*+,-012345689@ABCDEFGHIJKLMNPQRSTUVXYZ[`abcdefhijklmpqr"
_TO_BASE64 = bytes.maketrans(_ALPHABET, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BINHEX_OUTSIDE = bytes(set(range(256)) - set(_ALPHABET))
_MARKER = b"\x90"
_MOST_RUNS = 1_000_000
_MOST_EXPANDED = 64 << 20


def find_binhex(content: bytes) -> Iterator[EmbeddedFile]:
    """Yield the BinHex file in a text."""
    mark = content.find(_MARK)
    if mark >= 0:
        yield decode_binhex(content, mark)


def decode_binhex(content: bytes, start: int = 0) -> EmbeddedFile:
    """Decode a BinHex body, with or without its line of introduction."""
    body = _BODY.search(content, start)
    first, last = body.span(1) if body else (start, len(content))
    data = _expand_runs(decode_base64(content[first:last].translate(_TO_BASE64, _BINHEX_OUTSIDE)).content)
    size = data[0] if data else 0
    name = decode_charset(data[1 : 1 + size], "macintosh")[0]
    fork = 1 + size + 1 + 4 + 4 + 2
    lengths = data[fork : fork + 8]
    if len(lengths) < 8 or size > 63:
        return EmbeddedFile("binhex", (), data, whole=False)
    start, length = fork + 10, int.from_bytes(lengths[:4], "big")
    inside = data[start : start + length]
    return EmbeddedFile("binhex", (name,) if name else (), inside or data, whole=len(inside) == length)


def _expand_runs(packed: bytes) -> bytes:
    """Undo the runs: `x 90 n` is n times x, `90 00` is a 0x90 itself."""
    head, *pieces = packed.split(_MARKER, _MOST_RUNS)
    data = bytearray(head)
    for piece in pieces:
        count = piece[0] if piece else 0
        data += data[-1:] * (count - 1) if count else _MARKER
        data += piece[1:]
        if len(data) > _MOST_EXPANDED:
            break
    return bytes(data)


_YENC_BEGIN = re.compile(rb"^=ybegin ([^\r\n]{1,1000})\r?\n(?:=ypart [^\r\n]*\r?\n)?", re.MULTILINE)
_NAME = re.compile(rb"name=(.*)", re.DOTALL)
_SIZE = re.compile(rb"size=(\d{1,12})")
_SHIFT = bytes((byte - 42) % 256 for byte in range(256))
_MOST_ESCAPES = 1_000_000
_YENC_CHUNK = 1 << 20


def find_yenc(content: bytes) -> Iterator[EmbeddedFile]:
    """Yield the yEnc files in a text."""
    position = 0
    for _ in range(MOST_EMBEDDED_FILES):
        if content.find(b"=ybegin ", position) < 0:
            return
        begin = _YENC_BEGIN.search(content, position)
        if begin is None:
            return
        end = content.find(b"\n=yend", begin.end() - 1)
        position = end if end >= 0 else len(content)
        data = decode_yenc(content[begin.end() : position])
        name, size = _NAME.search(begin[1]), _SIZE.search(begin[1])
        names = (decode_charset(name[1].strip(b' \t"'), None)[0],) if name else ()
        yield EmbeddedFile("yenc", names, data, whole=end >= 0 and size is not None and int(size[1]) == len(data))


def decode_yenc(body: bytes) -> bytes:
    """Decode yEnc lines without their frame, a chunk at a time; past a million escapes the rest is only shifted."""
    data = bytearray()
    escapes, carried = _MOST_ESCAPES, b""
    for position in range(0, len(body), _YENC_CHUNK):
        chunk = carried + body[position : position + _YENC_CHUNK].translate(None, b"\r\n")
        # An equals sign at the very end belongs to the byte that the next chunk begins with.
        carried = b"=" if chunk.endswith(b"=") else b""
        head, *rest = chunk.removesuffix(b"=").split(b"=", escapes)
        escapes -= len(rest)
        data += head.translate(_SHIFT)
        for piece in rest:
            data += bytes([(piece[0] - 106) % 256]) + piece[1:].translate(_SHIFT) if piece else b""
    return bytes(data)
