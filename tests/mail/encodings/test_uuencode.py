import binascii

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.encodings.embedded import decode_uuencoded, find_uuencoded


def encoded(data: bytes, name: bytes = b"a.txt", end: bytes = b"end\n") -> bytes:
    lines = b"".join(binascii.b2a_uu(data[at : at + 45]) for at in range(0, len(data), 45))
    return b"begin 644 " + name + b"\n" + lines + b"`\n" + end


@given(st.binary(min_size=1, max_size=300))
def test_round_trip(data: bytes) -> None:
    text = b"Hello,\n\n" + encoded(data) + b"\nbye\n"
    assert [(file.names, file.content, file.whole) for file in find_uuencoded(text)] == [(("a.txt",), data, True)]
    assert next(find_uuencoded(text.replace(b"\n", b"\r\n"))).content == data
    assert decode_uuencoded(encoded(data)) == (data, True)


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (encoded(b"one") + encoded(b"two"), [b"one", b"two"]),
        (encoded(b"one", end=b""), [b"one"]),  # cut off
        (encoded(b"one").replace(b"\n", b"xx\n", 1).replace(b"a.txtxx", b"a.txt"), [b"one"]),
        (b"begin-base64 644 a\nb25l\n====\n", [b"one"]),
        (b"begin 644 a\n#;VYE\xff\n`\nend\n", [b"one"]),  # a byte that does not belong
        (b"begin 600 to talk\nabout the weather and what it does to us\nend\n", []),
        (b"begin with something\nelse\nend\n", []),
        (b"we begin 644 here\nno\n", []),
    ],
)
def test_find(text: bytes, contents: list[bytes]) -> None:
    assert [file.content for file in find_uuencoded(text)] == contents


def test_lines_without_a_frame() -> None:
    assert decode_uuencoded(binascii.b2a_uu(b"one") + binascii.b2a_uu(b"two")) == (b"onetwo", True)


@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    decode_uuencoded(content)
    list(find_uuencoded(b"begin 644 a\n#" + content))
