"""Bytes to text in the charset that a mail program would use (RFC 2045 section 5.2, RFC 6532).

A declared charset is a hint, not a fact: mail says `us-ascii` and sends UTF-8, says `iso-8859-1` and means
Windows-1252, says nothing at all. So labels are read as browsers read them (the WHATWG encoding labels), a declaration
that does not fit gives way to what the bytes are, and single bytes that fit nowhere become Windows-1252 characters
rather than replacement marks. Only the charsets of the table below are ever used: Python's own registry also holds
`zip`, `idna` and `punycode`, which a stranger must not be able to name.
"""

import codecs

_LABELS = {
    "utf-8": "utf8 utf_8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8 utf8mb4 utf-8mb4 cp65001 csutf8",
    "us-ascii": "ascii ansi_x3.4-1968 iso646-us iso-ir-6 iso_646.irv:1991 us csascii cp367 ibm367 646 7bit",
    "windows-1252": "cp1252 x-cp1252 iso-8859-1 iso8859-1 iso_8859-1 iso88591 8859-1 iso-8859-1:1987 iso_8859-1:1987 "
    "iso-ir-100 l1 latin1 latin-1 cp819 ibm819 csisolatin1 ansi windows1252 win-1252 x-ansi 8bit binary x-user-defined "
    "iso-8859-1-windows-3.1-latin-1 iso-8859-1-windows-3.0-latin-1",
    "iso-8859-2": "iso8859-2 iso_8859-2 iso88592 l2 latin2 latin-2 iso-ir-101 csisolatin2",
    "iso-8859-3": "iso8859-3 iso_8859-3 iso88593 l3 latin3 latin-3 iso-ir-109 csisolatin3",
    "iso-8859-4": "iso8859-4 iso_8859-4 iso88594 l4 latin4 latin-4 iso-ir-110 csisolatin4",
    "iso-8859-5": "iso8859-5 iso_8859-5 iso88595 cyrillic iso-ir-144 csisolatincyrillic",
    "iso-8859-6": "iso8859-6 iso_8859-6 iso88596 arabic asmo-708 ecma-114 iso-8859-6-e iso-8859-6-i iso-ir-127",
    "iso-8859-7": "iso8859-7 iso_8859-7 iso88597 greek greek8 ecma-118 elot_928 sun_eu_greek iso-ir-126",
    "iso-8859-8": "iso8859-8 iso_8859-8 iso88598 hebrew visual iso-8859-8-e iso-8859-8-i logical iso-ir-138",
    "iso-8859-10": "iso8859-10 iso_8859-10 iso885910 l6 latin6 latin-6 iso-ir-157",
    "iso-8859-13": "iso8859-13 iso_8859-13 iso885913 l7 latin7",
    "iso-8859-14": "iso8859-14 iso_8859-14 iso885914 l8 latin8",
    "iso-8859-15": "iso8859-15 iso_8859-15 iso885915 l9 latin9 latin-9",
    "iso-8859-16": "iso8859-16 iso_8859-16 iso885916 l10 latin10",
    "windows-1250": "cp1250 x-cp1250 windows1250 win-1250",
    "windows-1251": "cp1251 x-cp1251 windows1251 win-1251",
    "windows-1253": "cp1253 x-cp1253 windows1253",
    "windows-1254": "cp1254 x-cp1254 windows1254 iso-8859-9 iso8859-9 iso_8859-9 iso88599 l5 latin5 latin-5 iso-ir-148",
    "windows-1255": "cp1255 x-cp1255 windows1255",
    "windows-1256": "cp1256 x-cp1256 windows1256",
    "windows-1257": "cp1257 x-cp1257 windows1257",
    "windows-1258": "cp1258 x-cp1258 windows1258",
    "windows-874": "cp874 iso-8859-11 iso8859-11 iso885911 tis-620 dos-874",
    "koi8-r": "koi8 koi koi8_r cskoi8r",
    "koi8-u": "koi8-ru",
    "cp437": "ibm437 437 cspc8codepage437",
    "cp850": "ibm850 850",
    "cp852": "ibm852 852",
    "cp855": "ibm855 855",
    "cp858": "ibm858 858 ibm00858",
    "cp862": "ibm862 862",
    "cp866": "ibm866 866 csibm866",
    "cp037": "ibm037 ebcdic-cp-us ebcdic-cp-ca ebcdic-cp-wt ebcdic-cp-nl",
    "cp500": "ibm500 ebcdic-cp-be ebcdic-cp-ch",
    "macintosh": "mac x-mac-roman csmacintosh macroman",
    "x-mac-cyrillic": "x-mac-ukrainian",
    "x-mac-ce": "x-mac-centraleurroman",
    "x-mac-greek": "mac-greek",
    "x-mac-turkish": "mac-turkish",
    "gb18030": "gb2312 gb_2312 gb_2312-80 gbk x-gbk cp936 ms936 windows-936 chinese csgb2312 csiso58gb231280 iso-ir-58 "
    "euc-cn euccn gb-2312",
    "hz-gb-2312": "hz hzgb",
    "big5": "big5-hkscs cn-big5 x-x-big5 csbig5 big5-tw cp950 windows-950 big-5",
    "euc-jp": "eucjp x-euc-jp x-euc cseucpkdfmtjapanese ujis",
    "iso-2022-jp": "csiso2022jp iso2022jp iso-2022-jp-1 iso-2022-jp-2 iso-2022-jp-ms cp50220 jis",
    "shift_jis": "shift-jis sjis x-sjis ms_kanji ms932 windows-31j cp932 csshiftjis windows-932",
    "euc-kr": "euckr ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 ks_c_5601 korean cseuckr cp949 windows-949 uhc "
    "iso-ir-149 csksc56011987",
    "iso-2022-kr": "csiso2022kr iso2022kr",
    "utf-7": "utf7 unicode-1-1-utf-7 csunicode11utf7 x-unicode-2-0-utf-7",
    "utf-16": "utf16 ucs-2 unicode csunicode iso-10646-ucs-2",
    "utf-16le": "utf16le utf-16-le unicodefeff",
    "utf-16be": "utf16be utf-16-be unicodefffe",
    "utf-32": "utf32 ucs-4 iso-10646-ucs-4",
    "utf-32le": "utf32le",
    "utf-32be": "utf32be",
}
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
    """Return the text and the charset it was read in. It takes any input, in linear time; the text has no
    surrogates."""
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
