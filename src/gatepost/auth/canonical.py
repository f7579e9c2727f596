"""One form for what transport may change: DKIM's canonicalisation (RFC 6376 section 3.4).

Signatures are made over mail in network form, every line ending in CRLF. A message that was stored or handed over
with bare LF is put into that form first; a CR that stands alone is an ordinary byte and is signed as one.

Everything here is whole-buffer work on `bytes`, in passes that cannot go back. A large body goes through in
pieces. A cut may stand after any byte that is no white space: nothing on its left then depends on its right.
"""

import re
from collections.abc import Iterator

PIECE = 1 << 20
_WINDOW = 4096
_SHORT = 1 << 16
_SPACES = re.compile(rb"  +")
_INK = re.compile(rb"[^ \t\r\n]")


def crlf(text: bytes) -> bytes:
    """Every line end as CRLF."""
    if text.count(b"\n") == text.count(b"\r\n"):
        return text
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _single_spaced(text: bytes) -> bytes:
    """Each run of spaces and tabs as one space.

    Matching runs is quick where they are long and few, as in indented mail, and slow where they are many. Halving
    them until one space is left costs a quick pass for each power of two, whatever the text is.
    """
    if b"\t" in text:
        text = text.replace(b"\t", b" ")
    if len(text) <= _SHORT:
        return _SPACES.sub(b" ", text)
    while b"  " in text:
        text = _replaced(text, b"  ", b" ")
    return text


def _replaced(text: bytes, old: bytes, new: bytes) -> bytes:
    """`replace` looks through the text twice. Splitting looks once, but its list is too large for a large text."""
    return new.join(text.split(old)) if len(text) < 2 * PIECE else text.replace(old, new)


def simple_field(raw: bytes) -> bytes:
    """A header field as it is, without the line end that closes it (section 3.4.1)."""
    return crlf(raw).removesuffix(b"\r\n")


def relaxed_field(raw: bytes) -> bytes:
    """A header field with its name in lower case, unfolded and single-spaced, without a line end (section 3.4.2)."""
    name, _, value = raw.partition(b":")
    return name.strip(b" \t\r\n").lower() + b":" + _relaxed_value(value)


def _relaxed_value(value: bytes) -> bytes:
    # split() would also split at a lone CR, VT and FF, and a long list of words costs many times its bytes.
    plain = value.count(b"\r") == value.count(b"\r\n") and b"\v" not in value and b"\f" not in value
    if plain and len(value) <= _SHORT:
        return b" ".join(value.split())
    return _single_spaced(value.replace(b"\r\n", b"").replace(b"\n", b"")).strip(b" ")


def _simple_text(text: bytes) -> bytes:
    return crlf(text)


def _relaxed_text(text: bytes) -> bytes:
    return _replaced(_single_spaced(crlf(text)), b" \r\n", b"\r\n")


def body(raw: bytes, start: int, *, relaxed: bool) -> Iterator[bytes]:
    """The body that begins at `start`, canonical, in pieces of about `PIECE` (sections 3.4.3 and 3.4.4)."""
    form = _relaxed_text if relaxed else _simple_text
    ink = _ink_end(raw, start)
    for low, high in _cuts(raw, start, ink):
        yield form(raw[low:high])
    blank = _without_empty_lines(form(raw[ink:] + b"\r\n"))
    # An empty body is one empty line when simple and nothing when relaxed.
    if ink > start or blank or not relaxed:
        yield blank + b"\r\n"


def _ink_end(raw: bytes, start: int) -> int:
    """Where the last byte ends that is no white space, looking from the end and copying little."""
    end = len(raw)
    while end > start:
        low = max(start, end - _WINDOW)
        if kept := len(raw[low:end].rstrip(b" \t\r\n")):
            return low + kept
        end = low
    return start


def _cuts(raw: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        found = _INK.search(raw, start + PIECE, end)
        cut = found.end() if found else end
        yield start, cut
        start = cut


def _without_empty_lines(blank: bytes) -> bytes:
    """White space after the last ink without the empty lines that end it: spaces or lone CRs may be left."""
    return blank.replace(b"\r\n", b"\n").rstrip(b"\n").replace(b"\n", b"\r\n")
