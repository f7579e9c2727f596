"""Drawing of SVG, as far as it takes to read a code in it: black on white, within limits.

A code in SVG is some hundred rectangles, circles, polygons or uses of one symbol, or a path, moved and scaled by the
groups around it, with its colour in an attribute, a style or a class; or it is a line with dashes, a pattern, a mask or
a marker. Those are drawn here; curves but arcs count as straight lines, patterns are drawn once, and texts, filters and
pictures are passed over. Elements are found by their names, not parsed as XML:
what a strict parser would refuse is drawn all the same. How many elements, uses and points are drawn is limited,
whatever the file claims.
"""

import math
import re
from collections.abc import Iterator
from itertools import pairwise

import msgspec
from PIL import Image, ImageChops, ImageDraw

from gatepost.mail.html.style import parse_colour

MAX_ELEMENTS = 20_000
MAX_POINTS = 200_000
MAX_SHAPES = 20_000
MAX_NESTING = 40
MAX_DEPTH = 12
SIDE, MARGIN = 800, 40
FEWEST_POINTS = 100
_DARK = 128

_TAG = re.compile(
    r"<(/?)(?:[\w.-]{1,20}:)?(svg|g|a|symbol|defs|use|rect|circle|ellipse|path|polygon|polyline|line|clipPath|mask|pattern|marker|style)\b"
    r"((?>[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+'){0,400}+)>",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"([\w:-]{1,30})\s{0,5}=\s{0,5}(?:\"([^\"]*)\"|'([^']*)')")
_RULE = re.compile(r"([^{}<>]{1,200})\{([^{}]{0,2000})\}")
_DECLARATION = re.compile(r"([a-z-]{1,30})\s{0,5}:\s{0,5}([^;]{1,200})")
_TRANSFORM = re.compile(r"(matrix|translate|scale|rotate|skewX|skewY)\s{0,5}\(([^()]{1,200})\)")
_NUMBER = re.compile(r"[-+]?(?:\d{1,9}\.?\d{0,9}|\.\d{1,9})(?:[eE][-+]?\d{1,2})?")
_STEP = re.compile(r"([MmLlHhVvZzCcSsQqTtAa])|([-+]?(?:\d{1,9}\.?\d{0,9}|\.\d{1,9})(?:[eE][-+]?\d{1,2})?)")
_TAKES = {"m": 2, "l": 2, "h": 1, "v": 1, "c": 6, "s": 4, "q": 4, "t": 2, "a": 7}
_HELD = frozenset({"defs", "symbol", "clippath", "mask", "pattern", "marker", "style"})
_GROUPS = frozenset({"svg", "g", "a", "symbol", "defs", "clippath", "mask", "pattern", "marker"})
_INHERITED = ("fill", "stroke", "stroke-width", "stroke-dasharray", "fill-rule")
_PLACED = ("x", "y", "width", "height", "cx", "cy", "r", "rx", "ry", "d", "transform", "mask", "clip-path", "fill")
_REFERENCE = re.compile(r"url\(\s{0,3}[\"']?#([^)\"']{1,100})")
_MARKERS = ("marker-start", "marker-mid", "marker-end", "marker")
MAX_DASHES = 4_000

Matrix = tuple[float, float, float, float, float, float]
Point = tuple[float, float]
_SAME: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


class _Node(msgspec.Struct):
    tag: str
    values: dict[str, str]
    children: list["_Node"] = []


class _Shape(msgspec.Struct):
    """Outlines of one area: corners, brightness, the width of a line (0 for an area), whether inner areas are holes."""

    outlines: list[list[Point]]
    brightness: int
    width: float = 0.0
    even_odd: bool = False


def draw_svg(text: str) -> Iterator[Image.Image]:
    """Yield the drawing in grey, a second time where areas within areas may be holes; nothing where there is nothing
    that could be a code. A code may be light on a dark ground."""
    shapes = _SvgReader(text).read()
    every = [(point, shape.brightness) for shape in shapes for outline in shape.outlines for point in outline]
    if len(every) < FEWEST_POINTS:
        return
    dark = [point for point, brightness in every if not brightness]
    points = dark if len(dark) >= FEWEST_POINTS else [point for point, _ in every]
    left, top = min(x for x, _ in points), min(y for _, y in points)
    size = max(max(x for x, _ in points) - left, max(y for _, y in points) - top)
    if not 0 < size < 1e9:
        return
    yield _paint(shapes, left, top, SIDE / size, even_odd=False)
    if any(shape.even_odd and len(shape.outlines) > 1 for shape in shapes):
        yield _paint(shapes, left, top, SIDE / size, even_odd=True)


