"""Header sections: which lines are fields, where the body begins, and encoded words (RFC 2047)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.budget import ReadBudget, ReadLimits
from gatepost.mail.headers import HeaderSection, decode_words, read_section, unfold


def section(raw: bytes, budget: ReadBudget | None = None, boundaries: frozenset[bytes] = frozenset()) -> HeaderSection:
    return read_section(raw, 0, boundaries, "1", budget or ReadBudget())


@pytest.mark.parametrize(
    ("raw", "fields", "body"),
    [
        (b"A: 1\r\nB: 2\r\n\r\nbody", [("a", "1"), ("b", "2")], b"body"),
        (b"A: 1\nB: 2\n\nbody", [("a", "1"), ("b", "2")], b"body"),
        (b"A:1\r\n\r\n\r\nbody", [("a", "1")], b"\r\nbody"),
        (b"A: 1\r\n  2\r\n\t3\r\n\r\nbody", [("a", "1  2\t3")], b"body"),
        (b"A : 1\r\n\r\nbody", [("a", "1")], b"body"),  # RFC 5322 section 4.5
        (b"A:\r\n\r\nbody", [("a", "")], b"body"),
        (b"A: =?utf-8?q?=C3=A9?=\r\n\r\n", [("a", "é")], b""),
        (b"A: \xc3\xa9\r\n\r\n", [("a", "é")], b""),  # RFC 6532
        (b"A: \xe9\r\n\r\n", [("a", "é")], b""),
        (b"A: 1\r\n \r\nB: 2\r\n\r\nbody", [("a", "1"), ("b", "2")], b"body"),  # white space folds
        (b"From x Mon Jan 1\nA: 1\n\nbody", [("", "From x Mon Jan 1"), ("a", "1")], b"body"),  # mbox
        (b"A: 1\r\njunk\r\nB: 2\r\n\r\nbody", [("a", "1"), ("", "junk"), ("b", "2")], b"body"),
        (b"A: 1\r\njunk\r\nmore junk\r\n\r\nbody", [("a", "1")], b"junk\r\nmore junk\r\n\r\nbody"),
        (b"no header at all\r\n\r\nbody", [], b"no header at all\r\n\r\nbody"),
        (b"\r\nbody", [], b"body"),
        (b"", [], b""),
        (b"A: 1", [("a", "1")], b""),
        (b"A: 1\0 2\r\n\r\n", [("a", "1 2")], b""),
    ],
)
def test_fields_and_body(raw: bytes, fields: list[tuple[str, str]], body: bytes) -> None:
    read = section(raw)
    assert [(field.name, field.value) for field in read.headers.fields] == fields
    assert raw[read.body :] == body


@pytest.mark.parametrize(
    ("raw", "kinds"),
    [
        (b"A: 1\r\nB: 2\r\n\r\n", []),
        (b"A: 1\nB: 2\n\n", []),
        (b"A: 1\nB: 2\r\n\r\n", ["mime:bare-lf"]),
        (b"A: 1\rB: 2\r\n\r\n", ["mime:bare-cr"]),
        (b"A: 1\0\r\n\r\n", ["mime:nul"]),
        (b"A: 1\r\njunk\r\nB: 2\r\n\r\n", ["mime:junk-in-header"]),
        (b"A: 1\r\nnot\r\nfields\r\n", ["mime:header-cut-short"]),
    ],
)
def test_defects(raw: bytes, kinds: list[str]) -> None:
    budget = ReadBudget()
    section(raw, budget)
    assert [defect.kind for defect in budget.defects] == kinds


def test_a_delimiter_ends_a_header() -> None:
    raw = b"A: 1\r\n--b:c\r\nB: 2\r\n\r\n"
    assert section(raw, boundaries=frozenset({b"b:c"})).body == 6
    assert [field.name for field in section(raw).headers.fields] == ["a", "--b", "b"]


def test_limits_are_named_and_the_body_is_still_found() -> None:
    for limits, kind in (
        (ReadLimits(header_bytes=100), "limit:header-size"),
        (ReadLimits(header_fields=5), "limit:header-fields"),
    ):
        budget = ReadBudget(limits)
        raw = b"\xffA: 1\r\n" * 0 + b"X: \xff\r\n" * 100 + b"\r\nbody"
        read = section(raw, budget)
        assert [defect.kind for defect in budget.defects] == [kind]
        assert raw[read.body :] == b"body"
        assert read.unread[1] == read.body
        assert sum(len(field.raw) for field in read.headers.fields) == read.unread[0]


def test_encoded_words_have_a_limit() -> None:
    budget = ReadBudget(ReadLimits(encoded_words=3))
    section(b"A: " + b"=?utf-8?q?a?= " * 10 + b"\r\n\r\n", budget)
    assert [defect.kind for defect in budget.defects] == ["limit:encoded-words"]


def test_unfolded_keeps_encoded_words() -> None:
    (field,) = section(b"A: =?utf-8?q?a=3Bb?=;\r\n c\r\n\r\n").headers.fields
    assert (field.value, unfold(field)) == ("a;b; c", "=?utf-8?q?a=3Bb?=; c")


@given(
    st.lists(st.sampled_from([b"A: 1", b" x", b"junk", b"", b"\xff: y", b"B:\0", b"--b", b":", b"C :z"]), max_size=8)
)
def test_both_ways_to_read_agree_and_lose_no_byte(lines: list[bytes]) -> None:
    """The quick way for ordinary sections and the slow way see the same fields; fields are the section's bytes."""
    raw = b"".join(line + b"\r\n" for line in lines)
    read = section(raw)
    slow = section(raw[: read.body] + raw[read.body :], ReadBudget(), frozenset({b"never"}))
    assert slow.headers == read.headers
    joined = b"".join(field.raw for field in read.headers.fields)
    assert raw.startswith(joined)
    assert raw[len(joined) : read.body] in {b"", b"\r\n"}


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
    assert decode_words(text) == decoded


def test_words_past_the_limit_stay() -> None:
    assert decode_words("=?utf-8?q?a?= " * 3, most=2) == "aa =?utf-8?q?a?= "


@given(st.text(alphabet="=?utf-8bBqQ*_ \u00e9\n", max_size=80))
def test_any_text_decodes(text: str) -> None:
    decode_words(text).encode("utf-8")
