import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.encodings import charset


@pytest.mark.parametrize(
    ("content", "declared", "text", "used"),
    [
        (b"plain", None, "plain", "us-ascii"),
        (b"plain", "iso-8859-1", "plain", "windows-1252"),
        ("Grüße".encode(), "utf-8", "Grüße", "utf-8"),
        ("Grüße".encode(), "us-ascii", "Grüße", "utf-8"),  # says ASCII, is UTF-8
        (b"Gr\xfc\xdfe", "us-ascii", "Grüße", "windows-1252"),
        (b"\x93quoted\x94", "iso-8859-1", "“quoted”", "windows-1252"),  # what the WHATWG label means
        (b"\x81", "iso-8859-1", "\x81", "windows-1252"),
        ("é".encode() + b" and \xe9", "utf-8", "é and é", "utf-8"),  # two charsets in one text
        ("中文".encode("gbk"), "gb2312", "中文", "gb18030"),
        ("한국".encode("cp949"), "ks_c_5601-1987", "한국", "euc-kr"),
        ("日本".encode("iso2022_jp"), "ISO-2022-JP", "日本", "iso-2022-jp"),
        ("日本".encode("cp932"), '"Shift_JIS"', "日本", "shift_jis"),
        (b"+ADw-script+AD4-", "utf-7", "<script>", "utf-7"),
        (b"+ADw-script+AD4-", "utf-8", "+ADw-script+AD4-", "us-ascii"),
        ("hé".encode("utf-16"), "utf-16", "hé", "utf-16le"),
        ("hey".encode("utf-16be"), "utf-16", "hey", "utf-16be"),
        ("hey".encode("utf-16le"), None, "hey", "utf-16le"),
        (b"plain text", "utf-16", "plain text", "us-ascii"),  # a label that cannot be true
        (b"\xef\xbb\xbfx", None, "x", "utf-8"),
        (b"x", "no-such-charset", "x", "us-ascii"),
        ("ж".encode("koi8-r"), "koi8-r", "ж", "koi8-r"),
        ("ж".encode(), "koi8-r", "п╤", "koi8-r"),  # a single-byte charset that fits is believed
        ("ж".encode(), "iso-8859-8", "ж", "utf-8"),  # one that does not fit gives way
    ],
)
def test_decode(content: bytes, declared: str | None, text: str, used: str) -> None:
    assert charset.decode_charset(content, declared) == (text, used)


@pytest.mark.parametrize(
    "label", ["zip", "idna", "punycode", "rot13", "unicode_escape", "undefined", "mbcs", "x" * 500]
)
def test_codecs_that_are_no_charsets_cannot_be_named(label: str) -> None:
    assert charset.find_charset(label) is None
    assert charset.decode_charset(b"abc\xff", label) == ("abcÿ", "windows-1252")


@given(st.binary(max_size=200), st.sampled_from((*charset.CHARSETS, None, "nonsense")))
def test_any_bytes_become_text_without_surrogates(content: bytes, declared: str | None) -> None:
    text, used = charset.decode_charset(content, declared)
    text.encode("utf-8")
    assert used in charset.CHARSETS


@pytest.mark.parametrize("name", charset.CHARSETS)
def test_ascii_text_survives_every_ascii_charset(name: str) -> None:
    if name in {"cp037", "cp500"} or name.startswith(("utf-16", "utf-32")):
        return
    assert charset.decode_charset(b"Hello, world 123", name)[0] == "Hello, world 123"


def test_encode_gives_back_the_bytes_of_the_charset() -> None:
    assert charset.encode_charset("ü", "iso-8859-1") == b"\xfc"
    assert charset.encode_charset("中", "iso-8859-1") == "中".encode()


def test_preload_knows_every_codec() -> None:
    charset.preload_codecs()
