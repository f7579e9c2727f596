"""What a view shows, that nothing in it acts, and that every field has its end."""

import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from gatepost.view import values
from gatepost.view.message import build_view
from gatepost.view.values import View
from gatepost.workers.warmup import specimens

ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
MAX_ENCODED = 3_000_000

MESSAGE = """From: =?utf-8?q?J=C3=BCrgen?= <j@x.example>
from: second@evil.example
To: bob@y.example
Subject: a\u202ebc
Message-ID: <1@x.example>
X-Other: y
Content-Type: multipart/alternative; boundary=b

--b
Content-Type: text/plain

plain words
--b
Content-Type: text/html
Content-Transfer-Encoding: QUOTED-PRINTABLE

<p>shown words</p><p style=3D"display:none">secret filler</p><script>alert(1)</script>
<a href=3D"https://evil.example/x">https://bank.example</a><img src=3D"https://track.example/p.gif">
--b
Content-Type: application/x-msdownload; name=first.exe
Content-Disposition: attachment; filename=second.pdf

MZ
--b--
""".replace("\n", "\r\n").encode()


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)


def checked(raw: bytes) -> View:
    """The view, once it is certain that it keeps what a view promises."""
    made = build_view(raw)
    packed = msgspec.msgpack.encode(made)
    assert len(packed) < MAX_ENCODED
    # Every bound is part of the type, so decoding holds each field to it.
    assert msgspec.msgpack.decode(packed, type=View) == made
    assert msgspec.json.decode(msgspec.json.encode(made), type=View) == made
    assert not [text for text in strings(msgspec.to_builtins(made)) if ACTS.search(text)]
    return made


def test_what_a_person_looks_at() -> None:
    made = checked(MESSAGE)
    assert [(line.name, line.value) for line in made.headers] == [
        ("From", "Jürgen <j@x.example>"),
        ("from", "second@evil.example"),
        ("To", "bob@y.example"),
        ("Subject", "a\\u202ebc"),
        ("Message-ID", "<1@x.example>"),
    ]
    assert [line.name for line in made.fields][-2:] == ["X-Other", "Content-Type"]
    assert made.left_out == ()


def test_the_tree_of_parts() -> None:
    made = checked(MESSAGE)
    assert [(part.path, part.type, part.depth, part.names) for part in made.parts] == [
        ("1", "multipart/alternative", 0, ()),
        ("1.1", "text/plain", 1, ()),
        ("1.2", "text/html", 1, ()),
        ("1.3", "application/x-msdownload", 1, ("second.pdf", "first.exe")),
    ]
    assert (made.parts[0].size, made.parts[1].size) == (0, len(b"plain words"))
    assert (made.parts[2].encoding, made.parts[3].disposition) == ("quoted-printable", "attachment")


def test_texts_as_they_are_read_and_what_is_hidden_apart() -> None:
    plain, page = checked(MESSAGE).passages
    assert (plain.where, plain.form, plain.visible.strip(), plain.hidden) == ("1.1", "plain", "plain words", "")
    assert (page.where, page.form) == ("1.2", "html")
    assert "shown words" in page.visible
    assert "secret filler" not in page.visible
    assert "secret filler" in page.hidden
    assert "alert" not in page.visible


def test_links_lead_where_they_lead_and_what_is_followed_comes_first() -> None:
    first, *others = checked(MESSAGE).links
    assert (first.shown, first.target, first.host) == ("https://bank.example", "https://evil.example/x", "evil.example")
    assert [link.source for link in others][-1] == "image"


def test_a_text_that_is_too_long_is_cut_and_says_so() -> None:
    made = checked(b"Subject: x\r\n\r\n" + b"word " * 100_000)
    (passage,) = made.passages
    assert len(passage.visible) == values.ALL_VISIBLE
    assert passage.more == 500_000 - values.ALL_VISIBLE
    assert made.left_out == ("300,000 more characters of text",)


