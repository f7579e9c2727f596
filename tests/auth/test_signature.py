"""Tag lists: what is one, what is none, and that nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.auth.signature import empty_tag, parse_tags, remove_blanks


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("v=1; a=rsa-sha256", {"v": "1", "a": "rsa-sha256"}),
        ("v=1; a=b;", {"v": "1", "a": "b"}),  # one semicolon may trail
        (" v = 1 ;\r\n\ta =\tb ", {"v": "1", "a": "b"}),
        ("b=a b\r\n c=d", {"b": "a b\r\n c=d"}),  # white space and equals signs inside stay
        ("p=", {"p": ""}),
        ("", {}),
        (" \r\n", {}),
        ("x_1=2", {"x_1": "2"}),
        ("v=1;; a=b", None),
        (";v=1", None),
        ("v=1;;", None),
        ("v=1; v=2", None),
        ("v=1; V=2", {"v": "1", "V": "2"}),  # names are case-sensitive
        ("v", None),
        ("==", None),
        ("1=2", None),
        ("a b=2", None),
        ("é=2", None),
    ],
)
def test_parse(text: str, tags: dict[str, str] | None) -> None:
    assert parse_tags(text) == tags


@given(st.text())
def test_parse_never_raises(text: str) -> None:
    tags = parse_tags(text)
    assert tags is None or all(name.isascii() for name in tags)


def test_compact_drops_folding() -> None:
    assert remove_blanks("ab\r\n\tcd ef") == "abcdef"


@pytest.mark.parametrize(
    ("field", "left"),
    [
        (b"X: a=1; b=c d\r\n e; bh=f=\r\n", b"X: a=1; b=; bh=f=\r\n"),
        (b"X: b=c\r\n", b"X: b="),
        (b"X:\tb \r\n =c;d=b=e", b"X:\tb \r\n =;d=b=e"),
        (b"X: bb=1; B=2", b"X: bb=1; B=2"),
        (b"b=1; c: b=2", b"b=1; c: b="),  # the name of the field is not a tag
        (b"X", b"X"),
    ],
)
def test_emptied(field: bytes, left: bytes) -> None:
    assert empty_tag(field, b"b") == left
