"""Codes in SVG, in every way of drawing one, wherever the drawing stands; and drawings that are none."""

import base64
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files.test_drawn_codes import ADDRESS, ROWS, SIDE

from gatepost.files.pictures import find_codes, make_code_contents
from gatepost.files.qr_codes import find_qr_codes, may_draw_code
from gatepost.files.svg_drawing import MAX_SHAPES, _SvgReader, draw_svg
from gatepost.files.values import File
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part

CELLS = [(x, y) for y, row in enumerate(ROWS) for x, value in enumerate(row) if value == "1"]
SQUARES = "".join(f'<rect x="{x}" y="{y}" width="1" height="1"/>' for x, y in CELLS)
PATH = "".join(f"M{x},{y}h1v1h-1z" for x, y in CELLS)
STROKES = "".join(f"M{x} {y}.5h1" for x, y in CELLS)
DRAWINGS = {
    "squares": f'<rect width="100%" height="100%" fill="white"/>{SQUARES}',
    "groups that move": "".join(
        f'<g transform="translate({x},{y})"><rect width="1" height="1"/></g>' for x, y in CELLS
    ),
    "squares that move": "".join(
        f'<rect transform="matrix(4 0 0 4 {4 * x} {4 * y})" width="1" height="1"/>' for x, y in CELLS
    ),
    "uses": '<defs><rect id="m" width="1" height="1"/></defs>'
    + "".join(f'<use href="#m" x="{x}" y="{y}"/>' for x, y in CELLS),
    "uses of a symbol": '<symbol id="m"><path d="M0 0h1v1h-1z"/></symbol>'
    + "".join(f'<use xlink:href="#m" transform="translate({x},{y})"/>' for x, y in CELLS),
    "strokes by class": f'<style>.k{{stroke:#000;fill:none}}</style><path class="k" d="{STROKES}"/>',
    "strokes by style": f'<path style="stroke:black;fill:none" d="{STROKES}"/>',
    "lines": '<g stroke="#222" stroke-width="10">'
    + "".join(f'<line x1="{10 * x}" y1="{10 * y + 5}" x2="{10 * x + 10}" y2="{10 * y + 5}"/>' for x, y in CELLS)
    + "</g>",
    "rotated and skewed": f'<g transform="rotate(20) skewX(8)">{SQUARES}</g>',
    "coloured": f'<rect width="60" height="60" fill="#ffe"/><g fill="#1a3a7a">{SQUARES}</g>',
    "inverted": f'<rect x="-4" y="-4" width="{SIDE + 8}" height="{SIDE + 8}" fill="#123"/><g fill="#fff">{SQUARES}</g>',
    "path": f'<path d="{PATH}"/>',
    "path of places": '<rect width="200" height="200" fill="white"/><path fill="black" d="'
    + "".join(f"M{x},{y}H{x + 1}V{y + 1}H{x}z" for x, y in CELLS)
    + '"/>',
    "path of lines": '<path d="' + "".join(f"M{x} {y}l1 0l0 1l-1 0z" for x, y in CELLS) + '"/>',
    "strokes": f'<path stroke="#000" fill="none" d="{STROKES}"/>',
    "path with holes": f'<path fill-rule="evenodd" d="{PATH}"/>',
    "under a prefix": SQUARES.replace("<rect", "<s:rect"),
}


def svg(inside: str) -> str:
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {SIDE}">{inside}</svg>'


def addresses(content: bytes, kind: str) -> list[str]:
    files = find_qr_codes(find_files(Message(parts=(Part("1", content_type=kind, content=content),))))
    return [link.url for file in files for link in file.links if link.source == "qr"]


@pytest.mark.parametrize("title", DRAWINGS)
def test_every_drawing_is_read(title: str) -> None:
    assert addresses(svg(DRAWINGS[title]).encode(), "image/svg+xml") == [ADDRESS]


@pytest.mark.parametrize(
    "page",
    [
        "<html><body><p>Scan:{inline}</p></body></html>",
        '<html><body><img src="data:image/svg+xml;base64,{encoded}"></body></html>',
        '<html><body><img src="data:image/svg+xml,{quoted}"></body></html>',
        "<html><body><div style='background:url(data:image/svg+xml;base64,{encoded})'></div></body></html>",
    ],
)
def test_drawings_within_a_page(page: str) -> None:
    drawing = svg(DRAWINGS["path"])
    encoded = base64.b64encode(drawing.encode()).decode()
    content = page.format(inline=drawing, encoded=encoded, quoted=quote(drawing)).encode()
    assert ADDRESS in addresses(content, "text/html")


def test_other_drawings_show_none() -> None:
    bars = "".join(f'<rect x="{9 * n}" y="0" width="6" height="{n % 40 + 1}" fill="#36c"/>' for n in range(60))
    assert addresses(svg(bars).encode(), "image/svg+xml") == []
    assert list(draw_svg("<svg><text>Hello</text></svg>")) == []
    assert not may_draw_code(File("1", b"<p>Hello</p>" * 50, "html", "0" * 64, declared="text/html"))


def test_limits() -> None:
    """Uses of uses of uses are drawn until the budget ends."""
    levels = "".join(
        f'<g id="a{n}">' + f'<use href="#a{n - 1}"/>' * 10 + "</g>" if n else '<rect id="a0" width="1" height="1"/>'
        for n in range(10)
    )
    shapes = _SvgReader(f"<svg><defs>{levels}</defs><use href='#a9'/></svg>").read()
    assert 0 < len(shapes) <= MAX_SHAPES
    assert _SvgReader("<svg><g id='a'><use href='#a'/></g></svg>").read() == []
    assert _SvgReader("<g>" * 100_000).read() == []


@settings(max_examples=100, deadline=None)
@given(st.text("<>/=\"'#()MmHhVvLlZzgusepathrct dftransfomscale0123456789.,- ", max_size=400))
def test_no_drawing_raises(text: str) -> None:
    for image in draw_svg(f"<svg>{text}{SQUARES}</svg>"):
        find_codes(image)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("evil.example", ["evil.example"]),
        ("login.evil.example/verify?id=1", ["login.evil.example"]),
        ("EVIL.EXAMPLE/A", ["evil.example"]),
        ("https://evil.example/a", ["evil.example"]),
        ("4711.0815", []),
        ("TICKET-2026-0042", []),
        ("BCD\n002\n1\nSCT\n\nAnn", []),
        ("Platz 4. Reihe", []),
        ("10.0.0.1", []),
    ],
)
def test_codes_without_a_scheme(text: str, hosts: list[str]) -> None:
    assert [link.host for link in make_code_contents([text], "1").links] == hosts
