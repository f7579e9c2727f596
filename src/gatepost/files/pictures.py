"""QR codes (ISO/IEC 18004) in pictures and on pages of PDFs, the links in them, and the text of those pages.

A code in a picture is a link that no text scanner sees and that is opened on a telephone, outside the company's
network. In a PDF it may be a picture, a hundred small rectangles or a letter of a special font; drawn in grey, at a
size at which a telephone would still read it, they are all the same. The same program that draws the pages tells which
letters stand on them, whatever fonts and encodings a PDF uses.

A PNG of a few kilobytes can claim 65,000 by 65,000 pixels and needs 16 GB once decoded. So the size is read from the
header first, and a picture is decoded only if it could hold a code: not the dots that count readers, and not one that
claims more pixels than are ever mailed. A picture that is skipped for its size is reported as unread.

This step is apart from the walk through the files, since decoders of pictures and pages are large programs in C: should
one of them crash a worker, the message is read again without this step, and everything else that was found still
counts.

SVG is drawn by `svg_drawing`, as far as it takes to read a code.
"""

import math
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import islice
from operator import mul
from typing import Literal, TypeVar

import msgspec
import pypdfium2  # type: ignore[import-untyped]
import zxingcpp
from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    IcoImagePlugin,
    Image,
    ImageFile,
    ImageOps,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from gatepost.files.svg_drawing import draw_svg
from gatepost.files.values import BrokenError, ByteSource, Contents, File, Trait, UnpackBudget, UnreadReason
from gatepost.mail.links import Links, find_targets
from gatepost.mail.message import Link
from gatepost.names import public_suffix

T = TypeVar("T")

_MAX_MARKERS = 1_000
# Start-of-frame markers; C4, C8 and CC among them are something else.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a length


def read_dimensions(content: bytes, kind: str) -> tuple[int, int]:
    """Return width and height; zeros where the header does not tell."""
    try:
        return _READERS[kind](content)
    except (BrokenError, KeyError):
        return 0, 0


def _measure_png(content: bytes) -> tuple[int, int]:
    source = ByteSource(content, 16)
    return int.from_bytes(source.take(4), "big"), int.from_bytes(source.take(4), "big")


def _measure_gif(content: bytes) -> tuple[int, int]:
    source = ByteSource(content, 6)
    return source.number(2), source.number(2)


def _measure_bmp(content: bytes) -> tuple[int, int]:
    source = ByteSource(content, 14)
    if source.number(4) == 12:
        return source.number(2), source.number(2)
    width, height = source.number(4), source.number(4)
    return width, min(height, (1 << 32) - height)  # a negative height means top row first


def _measure_webp(content: bytes) -> tuple[int, int]:
    source = ByteSource(content, 12)
    form = source.take(4)
    source.skip(4)
    if form == b"VP8X":
        source.skip(4)
        return source.number(3) + 1, source.number(3) + 1
    if form == b"VP8L":
        source.skip(1)
        packed = source.number(4)
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    source.skip(6)
    return source.number(2) & 0x3FFF, source.number(2) & 0x3FFF


def _measure_jpeg(content: bytes) -> tuple[int, int]:
    source = ByteSource(content, 2)
    for _ in range(_MAX_MARKERS):
        if source.number(1) != 0xFF:
            break
        marker = source.number(1)
        while marker == 0xFF:
            marker = source.number(1)
        if marker in _BARE:
            continue
        size = int.from_bytes(source.take(2), "big")
        if marker in _FRAMES:
            source.skip(1)
            height = int.from_bytes(source.take(2), "big")
            return int.from_bytes(source.take(2), "big"), height
        source.skip(size - 2)
    return 0, 0


_READERS = {"png": _measure_png, "gif": _measure_gif, "bmp": _measure_bmp, "webp": _measure_webp, "jpeg": _measure_jpeg}


MAX_CODES = 20
MAX_CODE_TEXT = 4_096
MAX_WORDS = 40

