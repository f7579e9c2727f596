"""QR codes in pictures of every kind, and pictures that are made to exhaust whoever decodes them."""

import base64
import io
import struct
import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import zxingcpp
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tests.variants import one_in

from gatepost.files import pictures
from gatepost.files.pictures import read_dimensions
from gatepost.files.qr_codes import find_qr_codes
from gatepost.files.values import MAX_IMAGES, MAX_PIXELS, File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part

ADDRESS = "https://evil.example/login?x=1"
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")


def code(text: str = ADDRESS, scale: int = 4) -> Image.Image:
    drawn: Any = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.QRCode).to_image(scale=scale)
    height, width = drawn.shape
    return Image.frombytes("L", (width, height), bytes(drawn))


def saved(image: Image.Image, form: str = "PNG", frames: tuple[Image.Image, ...] = ()) -> bytes:
    out = io.BytesIO()
    if frames:
        image.save(out, form, save_all=True, append_images=frames)
    else:
        image.save(out, form)
    return out.getvalue()


def clear_background() -> Image.Image:
    image = Image.new("RGBA", code().size, (0, 0, 0, 0))
    image.putalpha(ImageOps.invert(code()))
    return image


def on_a_large_page() -> Image.Image:
    page = Image.new("L", (2400, 3200), 230)
    page.paste(code(scale=12), (300, 1800))
    return page


def files_of(*contents: bytes, budget: UnpackBudget | None = None) -> tuple[File, ...]:
    parts = tuple(Part(str(n), names=(f"{n}.png",), content=content) for n, content in enumerate(contents, 1))
    return find_qr_codes(find_files(Message(parts=parts)), budget)


def urls(content: bytes) -> list[str]:
    (file,) = files_of(content)
    assert all((link.source, link.where) == ("qr", file.path) for link in file.links)
    return [link.url for link in file.links]


@pytest.mark.parametrize("form", FORMATS)
def test_every_kind_of_picture_is_looked_at(form: str) -> None:
    assert urls(saved(code(), form)) == [ADDRESS]
    assert urls(saved(code().convert("RGB"), form)) == [ADDRESS]


# Pictures are drawn when their test runs: drawing them all would make every start of the tests slow.
DRAWN: dict[str, Callable[[], bytes]] = {
    "small": lambda: saved(code(scale=2)),
    "inverted": lambda: saved(ImageOps.invert(code())),
    "rotated": lambda: saved(code().rotate(37, expand=True, fillcolor=255)),
    "on a clear background": lambda: saved(clear_background()),
    "in one bit": lambda: saved(code().convert("1")),
    "with a palette": lambda: saved(code().quantize(4)),
    "on a large page": lambda: saved(on_a_large_page()),
    "on a large page as JPEG": lambda: saved(on_a_large_page(), "JPEG"),
    "in the second frame": lambda: saved(Image.new("L", code().size, 255), "GIF", (code(),)),
    "cut off": lambda: saved(code(), "JPEG")[:-100],
}


@pytest.mark.parametrize("drawn", DRAWN)
def test_a_code_is_found_however_it_is_drawn(drawn: str) -> None:
    assert urls(DRAWN[drawn]()) == [ADDRESS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://a.example/", ["https://a.example/"]),
        ("www.a.example/pay", ["http://www.a.example/pay"]),
        ("WIFI:S:guest;T:WPA;P:secret;;", []),
        ("BCD\n002\n1\nSCT\nGENODEF1\nErika Muster\nDE00123\nEUR10", []),  # a payment slip
        ("just words", []),
    ],
)
def test_only_links_become_links(text: str, expected: list[str]) -> None:
    content = saved(code(text))
    assert urls(content) == expected
    (file,) = files_of(content)
    assert [trait.detail for trait in file.traits] == [text]


@pytest.mark.parametrize("size", [(1, 1), (39, 39), (600, 20)])
def test_what_cannot_hold_a_code_is_not_decoded(size: tuple[int, int]) -> None:
    budget = UnpackBudget()
    (file,) = files_of(saved(Image.new("L", size)), budget=budget)
    assert (file.unread, budget.images) == ((), 0)


def huge_png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = struct.pack(">IIBBBBB", 65_000, 65_000, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
        + chunk(b"IEND", b"")
    )


def many_scans() -> bytes:
    out = io.BytesIO()
    code().save(out, "JPEG", progressive=True)
    content = out.getvalue()
    start = content.rindex(b"\xff\xda")
    return content[:start] + content[start:-2] * 100 + content[-2:]


COSTLY: dict[str, tuple[Callable[[], bytes], str]] = {
    "huge": (huge_png, "ratio"),
    "many scans": (many_scans, "pixels"),
    "400 million pixels in 50 kB": (lambda: saved(Image.new("1", (20_000, 20_000))), "ratio"),
    "scanned plan": (lambda: saved(Image.effect_noise((4_100, 4_100), 64).convert("1")), "pixels"),
}


