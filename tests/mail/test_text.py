"""The texts of a message, part by part, and the budgets that hold for all of them together."""

from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.variants import one_in

from gatepost.mail.budget import DEFECTS
from gatepost.mail.html.document import MAX_NODES
from gatepost.mail.html.limits import MAX_TAGS
from gatepost.mail.links import MAX_LINKS
from gatepost.mail.message import Defect, Field, Headers, Part, Text
from gatepost.mail.text import MAX_TEXT, MAX_WRITTEN_LINKS, TextReader, read_texts


def part(content: str | bytes, kind: str = "text/plain", path: str = "1", **fields: object) -> Part:
    data = content.encode() if isinstance(content, str) else content
    values = {"charset": "utf-8"} | fields
    return Part(path, content_type=kind, content=data, **values)  # type: ignore[arg-type]


def html(content: str, path: str = "1") -> Part:
    return part(content, "text/html", path)


def kinds(*parts: Part) -> list[str]:
    return [defect.kind for defect in read_texts(parts)[2]]


def typed(value: str) -> Headers:
    return Headers((Field("content-type", value, b""),))


@pytest.mark.parametrize(
    ("given_part", "expected"),
    [
        (part("a\r\nb"), [Text("1", "plain", "a\nb")]),
        (html("<p>a<p>b"), [Text("1", "html", "a\nb")]),
        (part("caf\xe9".encode("latin-1"), charset="iso-8859-1"), [Text("1", "plain", "café")]),
        (part("a \r\nb\r\n", headers=typed("text/plain; format=flowed")), [Text("1", "plain", "a b\n")]),
        (
            part("http://x.t \nest/ \n> q", headers=typed('text/plain; Format="flowed"; DelSp=yes')),
            [Text("1", "plain", "http://x.test/ \n> q")],
        ),
        (part("BEGIN:VCALENDAR\r\nURL:http://x.\r\n test/", "text/calendar"), [Text("1", "plain", "BEGIN:VCALENDAR\nURL:http://x.test/")]),
        (part(r"{\rtf1\ansi\b Hello\b0\par w\'f6rld}", "text/rtf"), [Text("1", "plain", "Hello\nwörld")]),
        (part("<p>a", "application/xhtml+xml"), [Text("1", "html", "a", attached=True)]),
        (part("<p>a", "application/octet-stream", names=("x.HTM",)), [Text("1", "html", "a", attached=True)]),
        (part("log", disposition="attachment"), [Text("1", "plain", "log", attached=True)]),
        (part("x", "image/png"), []),
        (part("", "text/plain"), []),
        (part("x", children=(part("y"),)), []),
    ],
)  # fmt: skip
def test_texts(given_part: Part, expected: list[Text]) -> None:
    assert list(read_texts((given_part,))[0]) == expected


def test_html_that_is_declared_as_text() -> None:
    texts, links, defects = read_texts((part(" \n<!DOCTYPE html><html><a href='http://x.test/'>y</a>"),))
    assert (texts[0].form, texts[0].visible) == ("html", "y")
    assert [link.url for link in links] == ["http://x.test/"]
    assert [defect.kind for defect in defects] == ["html:undeclared"]
    assert kinds(part("<htmlish> is no tag")) == []


def test_the_same_text_is_read_once() -> None:
    reader = TextReader()
    for path in ("1", "1~b64"):
        reader.read(html("<p>x", path))
    assert [text.where for text in reader.texts] == ["1"]


def test_loose_addresses_in_html_are_links_but_shown_ones_are_not() -> None:
    page = "<p>visit www.loose.example <a href='http://real.test/'>http://shown.example/</a>"
    assert [(link.host, link.source) for link in read_texts((html(page),))[1]] == [
        ("real.test", "html"),
        ("www.loose.example", "text"),
    ]


def test_what_only_outlook_shows_is_read() -> None:
    page = "<p>Hi</p><!--[if mso]><p>Hi</p><p>Pay <a href='http://x.test/'>now</a></p><![endif]-->"
    texts, links, _ = read_texts((html(page),))
    assert texts[0].visible == "Hi\nPay now"
    assert [link.shown for link in links] == ["now"]


def test_a_page_in_a_link_in_a_page() -> None:
    inner = "%3Ca href='http://x.test/'%3Ego%3C/a%3E"
    _, links, defects = read_texts((html(f'<a href="data:text/html,{inner}">open</a>'),))
    assert "x.test" in [link.host for link in links]
    assert [defect.kind for defect in defects] == ["html:data-link"]


