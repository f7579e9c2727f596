"""Files in text between `=ybegin` and `=yend` (yEnc 1.3): each byte plus 42, four critical ones escaped."""

import re
from collections.abc import Iterator

from gatepost.mail.carried import MOST_FILES, Carried
from gatepost.mail.charset import decode as decode_charset

_BEGIN = re.compile(rb"^=ybegin ([^\r\n]{1,1000})\r?\n(?:=ypart [^\r\n]*\r?\n)?", re.MULTILINE)
_NAME = re.compile(rb"name=(.*)", re.DOTALL)
_SIZE = re.compile(rb"size=(\d{1,12})")
_SHIFT = bytes((byte - 42) % 256 for byte in range(256))
_MOST_ESCAPES = 1_000_000
_CHUNK = 1 << 20


def find(content: bytes) -> Iterator[Carried]:
    """The yEnc files in a text."""
    position = 0
    for _ in range(MOST_FILES):
        if content.find(b"=ybegin ", position) < 0:
            return
        begin = _BEGIN.search(content, position)
        if begin is None:
            return
        end = content.find(b"\n=yend", begin.end() - 1)
        position = end if end >= 0 else len(content)
        data = decode(content[begin.end() : position])
        name, size = _NAME.search(begin[1]), _SIZE.search(begin[1])
        names = (decode_charset(name[1].strip(b' \t"'), None)[0],) if name else ()
        yield Carried("yenc", names, data, whole=end >= 0 and size is not None and int(size[1]) == len(data))


def decode(body: bytes) -> bytes:
    """Decode yEnc lines without their frame, a chunk at a time; past a million escapes the rest is only shifted."""
    data = bytearray()
    escapes, carried = _MOST_ESCAPES, b""
    for position in range(0, len(body), _CHUNK):
        chunk = carried + body[position : position + _CHUNK].translate(None, b"\r\n")
        # An equals sign at the very end belongs to the byte that the next chunk begins with.
        carried = b"=" if chunk.endswith(b"=") else b""
        head, *rest = chunk.removesuffix(b"=").split(b"=", escapes)
        escapes -= len(rest)
        data += head.translate(_SHIFT)
        for piece in rest:
            data += _escaped(piece)
    return bytes(data)


def _escaped(piece: bytes) -> bytes:
    return bytes([(piece[0] - 106) % 256]) + piece[1:].translate(_SHIFT) if piece else b""
