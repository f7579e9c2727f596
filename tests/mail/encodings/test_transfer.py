import base64
import quopri

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.encodings.transfer import (
    DecodedBody,
    decode_base64,
    decode_quoted_printable,
    is_likely_base64,
    reread_base64,
    reread_quoted_printable,
)

SECRET = b"This is the file that only some mail programs find, 0123456789."
LINE = base64.b64encode(SECRET)


@given(st.binary(max_size=500))
def test_base64_round_trip(data: bytes) -> None:
    assert decode_base64(base64.encodebytes(data)) == DecodedBody(data)
    assert decode_base64(base64.encodebytes(data).replace(b"\n", b"\r\n")) == DecodedBody(data)


@pytest.mark.parametrize(
    ("content", "decoded", "whole"),
    [
        (b"", b"", True),
        (b" \r\n", b"", True),
        (b"QUJD", b"ABC", True),
        (b"QUI", b"AB", True),  # padding lost
        (b"Q U J D", b"ABC", True),
        (b"QUJDR", b"ABC", True),  # a lone last letter has no byte
        (b"QQ==Qg==", b"AB", False),  # goes on after padding
        (b"QU*JD", b"ABC", False),
        (b"QUJD\n\nREVG", b"ABCDEF", True),
        (b"ABC\n\nREVG", base64.b64decode(b"ABCREVG="), False),  # is the first line part of it?
        (b"QUJDXXX\nREVGXXX", base64.b64decode(b"QUJDXXXREVGXXX=="), False),  # a line that ends inside a group
        (b"\xff\xfe", b"", False),
    ],
)
def test_base64(content: bytes, decoded: bytes, whole: bool) -> None:
    assert decode_base64(content) == DecodedBody(decoded, whole)


@pytest.mark.parametrize(
    "content",
    [
        LINE[:8] + b"=" + LINE[8:],  # padding inside
        b"ABC\n\n" + LINE,  # junk before an empty line
        LINE + b"\n\n" + base64.b64encode(b"something else"),
        b"".join(LINE[at : at + 4] + b"XXX\n" for at in range(0, len(LINE), 4)),
        LINE.replace(b"+", b"-").replace(b"/", b"_"),
        LINE + b"*trailing junk",
        b"".join(base64.b64encode(bytes([byte])) + b"\n" for byte in SECRET),
        b"".join(base64.b64encode(bytes([byte])).replace(b"==", b"=\n\n") for byte in SECRET),
        b"".join(b"%c=%c=\n" % tuple(base64.b64encode(bytes([byte]))[:2]) for byte in SECRET),
        b"--#######+\n" + LINE[:76] + b"\n" + LINE[76:],
    ],
)
def test_some_reading_of_broken_base64_finds_the_file(content: bytes) -> None:
    first = decode_base64(content).content
    assert any(SECRET in reading for reading in (first, *(other for _, other in reread_base64(content))))


@given(st.binary(max_size=300).map(lambda data: data.replace(b"\r", b"")))
def test_quoted_printable_round_trip(data: bytes) -> None:
    assert decode_quoted_printable(quopri.encodestring(data)).content == data


@pytest.mark.parametrize(
    ("content", "decoded", "whole"),
    [
        (b"", b"", True),
        (b"a=3Db", b"a=b", True),
        (b"a=3db", b"a=b", True),
        (b"a=\r\nb=\nc", b"abc", True),
        (b"a= \t\r\nb", b"ab", True),  # white space that a relay added
        (b"a=\rb\r\n", b"ab\r\n", True),
        (b"a=", b"a", True),
        (b"a=XYb", b"a=XYb", False),
        (b"==41", b"=A", False),
        (b"===41", b"==A", False),
        (b"====41", b"===A", False),
        (b"=4", b"=4", False),
        (b"=\rEVERYTHING UP TO HERE IS LOST IN PYTHON\n", b"EVERYTHING UP TO HERE IS LOST IN PYTHON\n", True),
        (b"=0a=8E", b"\n\x8e", False),  # small letters beside capital ones
        (b"_", b"_", True),
    ],
)
def test_quoted_printable(content: bytes, decoded: bytes, whole: bool) -> None:
    assert decode_quoted_printable(content) == DecodedBody(decoded, whole)


@pytest.mark.parametrize("junk", [b"=X", b"=0X", b"=0", b"=", b"=0a"])
def test_some_reading_of_broken_quoted_printable_finds_the_file(junk: bytes) -> None:
    secret = b"PQRSTUVWXYZ"
    content = b"".join(junk + b"=%02X=\r\n" % byte for byte in secret)
    assert any(secret in reading for _, reading in reread_quoted_printable(content))


@given(st.binary(max_size=200))
def test_any_bytes_decode_in_every_reading(content: bytes) -> None:
    decode_base64(content)
    decode_quoted_printable(content)
    list(reread_base64(content))
    list(reread_quoted_printable(content))


@given(st.text(alphabet="=0aAfFgG\r\n \t_", max_size=60))
def test_nothing_but_equals_signs_and_digits_is_lost(text: str) -> None:
    content = text.encode()
    kept = decode_quoted_printable(content).content
    assert kept.count(b"g") == content.count(b"g")
    assert kept.count(b"G") == content.count(b"G")


@pytest.mark.parametrize(
    ("content", "looks"),
    [
        (LINE, True),
        (base64.encodebytes(bytes(range(256))), True),
        (b"Hello Bob,\n\nplease find the minutes of the meeting below.\n", False),
        (b"short", False),
        (b"-----BEGIN PGP MESSAGE-----\n\nhQEM\n", False),
    ],
)
def test_looks_base64(content: bytes, looks: bool) -> None:
    assert is_likely_base64(content) is looks


@given(st.text(alphabet="QU0/=*\r\n ", max_size=24))
def test_the_quick_way_is_taken_only_where_a_strict_decoder_agrees(text: str) -> None:
    """Whatever is called whole decodes to the same bytes with white space gone and padding put right."""
    content = text.encode()
    decoded = decode_base64(content)
    if decoded.whole:
        letters = content.translate(None, b"\r\n =")
        letters = letters[: len(letters) - (len(letters) % 4 == 1)]
        assert decoded.content == base64.b64decode(letters + b"=" * (-len(letters) % 4), validate=True)