WORDS = " ".join(f"word{number}" for number in range(200))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (f"<p>Buy</p><div style='display:none'>{WORDS}</div>", ["text:hidden"]),
        (f"<p>Buy</p><font color=white>{WORDS}</font>", ["text:hidden"]),
        ("<div style='display:none'>Three new offers this week, only for you</div><p>Hello", []),  # a preview line
        (f"<div style='display:none'>Offers {'&zwnj;&nbsp;' * 500}</div><p>Hello", []),  # and its padding
        (f"<p>{WORDS}</p><div style='display:none'>{WORDS}</div>", []),  # the layout for telephones
        (f"<p>{WORDS * 20}</p><div style='display:none'>{WORDS.replace('w', 'v')[:500]}</div>", []),  # a small share
        (f"<p>{WORDS}", []),
    ],
)
def test_hidden_text_is_told_where_it_is_much(page: str, expected: list[str]) -> None:
    assert kinds(html(page)) == expected


def test_hidden_text_says_how_much() -> None:
    (defect,) = read_texts((html(f"<p>Buy</p><div style='opacity:0'>{WORDS}</div>"),))[2]
    assert defect == Defect("text:hidden", "1", f"chars={len(WORDS) + 1} share=1.00 how=opacity")


@pytest.mark.parametrize(
    ("text", "expected", "visible"),
    [
        ("p\u200bass\u200bw\u00adord exp\u2060ir\u200des", ["text:invisible-characters"], "password expires"),
        ("Donau\u00addampf\u00adschiff", [], "Donaudampfschiff"),  # hyphenation
        ("می\u200cخواهم " * 20, [], "میخواهم " * 20),  # Persian needs it
        ("see \u202efdp.exe", ["text:bidi-override"], "see fdp.exe"),
        ("plain", [], "plain"),
    ],
)
def test_characters_that_do_not_show(text: str, expected: list[str], visible: str) -> None:
    texts, _, defects = read_texts((part(text),))
    assert [defect.kind for defect in defects] == expected
    assert texts[0].visible == visible


def test_markup_in_names_and_headers() -> None:
    both = ["html:in-header", "html:webmail-attack"]
    assert kinds(part("x", "image/png", names=("<img src=x onerror=alert(1)>.png",))) == both
    subject = Headers((Field("subject", "<svg onload=alert(1)>", b""), Field("from", "Ann <a@b.test>", b"")))
    assert kinds(part("x", headers=subject)) == both


BOMBS = {
    "div": "<div>" * 2_000_000,
    "links": "".join(f"<a href=http://x{n}.test/>y</a>" for n in range(100_000)),
    "formatting": "<p>" + "".join(f"<b a={n}>" for n in range(500)) + "</p>" + "<p>x</p>" * 100_000,
    "attributes": "<a " + " ".join(f"a{n}=1" for n in range(100_000)) + ">",
    "styles": "".join(f"<p style='color:#{n:06x}'>x" for n in range(50_000)),
    "classes": "<style>" + "".join(f".c{n}{{color:#{n:06x}}}" for n in range(5_000)) + "</style>"
    + "".join(f"<p class='c{n} c{n + 1} c{n + 2}'>x" for n in range(30_000)),
    "conditional": "<!--[if mso]><a href=x>y</a><![endif]-->" * 20_000,
    "frames": "<iframe srcdoc='" + "&lt;iframe srcdoc=x&gt;" * 20_000 + "'>",
    "nested": "<template>" * 1_000 + "x",
    "hidden": "<p style=display:none>word" * 90_000,
}  # fmt: skip


@pytest.mark.parametrize("name", one_in(3, BOMBS))
def test_html_bombs(name: str) -> None:
    reader = TextReader()
    reader.read(html(BOMBS[name]))
    assert reader.tags <= MAX_TAGS + 3
    assert reader.nodes <= MAX_NODES
    assert len(reader.links) <= MAX_LINKS
    assert {defect.kind for defect in reader.defects} <= {kind.id for kind in DEFECTS}


def test_a_thousand_small_bombs_share_one_budget() -> None:
    reader = TextReader()
    for number in range(1_000):
        reader.read(html("<div>" * 1_000 + f"<img alt={number}>", str(number)))
    assert reader.tags <= MAX_TAGS + 1_000
    assert "limit:html-size" in {defect.kind for defect in reader.defects}


