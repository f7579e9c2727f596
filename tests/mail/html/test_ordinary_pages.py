"""Ordinary pages are read in one native pass, to what a walk over them finds; others are walked."""

import pytest
from bench.fuzz.native_twins import WalkedPage, describe_page
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.html import document
from gatepost.mail.html.active import HtmlNotes
from gatepost.mail.html.document import ATTRIBUTES, VOID, HtmlPage
from gatepost.mail.html.style import COLOUR_NAMES, REASONS, parse_packed_style, parse_style
from gatepost.mail.links import Links
from gatepost.speedups import native

pytestmark = pytest.mark.skipif(native is None, reason="not run: the native speedups were not built here")

ORDINARY = {
    "nothing": "",
    "text": "no markup: at all.",
    "blocks": "<p>one<p>two<br>three<table><tr><td>a<td>b</table><ul><li>c</ul>&nbsp;d &amp;lt; \u00e9 \u4e2d\u3000x",
    "link": "<a href='https://x.example/?a=1&amp;b=2'>see <b>here</b></a> and www.y.example",
    "picture in a link": "<a href=https://x.example><img src=https://y.example/a.png alt='A &amp; B'></a>",
    "link to nowhere": "<a href='#top'>top</a><a href=' &#160;'>x</a><a href>y</a>",
    "long link": f"<a href=https://x.example>{'word ' * 300}</a>",
    "script in a link": "<a href=javascript:x()>a</a><a href='data:text/html,<b>x'>b</a>",
    "links in links": "<x href=https://a.example>a<y href=https://b.example>b</y>c</x>",
    "areas, sheets, sets": "<map><area href=https://a.example alt=b></map><link rel=stylesheet href=https://c.example/a.css>"
    "<img srcset='https://d.example/1.png 1x, https://d.example/2.png 2x'><td background=https://e.example/f.gif>",
    "hidden": "<div style='display:none'>secret <a href=https://x.example>link</a></div><p hidden>more</p>seen",
    "hidden in many ways": "<p style='visibility:hidden'>a</p><p style='font-size:1px'>b</p><font color=white>c</font>"
    "<p style='opacity:0'>d</p><p style='text-indent:-999px'>e</p><p style='color:rgb(255,255,255)'>f</p>"
    "<body text=#ffffff><td bgcolor=BLACK><font color=' #000 '>g</font>",
    "fetching style": "<td style=\"background:url('https://x.example/a.png')\">a</td>",
    "sheet": "<style>.x,p.y,#Z{display:none}td{color:#fff}</style><p class='a X'>1<p class=y>2<p id=z>3<td>4"
    "<td class=q>5<td width=1>6<p class='\u00e9 x'>7",
    "comment": "a<!-- b --><!--[if mso]><a href=https://o.example>o</a><![endif]-->c",
    "title": "<title>a &lt; b</title>c<textarea>d</textarea>",
    "mark": "a &lt;script&gt; b",
    "many tags": "<p>a" * 5_000,
    "large": "word " * 100_000,
}
HIDING = (
    "display:none",
    "opacity:0",
    "overflow:hidden;max-height:0",
    "text-indent:-999px",
    "clip:rect(0,0,0,0)",
    "transform:scale(0)",
)
ODD = {
    "script": "<script>a</script>",
    "form": "<form action=/x>",
    "field": "<input type=password>",
    "frame": "<iframe src=https://x.example></iframe>",
    "drawing": "<svg><a href=x>y</a></svg>",
    "base": "<base href=https://x.example/>",
    "handler": "<p onclick=x>",
    "refresh": "<meta http-equiv=' Refresh' content='0;url=https://x.example'>",
    "import": "<link rel='x IMPORT' href=https://x.example>",
    "two links": "<a href=https://x.example xlink:href=https://y.example>z</a>",
    "backwards": "<div style='direction:rtl;unicode-bidi:bidi-override'>lapyap</div>",
    "name that is none": "<a b\"c='d'>",
    "foreign name": "<p \u00e9=a>",
    "deep": "<x>" * 600,
    "too many tags": "<p>" * 200_001,
    "many attributes": "<p " + " ".join(f"a{number}=b" for number in range(40)) + ">",
    "many links in each other": "".join(f"<x href=https://{number}.example>" for number in range(9)),
}


@pytest.mark.parametrize("html", ORDINARY.values(), ids=ORDINARY)
def test_ordinary(html: str) -> None:
    assert HtmlPage(html, "1", Links(), HtmlNotes()).is_ordinary
    assert describe_page(HtmlPage, html) == describe_page(WalkedPage, html)