class _SvgReader:
    """Reads the elements of a drawing into a tree, and the tree into shapes."""

    def __init__(self, text: str) -> None:
        self._rules: dict[str, dict[str, str]] = {}
        self._named: dict[str, _Node] = {}
        self._shapes: list[_Shape] = []
        self._points = MAX_POINTS
        self._visits = 2 * MAX_SHAPES
        self._root = self._build(text)

    def _build(self, text: str) -> _Node:
        root = _Node("svg", {})
        stack = [root]
        for count, match in enumerate(_TAG.finditer(text)):
            if count >= MAX_ELEMENTS:
                break
            tag = match[2].lower()
            if match[1]:
                if len(stack) > 1 and tag == stack[-1].tag:
                    stack.pop()
                continue
            if tag == "style":
                self._read_rules(text[match.end() : match.end() + 20_000].partition("</")[0])
                continue
            values = {name.lower(): one or other for name, one, other in _ATTRIBUTE.findall(match[3])}
            node = _Node(tag, values)
            stack[-1].children.append(node)
            if name := values.get("id", ""):
                self._named.setdefault(name, node)
            if tag in _GROUPS and not match[3].rstrip().endswith("/") and len(stack) < MAX_NESTING:
                stack.append(node)
        return root

    def _read_rules(self, sheet: str) -> None:
        for selectors, body in _RULE.findall(sheet)[:200]:
            for selector in selectors.split(",")[:20]:
                found = self._rules.setdefault(selector.strip().lower(), {})
                found.update({name: value.strip() for name, value in _DECLARATION.findall(body.lower())})

    def read(self) -> list[_Shape]:
        """Return the shapes that are drawn."""
        self._draw(self._root, _SAME, {}, 0)
        return self._shapes

    def _draw(self, node: _Node, matrix: Matrix, inherited: dict[str, str], depth: int) -> None:
        self._visits -= 1
        if depth > MAX_NESTING or self._visits < 0 or len(self._shapes) >= MAX_SHAPES:
            return
        if "style" in node.values:
            self._take_geometry(node)
        values = inherited | self._find_style(node)
        matrix = _multiply(matrix, _read_transform(node.values.get("transform", "")))
        if depth < MAX_DEPTH and self._draw_referred(node, matrix, values, depth):
            return
        if node.tag == "use":
            self._draw_use(node, matrix, values, depth)
        elif node.tag in _GROUPS:
            if node.tag not in _HELD or depth == 0:
                for child in node.children:
                    self._draw(child, matrix, values, depth + 1)
        else:
            self._add(node, matrix, values)

    def _draw_use(self, node: _Node, matrix: Matrix, values: dict[str, str], depth: int) -> None:
        name = (node.values.get("href") or node.values.get("xlink:href") or "").lstrip("#")
        target = self._named.get(name)
        if target is None or depth > MAX_DEPTH:
            return
        moved = _multiply(matrix, (1.0, 0.0, 0.0, 1.0, _number(node.values, "x"), _number(node.values, "y")))
        if target.tag in _GROUPS:
            values = values | self._find_style(target)
            moved = _multiply(moved, _read_transform(target.values.get("transform", "")))
            for child in target.children:
                self._draw(child, moved, values, depth + 1)
        else:
            self._draw(target, moved, values, depth + 1)

    def _take_geometry(self, node: _Node) -> None:
        """Take places and sizes from the style of an element (SVG 2 section 8.6), in pixels."""
        for name, value in _DECLARATION.findall(node.values["style"]):
            if name in _PLACED:
                node.values.setdefault(name, value.strip().replace("px", ""))

    def _draw_referred(self, node: _Node, matrix: Matrix, values: dict[str, str], depth: int) -> bool:
        """Draw what an area is filled with, seen through, or marked with; return whether that is all of it."""
        for name in ("fill", "mask", "clip-path"):
            found = _REFERENCE.match(node.values.get(name, ""))
            target = self._named.get(found[1]) if found else None
            if target is not None and target.tag in ("pattern", "mask", "clippath"):
                # What is light in a mask shows the area, in its own colour.
                own = dict(values) if name == "fill" else {**values, "fill": values.get("fill", "") or "#000"}
                for child in target.children:
                    shown = child if name == "fill" else _recolour(child, own["fill"], 0)
                    self._draw(shown, matrix, {} if name == "fill" else own, depth + 1)
                return True
        for name in _MARKERS:
            found = _REFERENCE.match(node.values.get(name, ""))
            target = self._named.get(found[1]) if found else None
            if target is not None and target.tag == "marker":
                left, top = _number(target.values, "refx"), _number(target.values, "refy")
                for x, y in [point for outline in self._read_outlines(node) for point in outline][:MAX_SHAPES]:
                    placed = _multiply(matrix, (1.0, 0.0, 0.0, 1.0, x - left, y - top))
                    for child in target.children:
                        self._draw(child, placed, {}, depth + 1)
                return True
        return False

    def _find_style(self, node: _Node) -> dict[str, str]:
        """Return what an element says of its colours: attributes, then rules by name and class, then its own style."""
        found = {name: node.values[name].strip().lower() for name in _INHERITED if name in node.values}
        if self._rules:
            for selector in (node.tag, *(f".{name}" for name in node.values.get("class", "").lower().split()[:8])):
                found |= self._rules.get(selector, {})
                found |= self._rules.get(f"{node.tag}{selector}", {})
            found |= self._rules.get(f"#{node.values.get('id', '').lower()}", {})
        if "style" in node.values:
            found |= {name: value.strip() for name, value in _DECLARATION.findall(node.values["style"].lower())}
        return {name: value for name, value in found.items() if name in _INHERITED}

    def _add(self, node: _Node, matrix: Matrix, values: dict[str, str]) -> None:
        outlines = self._read_outlines(node)
        if not outlines:
            return
        a, b, c, d, e, f = matrix
        placed = [[(a * x + c * y + e, b * x + d * y + f) for x, y in outline] for outline in outlines]
        fill, stroke = values.get("fill", ""), values.get("stroke", "none")
        if fill != "none" and node.tag != "line":
            self._shapes.append(_Shape(placed, _shade(fill), 0.0, values.get("fill-rule") == "evenodd"))
        if stroke not in ("none", ""):
            scale = math.sqrt(abs(a * d - b * c))
            width = _number(values, "stroke-width", 1.0) * scale
            dashes = [_clip(float(number)) * scale for number in _NUMBER.findall(values.get("stroke-dasharray", ""))]
            if sum(dashes) > 0 and min(dashes) >= 0:
                placed = [piece for line in placed for piece in self._cut_line(line, dashes)]
            if placed:
                self._shapes.append(_Shape(placed, _shade(stroke), width))

    def _cut_line(self, line: list[Point], dashes: list[float]) -> Iterator[list[Point]]:
        """Yield the dashes of a line: every second length is a gap."""
        lengths = dashes * (1 + len(dashes) % 2)
        place, is_drawn, left = 0, True, lengths[0]
        for (x, y), (to_x, to_y) in pairwise(line):
            length = math.hypot(to_x - x, to_y - y)
            at = 0.0
            while at < length and self._points > 0:
                end = min(length, at + left)
                if is_drawn and end > at:
                    one, other = at / length, end / length
                    yield [
                        (x + (to_x - x) * one, y + (to_y - y) * one),
                        (x + (to_x - x) * other, y + (to_y - y) * other),
                    ]
                self._points -= 1
                left -= end - at
                at = end
                if left <= 0:
                    place = (place + 1) % len(lengths)
                    is_drawn, left = not is_drawn, lengths[place]

    def _read_outlines(self, node: _Node) -> list[list[Point]]:
        values = node.values
        if node.tag == "rect":
            x, y, width, height = (_number(values, name) for name in ("x", "y", "width", "height"))
            corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
            return [corners] if width > 0 and height > 0 else []
        if node.tag in ("circle", "ellipse"):
            across = _number(values, "r") or _number(values, "rx")
            down = _number(values, "r") or _number(values, "ry")
            return (
                [_read_round(_number(values, "cx"), _number(values, "cy"), across, down)] if across > 0 < down else []
            )
        if node.tag == "line":
            return [[(_number(values, "x1"), _number(values, "y1")), (_number(values, "x2"), _number(values, "y2"))]]
        data = values.get("points" if node.tag in ("polygon", "polyline") else "d", "")[: max(0, self._points) * 4]
        self._points -= len(data) // 2
        if node.tag == "path":
            return _read_path(data)
        numbers = [_clip(float(number)) for number in _NUMBER.findall(data)]
        return [list(zip(numbers[::2], numbers[1::2], strict=False))]


