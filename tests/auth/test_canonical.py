"""Canonicalisation: the examples of RFC 6376 section 3.4.5, a plain reading beside ours, and its work."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.auth import signature
from gatepost.auth.signature import canonicalise_relaxed_field, canonicalise_simple_field

MAIL = st.lists(st.sampled_from([b" ", b"\t", b"\r", b"\n", b"\r\n", b"a", b"B:", b"\v", b"\f", b"\xff", b"  "])).map(
    b"".join
)


def joined(body: bytes, *, relaxed: bool) -> bytes:
    return b"".join(signature.canonicalise_body(body, 0, relaxed=relaxed))


def read_plainly(body: bytes, *, relaxed: bool) -> bytes:
    """Section 3.4 line by line, slowly."""
    lines = [line.removesuffix(b"\r") if more else line for line, more in _lines(body)]
    if relaxed:
        lines = [re.sub(rb"[ \t]+", b" ", line).removesuffix(b" ") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return b"".join(line + b"\r\n" for line in lines) or (b"" if relaxed else b"\r\n")


def _lines(body: bytes) -> list[tuple[bytes, bool]]:
    lines = body.split(b"\n")
    return [(line, index < len(lines) - 1) for index, line in enumerate(lines)]


def test_the_example_of_the_standard() -> None:
    fields = (b"A: X\r\n", b"B : Y\t\r\n\tZ  \r\n")
    body = b" C \r\nD \t E\r\n\r\n\r\n"
    assert [canonicalise_relaxed_field(field) for field in fields] == [b"a:X", b"b:Y Z"]
    assert [canonicalise_simple_field(field) for field in fields] == [b"A: X", b"B : Y\t\r\n\tZ  "]
    assert joined(body, relaxed=True) == b" C\r\nD E\r\n"
    assert joined(body, relaxed=False) == b" C \r\nD \t E\r\n"


@pytest.mark.parametrize(
    ("body", "simple", "relaxed"),
    [
        (b"", b"\r\n", b""),
        (b"\r\n\r\n", b"\r\n", b""),
        (b" \r\n\t\r\n", b" \r\n\t\r\n", b""),
        (b"a", b"a\r\n", b"a\r\n"),
        (b"a \t b  ", b"a \t b  \r\n", b"a b\r\n"),
        (b"a\nb\n\n", b"a\r\nb\r\n", b"a\r\nb\r\n"),  # bare LF is a line end
        (b"a\r\nb\nc", b"a\r\nb\r\nc\r\n", b"a\r\nb\r\nc\r\n"),
        (b"a\rb\r\n", b"a\rb\r\n", b"a\rb\r\n"),  # a lone CR is a byte like others
        (b"a\r", b"a\r\r\n", b"a\r\r\n"),
        (b"a\r\r\n\r\n", b"a\r\r\n", b"a\r\r\n"),
        (b"\x00 \x00", b"\x00 \x00\r\n", b"\x00 \x00\r\n"),
    ],
)
def test_bodies(body: bytes, simple: bytes, relaxed: bytes) -> None:
    assert joined(body, relaxed=False) == simple
    assert joined(body, relaxed=True) == relaxed


@pytest.mark.parametrize(
    ("field", "relaxed"),
    [
        (b"SUBJect:  a   b \r\n", b"subject:a b"),
        (b"Subject: a\r\n \r\n\tb\r\n", b"subject:a b"),
        (b"Subject:\r\n", b"subject:"),
        (b"Subject", b"subject:"),
        (b"Subject: a\vb\f c\r\n", b"subject:a\vb\f c"),  # not white space for mail
        (b"Subject: a\rb\r\n", b"subject:a\rb"),
        (b"Subject: a\n b\n", b"subject:a b"),
        (b"S: \xc3\xa9\r\n", b"s:\xc3\xa9"),
    ],
)
def test_relaxed_field(field: bytes, relaxed: bytes) -> None:
    assert canonicalise_relaxed_field(field) == relaxed


def test_long_field_is_read_like_a_short_one() -> None:
    value = b" a\t b\r\n  c" * 20_000
    assert canonicalise_relaxed_field(b"X:" + value) == b"x:" + b" ".join(value.split())


@given(MAIL, st.booleans())
def test_agrees_with_the_plain_reading(body: bytes, relaxed: bool) -> None:
    assert joined(body, relaxed=relaxed) == read_plainly(body, relaxed=relaxed)


@given(MAIL, st.booleans(), st.integers(0, 7))
def test_pieces_do_not_show(body: bytes, relaxed: bool, piece: int) -> None:
    whole = joined(body, relaxed=relaxed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signature, "PIECE", piece)
        patch.setattr(signature, "_SHORT", piece)
        patch.setattr(signature, "_WINDOW", 2)
        assert joined(body, relaxed=relaxed) == whole


@given(MAIL, st.booleans())
def test_canonical_stays_as_it_is(body: bytes, relaxed: bool) -> None:
    once = joined(body, relaxed=relaxed)
    assert joined(once, relaxed=relaxed) == once
    assert canonicalise_relaxed_field(canonicalise_relaxed_field(body)) == canonicalise_relaxed_field(body)


@pytest.mark.parametrize("bait", [b" ", b"\t", b" \t", b"\r\n", b" \r\n", b"\n", b"\r", b"a ", b"a  "])
def test_bait_is_handled_whole(bait: bytes) -> None:
    body = bait * (3_000_000 // len(bait)) + b"x"
    pieces = list(signature.canonicalise_body(body, 0, relaxed=True))
    assert len(pieces) <= 4
    assert b"".join(pieces).endswith(b"x\r\n")