@pytest.mark.parametrize("html", ODD.values(), ids=ODD)
def test_odd(html: str) -> None:
    assert not HtmlPage(html, "1", Links(), HtmlNotes()).is_ordinary


def test_the_same_for_every_element_and_attribute() -> None:
    """Native code has its own table of names."""
    tags = sorted({*document._TAGS, *VOID, "a", "x", "font", "area", "use", "image", "link", "meta", "set"})
    attributes = sorted({*ATTRIBUTES, *document._INERT, *document._LOOKS, "onclick", "one", "x"})
    for tag in tags:
        for attribute in attributes:
            html = f"<body bgcolor=black>a.b<{tag} {attribute}='https://x.example/a'>c.d</{tag}>e.f<p>g"
            assert describe_page(HtmlPage, html) == describe_page(WalkedPage, html), html
        html = f"<style>{tag}{{display:none}}</style><{tag}>a</{tag}>b<{tag} class=x>c</{tag}>"
        assert describe_page(HtmlPage, html) == describe_page(WalkedPage, html), html


def test_the_same_colours_and_reasons() -> None:
    for colour in [
        *COLOUR_NAMES,
        "#fff",
        "fff0",
        "#ffffff00",
        "#FEFEFE",
        "abcdefa",
        "#12",
        "inherit",
        "windowtext",
        "",
    ]:
        for way in (f"style='color:{colour}'", f"style='background: {colour} none'", f"bgcolor='{colour}'"):
            html = f"<td {way}>a<font color='{colour}'>b"
            assert describe_page(HtmlPage, html) == describe_page(WalkedPage, html), html
    assert [parse_style(text).hides for text in HIDING] == list(REASONS[1:7])
    for text in HIDING:
        packed = parse_packed_style(text)
        assert packed is not None
        assert REASONS[packed[0]] == parse_style(text).hides


PROPERTIES = st.sampled_from(
    "color background background-color background-image font-size font display visibility opacity overflow "
    "max-height height text-indent margin-left left position clip transform direction unicode-bidi COLOR x".split()
)
VALUES = st.sampled_from(
    "#fff¦#FFFFFF¦white¦black¦Red¦transparent¦inherit¦rgb(255,255,255)¦url(a.png)¦none¦hidden¦0¦1px¦1.5pt¦12px¦.1em¦5%¦"
    "+1px¦-500px¦1.2.3px¦12345678901234px¦0 px¦1px/2px Arial¦absolute¦block¦&quot;a&quot;¦\u00e9¦/*x*/none¦\\6eone¦"
    "no<!--ne¦".split("¦")
)
DECLARATIONS = st.lists(
    st.builds(
        lambda name, value, blank, end: f"{name}{blank}:{blank}{value}{end}",
        PROPERTIES,
        VALUES,
        st.sampled_from(("", " ", "\n", "\x1f")),
        st.sampled_from((";", ";;", " ! important;", "!x", "")),
    ),
    max_size=4,
).map("".join)
TAGS = st.sampled_from(
    "</p>¦</div>¦</a>¦</b>¦<br>¦<b>¦<table>¦<tr>¦<td bgcolor=black>¦<td background=a.png>¦</table>¦<font color=white>¦"
    "<p hidden>¦<a href='https://x.example/?a=1&amp;b=2'>¦<a href=javascript:x>¦<img src=cid:1 alt='&lt;x&gt;'>¦"
    "<x href=//y.example>¦</x>¦<style>p{color:#fff}.x{display:none}td.x{font-size:0}#i{visibility:hidden}</style>¦"
    "<p class='y X'>¦<td class=x>¦<b id=' I'>¦<!-- c -->¦<!--[if mso]><a href=https://o.example>o</a><![endif]-->¦"
    "<title>¦</title>¦<o:p>¦<body text=#ffffff>¦<pre>\n\n¦&nbsp;¦&amp;lt;¦&#60;¦\x00¦\u2003¦\x1e¦\x85¦word ¦"
    "see example.com now¦https://y.example/a¦\u00e4\u4e2d\u200b¦ ¦a:b¦<¦>¦&".split("¦")
)


@given(st.lists(st.one_of(TAGS, DECLARATIONS.map(lambda style: f'<p style="{style}">a')), max_size=25))
def test_the_same_page(pieces: list[str]) -> None:
    html = "".join(pieces)
    assert describe_page(HtmlPage, html) == describe_page(WalkedPage, html)
