"""Type by content: what a file is, not what it is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.files.file_types import EXTENSIONS, identify


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (b"MZ\x90\0\x03\0\0\0" + bytes(60), "exe"),
        (b"MZ is how this letter starts, and it goes on in plain words for more than sixty-four characters.", "text"),
        (b"%PDF-1.7\n", "pdf"),
        (b"junk before it\n%PDF-1.4\n", "pdf"),
        (b"PK\x03\x04", "zip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
        (b"{\\rtf1", "rtf"),
        (b"BM is a car maker's half", "text"),
        (b"#!/bin/sh\n", "script"),
        (b"#! no path", "text"),
        (b"RIFF\0\0\0\0WEBP", "webp"),
        (b"\xef\xbb\xbf <!DOCTYPE HTML>", "html"),
        (b'<?xml version="1.0"?><svg xmlns="x">', "svg"),
        (b'<?xml version="1.0"?><note/>', "xml"),
        (bytes(0x8001) + b"CD001", "iso"),
        (b"Dear Sir,\n", "text"),
        (b"\0\x01\x02", "data"),
    ],
)
def test_identify(content: bytes, expected: str) -> None:
    assert identify(content) == expected


@given(st.binary(max_size=2000))
def test_every_answer_is_known(content: bytes) -> None:
    assert identify(content) in {*EXTENSIONS, "text", "data", "empty"}