def test_a_million_links() -> None:
    reader = TextReader()
    reader.read(part("".join(f"http://x{number}.test/ " for number in range(200_000))))
    assert MAX_WRITTEN_LINKS < len(reader.links) < MAX_LINKS
    assert {defect.kind for defect in reader.defects} == {"limit:text-size"}
    assert "x199999.test" in {link.host for link in reader.links}


def test_links_of_a_text_leave_room_for_those_of_a_page() -> None:
    reader = TextReader()
    for number in range(9):
        reader.read(part("".join(f"http://x{number}-{each}.test/ " for each in range(5_000))))
    reader.read(html('<a href="https://login.evil.test/">Log in</a>', "2"))
    assert "login.evil.test" in {link.host for link in reader.links}
    reader.read(html("".join(f"<a href=http://y{each}.test>y</a>" for each in range(12_000)), "3"))
    assert "limit:links" in {defect.kind for defect in reader.defects}


def test_long_text() -> None:
    texts, _, defects = read_texts((part("x" * (MAX_TEXT + 1)),))
    assert MAX_TEXT - 20_000 < len(texts[0].visible) <= MAX_TEXT + 20
    assert [defect.kind for defect in defects] == ["limit:text-size"]


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "utf-16-be", "utf-32", "latin-1", "shift_jis", "gb18030"])
def test_start_middle_and_end_of_a_long_text_are_read(charset: str) -> None:
    letters = (
        "gr\u00fcn \u00e9t\u00e9"
        if charset == "latin-1"
        else "\u65e5\u672c\u8a9e\u306e"
        if "is" in charset
        else "gr\u00fcn \u65e5\u672c"
    )
    lines = [f"line {number:07d} {letters}\n" for number in range(400_000)]
    lines[0], lines[-1] = "the first line\n", "the last line https://last.example/x\n"
    content = "".join(lines).encode(charset)
    texts, links, defects = read_texts((Part("1", content_type="text/plain", charset=charset, content=content),))
    visible = texts[0].visible
    assert [defect.kind for defect in defects] == ["limit:text-size"]
    assert visible.startswith("the first line\n")
    assert [link.host for link in links] == ["last.example"]
    assert visible.count("\ufffd") <= 12
    assert any(f"line 0{number}" in visible for number in range(15, 35))


def test_prose_behind_many_tags_is_read() -> None:
    texts, _, _ = read_texts((html("<b></b>" * MAX_TAGS + "<p>Please <i>log</i> in &amp; pay</p>"),))
    assert "log in & pay" in " ".join(texts[0].visible.split())


def test_a_page_of_many_megabytes() -> None:
    _, _, defects = read_texts((html("<p>" + "x" * 16_000_001),))
    assert {defect.kind for defect in defects} == {"limit:text-size"}
    _, _, defects = read_texts((html("<p>" + "x" * 16_000_001 + "<script>"),))
    assert {"html:script", "limit:text-size"} == {defect.kind for defect in defects}


@given(
    st.binary() | st.text().map(str.encode), st.sampled_from(["text/plain", "text/html", "text/calendar", "text/rtf"])
)
def test_reading_is_total(content: bytes, kind: str) -> None:
    texts, links, defects = read_texts((part(content, kind, charset=None),))
    assert len(texts) == bool(content)
    assert {defect.kind for defect in defects} <= {kind.id for kind in DEFECTS}
    assert all(link.where == "1" for link in links)


def split(raw: bytes) -> tuple[Part, ...]:
    """The leaves of a simple message."""
    return tuple(
        part(
            entity.get_payload(decode=True) or b"",  # type: ignore[arg-type]
            entity.get_content_type(),
            str(number),
            charset=None,
            headers=Headers(tuple(Field(name.lower(), str(value), b"") for name, value in entity.items())),
        )
        for number, entity in enumerate(message_from_bytes(raw).walk())
        if not entity.is_multipart()
    )


@pytest.mark.shared
def test_webmail_attacks(shared: Callable[[str], Path]) -> None:
    """Scripts, handlers and links that run, in bodies, subjects and file names. Three messages have none of these:
    their script is in an attached picture or program, or is broken."""
    messages = sorted((shared("attack-dev") / "wooyun_xss").rglob("*.eml"))
    assert len(messages) == 96
    told = sum(any(kind.startswith("html:") for kind in kinds(*split(path.read_bytes()))) for path in messages)
    assert told >= 90
