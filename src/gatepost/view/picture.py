"""One picture of a message, drawn anew: decoded, pasted on white, made small enough, written as PNG.

No byte of the original reaches the person who looks at it, no colour profile, no comment, no data after the end; a file
that is a picture and a page at once is only a picture afterwards. The claimed size is checked before anything is
decoded.
"""

import warnings
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from math import sqrt

from PIL import Image

from gatepost.files.pictures import is_image_type, is_too_large, open_image
from gatepost.files.signatures import identify
from gatepost.mail.message import Message, Part
from gatepost.mail.reader import read
from gatepost.view.values import MAX_PICTURES, MAX_PNG, NotShown, Picture

# At three bytes each the PNG stays below its most, whatever the picture shows.
MAX_SHOWN_PIXELS = 1_000_000
MAX_SHOWN_SIDE = 8_000
UNKNOWN = "not a kind of picture that can be shown"
TOO_LARGE = "more pixels than are decoded"


def find_pictures(message: Message) -> Iterator[tuple[Part, str]]:
    """Yield every part that is a picture or says so, with what it is; the same bytes once."""
    seen: set[bytes] = set()
    for part in message.files:
        kind = identify(part.content)
        if (is_image_type(kind) or part.content_type.startswith("image/")) and part.content not in seen:
            seen.add(part.content)
            yield part, kind


def find_refusal(content: bytes, kind: str) -> str:
    """Return why a picture is not shown; "" if it is."""
    if not is_image_type(kind):
        return UNKNOWN
    return TOO_LARGE if is_too_large(content, kind) else ""


def draw_picture(raw: bytes, index: int) -> Picture | NotShown:
    """Return the picture with this index in the view of the same message, drawn anew. It takes any bytes."""
    listed = islice(find_pictures(read(raw)), MAX_PICTURES)
    found = next(islice(listed, index, None), None) if index >= 0 else None
    if found is None:
        return NotShown("there is no such picture")
    part, kind = found
    if reason := find_refusal(part.content, kind):
        return NotShown(reason)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _redraw(part.content, kind)
        except MemoryError:
            raise
        except Exception as fault:  # noqa: BLE001  a decoder may stumble over a broken picture in any way it likes
            return NotShown(f"the picture is broken ({type(fault).__name__})")


def _redraw(content: bytes, kind: str) -> Picture | NotShown:
    with open_image(content, kind) as image:
        size = image.size
        # What the decoder reads may be larger than what the header said to us.
        if is_too_large(content, kind, size):
            return NotShown(TOO_LARGE)
        if kind == "jpeg":
            image.draft("RGB", _compute_target_size(size))
        is_moving = bool(getattr(image, "is_animated", False))
        paper = _paste_on_white(image)
        # A new picture of nothing but pixels: what Pillow knows of the old one, it would write into the new.
        bare = Image.frombytes("RGB", paper.size, paper.tobytes())
    packed = BytesIO()
    bare.save(packed, "PNG", compress_level=3)
    png = packed.getvalue()
    if len(png) > MAX_PNG:
        return NotShown("the picture is too large")
    return Picture(png, *bare.size, reduced=bare.size != size, moving=is_moving)


def _paste_on_white(image: Image.Image) -> Image.Image:
    """Return the picture on white, not larger than is shown."""
    if "A" in image.getbands() or "transparency" in image.info:
        full = _reduce(image.convert("RGBA"))
        paper = Image.new("RGB", full.size, "white")
        paper.paste(full, mask=full.getchannel("A"))
        return paper
    return _reduce(image if image.mode == "RGB" else image.convert("RGB"))


def _reduce(image: Image.Image) -> Image.Image:
    goal = _compute_target_size(image.size)
    return image if goal == image.size else image.resize(goal, Image.Resampling.BOX)


def _compute_target_size(size: tuple[int, int]) -> tuple[int, int]:
    width, height = size
    factor = max(sqrt(width * height / MAX_SHOWN_PIXELS), max(size) / MAX_SHOWN_SIDE, 1.0)
    return max(1, min(width, int(width / factor))), max(1, min(height, int(height / factor)))