@pytest.mark.parametrize("picture", one_in(2, COSTLY))
def test_a_picture_that_costs_too_much_is_said(picture: str) -> None:
    draw, reason = COSTLY[picture]
    budget = UnpackBudget()
    (file,) = files_of(draw(), budget=budget)
    assert (file.unread, file.links, budget.pixels) == ((reason,), (), 0)


def test_only_the_first_frames_of_a_film_are_looked_at() -> None:
    blank = Image.new("L", (100, 100), 255)
    noise = tuple(Image.new("L", (100, 100), shade) for shade in range(200))
    content = saved(blank, "GIF", noise)
    budget = UnpackBudget()
    (file,) = files_of(content, budget=budget)
    assert (file.unread, budget.images, budget.pixels) == ((), 1, 10_000)


def test_a_frame_larger_than_its_screen_is_not_decoded() -> None:
    """The header says 100 by 100; the first frame 60,000 by 60,000."""
    content = bytearray(saved(Image.new("L", (100, 100)), "GIF"))
    frame = content.index(b"\x2c\0\0\0\0\x64\0\x64\0")
    content[frame + 5 : frame + 9] = struct.pack("<HH", 60_000, 60_000)
    (file,) = files_of(bytes(content))
    assert file.links == ()


def test_a_picture_that_cannot_be_decoded_is_marked() -> None:
    (file,) = files_of(saved(code(), "WEBP")[:40])
    assert [trait.name for trait in file.traits] == ["broken-picture"]


def test_pictures_have_a_budget() -> None:
    many = [saved(Image.new("L", (100, 100), shade)) for shade in range(MAX_IMAGES + 3)]
    budget = UnpackBudget()
    found = files_of(*many, budget=budget)
    assert [file.unread for file in found] == [()] * MAX_IMAGES + [("pixels",)] * 3
    assert budget.images == MAX_IMAGES


def test_pixels_have_a_budget() -> None:
    many = [saved(Image.new("1", (3900, 4000), shade)) for shade in (0, 1)]
    budget = UnpackBudget()
    assert [file.unread for file in files_of(*many, budget=budget)] == [(), ("pixels",)]
    assert budget.pixels <= MAX_PIXELS


@pytest.mark.parametrize("form", FORMATS)
def test_dimensions_come_from_the_header(form: str) -> None:
    image = Image.new("RGB", (123, 45))
    kind = form.lower()
    assert read_dimensions(saved(image, form), kind) == (123, 45)
    assert read_dimensions(b"", kind) == (0, 0)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FORMATS), st.data())
def test_no_damage_raises(form: str, data: st.DataObject) -> None:
    content = bytearray(saved(code(), form))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, min(2_000, len(content) - 1)))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(1, len(content))) :]
    budget = UnpackBudget()
    assert files_of(bytes(content), budget=budget)
    assert budget.pixels <= MAX_PIXELS


@pytest.mark.parametrize("form", ["TIFF", "ICO", "JPEG2000", "AVIF"])
def test_a_code_in_a_rarer_picture_is_read(form: str) -> None:
    image = code(scale=4).convert("RGB") if form == "AVIF" else code(scale=4)
    assert urls(saved(image, form)) == [ADDRESS]


def test_a_picture_without_a_decoder_is_said() -> None:
    (file,) = files_of(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))
    assert (file.type, file.unread) == ("heif", ("pixels",))


@pytest.mark.parametrize("page", [b'<html><img src="%b"></html>', b'<svg><image href="%b"/></svg>'])
def test_a_code_in_a_data_address_is_read(page: bytes) -> None:
    address = b"data:image/png;base64," + base64.b64encode(saved(code()))
    part = Part("1", names=("a.html",), content=page % address)
    files = find_qr_codes(find_files(Message(parts=(part,))))
    assert [link.url for file in files for link in file.links if link.source == "qr"] == [ADDRESS]


@settings(max_examples=60, deadline=None)
@given(st.text("MmHhVvLlZzCc0123456789.,- e", max_size=300))
def test_no_path_raises(data: str) -> None:
    drawing = f'<svg><path d="{data}"/>' + '<rect x="1" y="1" width="3" height="9"/>' * 30 + "</svg>"
    assert len(files_of(drawing.encode())) == 1


def test_a_picture_that_comes_again_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = pictures._decode_codes

    def count(file: File) -> tuple[tuple[str, ...], str]:
        decoded.append(file.path)
        return decode(file)

    monkeypatch.setattr(pictures, "_decode_codes", count)
    monkeypatch.setattr(pictures, "_known", OrderedDict())
    monkeypatch.setattr(pictures, "MAX_KNOWN", 1)
    content, other = saved(code("https://again.example/1")), saved(code("https://again.example/2"))
    found = [files_of(each)[0] for each in (content, content, other, content)]
    assert [file.links[0].url for file in found] == [f"https://again.example/{n}" for n in (1, 1, 2, 1)]
    assert len(decoded) == 3  # the second one pushed the first out


def test_pictures_with_much_text_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MAX_KNOWN_TEXT", 10)
    content = saved(code("https://long.example/" + "x" * 50))
    assert files_of(content)[0].links
    assert not [key for key in pictures._known if key[1] == files_of(content)[0].sha256]
