"""QR codes among the files of a message: in pictures, on pages, drawn in text, and cut into several pictures.

A code that is cut in two, with the halves side by side in the mail, is whole to a telephone and in no picture. Small
pictures of the same height or width that follow each other are put together and looked at once more.

Codes are also drawn without a picture: with the cells of a table, with boxes, with block characters.
`<td bgcolor=#000>` four hundred times is a code to a telephone and markup to everything that looks for pictures; so are
`█▀▄` in plain text. Both are drawn here as a picture of a few thousand dots and given to the reader of codes. Honest
senders attach or link a picture, so drawing is worth a finding even where the code cannot be read.

Only markup and text with many cells or blocks is looked at, and how much of it is drawn is limited. Cells are taken as
they stand: rows of elements that have a background, as wide as they say. Style sheets count as far as one class gives
a background. Boxes at fixed places, shadows and gradients are drawn where they say; so are the fills of cells in
workbooks. Drawings in SVG that stand in a page are drawn by `svg_drawing`.
"""

import re
from collections.abc import Iterator
from html import unescape
from itertools import chain, islice, pairwise
from urllib.parse import unquote

import msgspec
from PIL import Image, ImageChops, ImageDraw
from selectolax.lexbor import LexborHTMLParser, LexborNode

from gatepost.files.pictures import (
    PictureComparison,
    decode_small,
    find_codes,
    find_codes_in_drawing,
    find_codes_in_image,
    find_codes_in_pages,
    is_image_type,
    make_code_contents,
)
from gatepost.files.svg_drawing import draw_svg
from gatepost.files.values import Contents, File, UnpackBudget
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.encodings.transfer import decode_base64
from gatepost.mail.html.limits import limit_html
from gatepost.mail.html.style import parse_colour
from gatepost.mail.message import DRAWS
from gatepost.process.cpu_account import FILES
from gatepost.speedups import native

MAX_SOURCE = 2_000_000
MAX_NODES = 60_000
MAX_TAGS = 80_000
MAX_DRAWN = 4
MAX_SIDE = 177 + 16  # modules of the largest code, and its margins
MIN_SIDE = 21
MIN_CELLS = 120
SCALE = 4

_EMPTY_CELL = re.compile(rb"<(?:td|th|div|span|[bipus]|em|a)\b[^<>]*+>(?>&nbsp;|\s){0,20}+(?=</|<t[dhr])")
# Cells may hold a letter or two that nobody sees, where each of them has a colour of its own.
_SHORT_CELL = re.compile(rb"<(?:td|th|div|span|[bipus]|em|a)\b[^<>]{0,200}background[^<>]{0,200}>[^<>]{1,2}</")
_BLOCK = re.compile("[\u2580-\u259f\u25a0\u25fc\u2b1b\u26ab\u25cf\u2801-\u28ff]|##|@@|XX")
_BLOCK_BYTES = (b"\xe2\x96", b"\xe2\xac\x9b", b"\xe2\x9a\xab", b"\xe2\x97\x8f")
_DOT_BYTES = (b"\xe2\xa0", b"\xe2\xa1", b"\xe2\xa2", b"\xe2\xa3")
_SIGNS = (b"##", b"@@", b"XX")  # letters that are dark in a drawing of two of them for each module
MANY_SIGNS = 200
_COLOURED = re.compile(
    r"<(font|span|b|i)\b[^<>]{0,200}?color\s{0,3}[=:]\s{0,3}[\"']?([#\w]{1,20})[^<>]{0,200}>([^<]{0,400})</\1>",
    re.IGNORECASE,
)
_BLOCK_ENTITIES = (b"&#96", b"&#x25", b"&#X25")
_LINE_END = re.compile(r"<br\b[^<>]{0,200}>|</(?:p|div|tr|li|pre|text)>|\n", re.IGNORECASE)
_ELEMENT = re.compile(r"<[^<>]*>")
_BACKGROUND = re.compile(r"background(?:-color)?\s{0,5}:\s{0,5}([^;!}\"']{1,60})", re.IGNORECASE)
_BORDER = re.compile(
    r"border(?:-color)?\s{0,5}:[^;]{0,40}?(#[0-9a-f]{3,8}|rgba?\([^)]{1,40}\)|black|white)", re.IGNORECASE
)
_CLASS = re.compile(r"\.([\w-]{1,60})\s{0,5}\{([^{}]{0,1000})\}")
_SIZE = re.compile(r"(?<![\w-])(width|height|left|top)\s{0,5}:\s{0,5}(-?\d{1,5}(?:\.\d{1,3})?)", re.IGNORECASE)
_SHADOW = re.compile(
    r"(-?\d{1,4}(?:\.\d{1,2})?)(?:px|em)?\s{1,3}(-?\d{1,4}(?:\.\d{1,2})?)(?:px|em)?(?:\s{1,3}-?\d{1,4}(?:px|em)?){0,2}"
    r"\s{0,3}(?:#0{3,6}|black|rgba?\(0)",
    re.IGNORECASE,
)
_DARK = 110
# Quarters of a block character that are dark: upper left, upper right, lower left, lower right.
_QUARTERS = {
    "\u2588": 15, "\u2580": 3, "\u2584": 12, "\u258c": 5, "\u2590": 10, "\u2598": 1, "\u259d": 2, "\u2596": 4,
    "\u2597": 8, "\u259a": 9, "\u259e": 6, "\u2599": 13, "\u259b": 7, "\u259c": 11, "\u259f": 14, "\u25a0": 15,
    "\u25fc": 15, "\u2b1b": 15, "\u2593": 15, "\u26ab": 15, "\u25cf": 15, "#": 15, "@": 15, "X": 15,
}  # fmt: skip