_CODE_FORMATS = zxingcpp.BarcodeFormats(
    [zxingcpp.BarcodeFormat.QRCode, zxingcpp.BarcodeFormat.MicroQRCode, zxingcpp.BarcodeFormat.RMQRCode]
)


def find_codes(image: Image.Image) -> list[str]:
    """Return the text of every code in a grey picture."""
    view = memoryview(image.tobytes()).cast("B", (image.height, image.width))
    found = zxingcpp.read_barcodes(view, formats=_CODE_FORMATS, text_mode=zxingcpp.TextMode.Plain)
    return [code.text[:MAX_CODE_TEXT] for code in found[:MAX_CODES] if code.text]


def make_code_contents(
    texts: Iterable[str], where: str, unread: tuple[UnreadReason, ...] = (), *, drawn: str = ""
) -> Contents:
    """Return the texts of the codes as traits, and every link that a telephone would open. `drawn` says of what codes
    are that are no picture."""
    traits = (*(Trait("qr-code", text) for text in texts), *((Trait("drawn-code", drawn),) if drawn else ()))
    return Contents((), traits, _find_links(texts, where, "qr"), unread)


def _find_links(texts: Iterable[str], where: str, source: Literal["file", "qr"]) -> tuple[Link, ...]:
    found = Links()
    for text in texts:
        for target in find_targets(text):
            found.add(target, where, source, shown=target if source == "file" else "")
        if source == "qr" and not len(found):
            words = text.split()[:MAX_WORDS]
            for word in (word.strip(".,;:!()<>\"'") for word in words):
                if _is_bare_host(word) and (len(words) == 1 or "/" in word or word[:4].lower() == "www."):
                    found.add(f"https://{word}", where, source)
    return tuple(found)


_BARE_HOST = re.compile(r"((?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24})(?::\d{1,5})?(?:[/?#]\S{0,2000})?")


def _is_bare_host(text: str) -> bool:
    """Return whether the text of a code is a host without a scheme, which telephones open as well."""
    match = _BARE_HOST.fullmatch(text)
    return match is not None and bool(public_suffix(match[1].lower())) and not match[1].replace(".", "").isdecimal()


MIN_SIDE = 56  # the smallest code has 21 modules a side and a margin of four; cameras need two pixels for each
MAX_PIXELS = 16_000_000
BOMB_PIXELS, BLANK_PIXELS, BOMB_RATIO = 600_000_000, 180_000_000, 2_000
MAX_SIDE = 1_600
MAX_FRAMES, MAX_FRAME_PIXELS = 12, 3_000_000
# A picture of fewer dots than a code needs is shown larger where the mail says so.
MIN_DOTS = 21
FEW_COLOURS = 8
FAINT = 48
_VALUES, _SQUARES = range(256), [value * value for value in range(256)]
SMALL_COPIES = (100, 66, 50)  # in a copy that is much smaller, modules that are dots touch each other
MIN_PIECE, MAX_PIECE = 12, 800
# So many pictures a worker remembers, if what they show is short; most show no code at all.
MAX_KNOWN, MAX_KNOWN_TEXT = 512, 1_000
MAX_TAIL = 64  # so many bytes two readings of one picture may differ in, at the end
MAX_COMPARED = 20_000_000  # pixels of pictures that are compared, in a message
MAX_SCANS = 64  # an honest JPEG has ten; each may go over the whole picture and cost five bytes

