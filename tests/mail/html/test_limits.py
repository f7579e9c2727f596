"""Hostile HTML is cut down before a parser sees it; ordinary HTML passes as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from gatepost.findings.kinds import LIMIT_HTML_SIZE
from gatepost.mail.html.limits import (
    FEW_TAGS,
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_HTML,
    MAX_REBUILT,
    MAX_TAGS,
    is_well_nested,
    limit_html,
)

# The end tag closes nothing in a browser: a barrier or an element of another kind stands before what it names.
NEVER_CLOSED = (
    "<div><table><td></div></table>",
    "<div><select></div></select>",
    "<div><object></div></object>",
    "<div><template></div></template>",
    "<span><p></span></p>",
    "<span><li></span></li>",
    "<font><table><td></font></table>",
    "<x><div></x></div>",
    "<table><td><tr></table><div><td></td></div><div>",
    "<b><b><b><b><div></b></b></b></b></div>",
    "<b>" + "<div>" * 9 + "</b>" + "</div>" * 9,
)


def size_of(html: str) -> tuple[int, int]:
    """How many nodes the parser makes of it, and how deep they are."""
    nodes = deepest = depth = 0
    node = LexborHTMLParser(html).root
    while node is not None:
        nodes += 1
        deepest = max(deepest, depth)
        following = node.first_child
        depth += following is not None
        while following is None and depth:
            following = node.next
            if following is None:
                node = node.parent
                assert node is not None
                depth -= 1
        node = following
    return nodes, deepest


def test_ordinary_html_is_left_alone() -> None:
    html = "<html><body><p>Hello <b>you</b></body></html>"
    assert limit_html(html).html is html
    assert limit_html(html).limits == ()


def test_large_ordinary_html_keeps_text_tags_and_style() -> None:
    rows = "".join(f"<tr><td class='a>b' title=\"<p>\">row {number}</td></tr>" for number in range(2_000))
    html = (
        f"<style>p > a {{color:red}}</style><table>{rows}</table><!--[if mso]><a href=x>y</a><![endif]--><!-- gone -->"
    )
    tamed = limit_html(html)
    assert tamed.limits == ()
    assert tamed.html == html.replace("<!-- gone -->", "<!---->")


@pytest.mark.parametrize(
    ("html", "limits"),
    [
        ("<div>" * 100_000, {"limit:html-depth"}),
        ("<div>" * 300_000, {"limit:html-depth", "limit:html-size"}),
        ("<div><p>" * 30_000, {"limit:html-depth"}),
        ("<ul><li>" * 30_000, {"limit:html-depth"}),
        ("<div></span>" * 30_000, {"limit:html-depth"}),
        ("<svg><foreignObject>" * 20_000, {"limit:html-depth"}),
        ("<template>" * 20_000, {"limit:html-depth"}),
        ("<a><b><div>" * 20_000, {"limit:html-depth"}),
        ("<p>" + "".join(f"<b a={n}>" for n in range(300)) + "</p>" + "<p>x</p>" * 40_000, {"limit:html-depth"}),
        ("<a " + " ".join(f"a{n}=1" for n in range(50_000)) + ">", {"limit:html-attributes"}),
        ("<a " + " ".join(f"a{n}='>'" for n in range(50_000)) + ">", {"limit:html-attributes"}),
        ("<a " + " ".join(f"<{n}" for n in range(50_000)) + ">", {"limit:html-attributes"}),
        ("<script><a '</script><a " + " ".join(f"a{n}" for n in range(50_000)) + ">", {"limit:html-attributes"}),
        ("<p>x" * (MAX_TAGS + 1), {"limit:html-size"}),
        *((unit * (MAX_TAGS // unit.count("<")), {"limit:html-depth"}) for unit in NEVER_CLOSED),
    ],
)
def test_bombs_become_small(html: str, limits: set[str]) -> None:
    tamed = limit_html(html)
    assert {kind.id for kind in tamed.limits} == limits
    assert tamed.tags <= MAX_TAGS + 1
    nodes, depth = size_of(tamed.html)
    assert nodes <= 2 * MAX_TAGS + 2 * MAX_REBUILT
    assert depth <= 4 * MAX_DEPTH + 8  # a table brings its body, row and cell
    assert all(len(node.attributes) <= MAX_ATTRIBUTES for node in LexborHTMLParser(tamed.html).css("a")[:5])


LINE = '<tr><td class="a"><a href="https://www.example.com/{0}">item {0}</a></td><td><b>{0}</b><br></td></tr>\n'


@pytest.mark.parametrize(
    ("html", "is_whole"),
    [
        (f"<style>a{{}}</style><table>{''.join(map(LINE.format, range(3_000)))}</table><!-- a -->", True),
        ("<p>a<p>b<!--[if mso]><p>c<![endif]-->" * 4_000, True),
        ("<b>a</b>" * 4_000, True),
        ("<b><div>" + "<i>a</i><br>" * 4_000 + "</div></b>", True),
        ("<b><div>" + "<p>a</p>" * 110_000 + "</div></b>", False),  # more than are read
        *((unit * 3_000, False) for unit in NEVER_CLOSED),
        ("<div><!--</div>-->" * 4_000, False),
        ("<div><!--></div>-->" * 4_000, False),
        ("<div><!--><style></div>--></style>" * 4_000, False),
        ("<div><!x </div>" * 4_000, False),
        ("<div><style></div></style>" * 4_000, False),
        ("<script><!--<script></script>--></script>" * 4_000, False),
        ("<select><title><template></title></select>" * 4_000, False),
        ("<svg><title></svg></title>" * 4_000, False),
    ],
)
def test_a_large_page_that_is_sound_is_left_alone(html: str, is_whole: bool) -> None:
    """Whatever its size: writing a page out anew costs five times what a parser takes. Of no page that is left alone
    can a parser have more elements open than the limit."""
    assert (limit_html(html).html is html) is is_whole
    assert size_of(limit_html(html).html)[1] <= 4 * MAX_DEPTH + 8


def test_size() -> None:
    assert limit_html("x" * (MAX_HTML + 1)).limits == (LIMIT_HTML_SIZE,)
    assert len(limit_html("x" * (MAX_HTML + 1)).html) == MAX_HTML


@pytest.mark.parametrize(
    "bait", ["<!--", "<a '", '<a x="', "<title><", "<", "</", "<!", "<a/", "<script>", "<a b=", "&lt"]
)
def test_bait_is_read_in_one_pass(bait: str) -> None:
    assert limit_html(bait * 300_000).tags <= MAX_TAGS + 1


def test_text_survives_what_is_dropped() -> None:
    html = "<div>" * 1_000 + "deep" + "</div>" * 1_000 + "<p>end</p>"
    text = LexborHTMLParser(limit_html(html, is_strict=True).html).root
    assert text is not None
    assert text.text() == "deepend"


def test_nothing_left_out_makes_a_tag_of_its_surroundings() -> None:
    assert "<div" not in limit_html("<<!-- -->div>" * 10_000).html
    assert "<i " not in limit_html("<div>" * 2_000 + "<<div>i x", is_strict=True).html


def test_links_are_never_dropped_for_depth() -> None:
    assert "href=x" in limit_html("<div>" * 2_000 + "<a href=x>y</a>", is_strict=True).html


MARKUP = st.lists(
    st.sampled_from(
        [
            "<div>",
            "</div>",
            "<b x=1>",
            "</b>",
            "<a href='x'>",
            "<td>",
            "<table>",
            "</table>",
            "<svg>",
            "<style>",
            "'",
            '"',
            "</style>",
            "<title>",
            "</title>",
            "<!--",
            "-->",
            "text",
            "<",
            ">",
            "=",
            " ",
            "<p",
            "/",
            "<textarea>",
            "&amp;",
        ]
    )
).map("".join)


@given(MARKUP | st.text())
def test_what_is_written_reads_the_same_again(html: str) -> None:
    """The output is a fixed point: a tag that our tokenizer did not see cannot appear in it."""
    once = limit_html(html, is_strict=True).html
    assert limit_html(once, is_strict=True).html == once


@given(MARKUP)
def test_visible_text_is_the_same(html: str) -> None:
    """Below the limits, taming changes nothing that a person sees (raw text and comments aside)."""
    if any(mark in html for mark in ("<style", "<title", "<textarea", "<!--", "<svg")):
        return
    tamed = LexborHTMLParser(limit_html(html, is_strict=True).html).root
    plain = LexborHTMLParser(html).root
    assert tamed is not None
    assert plain is not None
    assert tamed.text() == plain.text()


def test_few_tags_is_below_the_limits() -> None:
    assert FEW_TAGS * FEW_TAGS // 4 < 1_000_000


@pytest.mark.parametrize(
    "start",
    ["", "<select><title>", "<script><!--<script></script><!-- </script>", "<svg><style>", "<frameset><xmp>", "<a x='"],
)
def test_a_bomb_does_not_hide_behind_its_surroundings(start: str) -> None:
    """Each start makes some tokenizer take the rest for text, and another one not."""
    bomb = f"{start}<a {' '.join(f'a{number}' for number in range(20_000))}>'-->"
    found = LexborHTMLParser(limit_html(bomb).html).css("*")
    assert max(len(node.attributes) for node in found) <= MAX_ATTRIBUTES


NESTING = st.lists(
    st.sampled_from(
        "<div> </div> <b> </b> <span> </span> <p> </p> <li> </li> <ul> </ul> <table> </table> <tr> <td> </td> <select> "
        "</select> <object> </object> <a> </a> <form> </form> <input> <br> <option> x <!--x--> <h1> </h1> <button> "
        "</button> <dd> </dd> <i> </i> <nobr> </nobr> <caption> </caption> </tr> <hr> <title> </title> <!--".split()
    ),
    max_size=30,
).map("".join)


@given(NESTING, st.integers(1, 4))
def test_no_parser_nests_deeper_than_is_said(html: str, deepest: int) -> None:
    """Beside what a parser adds by itself: html, body, and the rows of a table; each counted one is one of those it has
    or one of those in which formatting is built anew."""
    unit = html + "<div></div>"
    if is_well_nested(unit * 40, deepest + 40, 400):
        assert size_of(unit * 40)[1] <= 4 * (deepest + 40) + 8
    assert size_of(limit_html(unit * 600, is_strict=True).html)[1] <= 4 * MAX_DEPTH + 8