Rows = list[list[bool]]
Box = tuple[float, float, float, float]  # left, top, width, height


def may_draw_code(file: File) -> bool:
    """Return whether a text may draw a code: most have neither cells nor a drawing, and cost only this."""
    if file.type not in ("html", "text") and not file.declared.startswith("text/"):
        return False
    if not file.signs & DRAWS:
        return False
    return b"<svg" in file.content or b"svg+xml" in file.content or _has_cells(file.content)


NO_CELLS, HAS_CELLS, SHORT_CELLS = range(3)


def _has_cells(content: bytes) -> bool:
    """Return whether a text has enough cells, blocks, shadows or gradients for a code."""
    found = native.look_for_cells(content) if native else look_for_cells(content)
    if found != SHORT_CELLS:
        return bool(found == HAS_CELLS)
    most = 3 * MIN_CELLS
    return sum(1 for _ in islice(_SHORT_CELL.finditer(content[:MAX_SOURCE].lower()), most)) == most


def look_for_cells(content: bytes) -> int:
    """Return what marks of cells, blocks, shadows and gradients in a text say: `SHORT_CELLS` where only cells with a
    letter or two in them can be enough. The Python twin of `look_for_cells` in `_speedups.c`."""
    if (
        (not content.isascii() and any(content.count(mark) >= MIN_CELLS // 2 for mark in _BLOCK_BYTES))
        or (b"\xe2\xa3" in content and sum(map(content.count, _DOT_BYTES)) >= MIN_CELLS // 2)
        or any(content.count(mark) >= MANY_SIGNS for mark in _SIGNS)
        or (b"&#" in content and any(content.count(mark) >= MIN_CELLS for mark in _BLOCK_ENTITIES))
        or (b"gradient(" in content and content.count(b"#0") + content.count(b"black") >= MIN_CELLS // 2)
    ):
        return HAS_CELLS
    if content.count(b"<") < 2 * MIN_CELLS and b"box-shadow" not in content:
        return NO_CELLS
    low = content[:MAX_SOURCE].lower()
    if b"box-shadow" in low and low.count(b"#0") + low.count(b"black") >= MIN_CELLS:
        return HAS_CELLS
    if sum(low.count(mark) for mark in (b"background", b"bgcolor", b"class=", b"border:")) < MIN_CELLS // 2:
        return NO_CELLS
    if sum(1 for _ in islice(_EMPTY_CELL.finditer(low), MIN_CELLS)) == MIN_CELLS:
        return HAS_CELLS
    return SHORT_CELLS if low.count(b"background") >= 3 * MIN_CELLS else NO_CELLS


def find_drawn_codes(file: File) -> tuple[list[str], int]:
    """Return the texts of codes that are drawn in a text or page, and how many drawings look like a code."""
    text, _ = decode_charset(file.content[:MAX_SOURCE], None)
    found: dict[str, None] = {}
    drawn = 0
    for image, rows in _draw(text) if _has_cells(file.content) else ():
        codes = find_codes(image)
        drawn += bool(codes) or _has_finders(rows)
        found.update(dict.fromkeys(codes))
    if "svg" in text:
        for drawing in _find_svg(text):
            codes = next(filter(None, map(find_codes, draw_svg(drawing))), [])
            drawn += bool(codes)
            found.update(dict.fromkeys(codes))
    return list(found), drawn


_SVG = re.compile(
    r"<svg[\s>]|%3csvg|data:image/svg\+xml;[^,\"'<>\s]{0,60}base64,([A-Za-z0-9+/=]{200,600000})", re.IGNORECASE
)
_SVG_END = re.compile(r"</svg|%3c/svg|%3c%2fsvg", re.IGNORECASE)
MAX_SVG = 600_000


def _find_svg(text: str) -> Iterator[str]:
    """Yield drawings within a page: elements of it, and addresses that hold a whole drawing."""
    place = 0
    for _ in range(MAX_DRAWN):
        start = _SVG.search(text, place)
        if start is None:
            return
        if start[1]:
            yield decode_base64(start[1].encode("ascii")).content.decode("utf-8", "replace")
            place = start.end()
            continue
        end = _SVG_END.search(text, start.end(), start.end() + MAX_SVG)
        place = end.start() if end else min(len(text), start.end() + MAX_SVG)
        piece = text[start.start() : place]
        yield unescape(unquote(piece) if piece[0] == "%" else piece)


def _draw(text: str) -> Iterator[tuple[Image.Image, Rows]]:
    count = 0
    blocks = _read_blocks(text) if _BLOCK.search(text) or "&#96" in text or "&#x25" in text.lower() else ()
    for rows in chain(blocks, _PageDrawings(text).find() if "<" in text else ()):
        size = max(map(len, rows), default=0)
        if MIN_SIDE <= len(rows) <= 2 * MAX_SIDE and MIN_SIDE <= size <= 2 * MAX_SIDE:
            yield _paint(rows, size), rows
            count += 1
        if count >= MAX_DRAWN:
            return


def _paint(rows: Rows, width: int) -> Image.Image:
    image = Image.new("L", (width + 8, len(rows) + 8), 255)
    for y, row in enumerate(rows):
        image.paste(Image.frombytes("L", (len(row), 1), bytes(0 if dark else 255 for dark in row)), (4, 4 + y))
    return image.resize((image.width * SCALE, image.height * SCALE), Image.Resampling.NEAREST)


def _read_blocks(text: str) -> Iterator[Rows]:
    """Yield runs of lines in block characters; whatever else stands in them is light."""
    if "<" in text:
        text = _COLOURED.sub(
            lambda found: found[3] if is_dark_colour(found[2]) else " " * len(unescape(found[3])), text
        )
        text = _ELEMENT.sub("", _LINE_END.sub("\n", text))
    lines = unescape(text).replace("\xa0", " ").split("\n")
    run: list[str] = []
    for line in [*lines, ""]:
        if _BLOCK.search(line) and len(line) <= 4 * MAX_SIDE:
            run.append(line.rstrip("\r"))
            continue
        if len(run) >= MIN_SIDE // 4:
            yield from _expand_blocks(run[: 2 * MAX_SIDE])
        run = []


def _expand_blocks(lines: list[str]) -> Iterator[Rows]:
    """Yield the modules of lines of characters: each is half as wide as it is high."""
    letters = {char for line in lines for char in line}
    if sum("\u2800" < char <= "\u28ff" for char in letters) > 8:
        yield _expand_dots(lines)
        return
    quarters = [[_QUARTERS.get(char, 0) for char in line] for line in lines]
    upper = [[bool(value & bit) for value in row for bit in (1, 2)] for row in quarters]
    lower = [[bool(value & bit) for value in row for bit in (4, 8)] for row in quarters]
    if letters & set("\u2580\u2584"):
        yield [row[::2] for pair in zip(upper, lower, strict=True) for row in pair]
        return
    if letters & set("\u2598\u259d\u2596\u2597\u259a\u259e\u2599\u259b\u259c\u259f"):
        yield [row for pair in zip(upper, lower, strict=True) for row in pair]
        return
    whole = [row[::2] for row in upper]
    yield [row[::2] for row in whole]  # two characters for each module
    yield whole  # one character for each


# Which bits of a character of Braille are dots, by row and column (Unicode chapter 21.1).
_DOTS = ((1, 8), (2, 16), (4, 32), (64, 128))


def _expand_dots(lines: list[str]) -> Rows:
    """Return the modules of lines in Braille: each character is two wide and four high."""
    values = [[ord(char) - 0x2800 if "\u2800" <= char <= "\u28ff" else 0 for char in line] for line in lines]
    return [[bool(value & bit) for value in row for bit in bits] for row in values for bits in _DOTS]


class _PageDrawings:
    """The drawings in one page: rows of elements with a background, boxes at fixed places, shadows."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._nodes = 0
        self._classes = {
            match.group(1): colour.group(1)
            for match in _CLASS.finditer(html)
            if (colour := _BACKGROUND.search(match.group(2)))
        }
        self._boxes: list[Box] = []
        self._around: dict[int, bool] = {}

    def find(self) -> Iterator[Rows]:
        for match in re.finditer(r"box-shadow\s{0,5}:([^;\"'}]{200,400000})", self._html, re.IGNORECASE):
            yield from _paint_boxes([(float(x), float(y), 0, 0) for x, y in _SHADOW.findall(match.group(1))])
        if "gradient(" in self._html:
            yield from _read_gradients(self._html)
        root = LexborHTMLParser(limit_html(self._html, MAX_TAGS, is_strict=True).html).root
        waiting = [root] if root is not None else []
        while waiting and self._nodes < MAX_NODES:
            node = waiting.pop()
            children = list(_list_children(node))
            self._nodes += len(children)
            rows = [row for child in children if (row := self._read_row(child))]
            if len(rows) >= MIN_SIDE:
                yield _normalise(rows)
            elif len(children) >= MIN_SIDE * MIN_SIDE and (flat := self._read_row(node)):
                yield from _fold_row(flat, node)
            else:
                waiting.extend(reversed(children))
        if len(self._boxes) >= MIN_CELLS:
            yield from _paint_boxes(self._boxes)

    def _read_row(self, node: LexborNode) -> list[tuple[int, bool]]:
        """Return the cells of a row, each with its width and whether it is dark; nothing where this is no row."""
        cells: list[tuple[int, bool]] = []
        for count, cell in enumerate(_list_children(node)):
            self._nodes += 1
            if count > MAX_SIDE * MAX_SIDE or self._nodes > MAX_NODES:
                break
            attributes = cell.attributes
            style = attributes.get("style") or ""
            sizes = {name.lower(): float(value) for name, value in _SIZE.findall(style)}
            width = (
                _parse_number(attributes.get("colspan"))
                or _parse_number(attributes.get("width"))
                or int(sizes.get("width", 0))
            )
            dark = self._is_dark(attributes, style, node)
            if dark and "left" in sizes and "top" in sizes:
                self._boxes.append((sizes["left"], sizes["top"], sizes.get("width", 0), sizes.get("height", 0)))
            cells.append((min(width, 4_000) or 1, dark))
        has_both = len({dark for _, dark in cells}) > 1 or len(cells) < 4
        return cells if len(cells) >= 3 and has_both else cells if len(cells) >= MIN_SIDE else []

    def _is_dark(self, attributes: dict[str, str | None], style: str, row: LexborNode) -> bool:
        match = _BACKGROUND.search(style) or _BORDER.search(style)
        colour = match.group(1) if match else attributes.get("bgcolor")
        if not colour:
            names = (attributes.get("class") or "").split()
            colour = next((self._classes[name] for name in names[:8] if name in self._classes), None)
        return is_dark_colour(colour) if colour else self._is_dark_around(row)

    def _is_dark_around(self, row: LexborNode) -> bool:
        """Return whether the row or the table of a cell without a colour is dark."""
        if row.mem_id not in self._around:
            node: LexborNode | None = row
            found = False
            for _ in range(3):
                if node is None:
                    break
                match = _BACKGROUND.search(node.attributes.get("style") or "")
                if colour := match.group(1) if match else node.attributes.get("bgcolor"):
                    found = is_dark_colour(colour)
                    break
                node = node.parent
            self._around[row.mem_id] = found
        return self._around[row.mem_id]


_LENGTH = r"\s{0,3}(-?\d{1,5}(?:\.\d{1,3})?)(?:px|%)?"
_GRADIENT_BOX = re.compile(
    rf"gradient\(\s{{0,3}}(?:#0{{3,6}}|black)\b[^()]{{0,60}}\){_LENGTH}\s{_LENGTH}\s{{0,3}}/{_LENGTH}\s{_LENGTH}",
    re.IGNORECASE,
)
_GRADIENT_ROW = re.compile(r"linear-gradient\(\s{0,3}(?:90deg|to right)\s{0,3},([^()]{40,20000})\)", re.IGNORECASE)
_STOP = re.compile(rf"(#[0-9a-f]{{3,8}}|[a-z]{{3,20}})(?:{_LENGTH})?(?:\s{_LENGTH})?", re.IGNORECASE)


def _read_gradients(html: str) -> Iterator[Rows]:
    """Yield the modules of gradients (CSS Images section 3): dark boxes at places, or rows with sharp stops."""
    boxes = [tuple(map(float, found)) for found in islice(_GRADIENT_BOX.findall(html), MAX_SIDE * MAX_SIDE)]
    yield from _paint_boxes([(x, y, width, height) for x, y, width, height in boxes])
    rows = [row for found in islice(_GRADIENT_ROW.findall(html), MAX_SIDE) if (row := _read_stops(found))]
    if len(rows) >= MIN_SIDE:
        yield _normalise(rows)


def _read_stops(text: str) -> list[tuple[int, bool]]:
    """Return the spans of one gradient, each with its width in hundredths and whether it is dark."""
    stops: list[tuple[str, float]] = []
    for colour, first, second in islice(_STOP.findall(text), 4 * MAX_SIDE):
        stops += [(colour, float(place)) for place in (first, second) if place]
    spans = [(end - start, one) for (one, start), (other, end) in pairwise(stops) if one == other and end > start]
    return [(max(1, round(100 * width)), is_dark_colour(colour)) for width, colour in spans]


def is_dark_colour(colour: str) -> bool:
    """Return whether a colour of a style is dark."""
    shade = parse_colour(colour)
    return shade is not None and shade >= 0 and (shade >> 16) * 3 + (shade >> 8 & 255) * 6 + (shade & 255) < 10 * _DARK


def _list_children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.first_child
    while child is not None:
        if (child.tag or "-").isalnum() and child.tag not in ("br", "style", "script", "head"):
            yield child
        child = child.next


def _parse_number(value: str | None) -> int:
    digits = (value or "").strip().removesuffix("px")
    return int(digits) if digits.isdecimal() and len(digits) < 6 else 0


def _normalise(rows: list[list[tuple[int, bool]]]) -> Rows:
    """Return the rows in modules: the narrowest cell is one wide."""
    unit = min((width for row in rows for width, _ in row), default=1)
    found: Rows = []
    for row in rows[: 2 * MAX_SIDE]:
        modules: list[bool] = []
        for width, dark in row:
            modules += [dark] * min(max(1, round(width / unit)), MAX_SIDE)
            if len(modules) > 2 * MAX_SIDE:
                break
        found.append(modules)
    return found


def _fold_row(row: list[tuple[int, bool]], node: LexborNode) -> Iterator[Rows]:
    """Yield the modules of one long row that its container breaks into lines."""
    sizes = {name.lower(): float(value) for name, value in _SIZE.findall(node.attributes.get("style") or "")}
    side = round(len(row) ** 0.5)
    columns = round(sizes.get("width", 0) / row[0][0]) if sizes.get("width") else side
    for width in dict.fromkeys((columns, side)):
        if MIN_SIDE <= width <= MAX_SIDE:
            yield [[dark for _, dark in row[start : start + width]] for start in range(0, len(row), width)][:MAX_SIDE]


def _paint_boxes(boxes: list[Box]) -> Iterator[Rows]:
    """Yield the modules of dark boxes at fixed places: the smallest distance between two is one module."""
    if len(boxes) < MIN_CELLS:
        return
    across, down = sorted({box[0] for box in boxes}), sorted({box[1] for box in boxes})
    unit = min((after - before for axis in (across, down) for before, after in pairwise(axis)), default=1.0)
    image = Image.new("1", (2 * MAX_SIDE, 2 * MAX_SIDE))
    draw = ImageDraw.Draw(image)
    for x, y, width, height in boxes[: MAX_SIDE * MAX_SIDE]:
        left, top = round((x - across[0]) / unit), round((y - down[0]) / unit)
        if left < 2 * MAX_SIDE and top < 2 * MAX_SIDE:
            size = (min(max(0, round(side / unit) - 1), MAX_SIDE) for side in (width, height))
            draw.rectangle((left, top, left + next(size), top + next(size)), fill=1)
    if (box := image.getbbox()) is not None:
        flat = image.crop((0, 0, box[2], box[3])).convert("L").tobytes()
        yield [[value > 0 for value in flat[start : start + box[2]]] for start in range(0, len(flat), box[2])]


_FINDER = ("1111111", "1000001", "1011101", "1011101", "1011101", "1000001", "1111111")


def _has_finders(rows: Rows) -> bool:
    """Return whether the modules have two of the three marks in the corners of a code (ISO/IEC 18004 section 6.3.3)."""
    lines = ["".join("1" if dark else "0" for dark in row) for row in rows]
    found = 0
    for start in range(max(0, len(lines) - 6)):
        place = lines[start].find(_FINDER[0])
        while place >= 0 and found < 2:
            found += all(lines[start + row].startswith(mark, place) for row, mark in enumerate(_FINDER))
            place = lines[start].find(_FINDER[0], place + 1)
    return found >= 2


MAX_SHEETS = 4
_FILL = re.compile(rb"<(?:\w{1,9}:)?fill>(.{0,600}?)</(?:\w{1,9}:)?fill>", re.DOTALL)
_DARK_FILL = re.compile(
    rb"(?:fgColor|color)\b[^<>]{0,100}(?:rgb=[\"'](?:[0-9A-Fa-f]{2})?([0-9A-Fa-f]{6})[\"']"
    rb"|(indexed=[\"'](?:0|8|64)[\"']|theme=[\"']1[\"']))"
)
_DARK_PATTERNS = (b"solid", b"dark", b"gradientFill")
_FORMAT = re.compile(rb"<(?:\w{1,9}:)?xf\b[^<>]{0,600}?fillId=[\"'](\d{1,5})[\"']")
_CELL = re.compile(rb"<(?:\w{1,9}:)?c ([^<>]{1,200})>(?:<(?:\w{1,9}:)?(?:v|is)>|)")
_CELL_PLACE = re.compile(rb"\br=[\"']([A-Z]{1,3})(\d{1,6})[\"']")
_CELL_FORMAT = re.compile(rb"\bs=[\"'](\d{1,5})[\"']")


def find_codes_in_sheets(files: list[File]) -> Iterator[tuple[int, Contents]]:
    """Yield the codes in the fills of a workbook's cells (ECMA-376 part 1, section 18.8), with the sheet's place."""
    parts = [(place, file) for place, file in enumerate(files) if file.within and file.type in ("xml", "text")]
    books = {file.within: _find_dark(file.content) for _, file in parts if b"<cellXfs" in file.content}
    sheets = [
        place
        for place, file in parts
        if file.within in books and b"<sheetData" in file.content and file.content.count(b"<c ") >= MIN_CELLS
    ]
    for place in sheets[:MAX_SHEETS]:
        for rows in _read_sheet(files[place].content, books[files[place].within]):
            width = max(map(len, rows))
            turned = [[not dark for dark in (*row, *[False] * (width - len(row)))] for row in rows]
            if codes := find_codes(_paint(rows, width)) or find_codes(_paint(turned, width)):
                yield place, make_code_contents(codes, files[place].path, drawn="cells of a sheet")


def _read_sheet(content: bytes, dark: frozenset[int]) -> Iterator[Rows]:
    """Yield the modules that the cells of a sheet draw: those with a dark fill, and those that are filled in, where a
    condition gives them a colour or they hold block characters."""
    filled: list[Box] = []
    written: list[Box] = []
    for cell in islice(_CELL.finditer(content), MAX_SIDE * MAX_SIDE):
        place, form = _CELL_PLACE.search(cell[1]), _CELL_FORMAT.search(cell[1])
        if place is None:
            continue
        box = (_number_column(place[1]), float(place[2]), 1.0, 1.0)
        if form and int(form[1]) in dark:
            filled.append(box)
        if not cell[0].endswith(b"/>") and not cell[1].endswith(b"/"):
            written.append(box)
    yield from _paint_boxes(filled)
    if b"conditionalFormatting" in content or any(content.count(mark) >= MIN_CELLS for mark in _BLOCK_BYTES):
        yield from _paint_boxes(written)


def _find_dark(styles: bytes) -> frozenset[int]:
    """Return the numbers of the cell formats with a dark fill."""
    fills = [_is_dark_fill(each) for each in islice(_FILL.findall(styles), 2_000)]
    formats = _FORMAT.findall(styles.partition(b"<cellXfs")[2].partition(b"</cellXfs")[0])[:5_000]
    return frozenset(number for number, fill in enumerate(formats) if int(fill) < len(fills) and fills[int(fill)])


def _is_dark_fill(fill: bytes) -> bool:
    found = _DARK_FILL.search(fill)
    if found is None or not any(pattern in fill for pattern in _DARK_PATTERNS):
        return False
    return bool(found[2]) or is_dark_colour(f"#{found[1].decode()}")


def _number_column(letters: bytes) -> float:
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return float(number)


MAX_PIECES = 25
MAX_JOINED = 12
MAX_ARRANGED = 1_600
MAX_TEXTS = 3
SLACK = 2


def find_qr_codes(files: tuple[File, ...], budget: UnpackBudget | None = None) -> tuple[File, ...]:
    """Return the files, with traits and links added to those that show QR codes; the same bytes are looked at once."""
    budget = budget or UnpackBudget()
    known: dict[str, Contents] = {}
    seen: list[File] = []
    pieces: list[int] = []
    texts, compared = 0, PictureComparison()
    for file in files:
        found = known.get(file.sha256)
        is_image = is_image_type(file.type)
        is_reading = is_image and found is None and "~" in file.path
        if is_reading and any(compared.shows_same(file, seen[place]) for place in pieces):
            # Another reading of a picture that shows nothing.
            seen.append(file)
            continue
        if found is None:
            find = find_codes_in_image if is_image else _READERS.get(file.type)
            if find is None and not may_draw_code(file):
                seen.append(file)
                continue
            texts += find is None
            if find is None and texts > MAX_TEXTS:
                found = Contents(unread=("pixels",))
            else:
                found = budget.cpu.attempt(FILES, Contents(), find or _find_in_text, file, budget)
            known[file.sha256] = found
        if is_image and not found.traits and not found.unread:
            pieces.append(len(seen))
        seen.append(_add_findings(file, found))
    for place, found in list(find_codes_in_sheets(seen)) if any(file.within for file in seen) else ():
        seen[place] = _add_findings(seen[place], found)
    for place, found in _join_pieces(seen, pieces[:MAX_PIECES]) if len(pieces) > 1 else ():
        seen[place] = _add_findings(seen[place], found)
    return tuple(seen)


def _find_in_svg(file: File, budget: UnpackBudget) -> Contents:
    """Return the codes of a drawing: those that it draws, and those in the text or the tables of pages within it."""
    found = find_codes_in_drawing(file, budget)
    return _find_in_text(file, budget) if not found.traits and not found.unread and _has_cells(file.content) else found


_READERS = {"pdf": find_codes_in_pages, "svg": _find_in_svg}


def _find_in_text(file: File, _budget: UnpackBudget) -> Contents:
    codes, drawn = find_drawn_codes(file)
    return make_code_contents(codes, file.path, drawn="cells or characters" if drawn else "")


def _join_pieces(files: list[File], pieces: list[int]) -> list[tuple[int, Contents]]:
    """Return what is found in neighbouring pictures that are put together, each with the place of the first."""
    images = {place: image for place in pieces if (image := decode_small(files[place])) is not None}
    drawn = {place: image for place, image in images.items() if _is_two_toned(image)}
    if len(drawn) > 2:  # the margin of a code may be a piece of its own
        drawn = {place: image for place, image in images.items() if place in drawn or _is_light(image)}
    for place, image in islice(_arrange(drawn), 2 * MAX_JOINED):
        if codes := find_codes(image):
            return [(place, make_code_contents(codes, files[place].path, drawn=f"{len(drawn)} pictures"))]
    return []


def _is_two_toned(image: Image.Image) -> bool:
    """Return whether nearly all dots are dark or light, and some are each: a code is so, a photograph is not."""
    counts = image.histogram()
    dark, light, every = sum(counts[:90]), sum(counts[166:]), image.width * image.height
    return dark + light > 0.85 * every and dark > 0.02 * every and light > 0.05 * every


def _is_light(image: Image.Image) -> bool:
    return sum(image.histogram()[166:]) > 0.98 * image.width * image.height


def _arrange(images: dict[int, Image.Image]) -> Iterator[tuple[int, Image.Image]]:
    """Yield the pictures put together, each with the place of the first: runs of one size as strips and as rows of
    rows, neighbours side by side and one above the other in both orders, and one upon the other."""
    places = list(images)
    for run in _find_runs(images):
        yield from ((run[0], image) for image in _arrange_run([images[place] for place in run]))
    for one, other in pairwise(places):
        pair = [images[one], images[other]]
        for first, second in (pair, pair[::-1]):
            if abs(first.height - second.height) <= SLACK:
                yield one, _paste([first, second], [(0, 0), (first.width, 0)])
            if abs(first.width - second.width) <= SLACK:
                yield one, _paste([first, second], [(0, 0), (0, first.height)])
        if pair[0].size == pair[1].size:
            yield one, _paste([ImageChops.darker(*pair)], [(0, 0)])


def _find_runs(images: dict[int, Image.Image]) -> Iterator[list[int]]:
    """Yield runs of three or more pictures of the same width and height, or of one of both, the longest first."""
    places = list(images)
    runs: list[list[int]] = []
    for sides in ((0, 1), (1,), (0,)):
        run = places[:1]
        for place in places[1:]:
            if any(abs(images[run[0]].size[side] - images[place].size[side]) > SLACK for side in sides):
                runs.append(run)
                run = []
            run = [*run, place]
        runs.append(run)
    unique = {tuple(run): run for run in runs if len(run) > 2}
    yield from sorted(unique.values(), key=lambda run: -len(run))


def _arrange_run(images: list[Image.Image]) -> Iterator[Image.Image]:
    """Yield a run of pictures in rows of every length that fits."""
    count = len(images)
    for columns in sorted(range(1, count + 1), key=lambda columns: abs(columns * columns - count)):
        if count % columns:
            continue
        rows = [images[start : start + columns] for start in range(0, count, columns)]
        places: list[tuple[int, int]] = []
        top = 0
        for row in rows:
            left = 0
            for image in row:
                places.append((left, top))
                left += image.width
            top += row[0].height
        if max(top, left) <= MAX_ARRANGED:
            yield _paste(images, places)


def _paste(images: list[Image.Image], places: list[tuple[int, int]]) -> Image.Image:
    pairs = list(zip(images, places, strict=True))
    size = (max(x + image.width for image, (x, _) in pairs), max(y + image.height for image, (_, y) in pairs))
    paper = Image.new("L", (size[0] + 16, size[1] + 16), 255)
    for image, (x, y) in pairs:
        paper.paste(image, (x + 8, y + 8))
    return paper


def _add_findings(file: File, found: Contents) -> File:
    return msgspec.structs.replace(
        file,
        unread=tuple(dict.fromkeys((*file.unread, *found.unread))),
        traits=(*file.traits, *found.traits),
        links=(*file.links, *found.links),
        text=file.text or found.text,
    )
