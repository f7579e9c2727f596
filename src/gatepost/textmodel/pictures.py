"""The two pictures of an evaluation as SVG: the ROC curve and the reliability diagram."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from gatepost.textmodel.figures import Bin, Point

SIDE, EDGE = 360, 60
_COLOURS = ("#1f5fa8", "#b8430f", "#2f7d32", "#7a3fa0", "#555555", "#00808a", "#a31e4d", "#8a6d00")
_DECADES = (0.0001, 0.001, 0.01, 0.1, 1.0)


def roc(curves: Sequence[tuple[str, Sequence[Point]]]) -> str:
    """Caught against false alarms, these on a logarithmic scale: what matters happens below 1 %."""
    ticks = [(_decade(value), f"{value:.2%}") for value in _DECADES]
    shapes = [*_frame("Wanted mail held", "Unwanted mail held", ticks)]
    for number, (name, points) in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(f"{_x(_decade(point.wanted)):.1f},{_y(point.unwanted):.1f}" for point in _thinned(points))
        shapes.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        shapes.append(_text(EDGE + SIDE - 8, EDGE + SIDE - 10 - 15 * number, name, "end", colour))
    return _page(shapes)


def diagram(bins: Sequence[Bin]) -> str:
    """How often it was so against how probable it was said to be; on the diagonal both agree."""
    ticks = [(value / 5, f"{value / 5:.0%}") for value in range(6)]
    shapes = [*_frame("Probability said", "Share that was unwanted", ticks)]
    shapes.append(f'<line x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}" stroke="#999" stroke-dasharray="4"/>')
    for each in bins:
        radius = 2 + math.log10(each.count)
        shapes.append(
            f'<circle cx="{_x(each.said):.1f}" cy="{_y(each.seen):.1f}" r="{radius:.1f}" fill="{_COLOURS[0]}"/>'
        )
        shapes.append(_text(_x(each.said), _y(each.seen) - 8, f"{each.count}", "middle", "#555"))
    return _page(shapes)


def _thinned(points: Sequence[Point]) -> Iterable[Point]:
    """A few hundred points show as much as ten thousand."""
    last = (-1.0, -1.0)
    for point in points:
        here = round(_decade(point.wanted), 2), round(point.unwanted, 2)
        if here != last:
            yield point
        last = here


def _decade(share: float) -> float:
    return max(0.0, 1 + math.log10(max(share, _DECADES[0])) / (len(_DECADES) - 1))


def _x(share: float) -> float:
    return EDGE + share * SIDE


def _y(share: float) -> float:
    return EDGE / 2 + (1 - share) * SIDE


def _frame(across: str, up: str, ticks: Sequence[tuple[float, str]]) -> Iterable[str]:
    yield f'<rect x="{_x(0)}" y="{_y(1)}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#333"/>'
    for place, shown in ticks:
        yield _text(_x(place), _y(0) + 16, shown, "middle")
    for fifth in range(6):
        yield _text(_x(0) - 6, _y(fifth / 5) + 4, f"{fifth / 5:.0%}", "end")
    yield _text(_x(0.5), _y(0) + 34, across, "middle")
    yield f'<g transform="rotate(-90 14 {_y(0.5)})">{_text(14, _y(0.5), up, "middle")}</g>'


def _text(x: float, y: float, shown: str, anchor: str, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(shown)}</text>'


def _page(shapes: Iterable[str]) -> str:
    size = SIDE + EDGE + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>", ""])
