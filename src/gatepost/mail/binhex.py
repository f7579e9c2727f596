"""Files in text between colons, as old Macintosh programs wrote them (BinHex 4.0, RFC 1741 appendix A).

Six-bit letters like base64 in another alphabet, then run-length encoding with 0x90, then a small header with the name
and two forks. The lengths bound what comes out.
"""

import re
from collections.abc import Iterator

from gatepost.mail.carried import Carried
from gatepost.mail.charset import decode as decode_charset
from gatepost.mail.encodings import decode_base64

_MARK = b"must be converted with BinHex"
_BODY = re.compile(rb"^:([^:]+):?", re.MULTILINE)
_ALPHABET = b"!\"#$%&'()*+,-012345689@ABCDEFGHIJKLMNPQRSTUVXYZ[`abcdefhijklmpqr"
_TO_BASE64 = bytes.maketrans(_ALPHABET, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_OUTSIDE = bytes(set(range(256)) - set(_ALPHABET))
_MARKER = b"\x90"
_MOST_RUNS = 1_000_000
_MOST_EXPANDED = 64 << 20


def find(content: bytes) -> Iterator[Carried]:
    """The BinHex file in a text."""
    mark = content.find(_MARK)
    if mark >= 0:
        yield decode(content, mark)


def decode(content: bytes, start: int = 0) -> Carried:
    """Decode a BinHex body, with or without its line of introduction."""
    body = _BODY.search(content, start)
    first, last = body.span(1) if body else (start, len(content))
    data = _expanded(decode_base64(content[first:last].translate(_TO_BASE64, _OUTSIDE)).content)
    size = data[0] if data else 0
    name = decode_charset(data[1 : 1 + size], "macintosh")[0]
    fork = 1 + size + 1 + 4 + 4 + 2
    lengths = data[fork : fork + 8]
    if len(lengths) < 8 or size > 63:
        return Carried("binhex", (), data, whole=False)
    start, length = fork + 10, int.from_bytes(lengths[:4], "big")
    inside = data[start : start + length]
    return Carried("binhex", (name,) if name else (), inside or data, whole=len(inside) == length)


def _expanded(packed: bytes) -> bytes:
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
