"""Styles that hide text, beside the styles of ordinary newsletters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.html.style import (
    MAX_RULES,
    MAX_SHEET,
    PLAIN,
    TRANSPARENT,
    UNKNOWN,
    Appearance,
    StyleSheets,
    is_alike,
    parse_colour,
    parse_style,
)


@pytest.mark.parametrize(
    ("declarations", "unseen"),
    [
        ("display:none", "display"),
        ("DISPLAY : NONE !important", "display"),
        ("display:none!important;display:block", "display"),
        (r"d\69splay:n\6f ne", "display"),
        ("dis/**/play:none", "display"),
        ("visibility:hidden", "visibility"),
        ("visibility: collapse", "visibility"),
        ("opacity:0", "opacity"),
        ("opacity:.01", "opacity"),
        ("opacity:0%", "opacity"),
        ("font-size:0", "font-size"),
        ("font-size:1px", "font-size"),
        ("font-size:0.05em", "font-size"),
        ("font:0/0 a", "font-size"),
        ("font: bold 1px/1px arial", "font-size"),
        ("max-height:0;overflow:hidden", "size"),
        ("height:1px;width:1px;overflow:hidden", "size"),
        ("position:absolute;left:-9999px", "off-screen"),
        ("text-indent:-5000px", "off-screen"),
        ("margin-left:-100em", "off-screen"),
        ("margin-top: 470500px", "off-screen"),
        ("margin: 99999px 0 0", "off-screen"),
        ("padding-top:2000em", "off-screen"),
        ("position:relative;top:50000px", "off-screen"),
        ("margin-top:900px;padding:200px", ""),
        ("position:absolute;clip:rect(0,0,0,0)", "clip"),
        ("clip-path:inset(50%)", "clip"),
        ("transform:scale(0)", "scale"),
        ("color:#fff", "colour"),
        ("color:white", "colour"),
        ("color:#fefefe", "colour"),
        ("color:rgb(250, 250, 250)", "colour"),
        ("color:hsl(0,0%,99%)", "colour"),
        ("color:transparent", "colour"),
        ("color:rgba(0,0,0,0)", "colour"),
        ("color:#333;background:#343434", "colour"),
        ("background-color:#000", "colour"),
        ("display:block", ""),
        ("font-size:11px", ""),
        ("font:12px/1.5 arial", ""),
        ("font-size:small", ""),
        ("opacity:0.5", ""),
        ("max-height:0", ""),  # overflows visibly
        ("height:200px;overflow:hidden", ""),
        ("position:absolute;left:-10px", ""),
        ("margin-left:-20px", ""),
        ("transform:scale(0.9)", ""),
        ("color:#333", ""),
        ("color:#fff;background:#00f", ""),
        ("color:#fff;background:url(x.png)", ""),
        ("color:#fff;background:linear-gradient(red,blue)", ""),
        ("color:#fff;background:red url(x.png) no-repeat", ""),
        ("color:inherit", ""),
        ("", ""),
        (";;:::", ""),
    ],
)
def test_what_is_unseen(declarations: str, unseen: str) -> None:
    assert Appearance().with_style(parse_style(declarations)).unseen == unseen


def test_looks_are_inherited() -> None:
    dark = Appearance().with_style(parse_style("background:#000;color:#fff"))
    assert dark.unseen == ""
    assert dark.with_style(parse_style("color:#010101")).unseen == "colour"
    hidden = Appearance().with_style(parse_style("visibility:hidden"))
    assert hidden.with_style(parse_style("visibility:visible")).unseen == ""
    gone = Appearance().with_style(parse_style("display:none"))
    assert gone.with_style(parse_style("display:block")).unseen == "display"
    tiny = Appearance().with_style(parse_style("font-size:0"))
    assert tiny.with_style(parse_style("font-size:14px")).unseen == ""  # the spacing trick of honest newsletters


@pytest.mark.parametrize(
    ("sheet", "element", "unseen"),
    [
        (".x{display:none}", ("p", "a x b", "", ""), "display"),
        ("#Y { display : none }", ("p", "", "y", ""), "display"),
        ("p{display:none}", ("p", "", "", ""), "display"),
        ("p.x{display:none}", ("p", "x", "", ""), "display"),
        ("a,.x,b{display:none}", ("p", "x", "", ""), "display"),
        ("<!-- .x{display:none} -->", ("p", "x", "", ""), "display"),
        ("/* { */.x{display:none}", ("p", "x", "", ""), "display"),
        ("@import 'y'; .x{display:none}", ("p", "x", "", ""), "display"),
        ("@media screen{.x{display:none}}", ("p", "x", "", ""), "display"),
        (".x{display:none}.x{display:block}", ("p", "x", "", ""), ""),
        (".x{display:none}", ("p", "x", "", "display:block"), ""),
        (".x{display:none!important}", ("p", "x", "", "display:block"), "display"),
        (".x{max-height:0}", ("p", "x", "", "overflow:hidden"), ""),
        (".x{max-height:0;overflow:hidden}", ("p", "x", "", ""), "size"),
        ("@media (max-width:600px){.x{display:none}}", ("p", "x", "", ""), ""),
        ("@media print{.x{display:none}} .y{color:red}", ("p", "x", "", ""), ""),
        ("p.x{display:none}", ("div", "x", "", ""), ""),
        (".a .x{display:none}", ("p", "x", "", ""), ""),
        (".button a{background:#00f}", ("a", "", "", "color:#fff"), ""),  # a background that we cannot place
        ("}}}.x{display:none}", ("p", "x", "", ""), "display"),
        (".x{display:none", ("p", "x", "", ""), "display"),
    ],
)
def test_sheets(sheet: str, element: tuple[str, str, str, str], unseen: str) -> None:
    rules = StyleSheets()
    rules.read(sheet)
    assert Appearance().with_style(rules.style(*element)).unseen == unseen


def test_sheets_are_bounded() -> None:
    sheet = StyleSheets()
    sheet.read("".join(f".c{number}{{color:red}}" for number in range(2 * MAX_RULES)))
    assert len(sheet.rules) == MAX_RULES
    assert not sheet.is_whole
    long = StyleSheets()
    long.read(".x{color:red}" + " " * MAX_SHEET)
    assert not long.is_whole


@pytest.mark.parametrize("bait", ["@", "{", "}", "@media{", "/*", "a", "\\", "@a{b{", "--", "a{}", ";", "@a;"])
def test_bait_leaves_nothing(bait: str) -> None:
    sheet = StyleSheets()
    sheet.read(bait * MAX_SHEET)
    assert sheet.rules == {}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("#FFF", 0xFFFFFF),
        ("#12345678", 0x123456),
        ("#fff0", TRANSPARENT),
        ("ffcc00", 0xFFCC00),
        ("rgb(100%, 0%, 50%)", 0xFF0080),
        ("rgba(1,2,3,.5)", 0x010203),
        ("hsl(120, 100%, 25%)", 0x008000),
        ("Navy", 0x000080),
        ("var(--x)", UNKNOWN),
        ("rgb(1)", UNKNOWN),
        ("inherit", None),
    ],
)
def test_colours(text: str, number: int | None) -> None:
    assert parse_colour(text) == number


def test_alike() -> None:
    assert is_alike(0xFFFFFF, 0xF5F5F5)
    assert not is_alike(0xFFFFFF, 0xEEEEEE)
    assert not is_alike(0x0000FF, 0x000000)


@given(st.text())
def test_styles_are_total(text: str) -> None:
    own = parse_style(text)
    assert Appearance().with_style(own) == Appearance().with_style(own)
    sheet = StyleSheets()
    sheet.read(text)
    sheet.style("p", text, text, text)


def test_styles_that_say_nothing_are_one_value() -> None:
    assert parse_style("padding:0;border:1px solid red") is PLAIN
