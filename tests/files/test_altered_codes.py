"""Codes that are faint, coloured, skewed, damaged, made of dots, or in parts, and every way to draw one in SVG, cells
and letters. What a telephone reads is found; the cost of a picture without a code is bounded."""

import base64
import io
import zipfile
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
import zxingcpp
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageOps

from gatepost.files import pictures, qr_codes
from gatepost.files.qr_codes import find_qr_codes
from gatepost.files.values import MAX_SMALL_IMAGES, File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part
from gatepost.mail.reader import read

ADDRESS = "https://evil.example/login?c=4711"
Colour = int | tuple[int, int, int]


def make_modules(text: str = ADDRESS, level: str = "L", kind: Any = zxingcpp.BarcodeFormat.QRCode) -> list[list[bool]]:
    drawn: Any = zxingcpp.create_barcode(text, kind, **({"ec_level": level} if level else {})).to_image(
        scale=1, add_quiet_zones=False
    )
    height, width = drawn.shape
    cells = bytes(drawn)
    return [[not cells[y * width + x] for x in range(width)] for y in range(height)]


CODE = make_modules()
SIDE = len(CODE)
DARK = [(x, y) for y in range(SIDE) for x in range(SIDE) if CODE[y][x]]


def draw(
    rows: list[list[bool]] = CODE, dark: Colour = 0, light: Colour = 255, scale: int = 6, margin: int = 4
) -> Image.Image:
    mode = "L" if isinstance(dark, int) else "RGB"
    image = Image.new(mode, ((len(rows[0]) + 2 * margin) * scale, (len(rows) + 2 * margin) * scale), light)
    pen = ImageDraw.Draw(image)
    for y, row in enumerate(rows):
        for x, value in enumerate(row):
            if value:
                left, top = (x + margin) * scale, (y + margin) * scale
                pen.rectangle((left, top, left + scale - 1, top + scale - 1), fill=dark)
    return image


def save(image: Image.Image, number: int = 1) -> File:
    out = io.BytesIO()
    image.save(out, "PNG")
    name = f"{number}.png"
    return File(f"{number}/{name}", out.getvalue(), "png", sha256(out.getvalue()).hexdigest(), (name,))


def find(*files: File) -> set[str]:
    return {link.host for file in find_qr_codes(files, UnpackBudget()) for link in file.links}


def _scratch() -> Image.Image:
    image = draw(make_modules(level="H"))
    ImageDraw.Draw(image).line((80, 150, 170, 120), fill=255, width=8)
    return image


def _logo() -> Image.Image:
    image = draw(make_modules(level="H"), (0, 0, 0), (255, 255, 255))
    middle = image.width // 2
    ImageDraw.Draw(image).rectangle((middle - 26, middle - 26, middle + 26, middle + 26), fill=(230, 40, 40))
    return image


def _dots(share: float) -> Image.Image:
    image = Image.new("L", ((SIDE + 8) * 12,) * 2, 255)
    pen, gap = ImageDraw.Draw(image), 12 * (1 - share) / 2
    for x, y in DARK:
        left, top = (x + 4) * 12, (y + 4) * 12
        pen.ellipse((left + gap, top + gap, left + 12 - gap, top + 12 - gap), fill=0)
    return image


def _perspective() -> Image.Image:
    image = ImageOps.expand(draw(scale=8), 130, 255)
    side = image.width
    form = (1.3, 0, -0.15 * side, 0, 1.3, 0, 0, 0.6 / side)
    return image.transform((side, side), Image.Transform.PERSPECTIVE, form, Image.Resampling.BICUBIC, fillcolor=255)


def _opacity(image: Image.Image, value: int) -> Image.Image:
    return Image.merge("RGBA", [Image.new("L", image.size, value)] * 3 + [image])


