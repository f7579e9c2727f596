"""HTML as its reader would have seen it: what is on the page, what is not, and that nothing in it can act."""

import base64
import io
import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from PIL import Image
from tests.view.hostile_pages import ALL, AWAY, in_mail

from gatepost.view import values
from gatepost.view.message import NO_PARTS, build_page
from gatepost.view.values import Ended, HtmlView, NotShown, Opened, Spot, filter_look, write_page

NAMES = values.PAGE_ELEMENTS - {"link", "push", "field"} | {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "img",
    "span",
}
ATTRIBUTES = values.PAGE_MARKS | {"style", "title", "class", "src", "alt", "lang", "charset"}


class Written(HTMLParser):
    """The elements of a document."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def page_of(html: str) -> HtmlView:
    """What is made of a message with that HTML, once it is certain that its document has nothing else in it."""
    view = build_page(in_mail(html))
    assert isinstance(view, HtmlView)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(view), type=HtmlView) == view
    for tag, attributes in Written(write_page(view, html)).elements:
        assert tag in NAMES, tag
        assert attributes.keys() <= ATTRIBUTES, attributes
        assert filter_look(attributes.get("style") or "") == (attributes.get("style") or ""), attributes
        assert tag != "img" or (attributes["src"] or "").startswith("data:image/png;base64,")
    return view


def text_of(view: HtmlView) -> str:
    return " ".join("".join(each if isinstance(each, str) else " " for each in view.pieces).split())


@pytest.mark.parametrize("number", range(len(ALL)))
def test_nothing_acts(number: int) -> None:
    page_of(f"<p>before</p>{ALL[number]}<p>after</p>")


def test_there_are_enough_tricks() -> None:
    assert len(set(ALL)) == len(ALL) >= 90


def test_the_page_looks_as_the_message_did() -> None:
    view = page_of(
        "<style>.big{font-size:30px;color:#c00} td{padding:4px} p a{color:red}</style><body bgcolor=#eeeeee>"
        '<h1 class=big style="text-align:center">Your <b>parcel</b></h1><table border=1 width=600><tr><td align=right>'
        '1.99<td colspan=2>EUR</table><p>Pay <a href="https://pay.example/x?y=1">here</a> or '
        "<font color=red size=4>lose it</font>"
    )
    assert text_of(view) == "Your parcel 1.99 EUR Pay here or lose it"
    opened = {each.name: each for each in view.pieces if isinstance(each, Opened)}
    assert opened["div"].marks == (("bgcolor", "#eeeeee"),)
    assert opened["h1"].look == "font-size:30px;color:#c00;text-align:center;"
    assert opened["table"].marks == (("border", "1"), ("width", "600"))
    assert opened["td"].look == "padding:4px;"
    assert opened["link"].hint == "Leads to https://pay.example/x?y=1"
    assert opened["font"].marks == (("color", "red"), ("size", "4"))


def test_hidden_text_is_left_out() -> None:
    view = page_of(
        '<p>seen<span style="display:none">none</span><span style="font-size:0">tiny</span><i hidden>attribute</i>'
        '<span style="position:absolute;left:-9999px">off</span><b style="visibility:hidden">not</b></p>'
        '<p style="color:#fff">white</p>'
    )
    # What has the colour of the paper is on the page, and cannot be seen there either.
    assert text_of(view) == "seen white"
    assert "text that the reader could not see" in view.left_out


def test_controls_are_drawn() -> None:
    view = page_of(
        "<form action=x><label>Mail <input value=bob@example.com></label>"
        '<input type=password placeholder="Your password">'
        "<input type=hidden value=secret><input type=checkbox> Keep <select><option>One<option>Two</select>"
        "<textarea>Words</textarea><input type=submit value='Sign in'><button>Go</button></form>"
    )
    assert text_of(view) == "Mail bob@example.com Your password ☐ Keep One Words Sign in Go"
    assert [each.name for each in view.pieces if isinstance(each, Opened)].count("push") == 2


def drawn(colour: str, size: tuple[int, int] = (40, 30)) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", size, colour).save(made, "PNG", pnginfo=None)
    return made.getvalue()


def with_pictures(html: str, *pictures: bytes) -> bytes:
    parts = [b"--b\r\nContent-Type: text/html\r\n\r\n" + html.encode() + b"\r\n"]
    for number, picture in enumerate(pictures):
        head = (
            f"--b\r\nContent-Type: image/png\r\nContent-ID: <p{number}@x>\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        )
        parts.append(head.encode() + base64.encodebytes(picture) + b"\r\n")
    start = b"From: a@b.example\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n"
    return start + b"".join(parts) + b"--b--\r\n"


def test_pictures_of_the_message_are_drawn_anew() -> None:
    red = drawn("red") + b"<script>after the end</script>"
    inline = f"data:image/png;base64,{base64.b64encode(drawn('blue')).decode()}"
    html = f'<img src=cid:p0@x alt=red width=80><img src="{inline}"><img src=cid:p0@x>'
    view = build_page(with_pictures(f"{html}<img src=cid:none><img src={AWAY} alt=x>", red))
    assert isinstance(view, HtmlView)
    spots = [each for each in view.pieces if isinstance(each, Spot)]
    assert [each.index for each in spots] == [0, 1, 0, -1, -1]
    assert (spots[0].alt, spots[0].width) == ("red", 80)
    assert spots[4].said == "A picture from elsewhere.test, which is not loaded"
    assert len(view.pictures) == 2
    assert b"script" not in view.pictures[0]
    with Image.open(io.BytesIO(view.pictures[0])) as image:
        assert image.getpixel((5, 5)) == (255, 0, 0)


@pytest.mark.variant
def test_every_list_has_its_end() -> None:
    for html in (
        "<b>x</b>" * 50_000,
        "<div>" * 5_000 + "deep" + "</div>" * 5_000,
        "word " * 200_000,
        f'<p style="{"color:red;" * 20_000}">x</p>' * 20,
        "<style>" + ".a{color:red}" * 50_000 + "</style>" + "<p class=a>x</p>" * 5_000,
        "<img src=cid:none alt='" + "y" * 5_000 + "'>" * 3_000,
    ):
        view = page_of(html)
        assert len(view.pieces) <= values.MAX_PIECES
        opened, ended = (sum(isinstance(each, kind) for each in view.pieces) for kind in (Opened, Ended))
        assert opened >= ended
        assert len(write_page(view, "x")) < values.MAX_DOCUMENT + 10_000


@pytest.mark.variant
def test_many_pictures_do_not_make_a_large_page() -> None:
    noise = io.BytesIO()
    Image.effect_noise((700, 600), 90).convert("RGB").save(noise, "PNG")
    pictures = [noise.getvalue()[:-12] + bytes([number]) * 4 for number in range(3)]
    view = build_page(with_pictures("".join(f"<img src=cid:p{number % 3}@x>" for number in range(400)), *pictures))
    assert isinstance(view, HtmlView)
    assert sum(map(len, view.pictures)) <= values.ALL_PAGE_PICTURES
    assert len(write_page(view, "x")) <= values.MAX_DOCUMENT + 10_000


def test_mail_without_html_says_so() -> None:
    assert build_page(b"Subject: x\r\n\r\nplain\r\n") == NotShown(NO_PARTS)
    assert build_page(b"") == NotShown(NO_PARTS)
    assert build_page(b"\xff\x00" * 500) == NotShown(NO_PARTS)


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        ("COLOR: Red", "color:red;"),
        ("background:#fff url(x) no-repeat", "background-color:#fff;"),
        ("background:url(x) #fff", ""),
        ("background: rgba(1, 2, 3, .5)", "background-color:rgba(1, 2, 3, .5);"),
        ('font-family:"Segoe UI", Arial', "font-family:'segoe ui', arial;"),
        ("width:100px !important", "width:100px;"),
        ("margin:0 auto;margin:1px", "margin:1px;"),
        *(
            (each, "")
            for each in ("position:fixed", "width:99999px", "color:var(--x)", "width:calc(1px)", "color:a\\62")
        ),
        *((each, "") for each in ("content:'x'", "color:<b>", "color:'\"'", "behavior:url(x)", "", ";;;:", "color")),
        *((each, "") for each in ("font-family:'x", "color:url(x)", "color:expression(1)", "border:1px/**/")),
    ],
)
def test_declarations(declared: str, kept: str) -> None:
    assert filter_look(declared) == kept
    assert filter_look(filter_look(declared)) == kept


@pytest.mark.parametrize(
    "pieces",
    [
        (Opened("script"), "alert(1)", Ended()),
        (Opened("p", 'color:red"><script>alert(1)</script>'), Ended()),
        (Opened("p", "", (("onload", "alert(1)"), ("width", '1" onload="x'))),),
        (Opened("p", "", (), '"><script>'), Ended(), Ended(), Ended()),
        ("<script>alert(1)</script>\x00\ud800",),
        (Spot(3, 1, 1, '"><script>', '"><script>'),),
        tuple(Opened("div") for _ in range(500)),
    ],
)
def test_a_worker_that_lies_writes_no_markup(pieces: tuple[Any, ...]) -> None:
    """The process that made the pieces has read hostile bytes: the page is safe whatever it says."""
    document = write_page(HtmlView(pieces), "</title><script>x</script>")
    for tag, attributes in Written(document).elements:
        assert tag in NAMES
        assert attributes.keys() <= ATTRIBUTES
    assert not re.search(r"<script", document)
