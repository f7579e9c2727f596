import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.encodings.embedded import decode_binhex, find_binhex

LETTERS = b"!\"#$%&'()*+,-012345689@ABCDEFGHIJKLMNPQRSTUVXYZ[`abcdefhijklmpqr"
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def encoded(data: bytes, name: bytes = b"a.txt") -> bytes:
    header = bytes([len(name)]) + name + b"\0TEXTttxt\0\0" + len(data).to_bytes(4, "big") + bytes(4) + b"\0\0"
    packed = (header + data + b"\0\0").replace(b"\x90", b"\x90\0")
    letters = base64.b64encode(packed).rstrip(b"=").translate(bytes.maketrans(BASE64, LETTERS))
    return b"(This file must be converted with BinHex 4.0)\n:" + letters + b":\n"


@given(st.binary(max_size=200))
def test_round_trip(data: bytes) -> None:
    (file,) = find_binhex(b"text\n" + encoded(data))
    assert file.names == ("a.txt",)
    assert file.content == data or not data
    assert file.whole


def test_runs_are_expanded() -> None:
    packed = b"\x00\0TEXTttxt\0\0" + (8).to_bytes(4, "big") + bytes(4) + b"\0\0" + b"ab\x90\x06c" + b"\0\0"
    letters = base64.b64encode(packed).rstrip(b"=").translate(bytes.maketrans(BASE64, LETTERS))
    assert decode_binhex(b":" + letters + b":").content == b"abbbbbbc"


@pytest.mark.parametrize("text", [b"", b"hello", b"with BinHex"])
def test_ordinary_text(text: bytes) -> None:
    assert not list(find_binhex(text))


@given(st.binary(max_size=100))
def test_any_bytes(content: bytes) -> None:
    decode_binhex(content)