_IMAGE_FORMATS: dict[str, type[ImageFile.ImageFile]] = {
    "bmp": BmpImagePlugin.BmpImageFile,
    "gif": GifImagePlugin.GifImageFile,
    "jpeg": JpegImagePlugin.JpegImageFile,
    "png": PngImagePlugin.PngImageFile,
    "webp": WebPImagePlugin.WebPImageFile,
    "tiff": TiffImagePlugin.TiffImageFile,
    "ico": IcoImagePlugin.IcoImageFile,
    "jpeg2000": Jpeg2KImagePlugin.Jpeg2KImageFile,
    "heif": AvifImagePlugin.AvifImageFile,
}
AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # a sealed worker starts no threads
_AVIF_BRANDS = frozenset({b"avif", b"avis"})
# A second line of defence: past this, Pillow refuses by itself (it warns at half of it).
Image.MAX_IMAGE_PIXELS = MAX_PIXELS // 2
# Mail programs show a picture that is cut short as far as it goes, so that much is looked at.
ImageFile.LOAD_TRUNCATED_IMAGES = True


def is_image_type(kind: str) -> bool:
    """Return whether there is a decoder for this type of file."""
    return kind in _IMAGE_FORMATS


def is_too_large(content: bytes, kind: str, size: tuple[int, int] | None = None) -> bool:
    """Return whether a picture costs too much to decode; `size` is given where its decoder has told it."""
    width, height = size or read_dimensions(content, kind)
    return width * height > MAX_PIXELS or (kind == "jpeg" and content.count(b"\xff\xda") > MAX_SCANS)


def is_bomb(content: bytes, pixels: int) -> bool:
    """Return whether a picture is made to exhaust the program that shows it: photographs have a few pixels to the byte,
    a plan of a house in black and white a thousand, and a large sheet with nothing on it eight thousand."""
    return pixels > BOMB_PIXELS or pixels > max(BLANK_PIXELS, BOMB_RATIO * len(content))


def open_image(content: bytes, kind: str) -> ImageFile.ImageFile:
    """Return a picture of which only the header has been read; a broken one raises."""
    return _IMAGE_FORMATS[kind](BytesIO(content))


