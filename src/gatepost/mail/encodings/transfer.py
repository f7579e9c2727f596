"""Transfer encodings, decoded as the most lenient mail program would (RFC 2045 sections 6.7 and 6.8).

Whole content takes one fast pass. Broken content is where programs part ways: one stops at the first padding, one goes
on, one drops a bad line, one the bad character. `DecodedBody.content` is then the reading that keeps most, and
`reread_base64` and `reread_quoted_printable` yield the others, so that a file which only one program would find is
found.
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
_SPLIT_PADDING = re.compile(rb"[^=]=[^=]=")
_GROUP = re.compile(rb"([^=])=([^=])=|.{4}")
_MOST_PIECES = 200_000
_MOST_JOINED = 8 << 20
_MOST_PARAGRAPHS = 16

_SPACED_BREAK = re.compile(rb"=[ \t]*+(?:\r?\n|\r|\Z)")
_BAD_EQUALS = re.compile(rb"=(?![0-9A-Fa-f]{2})")
_LOWER_ESCAPE = re.compile(rb"=(?:[0-9A-Fa-f][a-f]|[a-f][0-9A-F])")
_UPPER_ESCAPE = re.compile(rb"=(?:[0-9][A-F]|[A-F][0-9A-F])")
# What is dropped of an equals sign that begins no escape, when it does not end a line either.
_DROPPED = (
    ("equals-dropped", re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*+(?:[\r\n]|\Z))")),
    ("half-dropped", re.compile(rb"=[0-9A-Fa-f](?![0-9A-Fa-f])|=(?![0-9A-Fa-f=]|[ \t]*+(?:[\r\n]|\Z))")),
    ("escape-dropped", re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]*+(?:[\r\n]|\Z))[^=\r\n]{0,2}")),
    ("lower-dropped", _LOWER_ESCAPE),
)


class DecodedBody(msgspec.Struct, frozen=True):
    """Decoded bytes, and whether the encoded input was whole."""

    content: bytes
    whole: bool = True


def decode_base64(content: bytes) -> DecodedBody:
    """Decode base64. Broken input decodes as far as it goes: foreign bytes are skipped, padding ends a piece."""
    decoded = _decode_ordinary_base64(content)
    if decoded is not None:
        return DecodedBody(decoded, _has_whole_lines(content))
    packed = content.translate(None, b"\r\n")
    if len(packed.strip(b" \t")) == 0:
        return DecodedBody(b"")
    letters = packed.translate(None, _FOREIGN_BUT_PADDING)
    trimmed = letters.rstrip(b"=")
    # Missing padding and white space in one block are no reason for two programs to disagree.
    harmless = b"=" not in trimmed and len(letters) == len(packed.translate(None, b" \t"))
    return DecodedBody(
        _decode_pieces(trimmed), harmless and _has_whole_lines(content) and not _PARAGRAPH.search(content.strip())
    )


def _decode_ordinary_base64(content: bytes) -> bytes | None:
    """Decode base64 without a copy if it is nothing but letters, line ends and one padding at its end."""
    padding = content.count(b"=")
    letters = len(content) - content.count(b"\n") - content.count(b"\r") - padding
    if padding > 2 or (letters + padding) % 4:
        return None
    try:
        decoded = binascii.a2b_base64(content)
    except binascii.Error:
        return None
    # Python skips foreign bytes and stops at padding: then there is less than the letters would give.
    return decoded if len(decoded) == letters * 3 // 4 else None


def reread_base64(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the other ways to read broken base64, each with a short label."""
    letters = content.translate(None, _FOREIGN_BUT_PADDING)
    yield "padding-ignored", _decode_letters(letters.translate(None, b"="))
    yield "to-padding", _decode_letters(letters.partition(b"=")[0])
    yield "by-line", _decode_by_line(content.translate(None, _FOREIGN_BUT_PADDING.replace(b"\n", b"")))
    if b"-" in content or b"_" in content:
        yield "url-safe", _decode_pieces(content.translate(_URL_SAFE).translate(None, _FOREIGN_BUT_PADDING))
    if _SPLIT_PADDING.search(letters):
        yield "padding-moved", _decode_pieces(_GROUP.sub(_move_padding, letters))
    paragraphs = _PARAGRAPH.split(content.strip(), maxsplit=_MOST_PARAGRAPHS)
    if len(paragraphs) > 1:
        for number, paragraph in enumerate(paragraphs, 1):
            yield f"paragraph-{number}", _decode_pieces(paragraph.translate(None, _FOREIGN_BUT_PADDING))


