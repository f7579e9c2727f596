"""Squares and paths of an SVG drawn in black on white, as far as it takes to read a QR code.

A code in SVG is some hundred rectangles, or one path of horizontal and vertical lines; curves and texts are no part of
it and are passed over. Transformations are not applied: a code is drawn in one system of coordinates, and which one
does not matter. The size of the picture and the number of shapes are limited, whatever the file claims.
"""

import re
from itertools import islice

from PIL import Image, ImageDraw

MAX_SHAPES = 20_000
MAX_STEPS = 200_000
SIDE, MARGIN = 800, 40
_SHAPE = re.compile(r"<(rect|path)\b((?:[^<>\"']|\"[^\"<]*\"|'[^'<]*'){0,200}+)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([\w:-]{1,30})\s{0,5}=\s{0,5}(?:\"([^\"]*)\"|'([^']*)')")
_STEP = re.compile(r"([MmLlHhVvZzCcSsQqTtAa])|(-?(?:\d{1,9}\.?\d{0,9}|\.\d{1,9})(?:e-?\d{1,2})?)")
_WHITE = frozenset({"#fff", "#ffffff", "white", "transparent"})
_TAKES = {"m": 2, "l": 2, "h": 1, "v": 1, "c": 6, "s": 4, "q": 4, "t": 2, "a": 7}

Point = tuple[float, float]
Shape = tuple[list[Point], int, bool]  # corners, brightness, whether it is only a line


def draw_svg(text: str) -> Image.Image | None:
    """Return the drawing in grey; None where there is nothing that could be a code."""
    shapes: list[Shape] = []
    steps = MAX_STEPS
    for match in islice(_SHAPE.finditer(text), MAX_SHAPES):
        values = {name.lower(): one or other for name, one, other in _ATTRIBUTE.findall(match[2])}
        if match[1].lower() == "rect":
            shapes += _read_rectangle(values)
        elif steps > 0:
            data = values.get("d", "")[: steps * 4]
            steps -= len(data) // 2
            shapes += _read_path(data, values)
    dark = [point for corners, brightness, _ in shapes if not brightness for point in corners]
    if len(dark) < 100:
        return None
    left, top = min(x for x, _ in dark), min(y for _, y in dark)
    size = max(max(x for x, _ in dark) - left, max(y for _, y in dark) - top)
    return _draw(shapes, left, top, SIDE / size) if 0 < size < 1e9 else None


def _draw(shapes: list[Shape], left: float, top: float, scale: float) -> Image.Image:
    image = Image.new("L", (SIDE + 2 * MARGIN, SIDE + 2 * MARGIN), 255)
    pen = ImageDraw.Draw(image)
    for corners, brightness, is_line in shapes:
        placed = [(_place(x - left, scale), _place(y - top, scale)) for x, y in corners]
        if is_line:
            pen.line(placed, fill=brightness, width=max(1, round(scale)))
        elif len(placed) > 2:
            pen.polygon(placed, fill=brightness)
    return image


def _place(value: float, scale: float) -> float:
    return min(max(value * scale + MARGIN, -SIDE), 3 * SIDE)


def _read_rectangle(values: dict[str, str]) -> list[Shape]:
    x, y, width, height = (_parse_number(values.get(name, "")) for name in ("x", "y", "width", "height"))
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
    return [(corners, _read_brightness(values), False)] if width > 0 and height > 0 else []


def _read_path(data: str, values: dict[str, str]) -> list[Shape]:
    """Return the pieces of a path between its moves; curves count as straight lines to their end."""
    is_line = "stroke" in values and values.get("fill", "none") == "none"
    brightness = _read_brightness(values)
    shapes: list[Shape] = []
    current: list[Point] = []
    x = y = 0.0
    command, numbers = "", list[float]()
    for letter, number in _STEP.findall(data):
        if letter:
            command, numbers = letter, []
            if letter in "Zz" and current:
                x, y = current[0]
            continue
        numbers.append(float(number))
        if len(numbers) < _TAKES.get(command.lower(), 99):
            continue
        relative = command.islower()
        if command in "Hh":
            x = numbers[0] + x * relative
        elif command in "Vv":
            y = numbers[0] + y * relative
        else:
            x, y = numbers[-2] + x * relative, numbers[-1] + y * relative
        if command in "Mm":
            if len(current) > 1:
                shapes.append((current, brightness, is_line))
            current, command = [], "l" if relative else "L"
        current.append((x, y))
        numbers = []
    return [*shapes, (current, brightness, is_line)] if len(current) > 1 else shapes


def _read_brightness(values: dict[str, str]) -> int:
    colour = values.get("fill", "")
    if colour in ("", "none"):
        colour = values.get("stroke", colour)
    return 255 if colour.strip().lower() in _WHITE or colour == "none" else 0


def _parse_number(text: str) -> float:
    number = _STEP.match(text.strip())
    return min(float(number[2]), 1e9) if number and number[2] else 0.0
