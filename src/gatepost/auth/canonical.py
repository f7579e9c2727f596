"""DKIM's canonicalisation (RFC 6376 section 3.4), and the hashes of a message that its signatures sign.

Signatures are made over mail in network form, every line ending in CRLF. A message that was stored or handed over with
bare LF is put into that form first; a CR that stands alone is an ordinary byte and is signed as one. Everything here is
whole-buffer work on `bytes`, in passes that cannot go back. A large body goes through in pieces. A cut may stand after
any byte that is no white space: nothing on its left then depends on its right.

Several signatures mostly cover the same bytes. `SignedMessage` makes each field canonical once, and hashes the body
once for each combination of canonicalisation, hash and length; a message may ask for a few of those, not for many.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator

import msgspec

from gatepost.auth import signature
from gatepost.mail.message import Field

PIECE = 1 << 20
_WINDOW = 4096
_SHORT = 1 << 16
_SPACES = re.compile(rb"  +")
_INK = re.compile(rb"[^ \t\r\n]")


def normalise_line_ends(text: bytes) -> bytes:
    """Return the text with every line end as CRLF."""
    if text.count(b"\n") == text.count(b"\r\n"):
        return text
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _collapse_spaces(text: bytes) -> bytes:
    """Return the text with each run of spaces and tabs as one space.

    Matching runs is quick where they are long and few, as in indented mail, and slow where they are many. Halving them
    until one space is left costs a quick pass for each power of two, whatever the text is.
    """
    if b"\t" in text:
        text = text.replace(b"\t", b" ")
    if len(text) <= _SHORT:
        return _SPACES.sub(b" ", text)
    while b"  " in text:
        text = _replace(text, b"  ", b" ")
    return text


def _replace(text: bytes, old: bytes, new: bytes) -> bytes:
    """Return the text with `old` replaced by `new`.

    `bytes.replace` looks through the text twice. Splitting looks once, but its list is too large for a large text.
    """
    return new.join(text.split(old)) if len(text) < 2 * PIECE else text.replace(old, new)


def canonicalise_simple_field(raw: bytes) -> bytes:
    """Return a header field as it is, without the line end that closes it (section 3.4.1)."""
    return normalise_line_ends(raw).removesuffix(b"\r\n")


def canonicalise_relaxed_field(raw: bytes) -> bytes:
    """Return a header field with its name in lower case, unfolded and single-spaced, without a line end (section
    3.4.2)."""
    name, _, value = raw.partition(b":")
    return name.strip(b" \t\r\n").lower() + b":" + _relax_value(value)


def _relax_value(value: bytes) -> bytes:
    # split() would also split at a lone CR, VT and FF, and a long list of words costs many times its bytes.
    plain = value.count(b"\r") == value.count(b"\r\n") and b"\v" not in value and b"\f" not in value
    if plain and len(value) <= _SHORT:
        return b" ".join(value.split())
    return _collapse_spaces(value.replace(b"\r\n", b"").replace(b"\n", b"")).strip(b" ")


def _canonicalise_simple(text: bytes) -> bytes:
    return normalise_line_ends(text)


def _canonicalise_relaxed(text: bytes) -> bytes:
    return _replace(_collapse_spaces(normalise_line_ends(text)), b" \r\n", b"\r\n")


def canonicalise_body(raw: bytes, start: int, *, relaxed: bool) -> Iterator[bytes]:
    """Yield the body that begins at `start`, canonical, in pieces of about `PIECE` (sections 3.4.3 and 3.4.4)."""
    form = _canonicalise_relaxed if relaxed else _canonicalise_simple
    ink = _find_ink_end(raw, start)
    for low, high in _cut_pieces(raw, start, ink):
        yield form(raw[low:high])
    blank = _strip_empty_lines(form(raw[ink:] + b"\r\n"))
    # An empty body is one empty line when simple and nothing when relaxed.
    if ink > start or blank or not relaxed:
        yield blank + b"\r\n"


def canonicalise_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a body in relaxed form that comes in pieces of any size (section 3.4.4)."""
    blank: list[bytes] = []
    has_ink = False
    for piece in pieces:
        ink = len(piece.rstrip(b" \t\r\n"))
        if ink:
            has_ink = True
            yield _canonicalise_relaxed(b"".join((*blank, piece[:ink])))
            blank = []
        blank.append(piece[ink:])
    rest = _strip_empty_lines(_canonicalise_relaxed(b"".join((*blank, b"\r\n"))))
    if has_ink or rest:
        yield rest + b"\r\n"


