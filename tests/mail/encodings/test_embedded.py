"""Files carried in text: uuencode, BinHex and yEnc, whole and broken."""

import base64
import binascii

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.encodings.embedded import (
    decode_binhex,
    decode_uuencoded,
    decode_yenc,
    find_binhex,
    find_uuencoded,
    find_yenc,
)


def uuencode(data: bytes, name: bytes = b"a.txt", end: bytes = b"end\n") -> bytes:
    lines = b"".join(binascii.b2a_uu(data[at : at + 45]) for at in range(0, len(data), 45))
    return b"begin 644 " + name + b"\n" + lines + b"`\n" + end


@given(st.binary(min_size=1, max_size=300))
def test_uuencode_round_trip(data: bytes) -> None:
    text = b"Hello,\n\n" + uuencode(data) + b"\nbye\n"
    assert [(file.names, file.content, file.whole) for file in find_uuencoded(text)] == [(("a.txt",), data, True)]
    assert next(find_uuencoded(text.replace(b"\n", b"\r\n"))).content == data
    assert decode_uuencoded(uuencode(data)) == (data, True)


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (uuencode(b"one") + uuencode(b"two"), [b"one", b"two"]),
        (uuencode(b"one", end=b""), [b"one"]),  # cut off
        (uuencode(b"one").replace(b"\n", b"xx\n", 1).replace(b"a.txtxx", b"a.txt"), [b"one"]),
        (b"begin-base64 644 a\nb25l\n====\n", [b"one"]),
        (b"begin 644 a\n#;VYE\xff\n`\nend\n", [b"one"]),  # a byte that does not belong
        (b"begin 600 to talk\nabout the weather and what it does to us\nend\n", []),
        (b"begin with something\nelse\nend\n", []),
        (b"we begin 644 here\nno\n", []),
    ],
)
def test_find_uuencoded(text: bytes, contents: list[bytes]) -> None:
    assert [file.content for file in find_uuencoded(text)] == contents


def test_lines_without_a_frame() -> None:
    assert decode_uuencoded(binascii.b2a_uu(b"one") + binascii.b2a_uu(b"two")) == (b"onetwo", True)


@given(st.binary(max_size=200))
def test_uuencode_of_any_bytes(content: bytes) -> None:
    decode_uuencoded(content)
    list(find_uuencoded(b"begin 644 a\n#" + content))


LETTERS = b"!\"#$%&'()*+,-012345689@ABCDEFGHIJKLMNPQRSTUVXYZ[`abcdefhijklmpqr"
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def binhex(data: bytes, name: bytes = b"a.txt") -> bytes:
    header = bytes([len(name)]) + name + b"\0TEXTttxt\0\0" + len(data).to_bytes(4, "big") + bytes(4) + b"\0\0"
    packed = (header + data + b"\0\0").replace(b"\x90", b"\x90\0")
    letters = base64.b64encode(packed).rstrip(b"=").translate(bytes.maketrans(BASE64, LETTERS))
    return b"(This file must be converted with BinHex 4.0)\n:" + letters + b":\n"


@given(st.binary(max_size=200))
def test_binhex_round_trip(data: bytes) -> None:
    (file,) = find_binhex(b"text\n" + binhex(data))
    assert file.names == ("a.txt",)
    assert file.content == data or not data
    assert file.whole


def test_binhex_runs_are_expanded() -> None:
    packed = b"\x00\0TEXTttxt\0\0" + (8).to_bytes(4, "big") + bytes(4) + b"\0\0" + b"ab\x90\x06c" + b"\0\0"
    letters = base64.b64encode(packed).rstrip(b"=").translate(bytes.maketrans(BASE64, LETTERS))
    assert decode_binhex(b":" + letters + b":").content == b"abbbbbbc"


@pytest.mark.parametrize("text", [b"", b"hello", b"with BinHex"])
def test_ordinary_text_is_no_binhex(text: bytes) -> None:
    assert not list(find_binhex(text))


@given(st.binary(max_size=100))
def test_binhex_of_any_bytes(content: bytes) -> None:
    decode_binhex(content)


CRITICAL = (0, 10, 13, 61)


def yenc(data: bytes) -> bytes:
    shifted = ((byte + 42) % 256 for byte in data)
    body = b"".join(b"=%c" % ((byte + 64) % 256) if byte in CRITICAL else bytes([byte]) for byte in shifted)
    return b"=ybegin line=128 size=%d name=a.bin\r\n%s\r\n=yend size=%d\r\n" % (len(data), body, len(data))


@given(st.binary(max_size=300))
def test_yenc_round_trip(data: bytes) -> None:
    (file,) = find_yenc(b"text\r\n" + yenc(data) + b"text")
    assert (file.names, file.content, file.whole) == (("a.bin",), data, True)


def test_yenc_cut_off_or_short_is_not_whole() -> None:
    (file,) = find_yenc(yenc(b"hello")[:45])
    assert not file.whole
    (file,) = find_yenc(yenc(b"hello").replace(b"size=5 name", b"size=6 name"))
    assert (file.content, file.whole) == (b"hello", False)


def test_yenc_part_line_is_no_data() -> None:
    (file,) = find_yenc(yenc(b"hello").replace(b"a.bin\r\n", b"a.bin\r\n=ypart begin=1 end=5\r\n"))
    assert file.content == b"hello"


@given(st.binary(max_size=100))
def test_yenc_of_any_bytes(content: bytes) -> None:
    decode_yenc(content)
    list(find_yenc(b"=ybegin line=1 size=x\n" + content))
