"""QR codes without a picture, in every way of drawing one, and tables and texts that are none."""

import io
from collections.abc import Callable
from html import escape
from typing import Any

import pytest
import zxingcpp
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gatepost.files.qr_codes import find_drawn_codes, find_qr_codes, may_draw_code
from gatepost.files.values import File
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part

ADDRESS = "https://evil.example/pay?id=4711"


def modules() -> list[str]:
    """The rows of a code, "1" for a dark module, without a margin."""
    code = zxingcpp.create_barcode(ADDRESS, zxingcpp.BarcodeFormat.QRCode)
    drawn: Any = code.to_image(scale=1, add_quiet_zones=False)
    height, width = drawn.shape
    cells = "".join("0" if value else "1" for value in bytes(drawn))
    return [cells[start : start + width] for start in range(0, height * width, width)]


ROWS = modules()
SIDE = len(ROWS)


def _runs(row: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for value in row:
        if found and found[-1][0] == value:
            found[-1] = (value, found[-1][1] + 1)
        else:
            found.append((value, 1))
    return found


def table(cell: Callable[[str], str], row: str = "<tr>{}</tr>") -> str:
    return "<table cellspacing=0>" + "".join(row.format("".join(map(cell, line))) for line in ROWS) + "</table>"


def _half_blocks() -> str:
    padded = [*ROWS, "0" * SIDE] if SIDE % 2 else ROWS
    signs = {"11": "█", "10": "▀", "01": "▄", "00": " "}
    return "\n".join(
        "".join(signs[upper + lower] for upper, lower in zip(padded[at], padded[at + 1], strict=True))
        for at in range(0, len(padded), 2)
    )


def _full_blocks(dark: str = "██", light: str = "  ") -> str:
    return "\n".join("".join(dark if value == "1" else light for value in row) for row in ROWS)


COLOURS = {"1": "#000000", "0": "#ffffff"}
PAGES = {
    "bgcolor": table(lambda value: f'<td bgcolor="{COLOURS[value]}" width=4 height=4></td>'),
    "only dark cells have a colour": table(lambda value: "<td bgcolor=black></td>" if value == "1" else "<td></td>"),
    "style": table(lambda value: f'<td style="background:{COLOURS[value]};width:4px;height:4px"></td>'),
    "background-color": table(lambda value: f'<td style="width:3px; background-color: {COLOURS[value]}">&nbsp;</td>'),
    "rgb": table(
        lambda value: f'<td style="background-color:rgb({"20,20,60" if value == "1" else "250,250,250"})"></td>'
    ),
    "class": "<style>.d{background:#111;width:4px}.l { background-color: white }</style>"
    + table(lambda value: f"<td class={'d' if value == '1' else 'l'}></td>"),
    "colspan": "<table>"
    + "".join(
        "<tr>" + "".join(f"<td colspan={size} bgcolor={COLOURS[value]}></td>" for value, size in _runs(row)) + "</tr>"
        for row in ROWS
    )
    + "</table>",
    "widths": "<div>"
    + "".join(
        "<div>"
        + "".join(
            f'<span style="display:inline-block;width:{5 * size}px;height:5px;background:{COLOURS[value]}"></span>'
            for value, size in _runs(row)
        )
        + "</div>"
        for row in ROWS
    )
    + "</div>",
    "divs": table(lambda value: f'<div style="float:left;background:{COLOURS[value]}"></div>', "<div>{}</div>").replace(
        "table", "div"
    ),
    "floats in one box": f'<div style="width:{4 * SIDE}px">'
    + "".join(
        f'<div style="float:left;width:4px;height:4px;background:{COLOURS[v]}"></div>' for row in ROWS for v in row
    )
    + "</div>",
    "fixed places": "<div>"
    + "".join(
        f'<i style="position:absolute;left:{6 * x}px;top:{6 * y}px;width:6px;height:6px;background:#000"></i>'
        for y, row in enumerate(ROWS)
        for x, value in enumerate(row)
        if value == "1"
    )
    + "</div>",
    "shadows": '<div style="width:3px;height:3px;box-shadow:'
    + ",".join(f"{3 * x}px {3 * y}px #000" for y, row in enumerate(ROWS) for x, v in enumerate(row) if v == "1")
    + '"></div>',
    "pre, half blocks": f"<pre>{_half_blocks()}</pre>",
    "lines, half blocks": _half_blocks().replace(" ", "&nbsp;").replace("\n", "<br>"),
    "divs, full blocks": "".join(f"<div>{line}</div>" for line in _full_blocks().replace(" ", "&nbsp;").split("\n")),
    "entities": "<pre>" + "".join(f"&#{ord(char)};" if char > "\x7f" else char for char in _half_blocks()) + "</pre>",
}
TEXTS = {
    "half blocks": _half_blocks(),
    "half blocks, indented": "\n".join("    " + line for line in _half_blocks().split("\n")),
    "full blocks": _full_blocks(),
    "full blocks and shades": _full_blocks(light="░░"),
    "one character": _full_blocks("█", " "),
    "squares": _full_blocks("■■", "  "),
    "CRLF": _half_blocks().replace("\n", "\r\n"),
}


def files_of(*parts: Part) -> tuple[File, ...]:
    return find_qr_codes(find_files(Message(parts=parts)))


def codes(files: tuple[File, ...]) -> tuple[set[str], set[str]]:
    return {link.url for file in files for link in file.links if link.source == "qr"}, {
        detail for file in files for detail in file.seen("drawn-code")
    }


@pytest.mark.parametrize("form", PAGES)
def test_a_code_that_a_page_draws(form: str) -> None:
    html = f"<html><body><p>Scan the code with your phone.</p>{PAGES[form]}<p>Bye</p></body></html>"
    assert codes(files_of(Part("1", content_type="text/html", content=html.encode()))) == (
        {ADDRESS},
        {"cells or characters"},
    )


@pytest.mark.parametrize("form", TEXTS)
def test_a_code_that_a_text_draws(form: str) -> None:
    text = f"Scan the code with your phone.\n\n{TEXTS[form]}\n\nBye\n"
    assert codes(files_of(Part("1", content_type="text/plain", content=text.encode()))) == (
        {ADDRESS},
        {"cells or characters"},
    )


def test_a_damaged_code_is_said() -> None:
    """The marks in the corners are there, and nothing else is."""
    spoiled = [row if at < 8 or at >= SIDE - 8 else "01" * (SIDE // 2) + "0" for at, row in enumerate(ROWS)]
    cells = "".join(
        "<tr>" + "".join(f"<td bgcolor={COLOURS[value]}></td>" for value in row[:SIDE]) + "</tr>" for row in spoiled
    )
    found = files_of(Part("1", content_type="text/html", content=f"<table>{cells}</table>".encode()))
    assert codes(found)[1] == {"cells or characters"}


ORDINARY = {
    "table of numbers": "<table>" + ("<tr>" + "<td bgcolor=#eeeeee>12</td>" * 30 + "</tr>") * 40 + "</table>",
    "striped table": "<table>"
    + "".join(f"<tr bgcolor={'#000' if at % 2 else '#fff'}>" + "<td class=x>1</td>" * 25 + "</tr>" for at in range(40))
    + "</table>",
    "chess board": "<table>"
    + "".join(
        "<tr>" + "".join(f"<td bgcolor={'#000' if (x + y) % 2 else '#fff'}></td>" for x in range(24)) + "</tr>"
        for y in range(24)
    )
    + "</table>",
    "progress bars": "\n".join(f"task {at:02} {'█' * at}{'░' * (30 - at)}" for at in range(30)),
    "box": "\n".join(["█" * 60, *["█" + " " * 58 + "█"] * 28, "█" * 60]),
    "newsletter": '<table><tr><td style="background:#003366">News</td><td class=a>x</td></tr></table>' * 80,
}


@pytest.mark.parametrize("name", ORDINARY)
def test_tables_and_bars_are_no_codes(name: str) -> None:
    kind = "text/html" if "<" in ORDINARY[name] else "text/plain"
    assert codes(files_of(Part("1", content_type=kind, content=ORDINARY[name].encode()))) == (set(), set())


def test_ordinary_mail_is_not_looked_at() -> None:
    for text in ("Hello Ann,\nsee you on Monday.\n", "<p>Hello</p>" * 100, escape(PAGES["style"])[:2_000]):
        assert not may_draw_code(File("1", text.encode(), "html", "0" * 64, declared="text/html"))


def _picture(left: int, top: int, right: int, bottom: int) -> bytes:
    whole = Image.frombytes("L", (SIDE, SIDE), bytes(0 if value == "1" else 255 for row in ROWS for value in row))
    out = io.BytesIO()
    whole.resize((SIDE * 8, SIDE * 8), 0).crop((left, top, right, bottom)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("way", ["side by side", "one above the other", "four"])
def test_a_code_in_pieces(way: str, share: float) -> None:
    side = SIDE * 8
    cut = int(side * share) if way != "four" else side // 2
    boxes = {
        "side by side": [(0, 0, cut, side), (cut, 0, side, side)],
        "one above the other": [(0, 0, side, cut), (0, cut, side, side)],
        "four": [(0, 0, cut, cut), (cut, 0, side, cut), (0, cut, cut, side), (cut, cut, side, side)],
    }[way]
    parts = [
        Part(f"1.{at}", content_type="image/png", names=(f"{at}.png",), content=_picture(*box))
        for at, box in enumerate(boxes, 1)
    ]
    assert codes(files_of(*parts)) == ({ADDRESS}, {f"{len(boxes)} pictures"})


def test_pictures_that_follow_each_other_are_no_code() -> None:
    parts = []
    for at in range(8):
        out = io.BytesIO()
        Image.linear_gradient("L").rotate(at * 40).resize((100, 100)).save(out, "PNG")
        parts.append(Part(f"1.{at}", content_type="image/png", content=out.getvalue()))
    assert codes(files_of(*parts)) == (set(), set())


@pytest.mark.parametrize(
    "text",
    [
        "<table>" + "<tr>" * 50_000,
        "<div style='background:#000'>" * 60_000,
        "<p>" + "".join(f"<b a={at} style=background:red>" for at in range(3_000)) + "<p>x" * 100_000,
        "<table>" + ("<tr>" + "<td bgcolor=#000>" * 500) * 200,
        "█" * 2_000_000,
        "█▀\n" * 500_000,
        "<div style='box-shadow:" + "1px 1px #000," * 30_000 + "'>",
        ".a{background:#000}" * 50_000,
        "<i style='left:1px;top:1px;background:#000'>" * 30_000,
    ],
)
def test_giant_drawings_are_drawn_within_limits(text: str) -> None:
    found, drawn = find_drawn_codes(File("1", text.encode(), "html", "0" * 64, declared="text/html"))
    assert (found, drawn) == ([], 0)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["<tr>", "<td bgcolor=#000>", "<td>", "█▀▄\n", "</table>", "<div style='width:3px'>"])))
def test_any_markup(pieces: list[str]) -> None:
    text = "".join(pieces) * 30
    assert find_drawn_codes(File("1", text.encode(), "html", "0" * 64))[0] == []


def _gradient_row(row: str, *, is_short: bool) -> str:
    stops: list[str] = []
    place = 0
    for value, count in _runs(row):
        colour, end = "#000" if value == "1" else "#fff", place + 4 * count
        stops += [f"{colour} {place}px {end}px"] if is_short else [f"{colour} {place}px", f"{colour} {end}px"]
        place = end
    return f'<div style="height:4px;background:linear-gradient(90deg,{",".join(stops)})"></div>'


@pytest.mark.parametrize(
    "page",
    [
        "".join(_gradient_row(row, is_short=True) for row in ROWS),
        "".join(_gradient_row(row, is_short=False) for row in ROWS),
        '<div style="background:'
        + ",".join(
            f"linear-gradient(#000,#000) {8 * x}px {8 * y}px/8px 8px no-repeat"
            for y, row in enumerate(ROWS)
            for x, value in enumerate(row)
            if value == "1"
        )
        + '"></div>',
    ],
    ids=["rows", "rows with single stops", "boxes"],
)
def test_gradients(page: str) -> None:
    file = File("1", f"<html><body>{page}</body></html>".encode(), "html", "0" * 64, declared="text/html")
    assert may_draw_code(file)
    assert find_drawn_codes(file) == ([ADDRESS], 1)
