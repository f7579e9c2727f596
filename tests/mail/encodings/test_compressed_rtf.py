"""Outlook's rich text: decompressed, and the HTML inside it found."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.encodings.outlook import decompress_rtf, extract_html

# The example of [MS-OXRTFCP] section 4.1.
PACKED = bytes.fromhex(
    "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
)
PLAIN = b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
HTML = (
    rb"{\rtf1\ansi\fromhtml1 {\fonttbl{\f0 Arial;}}{\*\htmltag19 <html>}\htmlrtf {\f0 \htmlrtf0 "
    rb'{\*\htmltag84 <a href="https://evil.example/">}see \{this\} caf\'e9{\*\htmltag92 </a>}\htmlrtf }\htmlrtf0 }'
)


def literal(rtf: bytes) -> bytes:
    """RTF in the compressed form without any reference."""
    body = b"".join(b"\0" + rtf[at : at + 8] for at in range(0, len(rtf), 8))
    return struct.pack("<II", len(body) + 12, len(rtf)) + b"LZFu" + bytes(4) + body


def test_the_example_of_the_specification() -> None:
    assert decompress_rtf(PACKED) == (PLAIN, True)


def test_other_forms() -> None:
    assert decompress_rtf(literal(HTML)) == (HTML, True)
    assert decompress_rtf(struct.pack("<II", 0, 5) + b"MELA" + bytes(4) + b"{\\rtf}") == (b"{\\rtf}", True)
    assert decompress_rtf(PACKED[:30])[1] is False


def test_the_html_inside() -> None:
    assert extract_html(HTML) == b'<html><a href="https://evil.example/">see {this} caf\xe9</a>'
    assert extract_html(PLAIN) == b""


@given(st.binary(max_size=300))
def test_no_bytes_raise(content: bytes) -> None:
    out, _ = decompress_rtf(b"\0\0\0\0\xff\xff\0\0LZFu" + content, 5_000)
    assert len(out) <= 5_000
    assert isinstance(extract_html(b"{\\rtf1\\fromhtml1 " + content), bytes)
