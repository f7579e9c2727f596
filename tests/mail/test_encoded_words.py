import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.headers import decode


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("plain", "plain"),
        ("=?utf-8?q?caf=C3=A9?=", "café"),
        ("=?UTF-8?B?Y2Fmw6k=?=", "café"),
        ("=?iso-8859-1*en?Q?caf=E9_au_lait?=", "café au lait"),  # RFC 2231 section 5
        ("a =?utf-8?q?b?= c", "a b c"),
        ("=?utf-8?q?a?= =?utf-8?q?b?=", "ab"),  # RFC 2047 section 6.2
        ("=?utf-8?q?a?=\t=?iso-8859-1?q?b?=", "ab"),
        ("=?utf-8?q?=C3?= =?utf-8?q?=A9?=", "é"),  # one character over two words
        ("=?utf-8?b?w6?==?utf-8?b?qQ==?=", "é"),  # each word is base64 of its own, then their bytes join
        ('"=?utf-8?q?quoted?="', '"quoted"'),
        ("x=?utf-8?q?glued?=y", "xgluedy"),
        ("=?utf-8?b?Y2Fmw6k?=", "café"),  # padding lost
        ("=?utf-8?q?a b?=", "a b"),  # white space that should not be there
        ("=?utf-8?q?a=0D=0ABcc:_x?=", "a  Bcc: x"),  # no new line gets into a header this way
        ("=?iso-8859-1?q?J\u00fcrgen?=", "Jürgen"),
        ("=?utf-8?x?abc?=", "=?utf-8?x?abc?="),
        ("=?utf-8?q?abc", "=?utf-8?q?abc"),
        ("=?no-such?q?=41?=", "A"),
        ("1 =? 2 ?= 3", "1 =? 2 ?= 3"),
    ],
)
def test_decode(text: str, decoded: str) -> None:
    assert decode(text) == decoded


def test_words_past_the_limit_stay() -> None:
    assert decode("=?utf-8?q?a?= " * 3, most=2) == "aa =?utf-8?q?a?= "


@given(st.text(alphabet="=?utf-8bBqQ*_ \u00e9\n", max_size=80))
def test_any_text_decodes(text: str) -> None:
    decode(text).encode("utf-8")