def _recolour(node: _Node, colour: str, depth: int) -> _Node:
    """Return an element of a mask in the colour of what it shows; what is dark in a mask hides."""
    values = {name: value for name, value in node.values.items() if name not in ("fill", "style", "class")}
    hides = node.tag not in _GROUPS and node.values.get("fill") in ("#000", "black", "#000000")
    values |= {"fill": "#fff" if hides else colour} if node.tag not in _GROUPS else {}
    children = [_recolour(child, colour, depth + 1) for child in node.children] if depth < MAX_NESTING else []
    return _Node(node.tag, values, children)


_ROUND = tuple((math.cos(math.pi * turn / 4), math.sin(math.pi * turn / 4)) for turn in range(8))


def _read_round(x: float, y: float, across: float, down: float) -> list[Point]:
    return [(x + across * cos, y + down * sin) for cos, sin in _ROUND]


def _read_arc(start: Point, end: Point, numbers: list[float]) -> list[Point]:
    """Return three points of an arc of a circle between its ends (SVG section 9.3.8)."""
    radius, is_large, is_swept = (numbers[0] + numbers[1]) / 2, bool(numbers[3]), bool(numbers[4])
    (x, y), (to_x, to_y) = start, end
    length = math.hypot(to_x - x, to_y - y)
    if not 0 < length < 1e8 or radius <= 0:
        return []
    radius = max(radius, length / 2)
    height = math.sqrt(max(0.0, radius * radius - length * length / 4)) * (-1 if is_large != is_swept else 1)
    middle_x, middle_y = (x + to_x) / 2 - height * (to_y - y) / length, (y + to_y) / 2 + height * (to_x - x) / length
    begin = math.atan2(y - middle_y, x - middle_x)
    turn = math.atan2(to_y - middle_y, to_x - middle_x) - begin
    if is_swept and turn <= 0:
        turn += 2 * math.pi
    elif not is_swept and turn >= 0:
        turn -= 2 * math.pi
    return [
        (middle_x + radius * math.cos(begin + turn * part), middle_y + radius * math.sin(begin + turn * part))
        for part in (0.25, 0.5, 0.75)
    ]