def _look_at(file: File, look: Callable[[ImageFile.ImageFile], T]) -> T | None:
    """Return what is seen in a picture; None where its decoder stumbles over it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with open_image(file.content, file.type) as image:
                return look(image)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001  a decoder may stumble over a broken picture in any way it likes
            return None


def find_codes_in_image(file: File, budget: UnpackBudget) -> Contents:
    """Return the codes in a picture."""
    if file.type == "heif" and file.content[8:12] not in _AVIF_BRANDS:
        return Contents(unread=("pixels",))  # HEIC has no decoder that is free to ship
    measured = file.type in _READERS
    size = read_dimensions(file.content, file.type) if measured else _look_at(file, lambda image: image.size)
    width, height = size or (0, 0)
    if not measured and not width:
        return Contents(unread=("pixels",))
    if min(width, height) < MIN_DOTS or (min(width, height) < MIN_SIDE and not budget.take_small_image(width * height)):
        return Contents()
    if is_bomb(file.content, width * height):
        return Contents(unread=("ratio",))
    is_small = min(width, height) < MIN_SIDE
    if is_too_large(file.content, file.type) or not (is_small or budget.take_image(width * height)):
        return Contents(unread=("pixels",))
    codes, fault = _read_codes(file)
    found = make_code_contents(codes, file.path)
    return msgspec.structs.replace(found, traits=(*found.traits, Trait("broken-picture", fault))) if fault else found


_known: OrderedDict[tuple[str, str], tuple[tuple[str, ...], str]] = OrderedDict()


def _read_codes(file: File) -> tuple[tuple[str, ...], str]:
    """Return the texts of the codes in a picture, and the fault at which its decoder stopped, or "".

    Logos and signatures come with message after message, so a worker remembers what the last pictures showed. That is
    the same for the same bytes, whoever sent them.
    """
    key = (file.type, file.sha256)
    if key in _known:
        _known.move_to_end(key)
        return _known[key]
    found = _decode_codes(file)
    if sum(map(len, found[0])) <= MAX_KNOWN_TEXT:
        _known[key] = found
        if len(_known) > MAX_KNOWN:
            _known.popitem(last=False)
    return found


def _decode_codes(file: File) -> tuple[tuple[str, ...], str]:
    codes: dict[str, None] = {}
    fault = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for frame in _decode_frames(file):
                # The other views are drawn only where the first shows nothing.
                codes.update(dict.fromkeys(next(filter(None, map(find_codes, _list_views(frame))), ())))
        except MemoryError:
            raise
        except Exception as stop:  # noqa: BLE001  a decoder may stumble over a broken picture in any way it likes
            fault = type(stop).__name__
    return tuple(codes), fault


class PictureComparison:
    """Compares readings of pictures, of so many pixels in all: a sender can make many readings, all different."""

    def __init__(self, pixels: int = MAX_COMPARED) -> None:
        self._left = pixels

    def shows_same(self, file: File, other: File) -> bool:
        """Return whether two pictures show the same dots and differ in their last bytes at most. So do the readings of
        a picture whose base64 is broken at its end, and one of them is enough to look at. What has another size, is too
        large or comes when all pixels are used up counts as different."""
        size = min(len(file.content), len(other.content)) - MAX_TAIL
        if file.type != other.type or abs(len(file.content) - len(other.content)) > MAX_TAIL:
            return False
        if size <= 0 or file.content[:size] != other.content[:size] or file.type not in _READERS:
            return False
        width, height = dimensions = read_dimensions(file.content, file.type)
        if dimensions != read_dimensions(other.content, other.type) or width * height > self._left:
            return False
        if is_bomb(file.content, width * height) or is_too_large(file.content, file.type):
            return False
        self._left -= width * height
        dots = _look_at(file, _read_dots)
        return dots is not None and dots == _look_at(other, _read_dots)


def _read_dots(image: ImageFile.ImageFile) -> tuple[object, ...] | None:
    """Return all that a still picture shows; None for one that moves."""
    if getattr(image, "is_animated", False):
        return None
    dots = image.tobytes()
    return image.mode, image.size, image.getpalette(), image.info.get("transparency"), dots


def decode_small(file: File) -> Image.Image | None:
    """Return a small picture in grey, which may be a piece of a code; None where it is too large or broken."""
    width, height = read_dimensions(file.content, file.type)
    if min(width, height) < MIN_PIECE or max(width, height) > MAX_PIECE:
        return None
    return _look_at(file, _convert_to_grey)


def _decode_frames(file: File) -> Iterator[Image.Image]:
    """Yield the picture, or some of a moving one: the first ones, and the last where there are not many."""
    with open_image(file.content, file.type) as image:
        if file.type == "jpeg":
            image.draft("RGB", (MAX_SIDE, MAX_SIDE))  # decoded at a fraction of its size, at a fraction of the cost
        pixels = image.width * image.height
        most = max(3, min(MAX_FRAMES, MAX_FRAME_PIXELS // max(1, pixels)))
        for number in range(most if getattr(image, "is_animated", False) else 1):
            try:
                image.seek(number)
            except EOFError:
                return
            if min(image.size) >= MIN_DOTS and image.width * image.height <= MAX_PIXELS:
                yield image


def _list_views(image: Image.Image) -> Iterator[Image.Image]:
    """Yield a picture in grey, and then as it has to be looked at where a code is faint, in two colours of the same
    brightness, made of opacity alone, made of dots, or of one dot for each module."""
    if min(image.size) < MIN_SIDE:
        if image.getcolors(FEW_COLOURS) is not None or image.convert("L").getcolors(FEW_COLOURS) is not None:
            grey = _convert_to_grey(image)
            yield ImageOps.expand(grey.resize((grey.width * 4, grey.height * 4), Image.Resampling.NEAREST), 24, 255)
        return
    full = image.convert("RGBA") if _has_opacity(image) else None
    grey = _convert_to_grey(image, full)
    yield grey
    counts = grey.histogram()
    darkest, lightest = (
        next(filter(counts.__getitem__, range(256))),
        next(filter(counts.__getitem__, range(255, -1, -1))),
    )
    if 0 < lightest - darkest < FAINT:
        yield ImageOps.autocontrast(grey)
    yield from _list_colours(image, full, counts)
    yield from islice(_list_smaller(grey), 1, None)


def _list_smaller(grey: Image.Image) -> Iterator[Image.Image]:
    """Yield a picture, and smaller copies of one that is not small."""
    yield grey
    if max(grey.size) > 3 * SMALL_COPIES[0]:
        yield from (grey.reduce(round(max(grey.size) / side)) for side in SMALL_COPIES)


def _list_colours(image: Image.Image, full: Image.Image | None, counts: list[int]) -> Iterator[Image.Image]:
    """Yield single colours of a picture where they differ much more than brightness does, or its opacity. `full` is the
    picture with its opacity, if it has any, and `counts` says how many of its dots are how bright."""
    if full is not None:
        alpha = full.getchannel("A")
        if alpha.getextrema() != (255, 255):
            yield _limit_side(alpha)
    elif image.mode in ("RGB", "P", "YCbCr", "CMYK"):
        spread = 1.6 * max(8.0, _measure_spread(counts))
        wide = [band for band, each in enumerate(_count_colours(image)) if _measure_spread(each) > spread]
        if wide:
            bands = _limit_side(image.convert("RGB")).split()
            yield from (ImageOps.autocontrast(bands[band]) for band in wide)


def _count_colours(image: Image.Image) -> list[list[int]]:
    """Return how many dots have how much red, green and blue; those of a palette are counted by its entries."""
    palette = image.getpalette("RGB") if image.mode == "P" and _find_factor(image) == 1 else None
    entries = image.histogram() if palette else []
    if not palette or any(entries[len(palette) // 3 :]):
        counts = _limit_side(image if image.mode == "RGB" else image.convert("RGB")).histogram()
        return [counts[:256], counts[256:512], counts[512:]]
    found = [[0] * 256, [0] * 256, [0] * 256]
    for entry, count in enumerate(entries):
        if count:
            for band in range(3):
                found[band][palette[3 * entry + band]] += count
    return found


def _measure_spread(counts: list[int]) -> float:
    """Return the standard deviation of values that occur so many times each."""
    every, total, squares = sum(counts), sum(map(mul, counts, _VALUES)), sum(map(mul, counts, _SQUARES))
    return math.sqrt((squares - total**2 / every) / every)


def _has_opacity(image: Image.Image) -> bool:
    return "A" in image.getbands() or "transparency" in image.info


def _convert_to_grey(image: Image.Image, full: Image.Image | None = None) -> Image.Image:
    """Return the picture in grey on white paper, not larger than need be; `full` has its opacity, where known."""
    if full is None and _has_opacity(image):
        full = image.convert("RGBA")
    if full is not None:
        paper = Image.new("L", full.size, 255)
        paper.paste(full.convert("L"), mask=full.getchannel("A"))
    else:
        paper = image.convert("L")
    return _limit_side(paper)


def _find_factor(image: Image.Image) -> int:
    """Return how many times smaller a picture is to be made."""
    factor = -(-max(image.size) // MAX_SIDE)
    return factor if factor > 1 and min(image.size) // factor >= MIN_SIDE else 1


def _limit_side(image: Image.Image) -> Image.Image:
    factor = _find_factor(image)
    return image.reduce(factor) if factor > 1 else image


MAX_PAGES = 8  # the first six and the last two
LAST_PAGES = 2
MAX_PAGE_OBJECTS = 5_000  # a plan or a map takes seconds to draw, and no code is hidden among so many lines
MAX_TEXT_PAGES = 10
MAX_PAGE_TEXT = 20_000
MAX_PAGE_SIDE = 1_200
MAX_PAGE_SIZE = 10 << 20
_MAX_SCALE = 3.0
_PAGE_FAULTS = (pypdfium2.PdfiumError, ValueError, OverflowError, ZeroDivisionError)
MAX_DRAWING = 2 << 20


def find_codes_in_pages(file: File, budget: UnpackBudget) -> Contents:
    """Return the codes on a PDF's pages, within a budget, and its text. One that does not open is no fault here."""
    if len(file.content) > MAX_PAGE_SIZE:
        return Contents(unread=("pixels",))
    codes: dict[str, None] = {}
    unread: tuple[UnreadReason, ...] = ()
    pages: list[str] = []
    try:
        document = pypdfium2.PdfDocument(file.content, next(iter(file.seen("document-password")), None))
        try:
            drawn = _choose_pages(len(document))
            unread = ("pixels",) if len(drawn) < len(document) else ()
            # To load a page takes as long as to read its text: each is loaded once, for its text and its picture.
            for number in sorted({*range(min(len(document), MAX_TEXT_PAGES)), *drawn}):
                page = document[number]
                if number < MAX_TEXT_PAGES:
                    pages.append(_read_page_text(page))
                if number not in drawn:
                    continue
                if not budget.take_image(MAX_PAGE_SIDE * MAX_PAGE_SIDE):
                    unread, drawn = ("pixels",), []
                elif number < LAST_PAGES or pypdfium2.raw.FPDFPage_CountObjects(page.raw) <= MAX_PAGE_OBJECTS:
                    try:
                        if not _is_blank(page):
                            codes.update(dict.fromkeys(find_codes(_draw_page(page))))
                    except _PAGE_FAULTS:
                        drawn = []  # the text of the other pages is read all the same
                else:
                    unread = ("pixels",)
        finally:
            document.close()
    except _PAGE_FAULTS:
        pass
    found = make_code_contents(codes, file.path, unread)
    text = budget.take_text("\n".join(pages))
    return msgspec.structs.replace(found, links=(*found.links, *_find_links((text,), file.path, "file")), text=text)


