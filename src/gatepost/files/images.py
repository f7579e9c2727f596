"""Pictures, looked at for QR codes.

A code in a picture is a link that no text scanner sees and that is opened on a telephone, outside the company's
network. Pictures are decoded only if they could hold one: not the dots that count readers, and not what claims more
pixels than anybody mails. What is left out for its size is said.
"""

import warnings
from collections.abc import Iterator
from io import BytesIO

import msgspec
from PIL import BmpImagePlugin, GifImagePlugin, Image, ImageFile, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

from gatepost.files import qr
from gatepost.files.budget import Budget
from gatepost.files.dimensions import dimensions
from gatepost.files.tree import Contents, File, Trait

MIN_SIDE = 56  # the smallest code has 21 modules a side and a margin of four; cameras need two pixels for each
MAX_PIXELS = 16_000_000
BOMB_PIXELS, BOMB_RATIO = 600_000_000, 2_000
MAX_SIDE = 1_600
MAX_FRAMES = 3
MAX_SCANS = 64  # an honest JPEG has ten; each may go over the whole picture and cost five bytes

_FORMATS: dict[str, type[ImageFile.ImageFile]] = {
    "bmp": BmpImagePlugin.BmpImageFile,
    "gif": GifImagePlugin.GifImageFile,
    "jpeg": JpegImagePlugin.JpegImageFile,
    "png": PngImagePlugin.PngImageFile,
    "webp": WebPImagePlugin.WebPImageFile,
}
# A second line of defence: past this, Pillow refuses by itself (it warns at half of it).
Image.MAX_IMAGE_PIXELS = MAX_PIXELS // 2
# Mail programs show a picture that is cut short as far as it goes, so that much is looked at.
ImageFile.LOAD_TRUNCATED_IMAGES = True


def is_picture(file: File) -> bool:
    """Whether it is a picture that can be looked at."""
    return reads(file.type)


def reads(kind: str) -> bool:
    """Whether there is a decoder for this type of file."""
    return kind in _FORMATS


def is_kept_out(content: bytes, kind: str, size: tuple[int, int] | None = None) -> bool:
    """Whether a picture is not decoded because of what it would cost; `size` where its decoder has told it."""
    width, height = size or dimensions(content, kind)
    return width * height > MAX_PIXELS or (kind == "jpeg" and content.count(b"\xff\xda") > MAX_SCANS)


def is_bomb(content: bytes, pixels: int) -> bool:
    """Whether a picture is made to break whoever shows it: photographs have a few pixels to the byte, and a plan of a
    house in black and white a thousand."""
    return pixels > MAX_PIXELS and (pixels > BOMB_PIXELS or pixels > BOMB_RATIO * len(content))


def opened(content: bytes, kind: str) -> ImageFile.ImageFile:
    """A picture of which only the header has been read. Whatever is broken about it raises."""
    return _FORMATS[kind](BytesIO(content))


def look(file: File, budget: Budget) -> Contents:
    """The codes in a picture."""
    width, height = dimensions(file.content, file.type)
    if min(width, height) < MIN_SIDE:
        return Contents()
    if is_bomb(file.content, width * height):
        return Contents(unread=("ratio",))
    if is_kept_out(file.content, file.type) or not budget.another_image(width * height):
        return Contents(unread=("pixels",))
    codes: dict[str, None] = {}
    broken: tuple[Trait, ...] = ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for frame in _frames(file):
                codes.update(dict.fromkeys(qr.codes(frame)))
        except MemoryError:
            raise
        except Exception as fault:  # noqa: BLE001  a decoder may stumble over a broken picture in any way it likes
            broken = (Trait("broken-picture", type(fault).__name__),)
    found = qr.contents(codes, file.path)
    return msgspec.structs.replace(found, traits=(*found.traits, *broken))


def _frames(file: File) -> Iterator[Image.Image]:
    """The picture, or the first few of a moving one, in grey."""
    with opened(file.content, file.type) as image:
        if file.type == "jpeg":
            image.draft("L", (MAX_SIDE, MAX_SIDE))  # decoded at a fraction of its size, at a fraction of the cost
        for number in range(MAX_FRAMES if getattr(image, "is_animated", False) else 1):
            try:
                image.seek(number)
            except EOFError:
                return
            if min(image.size) >= MIN_SIDE and image.width * image.height <= MAX_PIXELS:
                yield _grey(image)


def _grey(image: Image.Image) -> Image.Image:
    """In grey on white paper, and not larger than it need be."""
    if "A" in image.getbands() or "transparency" in image.info:
        full = image.convert("RGBA")
        paper = Image.new("L", full.size, 255)
        paper.paste(full.convert("L"), mask=full.getchannel("A"))
    else:
        paper = image.convert("L")
    factor = -(-max(paper.size) // MAX_SIDE)
    return paper.reduce(factor) if factor > 1 and min(paper.size) // factor >= MIN_SIDE else paper