def is_likely_base64(content: bytes) -> bool:
    """Return whether the bytes are probably undeclared base64: long enough, in lines, hardly a foreign byte."""
    sample = content[:65536].strip()
    if b" " in sample[:20]:
        return False
    packed = sample.translate(None, b"\r\n")
    return len(packed) >= 40 and len(packed.translate(None, _ALPHABET + b"=")) * 50 <= len(packed)


def decode_quoted_printable(content: bytes) -> DecodedBody:
    """Decode quoted-printable. In broken input an equals sign that begins no escape stays as it is."""
    equals = content.count(b"=")
    breaks = content.count(b"=\r\n")
    if content.count(b"=\r") == breaks:
        decoded = binascii.a2b_qp(content)
        # Each escape and each "=" LF takes two bytes away, each "=" CR LF three: then nothing was irregular.
        if len(content) - len(decoded) == 2 * equals + breaks:
            return DecodedBody(decoded, not _has_mixed_escapes(content))
    joined = _remove_soft_breaks(content)
    return DecodedBody(_unescape(joined), not (_BAD_EQUALS.search(joined) or _has_mixed_escapes(joined)))


def reread_quoted_printable(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the other ways to read broken quoted-printable, each with a short label."""
    for label, pattern in _DROPPED:
        yield label, _unescape(_remove_soft_breaks(pattern.sub(b"", content)))


def _has_mixed_escapes(content: bytes) -> bool:
    """Return whether escapes come in small and in capital letters: a few programs know only capital ones (RFC 2045)."""
    return _LOWER_ESCAPE.search(content) is not None and _UPPER_ESCAPE.search(content) is not None


def _move_padding(group: re.Match[bytes]) -> bytes:
    """Return `R=A=` with its padding at the end, where it belongs."""
    return group[1] + group[2] + b"==" if group[1] else group[0]


def _has_whole_lines(content: bytes) -> bool:
    """Return whether the first line ends after a group of four: else decoding line by line gives other bytes."""
    end = content.find(b"\n")
    return end < 0 or len(content[:end].strip()) % 4 == 0 or not content[end:].strip()


def _remove_soft_breaks(content: bytes) -> bytes:
    """Return the content without its soft line breaks, those with white space after the equals sign included."""
    content = content.replace(b"=\r\n", b"").replace(b"=\n", b"")
    content = content.removesuffix(b"=")
    if len(content) > _MOST_JOINED or not any(mark in content for mark in (b"= ", b"=\t", b"=\r")):
        return content
    return _SPACED_BREAK.sub(b"", content, count=_MOST_PIECES)


def _unescape(content: bytes) -> bytes:
    # Python reads "==" as one equals sign. Two rounds turn every such run into escapes and its last sign.
    if 0 < content.count(b"==") <= _MOST_PIECES:
        content = content.replace(b"==", b"=3D=").replace(b"==", b"=3D=")
    return binascii.a2b_qp(content)


def _decode_pieces(letters: bytes) -> bytes:
    """Decode what stands between paddings, each piece on its own."""
    if b"=" not in letters:
        return _decode_letters(letters)
    *pieces, rest = _PADDING.split(letters, maxsplit=_MOST_PIECES)
    return b"".join((*map(_decode_letters, pieces), _decode_letters(rest.translate(None, b"="))))


def _decode_letters(letters: bytes) -> bytes:
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


def _decode_by_line(content: bytes) -> bytes:
    """Decode each line on its own, without what is left over at its end; whole lines in a row at one go."""
    decoded: list[bytes] = []
    row: list[bytes] = []
    for line in content.split(b"\n"):
        if b"=" in line:
            decoded += (_decode_letters(b"".join(row)), _decode_pieces(line))
            row = []
        else:
            row.append(line[: len(line) & ~3])
    decoded.append(_decode_letters(b"".join(row)))
    return b"".join(decoded)