def _read_path(data: str) -> list[list[Point]]:
    """Return the pieces of a path between its moves; curves count as straight lines to their end."""
    outlines: list[list[Point]] = []
    current: list[Point] = []
    x = y = 0.0
    command, numbers = "", list[float]()
    for letter, number in _STEP.findall(data):
        if letter:
            command, numbers = letter, []
            if letter in "Zz" and current:
                x, y = current[0]
            continue
        numbers.append(_clip(float(number)))
        if len(numbers) < _TAKES.get(command.lower(), 99):
            continue
        relative = command.islower()
        before = (x, y)
        if command in "Hh":
            x = numbers[0] + x * relative
        elif command in "Vv":
            y = numbers[0] + y * relative
        else:
            x, y = numbers[-2] + x * relative, numbers[-1] + y * relative
        if command in "Mm":
            if len(current) > 1:
                outlines.append(current)
            current, command = [], "l" if relative else "L"
        elif command in "Aa":
            current += _read_arc(before, (x, y), numbers)
        current.append((x, y))
        numbers = []
    return [*outlines, current] if len(current) > 1 else outlines


def _read_transform(text: str) -> Matrix:
    matrix = _SAME
    for name, inside in _TRANSFORM.findall(text)[:20]:
        matrix = _multiply(matrix, _make_matrix(name, [_clip(float(number)) for number in _NUMBER.findall(inside)]))
    return matrix