def _find_ink_end(raw: bytes, start: int) -> int:
    """Return where the last byte ends that is no white space, looking from the end and copying little."""
    end = len(raw)
    while end > start:
        low = max(start, end - _WINDOW)
        if kept := len(raw[low:end].rstrip(b" \t\r\n")):
            return low + kept
        end = low
    return start


def _cut_pieces(raw: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        found = _INK.search(raw, start + PIECE, end)
        cut = found.end() if found else end
        yield start, cut
        start = cut


def _strip_empty_lines(blank: bytes) -> bytes:
    """Return the white space after the last ink without the empty lines that end it; spaces or lone CRs may be left."""
    return blank.replace(b"\r\n", b"\n").rstrip(b"\n").replace(b"\n", b"\r\n")


BODIES_MAX = 4


class BodyHash(msgspec.Struct, frozen=True):
    """The hash of the canonical body, or of its first bytes, and how long the whole is."""

    digest: bytes
    length: int


class SignedMessage:
    """One message for all its signatures, DKIM's and ARC's. `hashed` counts the bytes that were hashed of its body."""

    def __init__(self, raw: bytes, header_end: int, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self.hashed = 0
        self._raw = raw
        self._body_start = header_end
        self._bodies: dict[tuple[bool, str, int | None], BodyHash] = {}
        self._relaxed: dict[int, bytes] = {}
        self._names = [field.name for field in fields]
        self._places: dict[str, list[int]] = {}

    def places(self, name: str) -> list[int]:
        """Return where the fields of a name stand, the topmost first. Most mail is not signed and needs no index."""
        if not self._places and name in self._names:
            for place, each in enumerate(self._names):
                self._places.setdefault(each, []).append(place)
        return self._places.get(name, [])

    def relaxed(self, place: int) -> bytes:
        """Return a field in relaxed form."""
        if place not in self._relaxed:
            self._relaxed[place] = canonicalise_relaxed_field(self.fields[place].raw)
        return self._relaxed[place]

    def header(self, names: tuple[str, ...], own: int, *, relaxed: bool) -> bytes:
        """Return what a signature in the field `own` over the named fields is made of (RFC 6376 section 3.7).

        A name that stands twice means the two lowest fields, from the bottom up; one that finds no field signs that
        there is none.
        """
        left: dict[str, list[int]] = {}
        lines = []
        for name in names:
            if name not in left:
                left[name] = [place for place in self.places(name) if place != own]
            if left[name]:
                place = left[name].pop()
                lines.append(self.relaxed(place) if relaxed else canonicalise_simple_field(self.fields[place].raw))
        lines.append(self.unsigned(own, relaxed=relaxed))
        return b"\r\n".join(lines)

    def unsigned(self, own: int, *, relaxed: bool) -> bytes:
        """Return the field of a signature itself, with b= empty."""
        form = canonicalise_relaxed_field if relaxed else canonicalise_simple_field
        return form(signature.empty_tag(self.fields[own].raw, b"b"))

    def body(self, hashing: str, length: int | None, *, relaxed: bool) -> BodyHash | None:
        """Return the body's hash; None once too many different ones were asked for."""
        key = (relaxed, hashing, length)
        if key not in self._bodies:
            if len(self._bodies) >= BODIES_MAX:
                return None
            self._bodies[key] = self._hash_body(hashing, length, relaxed)
        return self._bodies[key]

    def _hash_body(self, hashing: str, length: int | None, relaxed: bool) -> BodyHash:
        digest = hashlib.new(hashing, usedforsecurity=False)
        total = 0
        for piece in canonicalise_body(self._raw, self._body_start, relaxed=relaxed):
            digest.update(piece if length is None else piece[: max(0, length - total)])
            total += len(piece)
        self.hashed += total
        return BodyHash(digest.digest(), total)
