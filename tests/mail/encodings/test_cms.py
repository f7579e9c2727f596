"""Signed messages that look encrypted: the content is found, and no structure raises."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files.document_formats import der, eml, signed, signed_in_pieces

from gatepost.mail.encodings.cms import CmsContent, open_cms
from gatepost.mail.reader import read

COMPRESSED = bytes.fromhex("2a864886f70d0109100109")
ENVELOPED = bytes.fromhex("2a864886f70d010703")
DATA = bytes.fromhex("2a864886f70d010701")


def compressed(content: bytes) -> bytes:
    inner = der(0x30, der(6, DATA), der(0xA0, der(4, zlib.compress(content))))
    return der(0x30, der(6, COMPRESSED), der(0xA0, der(0x30, der(2, b"\0"), der(0x30), inner)))


@pytest.mark.parametrize("make", [signed, signed_in_pieces])
def test_the_content_of_a_signed_message(make: object) -> None:
    assert callable(make)
    assert open_cms(make("a.txt", b"x" * 500)) == CmsContent("signed", eml("a.txt", b"x" * 500))


def test_compressed_and_encrypted() -> None:
    assert open_cms(compressed(b"abc" * 99)) == CmsContent("compressed", b"abc" * 99)
    assert open_cms(der(0x30, der(6, ENVELOPED), der(0xA0, der(0x30)))) == CmsContent("encrypted")


def test_the_message_inside_is_part_of_the_message() -> None:
    head = b"From: a@b.example\r\nContent-Type: application/pkcs7-mime; smime-type=signed-data\r\n"
    message = read(head + b"Content-Transfer-Encoding: binary\r\n\r\n" + signed("payload.js", b"var a;"))
    assert "payload.js" in [name for part in message.parts for name in part.names]
    assert any("Please find the file" in text.visible for text in message.texts)


@given(st.data())
def test_no_damage_raises(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from([signed, signed_in_pieces]))("a.txt", b"x" * 99))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, 120))] = data.draw(st.integers(0, 255))
    assert isinstance(open_cms(bytes(content[: data.draw(st.integers(0, len(content)))])), CmsContent)


@given(st.binary(max_size=200))
def test_no_bytes_raise(content: bytes) -> None:
    assert isinstance(open_cms(b"\x30" + content), CmsContent)