ALTERED: dict[str, Callable[[], Image.Image]] = {
    "light on dark": lambda: draw(dark=255, light=0),
    "without a margin": lambda: draw(margin=0),
    "faint": lambda: draw(dark=215, light=235),
    "very faint": lambda: draw(dark=250, light=253),
    "faint and dark": lambda: draw(dark=5, light=20),
    "red and green of one brightness": lambda: draw(CODE, (255, 0, 0), (0, 130, 0)),
    "blue and brown of one brightness": lambda: draw(CODE, (0, 0, 255), (97, 0, 0)),
    "cyan and magenta": lambda: draw(CODE, (0, 180, 180), (255, 60, 255)),
    "yellow on white": lambda: draw(CODE, (255, 240, 0), (255, 255, 255)),
    "opacity alone": lambda: _opacity(draw(), 255),
    "light and opaque": lambda: _opacity(ImageOps.invert(draw()), 255),
    "dark and opaque": lambda: _opacity(ImageOps.invert(draw()), 0),
    "scratched": _scratch,
    "with a logo": _logo,
    "turned": lambda: draw().rotate(33, expand=True, fillcolor=255, resample=Image.Resampling.BICUBIC),
    "mirrored": lambda: ImageOps.mirror(draw()),
    "slanted": lambda: draw().transform((500, 300), Image.Transform.AFFINE, (1, 0.5, -120, 0, 1, 0), fillcolor=255),
    "seen from the side": _perspective,
    "stretched": lambda: draw().resize((600, 200)),
    "blurred": lambda: draw().filter(ImageFilter.GaussianBlur(2.5)),
    "dots": lambda: _dots(0.8),
    "small dots": lambda: _dots(0.35),
    "one dot a module": lambda: draw(scale=1),
    "small code": lambda: draw(make_modules("EVIL.EXAMPLE", "", zxingcpp.BarcodeFormat.MicroQRCode)),
    "flat code": lambda: draw(make_modules(ADDRESS, "", zxingcpp.BarcodeFormat.RMQRCode)),
    "no scheme": lambda: draw(make_modules("evil.example/login")),
    "no scheme, capitals": lambda: draw(make_modules("WWW.EVIL.EXAMPLE/LOGIN")),
    "no scheme, among words": lambda: draw(make_modules("Scan: evil.example/login")),
}


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_code_is_read(name: str) -> None:
    assert {host.removeprefix("www.") for host in find(save(ALTERED[name]()))} == {"evil.example"}


