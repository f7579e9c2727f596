"""Files in text between `begin 644 name` and `end` (POSIX uuencode, also its base64 form).

Mail programs of the nineties put attachments there, and some still show them as such. Lines are decoded one by one: a
bad line gives what it can and the file goes on.
"""

import binascii
import re
from collections.abc import Iterator

from gatepost.mail.carried import MOST_FILES, Carried
from gatepost.mail.charset import decode as decode_charset
from gatepost.mail.encodings import decode_base64

_BEGIN = re.compile(rb"^[ \t]*begin(-base64)? [0-7]{3,6} +([^\r\n]{1,255})\r?$", re.MULTILINE)
_END = re.compile(rb"^(?:end[ \t]*|====)\r?$", re.MULTILINE)
_EMPTY = frozenset({b"`", b" "})
_CHUNK = 1 << 20
_OUTSIDE = bytes(set(range(256)) - set(range(0x20, 0x61)))


def find(content: bytes) -> Iterator[Carried]:
    """The uuencoded files in a text."""
    position = 0
    for _ in range(MOST_FILES):
        # The plain search is quick on the many texts that have nothing to find.
        if content.find(b"begin", position) < 0:
            return
        begin = _BEGIN.search(content, position)
        if begin is None:
            return
        position = begin.end()
        if begin[1] or _is_uu(content[position : position + 200].lstrip(b"\r\n")):
            end = _END.search(content, position)
            until = end.start() if end else len(content)
            data, whole = _decoded(content, position, until, base64=bool(begin[1]))
            name = decode_charset(begin[2].strip(), None)[0]
            yield Carried("uu", (name,), data, whole=whole and end is not None)
            position = until


def decode(content: bytes) -> tuple[bytes, bool]:
    """Decode a body whose transfer encoding is uuencode, with or without its begin line."""
    for carried in find(content):
        return carried.content, carried.whole
    return _decoded(content, 0, len(content), base64=False)


def _is_uu(body: bytes) -> bool:
    """Whether the first line has the length that its first letter says: prose that begins with "begin" has not."""
    line = body[:100].partition(b"\n")[0].rstrip(b"\r")
    if not line:
        return False
    needed = (((line[0] - 0x20) & 0x3F) + 2) // 3 * 4
    return 0x20 <= line[0] <= 0x60 and needed - 3 <= len(line) - 1 <= needed + 2


def _decoded(content: bytes, start: int, end: int, *, base64: bool) -> tuple[bytes, bool]:
    if base64:
        decoded = decode_base64(content[start:end])
        return decoded.content, decoded.whole
    data = bytearray()
    whole = True
    for line in _lines(content, start, end):
        if not line or line in _EMPTY:
            continue
        if line.rstrip() == b"end":
            break
        try:
            data += binascii.a2b_uu(line)
        except binascii.Error:
            whole = False
            data += _line(line)
    return bytes(data), whole


def _lines(content: bytes, start: int, end: int) -> Iterator[bytes]:
    """The lines between two places, without splitting a large text all at once."""
    while start < end:
        cut = content.find(b"\n", start + _CHUNK, end)
        until = cut + 1 if cut >= 0 else end
        for line in content[start:until].split(b"\n"):
            yield line.rstrip(b"\r")
        start = until


def _line(line: bytes) -> bytes:
    size = (line[0] - 0x20) & 0x3F
    letters = line[1:].translate(None, _OUTSIDE)[: (size + 2) // 3 * 4]
    try:
        return binascii.a2b_uu(bytes([0x20 + size]) + letters)
    except binascii.Error:
        return b""
