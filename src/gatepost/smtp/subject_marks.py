"""A mark before the subject of a message that is delivered with a warning, such as `[SPAM] `.

The mark goes before what stands there, which stays as it came, encoded words included. A mark of other letters than
ASCII is an encoded word itself (RFC 2047). White space between two encoded words is not shown (section 6.2), so the
space behind such a mark is inside of it where another encoded word follows.
"""

import base64
import re

from gatepost.scanning.edits import Edit
from gatepost.smtp.trace import Header

# RFC 5322 section 2.1.1 recommends lines of at most 78 characters.
WIDTH = 78
# Subject fields that are marked; there may be one, and mail programs show the first or the last of several.
MAX_SUBJECTS = 20
_VALUE = re.compile(rb"([^:]*+:)([ \t]*+)([^\r\n]*+)")


def mark_subjects(header: Header, mark: str, subject: str) -> tuple[tuple[Edit, ...], bytes]:
    """Return the edits that put the mark before every subject, and a field for a message that has none. `subject` is
    what people see now: one that begins with the mark is left as it is, unless there are others."""
    word = mark.strip()
    is_marked = subject.strip().casefold().startswith(word.casefold()) and len(header.subjects) < 2
    if not word or is_marked:
        return (), b""
    if not header.subjects:
        return (), b"Subject: " + encode_mark(word) + b"\r\n"
    return tuple(_mark(start, raw, word) for start, raw in header.subjects[:MAX_SUBJECTS]), b""


def encode_mark(word: str) -> bytes:
    """Return a mark as it stands in a header field."""
    if word.isascii():
        return word.encode("ascii")
    return b"=?utf-8?B?" + base64.b64encode(word.encode("utf-8", "replace")) + b"?="


def _mark(start: int, raw: bytes, word: str) -> Edit:
    """Return the edit of one field: the mark goes right behind the colon."""
    match = _VALUE.match(raw)
    assert match is not None  # the field was found by its name and colon
    name, blank, line = match.groups()
    text = encode_mark(word)
    if not word.isascii() and line.startswith(b"=?"):
        text = encode_mark(word + " ")
    place = start + len(name)
    if not line:
        return Edit(place, place, b" " + text)
    # The line is folded where it would become long; a line of blanks alone would be no continuation.
    long = len(name) + len(text) + len(blank) + len(line) + 1 > WIDTH
    between = b"\r\n" if long else b""
    return Edit(place, place, b" " + text + between + (b"" if blank else b" "))