def _cut(across: int, down: int) -> list[Image.Image]:
    image = draw()
    width, height = image.size
    return [
        image.crop((width * x // across, height * y // down, width * (x + 1) // across, height * (y + 1) // down))
        for y in range(down)
        for x in range(across)
    ]


def _layers() -> list[Image.Image]:
    image = ImageOps.invert(draw())
    left = image.copy()
    left.paste(0, (image.width // 2, 0, image.width, image.height))
    return [_opacity(left, 0), _opacity(ImageChops.subtract(image, left), 0)]


PARTS: dict[str, Callable[[], list[Image.Image]]] = {
    "halves": lambda: _cut(2, 1),
    "halves in the other order": lambda: _cut(2, 1)[::-1],
    "a photograph between halves": lambda: [_cut(1, 2)[0], Image.effect_noise((150, 60), 60), _cut(1, 2)[1]],
    "three columns": lambda: _cut(3, 1),
    "five strips": lambda: _cut(1, 5),
    "ten strips": lambda: _cut(1, 10),
    "four": lambda: _cut(2, 2),
    "nine": lambda: _cut(3, 3),
    "sixteen": lambda: _cut(4, 4),
    "one upon the other": _layers,
}


@pytest.mark.parametrize("name", PARTS)
def test_a_code_in_parts_is_read(name: str) -> None:
    files = [save(image, number) for number, image in enumerate(PARTS[name]())]
    assert find(*files) == {"evil.example"}
    assert any(file.seen("drawn-code") for file in find_qr_codes(tuple(files)))


def test_a_code_in_a_late_frame_is_read() -> None:
    frames = [Image.new("L", (200, 200), shade) for shade in (255, 250, 245, 240, 235)] + [draw().resize((200, 200))]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=500)
    assert find(File("1/a.gif", out.getvalue(), "gif", "0" * 64, ("a.gif",))) == {"evil.example"}


def test_pictures_without_a_code_cost_a_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[tuple[int, int]] = []
    real = pictures.find_codes

    def look(image: Image.Image) -> list[str]:
        looks.append(image.size)
        return real(image)

    monkeypatch.setattr(pictures, "find_codes", look)
    find(save(Image.effect_noise((600, 400), 60)))
    assert len(looks) == 4
    assert sum(width * height for width, height in looks[1:]) < 15_000
    looks.clear()
    find(*(save(Image.new("L", (30, 30), number), number) for number in range(100)))
    assert len(looks) <= MAX_SMALL_IMAGES


def test_readings_of_one_picture_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[tuple[int, int]] = []
    real = pictures.find_codes

    def look(image: Image.Image) -> list[str]:
        looks.append(image.size)
        return real(image)

    def make_reading(label: str, content: bytes) -> File:
        return File(f"1.2{label}/a.gif", content, "gif", sha256(content).hexdigest(), ("a.gif",))

    out = io.BytesIO()
    Image.effect_noise((300, 200), 60).save(out, "GIF")
    whole = out.getvalue()
    first = make_reading("", whole)
    tails = [make_reading("~to-padding", whole[:-1]), make_reading("~padding-ignored", whole[:-1] + b"\x0e\xc0")]
    monkeypatch.setattr(pictures, "find_codes", look)
    monkeypatch.setattr(qr_codes, "find_codes", look)
    find(first)
    once = len(looks)
    find_qr_codes((make_reading("", whole + b"\0"), *tails))
    assert len(looks) == 2 * once
    # One that shows something else is looked at.
    find_qr_codes((first, make_reading("~to-padding", whole[:-60])))
    assert len(looks) > 2 * once


def test_readings_that_all_differ_are_compared_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[File] = []

    def note(file: File, _look: object) -> tuple[object, ...]:
        decoded.append(file)
        return (file.sha256,)

    monkeypatch.setattr(pictures, "_look_at", note)
    content = save(draw()).content
    width, height = pictures.read_dimensions(content, "png")
    readings = [File("1~x", content + bytes([number]), "png", str(number), ()) for number in range(60)]
    compared = pictures.PictureComparison(10 * width * height)
    assert not any(compared.shows_same(one, other) for one in readings for other in readings if one is not other)
    assert len(decoded) == 20, "ten pairs, and no more"
    bomb = content[:16] + (60_000).to_bytes(4) * 2 + content[24:]
    files = [File("1~x", bomb + bytes([number]), "png", str(number), ()) for number in range(2)]
    assert not pictures.PictureComparison(1 << 40).shows_same(*files)
    assert len(decoded) == 20


def test_a_code_in_the_last_bytes_of_one_reading_is_read() -> None:
    file = save(draw())
    hidden = File("1/a.png", file.content[:-40], "png", "1" * 64, ("a.png",))
    other = File("1~padding-ignored/a.png", file.content, "png", "2" * 64, ("a.png",))
    assert find(hidden, other) == {"evil.example"}


def svg(inner: str, head: str = "") -> str:
    size = SIDE + 8
    space = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    paper = f'<rect width="{size}" height="{size}" fill="#fff"/>'
    return f'<svg {space} viewBox="0 0 {size} {size}">{head}{paper}{inner}</svg>'


def each(form: str) -> str:
    return "".join(form.format(x=x + 4, y=y + 4, cx=x + 4.5, cy=y + 4.5) for x, y in DARK)


def _dash(row: list[bool]) -> str:
    lengths, place = ["0"], 0
    for x, value in enumerate([*row, False]):
        if value != (len(lengths) % 2 == 0):
            lengths.append(str(x - place))
            place = x
    return " ".join([*lengths, "0", "999"]) if len(lengths) % 2 == 0 else " ".join([*lengths, "999"])


SQUARES = each('<rect x="{x}" y="{y}" width="1" height="1"/>')
AREA = f'width="{SIDE + 8}" height="{SIDE + 8}"'
DRAWINGS = {
    "circles": svg(each('<circle cx="{cx}" cy="{cy}" r=".5"/>')),
    "ellipses": svg(each('<ellipse cx="{cx}" cy="{cy}" rx=".5" ry=".5"/>')),
    "arcs": svg('<path d="' + each("M{x} {cy}a.5 .5 0 1 0 1 0a.5 .5 0 1 0 -1 0") + '"/>'),
    "pattern": svg(f'<rect {AREA} fill="url(#p)"/>', f'<pattern id="p" {AREA}>{SQUARES}</pattern>'),
    "mask": svg(f'<rect {AREA} mask="url(#m)"/>', f'<mask id="m"><g fill="#fff">{SQUARES}</g></mask>'),
    "clip": svg(f'<rect {AREA} clip-path="url(#m)"/>', f'<clipPath id="m">{SQUARES}</clipPath>'),
    "marker": svg(
        '<path fill="none" marker="url(#k)" d="M' + " L".join(f"{x + 4.5} {y + 4.5}" for x, y in DARK) + '"/>',
        '<marker id="k" refX=".5" refY=".5"><rect width="1" height="1"/></marker>',
    ),
    "dashes": svg(
        "".join(
            f'<path d="M4 {y + 4.5}H{SIDE + 4}" style="stroke:#000;stroke-width:1;stroke-dasharray:{_dash(row)}"/>'
            for y, row in enumerate(CODE)
        )
    ),
    "places in styles": svg(each('<rect style="x:{x}px;y:{y}px;width:1px;height:1px"/>')),
    "moves in styles": svg(each('<rect width="1" height="1" style="transform:translate({x}px,{y}px)"/>')),
    "uses of uses": svg('<use href="#a"/>', f'<defs><g id="b">{SQUARES}</g><use id="a" href="#b"/></defs>'),
    "table in a drawing": svg(
        "<foreignObject><table>"
        + "".join(
            "<tr>" + "".join(f'<td bgcolor="{"#000" if value else "#fff"}"></td>' for value in row) + "</tr>"
            for row in CODE
        )
        + "</table></foreignObject>"
    ),
    "letters in a drawing": svg(
        "".join("<text>" + "".join("██" if value else "  " for value in row) + "</text>" for row in CODE)
    ),
}


def find_in_mail(name: str, content: bytes) -> set[str]:
    files = find_files(Message(parts=(Part("1", names=(name,), content=content),)))
    return {link.host for file in find_qr_codes(files, UnpackBudget()) for link in file.links}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_code_in_a_drawing_is_read(name: str) -> None:
    assert "evil.example" in find_in_mail("a.svg", DRAWINGS[name].encode())


def _table(cell: Callable[[bool], str], start: str = "<table>") -> str:
    return start + "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in CODE) + "</table>"


def _lines(dark: str, light: str) -> str:
    return "\n".join("".join(dark if value else light for value in row) for row in CODE)


def _braille() -> str:
    bits = {(0, 0): 1, (0, 1): 2, (0, 2): 4, (1, 0): 8, (1, 1): 16, (1, 2): 32, (0, 3): 64, (1, 3): 128}
    signs: dict[tuple[int, int], int] = {}
    for x, y in DARK:
        signs[x // 2, y // 4] = signs.get((x // 2, y // 4), 0) + bits[x % 2, y % 4]
    return "\n".join(
        "".join(chr(0x2800 + signs.get((x, y), 0)) for x in range(SIDE // 2 + 1)) for y in range(SIDE // 4 + 1)
    )


TEXTS = {
    "light cells of a dark table": (
        "a.html", _table(lambda value: "<td>" if value else "<td bgcolor=#fff>", "<table bgcolor=#000>"),
    ),
    "borders": ("a.html", _table(lambda value: f'<td style="border:3px solid {"#000" if value else "#fff"}"></td>')),
    "letters of their own colour": (
        "a.html",
        _table(lambda value: f'<td style="background:{"#000;color:#000" if value else "#fff;color:#fff"}">XX</td>'),
    ),
    "letters by colour": (
        "a.html",
        "<pre>" + "<br>".join(
            "".join(f"<font color={'#000' if value else '#fff'}>██</font>" for value in row) for row in CODE
        ) + "</pre>",
    ),
    "dots of Braille": ("a.txt", _braille()),
    "signs": ("a.txt", _lines("##", "  ")),
    "circles": ("a.txt", _lines("⚫", "⚪")),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_code_of_cells_or_letters_is_read(name: str) -> None:
    file, text = TEXTS[name]
    assert "evil.example" in find_in_mail(file, text.encode())


@pytest.mark.parametrize("name", [name for name, (file, _) in TEXTS.items() if file == "a.txt"])
def test_a_code_of_letters_in_the_text_of_a_mail_is_read(name: str) -> None:
    raw = (
        b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" + TEXTS[name][1].encode()
    )
    files = find_qr_codes(find_files(read(raw)))
    assert [link.host for file in files for link in file.links if link.source == "qr"] == ["evil.example"]


def _column(number: int) -> str:
    return chr(64 + number) if number <= 26 else f"A{chr(64 + number - 26)}"


def make_book(
    fill: str = "", cell: str = '<c r="{}" s="1"/>', *, light: str = "", more: str = "", is_turned: bool = False
) -> bytes:
    fill = fill or '<fill><patternFill patternType="solid"><fgColor rgb="FF000000"/></patternFill></fill>'
    rows = ""
    for y, row in enumerate(CODE):
        cells = (
            (cell if value != is_turned else light).format(f"{_column(x)}{y + 3}") for x, value in enumerate(row, 1)
        )
        rows += f"<row>{''.join(cells)}</row>"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("[Content_Types].xml", "<Types/>")
        book.writestr("xl/workbook.xml", "<workbook/>")
        book.writestr(
            "xl/styles.xml",
            f"<styleSheet><fills><fill><patternFill/></fill>{fill}</fills>"
            '<cellXfs><xf fillId="0"/><xf fillId="1"/></cellXfs></styleSheet>',
        )
        book.writestr("xl/worksheets/sheet1.xml", f"<worksheet><sheetData>{rows}</sheetData>{more}</worksheet>")
    return out.getvalue()


def _fill(colour: str, pattern: str = "solid") -> str:
    return f'<fill><patternFill patternType="{pattern}"><fgColor {colour}/></patternFill></fill>'


BOOKS = {
    "fills": make_book(),
    "fills, and cells without": make_book(light='<c r="{}" s="0"/>'),
    "other order": make_book(cell='<c s="1" r="{}"/>'),
    "other quotes": make_book(cell="<c r='{}' s='1'></c>"),
    "colour of the system": make_book(_fill('indexed="64"')),
    "colour of the theme": make_book(_fill('theme="1"')),
    "short colour": make_book(_fill('rgb="000000"')),
    "nearly black": make_book(_fill('rgb="FF101010"')),
    "dark pattern": make_book(_fill('rgb="FF000000"', "darkGray")),
    "gradient": make_book('<fill><gradientFill><stop><color rgb="FF000000"/></stop></gradientFill></fill>'),
    "light on dark": make_book(is_turned=True),
    "block characters": make_book(cell='<c r="{}" t="inlineStr"><is><t>█</t></is></c>'),
    "by a condition": make_book(cell='<c r="{}"><v>1</v></c>', more="<conditionalFormatting/>"),
}


@pytest.mark.parametrize("name", BOOKS)
def test_a_code_of_the_cells_of_a_sheet_is_read(name: str) -> None:
    assert "evil.example" in find_in_mail("a.xlsx", BOOKS[name])


def test_light_fills_of_a_sheet_are_no_code() -> None:
    assert find_in_mail("a.xlsx", make_book(_fill('rgb="FFF0F0F0"'))) == set()


def test_a_code_of_a_picture_in_a_drawing_is_read() -> None:
    picture = base64.b64encode(save(draw()).content).decode()
    drawing = svg(f'<image width="40" height="40" href="data:image/png;base64,{picture}"/>')
    assert "evil.example" in find_in_mail("a.svg", drawing.encode())