def _read_page_text(page: pypdfium2.PdfPage) -> str:
    on_page = page.get_textpage()
    text: str = on_page.get_text_range(0, min(on_page.count_chars(), MAX_PAGE_TEXT))
    # A hyphen at the end of a line is U+FFFE here (U+0002 in older versions).
    return text.replace("\r\n", "\n").replace("\ufffe", "").replace("\x02", "")


def _choose_pages(count: int) -> list[int]:
    """Return the pages to look at: all of a short document, else the first and the last ones."""
    if count <= MAX_PAGES:
        return list(range(count))
    return [*range(MAX_PAGES - LAST_PAGES), *range(count - LAST_PAGES, count)]


def _is_blank(page: pypdfium2.PdfPage) -> bool:
    """Return whether there is nothing to draw: no object, and no annotation, which may have a drawing of its own."""
    raw = pypdfium2.raw
    return not raw.FPDFPage_CountObjects(page.raw) and not raw.FPDFPage_GetAnnotCount(page.raw)


def _draw_page(page: pypdfium2.PdfPage) -> Image.Image:
    scale = min(MAX_PAGE_SIDE / max(*page.get_size(), 1.0), _MAX_SCALE)
    bitmap = page.render(scale=scale, grayscale=True, may_draw_forms=False)
    image: Image.Image = bitmap.to_pil().convert("L")
    return image


def find_codes_in_drawing(file: File, budget: UnpackBudget) -> Contents:
    """Return the codes that an SVG draws with rectangles and paths."""
    if len(file.content) > MAX_DRAWING:
        return Contents(unread=("pixels",))
    codes: dict[str, None] = {}
    for image in draw_svg(file.content.decode("utf-8", "replace")):
        if not budget.take_image(image.width * image.height):
            return make_code_contents(codes, file.path, ("pixels",))
        codes.update(dict.fromkeys(next(filter(None, map(find_codes, _list_smaller(image))), ())))
        if codes:
            break
    return make_code_contents(codes, file.path)