def test_a_file_does_not_take_the_room_of_the_text() -> None:
    raw = (
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n"
        b"Content-Disposition: attachment; filename=a.txt\r\n\r\n"
        + b"file " * 100_000
        + b"\r\n--b\r\n\r\nown\r\n--b--\r\n"
    )
    first, second = checked(raw).passages
    assert (first.visible.strip(), first.attached) == ("own", False)
    assert second.attached


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"".join(b"X-%d: %s\r\n" % (number, b"v" * 60) for number in range(1_500)) + b"\r\nx", "more header fields"),
        (b"To: " + b"x" * 100_000 + b"\r\n\r\nx", ""),
        (
            b"Content-Type: text/html\r\n\r\n"
            + b"".join(b'<a href="https://h%d.example/%s">t</a>' % (n, b"p" * 1_000) for n in range(2_000)),
            "more links",
        ),
        (
            b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
            + b"".join(b"--b\r\nContent-Type: text/plain\r\n\r\n%d\r\n" % n for n in range(1_500)),
            "more parts",
        ),
        (
            b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
            + b"".join(b"--b\r\nContent-Type: image/png\r\n\r\n\x89PNG\r\n\x1a\n%d\r\n" % n for n in range(300)),
            "200 more pictures",
        ),
        (b"Subject: " + "\u202e".encode() * 50_000 + b"\r\n\r\n" + "\u202e\x07".encode() * 300_000, "more characters"),
    ],
)
def test_whatever_there_is_too_much_of_is_cut_and_said(raw: bytes, said: str) -> None:
    assert said in " ".join(checked(raw).left_out)


def test_what_the_reader_had_no_budget_for_is_said() -> None:
    raw = b"".join(b"X: %d\r\n" % number for number in range(3_000)) + b"\r\nx"
    assert "A header section has more fields than are read" in checked(raw).left_out


def test_pictures_are_listed_with_what_they_claim() -> None:
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    raw = (
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; name=a.txt\r\n\r\n" + png
    ) + b"\r\n--b\r\nContent-Type: image/svg+xml\r\n\r\n<svg onload=alert(1)></svg>\r\n--b--\r\n"
    bomb, drawing = checked(raw).pictures
    assert (bomb.index, bomb.type, bomb.name, bomb.width, bomb.height) == (0, "png", "a.txt", 60_000, 60_000)
    assert bomb.refusal == "more pixels than are decoded"
    assert drawing.refusal == "not a kind of picture that can be shown"


def page_of(made: View) -> str:
    """As plain as a page can be: every string of the view, escaped, in an element of its own."""
    return "<body>" + "".join(f"<p>{escape(text)}</p>" for text in strings(msgspec.to_builtins(made))) + "</body>"


@pytest.mark.shared
def test_hostile_mail_is_only_text_on_a_page(shared: Callable[[str], Path]) -> None:
    files = sorted((shared("attack-dev")).rglob("attack_xss/*.eml"))
    assert len(files) == 96
    for path in files:
        made = checked(path.read_bytes())
        tree = LexborHTMLParser(page_of(made))
        tags = {node.tag for node in tree.css("*")}
        assert tags <= {"html", "head", "body", "p"}, path.name
        assert not [node for node in tree.css("*") if node.attributes], path.name
        assert made.fields


@pytest.mark.variant
@pytest.mark.shared
def test_real_mail(shared: Callable[[str], Path]) -> None:
    files = sorted(shared("mail-dev").rglob("*.eml"))[::200]
    files += sorted(shared("attack-dev").rglob("*.eml"))[::7]
    assert len(files) > 50
    for path in files:
        made = checked(path.read_bytes())
        assert made.parts


@pytest.mark.parametrize("raw", specimens())
def test_every_specimen(raw: bytes) -> None:
    assert checked(raw).parts


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_have_a_view(raw: bytes) -> None:
    checked(raw)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_mutated_mail_has_a_view(data: st.DataObject) -> None:
    raw = bytearray(MESSAGE)
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(raw)))
        cut = data.draw(st.integers(0, 20))
        piece = data.draw(
            st.sampled_from([b"", b"\0", b"\r\n\r\n", b"--b", b"\xff\xfe", b"=?utf-8?b?", b"<!--", b"\x1b["])
        )
        raw[place : place + cut] = piece
    checked(bytes(raw))