def _make_matrix(name: str, n: list[float]) -> Matrix:
    first, second = (*n, 0.0, 0.0)[:2]
    match name:
        case "matrix" if len(n) == 6:
            return (n[0], n[1], n[2], n[3], n[4], n[5])
        case "translate":
            return (1.0, 0.0, 0.0, 1.0, first, second)
        case "scale" if n:
            return (first, 0.0, 0.0, second if len(n) > 1 else first, 0.0, 0.0)
        case "rotate" if n:
            cos, sin = math.cos(math.radians(first)), math.sin(math.radians(first))
            x, y = (n[1], n[2]) if len(n) > 2 else (0.0, 0.0)
            return (cos, sin, -sin, cos, x - x * cos + y * sin, y - x * sin - y * cos)
        case "skewX":
            return (1.0, 0.0, math.tan(math.radians(first)), 1.0, 0.0, 0.0)
        case "skewY":
            return (1.0, math.tan(math.radians(first)), 0.0, 1.0, 0.0, 0.0)
    return _SAME


def _multiply(one: Matrix, other: Matrix) -> Matrix:
    if other is _SAME:
        return one
    a, b, c, d, e, f = one
    p, q, r, s, t, u = other
    return (
        _clip(a * p + c * q), _clip(b * p + d * q), _clip(a * r + c * s), _clip(b * r + d * s),
        _clip(a * t + c * u + e), _clip(b * t + d * u + f),
    )  # fmt: skip


def _clip(value: float) -> float:
    return min(max(value, -1e9), 1e9)


def _number(values: dict[str, str], name: str, default: float = 0.0) -> float:
    found = _NUMBER.match(values.get(name, "").strip())
    return _clip(float(found.group())) if found else default


def _shade(colour: str) -> int:
    """Return black for a dark colour and white for a light one; a colour that is not known is dark."""
    if colour in ("transparent", "none"):
        return 255
    shade = parse_colour(colour) if colour else 0
    if shade is None or shade < 0:
        return 0
    return 255 if (shade >> 16) * 3 + (shade >> 8 & 255) * 6 + (shade & 255) > 10 * _DARK else 0


def _paint(shapes: list[_Shape], left: float, top: float, scale: float, *, even_odd: bool) -> Image.Image:
    image = Image.new("L", (SIDE + 2 * MARGIN, SIDE + 2 * MARGIN), 255)
    pen = ImageDraw.Draw(image)
    holes = _MOST_HOLES if even_odd else 0
    for shape in shapes:
        placed = [[(_place(x - left, scale), _place(y - top, scale)) for x, y in each] for each in shape.outlines]
        if shape.width:
            for each in placed:
                pen.line(each, fill=shape.brightness, width=min(SIDE, max(1, round(shape.width * scale))))
        elif shape.even_odd and 1 < len(placed) <= holes:
            holes -= len(placed)  # of the whole drawing: each takes a look at every dot
            _paint_even_odd(image, placed, shape.brightness)
        else:
            _paint_areas(pen, placed, shape.brightness)
    return image


_MOST_HOLES = 400


def _paint_even_odd(image: Image.Image, outlines: list[list[Point]], brightness: int) -> None:
    """Paint areas within which every second one is a hole."""
    mask = Image.new("1", image.size)
    for outline in outlines:
        if len(outline) > 2:
            area = Image.new("1", image.size)
            ImageDraw.Draw(area).polygon(outline, fill=1)
            mask = ImageChops.logical_xor(mask, area)
    image.paste(brightness, mask=mask)


def _paint_areas(pen: ImageDraw.ImageDraw, outlines: list[list[Point]], brightness: int) -> None:
    """Paint areas; those that run the other way round are holes, as the rule "nonzero" says of most drawings."""
    sides = [_measure(outline) for outline in outlines]
    largest = max(sides, key=abs, default=0.0)
    for outline, side in zip(outlines, sides, strict=True):
        if len(outline) > 2:
            pen.polygon(outline, fill=brightness if side * largest >= 0 else 255 - brightness)


def _measure(outline: list[Point]) -> float:
    """Return twice the area of an outline, negative where it runs the other way round."""
    before = outline[-1]
    total = 0.0
    for point in outline:
        total += before[0] * point[1] - point[0] * before[1]
        before = point
    return total


def _place(value: float, scale: float) -> float:
    return min(max(value * scale + MARGIN, -float(SIDE)), 3.0 * SIDE)
