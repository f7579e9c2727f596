"""Pictures drawn anew: nothing of the original but what it shows, and no bomb goes off."""

import io
import zlib
from email.message import EmailMessage

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from gatepost.files.pictures import MAX_SCANS
from gatepost.view.message import MAX_SHOWN_PIXELS, MAX_SHOWN_SIDE, TOO_LARGE, build_view, draw_picture
from gatepost.view.values import MAX_PNG, NotShown, Picture

SECRET = b"<script>alert('a comment')</script>"


def mail(*contents: bytes) -> bytes:
    message = EmailMessage()
    message["From"] = "a@b.example"
    message.set_content("see")
    for content in contents:
        message.add_attachment(content, maintype="image", subtype="x", filename="p")
    return message.as_bytes()


def drawn(
    form: str, size: tuple[int, int] = (40, 30), mode: str = "RGB", colour: object = None, **options: object
) -> bytes:
    packed = io.BytesIO()
    Image.new(mode, size, colour or ("red" if mode == "RGB" else 0)).save(packed, form, **options)  # type: ignore[arg-type]
    return packed.getvalue()


def shown(content: bytes) -> Picture:
    found = draw_picture(mail(content), 0)
    assert isinstance(found, Picture)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Picture) == found
    return found


def opened(found: Picture) -> Image.Image:
    image = Image.open(io.BytesIO(found.png))
    image.load()
    assert (image.format, image.mode, image.size) == ("PNG", "RGB", (found.width, found.height))
    return image


@pytest.mark.parametrize("form", ["png", "jpeg", "gif", "bmp", "webp"])
def test_every_kind_is_shown(form: str) -> None:
    found = shown(drawn(form))
    image = opened(found)
    red, green, blue = image.getpixel((5, 5))  # type: ignore[misc]
    assert red > 240
    assert max(green, blue) < 15
    assert (found.width, found.height, found.reduced, found.moving) == (40, 30, False, False)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_every_mode_is_shown(mode: str) -> None:
    opened(shown(drawn("png", mode=mode)))


def test_transparent_is_white() -> None:
    image = opened(shown(drawn("png", mode="RGBA", colour=(0, 0, 0, 0))))
    assert image.getpixel((5, 5)) == (255, 255, 255)


def test_nothing_else_of_the_original_comes_along() -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Comment", SECRET.decode())
    content = drawn("png", pnginfo=notes, icc_profile=SECRET * 10, exif=b"Exif\0\0" + SECRET) + b"PK\x03\x04" + SECRET
    assert content.count(SECRET) >= 2
    found = shown(content)
    assert SECRET not in found.png
    assert sorted(opened(found).info) == []
    kinds = set()
    place = 8
    while place < len(found.png):
        kinds.add(found.png[place + 4 : place + 8])
        place += 12 + int.from_bytes(found.png[place : place + 4], "big")
    assert kinds == {b"IHDR", b"IDAT", b"IEND"}
    jpeg = drawn("jpeg", comment=SECRET)
    assert SECRET in jpeg
    assert SECRET not in shown(jpeg).png


@pytest.mark.parametrize("size", [(3_000, 2_000), (20_000, 10), (10, 20_000), (1_000, 1_000)])
def test_a_large_one_is_made_smaller_in_its_shape(size: tuple[int, int]) -> None:
    found = shown(drawn("png", size))
    assert found.width * found.height <= MAX_SHOWN_PIXELS
    assert max(found.width, found.height) <= MAX_SHOWN_SIDE
    assert found.reduced == (size != (1_000, 1_000))
    assert found.width / found.height == pytest.approx(size[0] / size[1], rel=0.3)


@pytest.mark.variant
def test_a_picture_that_does_not_compress_stays_within_its_most() -> None:
    packed = io.BytesIO()
    Image.effect_noise((1_500, 1_500), 200).convert("RGB").save(packed, "png")
    assert len(shown(packed.getvalue()).png) <= MAX_PNG


def test_the_first_of_a_moving_one_is_shown_and_said() -> None:
    packed = io.BytesIO()
    frames = [Image.new("RGB", (40, 40), colour) for colour in ("red", "blue")]
    frames[0].save(packed, "gif", save_all=True, append_images=frames[1:])
    found = shown(packed.getvalue())
    assert found.moving
    assert opened(found).getpixel((5, 5)) == (255, 0, 0)


def bomb(width: int, height: int) -> bytes:
    """A PNG that says that it is so large, with hardly any data."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(65_000, 65_000), (1, 2**31 - 1), (2**31 - 1, 2**31 - 1), (20_000, 5_000)])
def test_a_bomb_is_not_decoded(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_anything: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(Image.Image, "convert", never)
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", never)
    assert draw_picture(mail(bomb(*size)), 0) == NotShown(TOO_LARGE)


def test_a_jpeg_of_many_scans_is_not_decoded() -> None:
    content = drawn("jpeg") + b"\xff\xda\0\x02\0" * MAX_SCANS
    assert draw_picture(mail(content), 0) == NotShown(TOO_LARGE)


def test_a_size_that_only_the_decoder_sees_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.files.pictures.read_dimensions", lambda *_: (1, 1))
    assert draw_picture(mail(bomb(65_000, 65_000)), 0) == NotShown(TOO_LARGE)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n", b"GIF89a", drawn("bmp")[:30], b"\xff\xd8\xff\xe0nothing"])
def test_a_broken_one_is_not_shown(content: bytes) -> None:
    assert isinstance(draw_picture(mail(content), 0), NotShown)


def test_what_is_no_picture_is_not_shown() -> None:
    assert isinstance(draw_picture(mail(b"<svg onload=alert(1)>"), 0), NotShown)


@pytest.mark.parametrize("index", [-1, 2, 10**9])
def test_an_index_that_is_none(index: int) -> None:
    assert draw_picture(mail(drawn("png"), drawn("gif")), index) == NotShown("there is no such picture")


def test_the_index_is_that_of_the_view() -> None:
    raw = mail(drawn("png", (40, 40)), drawn("gif", (50, 50)), drawn("png", (40, 40)))
    lines = build_view(raw).pictures
    assert [(line.type, line.width) for line in lines] == [("png", 40), ("gif", 50)]
    for line in lines:
        found = draw_picture(raw, line.index)
        assert isinstance(found, Picture)
        assert found.width == line.width


GOOD = {form: drawn(form) for form in ("png", "jpeg", "gif", "bmp", "webp")}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(GOOD)), st.integers(0, 400), st.binary(max_size=12))
def test_a_damaged_picture_is_shown_or_not(form: str, place: int, damage: bytes) -> None:
    content = bytearray(GOOD[form])
    content[place : place + len(damage)] = damage
    raw = b"Content-Type: image/x\r\nContent-Transfer-Encoding: binary\r\n\r\n" + bytes(content)
    assert isinstance(draw_picture(raw, 0), Picture | NotShown)
