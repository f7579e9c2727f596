"""QR codes on the pages of PDFs, however they are drawn."""

import io
from typing import Any

import pytest
import zxingcpp
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gatepost.files import pictures
from gatepost.files.pictures import MAX_PAGE_SIZE, MAX_PAGES
from gatepost.files.qr_codes import find_qr_codes
from gatepost.files.values import MAX_IMAGES, File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part

ADDRESS = "https://evil.example/pay"


def modules() -> tuple[int, int, bytes]:
    drawn: Any = zxingcpp.create_barcode(ADDRESS, zxingcpp.BarcodeFormat.QRCode).to_image(scale=1)
    height, width = drawn.shape
    return width, height, bytes(drawn)


def as_rectangles() -> bytes:
    """Each dark module is a filled rectangle: no picture anywhere in the file."""
    width, height, cells = modules()
    commands = (
        f"{100 + 5 * (place % width)} {700 - 5 * (place // width)} 5 5 re f"
        for place in range(width * height)
        if not cells[place]
    )
    return "\n".join(commands).encode()


def pdf(*pages: bytes) -> bytes:
    """A PDF with these drawing commands, one stream a page."""
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode()]
    for number, commands in enumerate(pages):
        objects.append(b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents %d 0 R>>" % (4 + 2 * number))
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(commands), commands))
    out = b"%PDF-1.4\n"
    for number, body in enumerate(objects, 1):
        out += b"%d 0 obj%s endobj\n" % (number, body)
    return out + b"trailer<</Root 1 0 R/Size %d>>\n%%%%EOF\n" % (len(objects) + 1)


def as_picture() -> bytes:
    width, height, cells = modules()
    out = io.BytesIO()
    page = Image.new("L", (600, 800), 255)
    page.paste(Image.frombytes("L", (width, height), cells).resize((width * 5, height * 5), 0), (200, 300))
    page.save(out, "PDF")
    return out.getvalue()


def files_of(content: bytes, budget: UnpackBudget | None = None) -> tuple[File, ...]:
    message = Message(parts=(Part("1", names=("a.pdf",), content=content),))
    return find_qr_codes(find_files(message), budget)


def codes(content: bytes) -> list[str]:
    return [link.url for link in files_of(content)[0].links if link.source == "qr"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (as_picture(), [ADDRESS]),
        (pdf(as_rectangles()), [ADDRESS]),
        (pdf(b"", as_rectangles()), [ADDRESS]),
        (pdf(*[b""] * 5, as_rectangles()), [ADDRESS]),
        (pdf(*[b""] * MAX_PAGES, as_rectangles()), [ADDRESS]),  # the last pages are drawn, too
        (pdf(b"0 0 100 100 re f"), []),
        (b"%PDF-1.4\nnothing more", []),
    ],
)
def test_codes_on_pages(content: bytes, expected: list[str]) -> None:
    assert codes(content) == expected


def test_a_page_in_the_middle_of_a_long_document_is_not_drawn_and_that_is_said() -> None:
    (file,) = files_of(pdf(*[b""] * MAX_PAGES, as_rectangles(), *[b""] * MAX_PAGES))
    assert (file.links, file.unread) == ((), ("pixels",))


@pytest.mark.parametrize("box", [b"0 0 1e9 1e9", b"0 0 0 0", b"0 0 -5 1", b"0 0 1e30 1", b"0 0 20000000 1"])
def test_a_page_of_any_size_costs_the_same(box: bytes) -> None:
    budget = UnpackBudget()
    (file,) = files_of(pdf(as_rectangles()).replace(b"0 0 595 842", box), budget)
    assert (file.type, budget.images) == ("pdf", 1)


def make_form() -> bytes:
    drawn = as_rectangles()
    return b"<</Type/XObject/Subtype/Form/BBox[0 0 595 842]/Length %d>>stream\n%s\nendstream" % (len(drawn), drawn)


def as_annotation() -> bytes:
    """A page without an object of its own, on which an annotation has a code for its appearance."""
    stamp = b"<</Type/Annot/Subtype/Stamp/F 4/Rect[0 0 595 842]/AP<</N 6 0 R>>>>"
    objects = b"5 0 obj%s endobj\n6 0 obj%s endobj\n" % (stamp, make_form())
    page = pdf(b"").replace(b"/Contents", b"/Annots[5 0 R]/Contents").replace(b"trailer", objects + b"trailer")
    return page.replace(b"/Size 5", b"/Size 7")


def as_form() -> bytes:
    """A page whose only object is a form that draws the code."""
    page = pdf(b"/F Do").replace(b"/Contents", b"/Resources<</XObject<</F 5 0 R>>>>/Contents")
    return page.replace(b"trailer", b"5 0 obj%s endobj\ntrailer" % make_form()).replace(b"/Size 5", b"/Size 6")


@pytest.mark.parametrize(
    ("content", "expected", "drawn"),
    [
        (pdf(b"", b"q Q", b"% nothing"), [], 0),
        (pdf(b"", as_rectangles(), b""), [ADDRESS], 1),
        (as_annotation(), [ADDRESS], 1),
        (as_form(), [ADDRESS], 1),
    ],
)
def test_only_pages_with_nothing_on_them_are_not_drawn(
    content: bytes, expected: list[str], drawn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    draw = pictures._draw_page

    def count(page: Any) -> Image.Image:
        calls.append(page)
        return draw(page)

    monkeypatch.setattr(pictures, "_draw_page", count)
    assert (codes(content), len(calls)) == (expected, drawn)


def test_pages_count_as_pictures() -> None:
    budget = UnpackBudget()
    budget.images = MAX_IMAGES
    assert files_of(pdf(as_rectangles()), budget)[0].unread == ("pixels",)
    assert files_of(pdf(b"") + bytes(MAX_PAGE_SIZE))[0].unread[-1] == "pixels"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_damage_raises(data: st.DataObject) -> None:
    content = bytearray(pdf(as_rectangles()[:600]))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert files_of(bytes(content))
