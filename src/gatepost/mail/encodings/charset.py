"""Bytes to text in the charset that a mail program would use (RFC 2045 section 5.2, RFC 6532).

A declared charset is a hint, not a fact: mail says `us-ascii` and sends UTF-8, says `iso-8859-1` and means
Windows-1252, says nothing at all. So labels are read as browsers read them (the WHATWG encoding labels), a declaration
that does not fit gives way to what the bytes are, and single bytes that fit nowhere become Windows-1252 characters
rather than replacement marks. Only the charsets of `charsets.txt` are ever used: Python's own registry also holds
`zip`, `idna` and `punycode`, which a stranger must not be able to name.
"""

import codecs
from importlib.resources import files

_TABLE = files("gatepost.mail.encodings").joinpath("charsets.txt").read_text("utf-8").splitlines()[1:]
_LABELS = {name: labels for name, _, labels in (line.partition(": ") for line in _TABLE)}
# What Python calls a charset, where that is not its label.
_CODECS = dict(
    pair.split("=")
    for pair in (
        "windows-1252=cp1252 windows-874=cp874 macintosh=mac-roman x-mac-cyrillic=mac-cyrillic x-mac-ce=mac-latin2 "
        "x-mac-greek=mac-greek x-mac-turkish=mac-turkish hz-gb-2312=hz big5=big5hkscs iso-2022-jp=iso2022_jp_ext "
        "shift_jis=cp932 euc-kr=cp949"
    ).split()
)
CHARSETS: tuple[str, ...] = tuple(_LABELS)
_CANONICAL = {label: name for name, labels in _LABELS.items() for label in (name, *labels.split())}
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32le"),
    (codecs.BOM_UTF32_BE, "utf-32be"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
_UTF8_LIKE = frozenset({"utf-8", "us-ascii"})
# Charsets in which plain ASCII bytes can mean something else: they must be decoded even when all bytes are ASCII.
_SHIFTING = frozenset({"iso-2022-jp", "iso-2022-kr", "hz-gb-2312", "utf-7", "cp037", "cp500"})
_WIDE = frozenset({"utf-16", "utf-16le", "utf-16be", "utf-32", "utf-32le", "utf-32be"})
_LONGEST_LABEL = 60
_SAMPLE = 65_536


def _decode_windows_1252(byte: int) -> str:
    try:
        return bytes([byte]).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)


_WINDOWS_1252 = "".join(_decode_windows_1252(byte) for byte in range(256))
_STRAY = {0xDC00 + byte: _WINDOWS_1252[byte] for byte in range(0x80, 0x100)}


def find_charset(label: str | None) -> str | None:
    """Return the charset that a label names, or None if it names none of ours."""
    if not label or len(label) > _LONGEST_LABEL:
        return None
    return _CANONICAL.get(label) or _CANONICAL.get(label.strip(" \t\r\n\"'<>;,").lower())


def decode_charset(content: bytes, declared: str | None) -> tuple[str, str]:
    """Return the text, without surrogates, and the charset it was read in, from any input, in linear time."""
    name = find_charset(declared)
    # The mark of UTF-16 outweighs every declaration in a browser (WHATWG Encoding section 6), and no text in another
    # charset begins with it.
    if name is None or name in _UTF8_LIKE or content[:2] in _WIDE_MARKS:
        return _decode_unicode(content)
    if name not in _SHIFTING and name not in _WIDE and content.isascii():
        return content.decode("ascii"), name
    if name in _WIDE:
        return _decode_wide(content, name)
    try:
        return _decode_strictly(content, name), name
    except UnicodeError:
        return _decode_misdeclared(content, name)


def encode_charset(text: str, declared: str | None) -> bytes:
    """Return the bytes of a text in a charset, UTF-8 where the charset cannot express it."""
    name = find_charset(declared) or "utf-8"
    try:
        return text.encode(_CODECS.get(name, name))
    except UnicodeError:
        return text.encode("utf-8", "replace")


def preload_codecs() -> None:
    """Load every codec, so that a process without files can decode all of them later."""
    for name in CHARSETS:
        codecs.lookup(_CODECS.get(name, name))


def _decode_strictly(content: bytes, name: str) -> str:
    text = content.decode(_CODECS.get(name, name))
    # UTF-7 can spell lone surrogates, which no later step could encode.
    return _replace_surrogates(text) if name in _SHIFTING else text


def _decode_unicode(content: bytes) -> tuple[str, str]:
    if content.isascii():
        # UTF-16 without a label is ASCII to isascii() when it is Latin text: every other byte is NUL.
        if content[1:2] == b"\0" or content[:1] == b"\0":
            return _decode_unlabelled_wide(content)
        return content.decode("ascii"), "us-ascii"
    for mark, name in _BOMS:
        if content.startswith(mark):
            return _replace_surrogates(content[len(mark) :].decode(name, "replace")), name
    try:
        return content.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return _decode_mixed(content)


def _decode_unlabelled_wide(content: bytes) -> tuple[str, str]:
    sample = content[:1024]
    if sample.count(b"\0") * 3 < len(sample):
        return content.decode("ascii"), "us-ascii"
    name = "utf-16be" if sample[:1] == b"\0" else "utf-16le"
    return _replace_surrogates(content.decode(name, "replace")), name


def _decode_mixed(content: bytes) -> tuple[str, str]:
    """Decode UTF-8 with stray single bytes, or a single-byte charset; strays are read as Windows-1252 either way."""
    if content[:_SAMPLE].decode("utf-8", "ignore").isascii():
        return codecs.charmap_decode(content, "strict", _WINDOWS_1252)[0], "windows-1252"
    return content.decode("utf-8", "surrogateescape").translate(_STRAY), "utf-8"


def _decode_wide(content: bytes, name: str) -> tuple[str, str]:
    for mark, marked in _BOMS:
        if content.startswith(mark):
            return _replace_surrogates(content[len(mark) :].decode(marked, "replace")), marked
    sample = content[:1024]
    if sample.isascii() and b"\0" not in sample:
        return _decode_unicode(content)
    if name == "utf-16":
        # RFC 2781 says big-endian, most programs write little-endian: the zero halves of Latin letters tell.
        name = "utf-16be" if sample[0::2].count(0) > sample[1::2].count(0) else "utf-16le"
    elif name == "utf-32":
        name = "utf-32be" if sample[:1] == b"\0" else "utf-32le"
    return _replace_surrogates(content.decode(name, "replace")), name


def _decode_misdeclared(content: bytes, name: str) -> tuple[str, str]:
    try:
        return content.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        pass
    text = content.decode(_CODECS.get(name, name), "surrogateescape" if name not in _SHIFTING else "replace")
    return _replace_surrogates(text.translate(_STRAY)), name


def _replace_surrogates(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text
