"""Transfer encodings, decoded as the most lenient mail program would (RFC 2045 sections 6.7 and 6.8).

Whole content takes one fast pass. Broken content is where programs part ways: one stops at the first padding, one goes
on, one drops a bad line, one the bad character. `Decoded.content` is then the reading that keeps most, and `readings`
yields the others, so that a file which only one program would find is found.
"""

import binascii
import re
from collections.abc import Iterator

import msgspec

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_FOREIGN = bytes(set(range(256)) - set(_ALPHABET))
_FOREIGN_BUT_PADDING = bytes(set(range(256)) - set(_ALPHABET + b"="))
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_PARAGRAPH = re.compile(rb"\n[ \t\r]*\n\s*")
_PADDING = re.compile(rb"=+")
_SPLIT_PADDING = re.compile(rb"([A-Za-z0-9+/])=([A-Za-z0-9+/])=")
_MOST_PIECES = 200_000
_MOST_PARAGRAPHS = 16

_SPACED_BREAK = re.compile(rb"=[ \t]*+(?:\r?\n|\r|\Z)")
_BAD_EQUALS = re.compile(rb"=(?![0-9A-Fa-f]{2})")
_BAD_HALF = re.compile(rb"=[0-9A-Fa-f]?(?![0-9A-Fa-f])")
_BAD_WHOLE = re.compile(rb"=(?![0-9A-Fa-f]{2})[^=\r\n]{0,2}")
_LOWER_ESCAPE = re.compile(rb"=(?![0-9A-F]{2})[0-9A-Fa-f]{2}")


class Decoded(msgspec.Struct, frozen=True):
    """What came out, and whether the input was whole."""

    content: bytes
    whole: bool = True


def decode_base64(content: bytes) -> Decoded:
    """Decode base64. Broken input decodes as far as it goes: foreign bytes are skipped, padding ends a piece."""
    packed = content.translate(None, b"\r\n")
    try:
        return Decoded(binascii.a2b_base64(packed, strict_mode=True))
    except ValueError:
        pass
    if len(packed.strip(b" \t")) == 0:
        return Decoded(b"")
    letters = packed.translate(None, _FOREIGN_BUT_PADDING)
    trimmed = letters.rstrip(b"=")
    # Missing padding and white space are no reason for two programs to disagree.
    harmless = b"=" not in trimmed and len(letters) == len(packed.translate(None, b" \t"))
    return Decoded(_pieces(trimmed), harmless)


def base64_readings(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The other ways to read broken base64, each with a short label."""
    letters = content.translate(None, _FOREIGN_BUT_PADDING)
    yield "padding-ignored", _letters(letters.translate(None, b"="))
    yield "to-padding", _letters(letters.partition(b"=")[0])
    yield "by-line", b"".join(_line(line) for line in content.split(b"\n"))
    yield "url-safe", _pieces(content.translate(_URL_SAFE, None).translate(None, _FOREIGN_BUT_PADDING))
    yield "padding-moved", _pieces(_SPLIT_PADDING.sub(rb"\1\2==", letters))
    paragraphs = _PARAGRAPH.split(content.strip(), maxsplit=_MOST_PARAGRAPHS)
    if len(paragraphs) > 1:
        for number, paragraph in enumerate(paragraphs, 1):
            yield f"paragraph-{number}", _pieces(paragraph.translate(None, _FOREIGN_BUT_PADDING))


def looks_base64(content: bytes) -> bool:
    """Whether the bytes are probably base64 that nobody declared: long enough, in lines, hardly a foreign byte."""
    sample = content[:65536].strip()
    packed = sample.translate(None, b"\r\n")
    if len(packed) < 40 or b" " in sample[:20]:
        return False
    return len(packed.translate(None, _ALPHABET + b"=")) * 50 <= len(packed)


def decode_quoted_printable(content: bytes) -> Decoded:
    """Decode quoted-printable. In broken input an equals sign that begins no escape stays as it is."""
    equals = content.count(b"=")
    breaks = content.count(b"=\r\n")
    if content.count(b"=\r") == breaks:
        decoded = binascii.a2b_qp(content)
        # Each escape and each "=" LF takes two bytes away, each "=" CR LF three: then nothing was irregular.
        if len(content) - len(decoded) == 2 * equals + breaks:
            return Decoded(decoded)
    joined = _joined(content)
    return Decoded(_unescaped(joined), not _BAD_EQUALS.search(joined))


def quoted_printable_readings(content: bytes) -> Iterator[tuple[str, bytes]]:
    """The other ways to read broken quoted-printable, each with a short label."""
    joined = _joined(content)
    yield "equals-dropped", _unescaped(_BAD_EQUALS.sub(b"", joined))
    yield "half-dropped", _unescaped(_BAD_HALF.sub(b"", joined))
    yield "escape-dropped", _unescaped(_BAD_WHOLE.sub(b"", joined))
    yield "lower-dropped", _unescaped(_LOWER_ESCAPE.sub(b"", joined))


def has_lower_escapes(content: bytes) -> bool:
    """Whether escapes are written in small letters, which RFC 2045 forbids and a few programs drop."""
    return _LOWER_ESCAPE.search(content) is not None


def _joined(content: bytes) -> bytes:
    """The content without its soft line breaks, those with white space after the equals sign included."""
    content = content.replace(b"=\r\n", b"").replace(b"=\n", b"")
    return _SPACED_BREAK.sub(b"", content, count=_MOST_PIECES)


def _unescaped(content: bytes) -> bytes:
    # Python reads "==" as one equals sign. Two rounds turn every such run into escapes and its last sign.
    if b"==" in content:
        content = content.replace(b"==", b"=3D=").replace(b"==", b"=3D=")
    return binascii.a2b_qp(content)


def _pieces(letters: bytes) -> bytes:
    """Decode what stands between paddings, each piece on its own."""
    if b"=" not in letters:
        return _letters(letters)
    *pieces, rest = _PADDING.split(letters, maxsplit=_MOST_PIECES)
    return b"".join((*map(_letters, pieces), _letters(rest.translate(None, b"="))))


def _letters(letters: bytes) -> bytes:
    """Decode letters of the alphabet; a last one that stands alone has no byte to give."""
    over = len(letters) % 4
    if over == 1:
        letters = letters[:-1]
    elif over:
        letters += b"=" * (4 - over)
    try:
        return binascii.a2b_base64(letters)
    except binascii.Error:
        return binascii.a2b_base64(letters.translate(None, _FOREIGN)[: len(letters) // 4 * 4])


def _line(line: bytes) -> bytes:
    letters = line.translate(None, _FOREIGN_BUT_PADDING)
    if b"=" in letters:
        return _pieces(letters)
    return _letters(letters[: len(letters) // 4 * 4])
