"""The curves of an evaluation, and their two diagrams as SVG: the ROC curve and the reliability diagram."""

import math
from collections.abc import Iterable, Sequence
from html import escape

import msgspec

from tools.labelled_mail import Rate


class Point(msgspec.Struct, frozen=True):
    """What is held with a threshold at `score`: the share of wanted and of unwanted mail."""

    score: float
    wanted: float
    unwanted: float


def compute_curve(wanted: Sequence[float], unwanted: Sequence[float]) -> list[Point]:
    """Return the receiver operating characteristic: a point for each score that wanted mail has, most severe first."""
    bad = sorted(unwanted, reverse=True)
    points = [Point(math.inf, 0.0, 0.0)]
    caught = 0
    for number, score in enumerate(sorted(wanted, reverse=True), 1):
        while caught < len(bad) and bad[caught] > score:
            caught += 1
        points.append(Point(score, number / len(wanted), caught / max(len(bad), 1)))
    points.append(Point(-math.inf, 1.0, 1.0))
    return points


def find_catch_rate(wanted: Sequence[float], unwanted: Sequence[float], alarms: float) -> Rate:
    """Return what is caught by a threshold, chosen after the fact, that holds at most this share of wanted mail."""
    allowed = int(alarms * len(wanted))
    scores = sorted(wanted, reverse=True)
    threshold = scores[allowed] if allowed < len(scores) else -math.inf
    return Rate(sum(score > threshold for score in unwanted), len(unwanted))


class Bin(msgspec.Struct, frozen=True):
    """Messages to which the model gave about the same probability, and how many were unwanted."""

    said: float
    seen: float
    count: int


def compute_reliability(said: Iterable[tuple[float, bool]], bins: int = 10) -> list[Bin]:
    """Group predictions by probability, with the share that was unwanted: is what was said to be 70 % so in 70 % of
    cases?"""
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for probability, happened in said:
        groups[min(bins - 1, int(probability * bins))].append((probability, happened))
    return [
        Bin(sum(p for p, _ in group) / len(group), sum(h for _, h in group) / len(group), len(group))
        for group in groups
        if group
    ]


SIDE, EDGE = 360, 60
_COLOURS = ("#1f5fa8", "#b8430f", "#2f7d32", "#7a3fa0", "#555555", "#00808a", "#a31e4d", "#8a6d00")
_DECADES = (0.0001, 0.001, 0.01, 0.1, 1.0)


def draw_roc(curves: Sequence[tuple[str, Sequence[Point]]]) -> str:
    """Draw the catch rate against false alarms, these on a logarithmic scale: what matters happens below 1 %."""
    ticks = [(_scale_logarithmic(value), f"{value:.2%}") for value in _DECADES]
    shapes = [*_draw_frame("Wanted mail held", "Unwanted mail held", ticks)]
    for number, (name, points) in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(
            f"{_x_at(_scale_logarithmic(point.wanted)):.1f},{_y_at(point.unwanted):.1f}"
            for point in _thin_points(points)
        )
        shapes.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        shapes.append(_draw_text(EDGE + SIDE - 8, _y_at(0) - 10 - 15 * number, name, "end", colour))
    return _wrap_svg(shapes)


def draw_reliability(bins: Sequence[Bin]) -> str:
    """Draw how often mail was unwanted against how probable that was said to be; on the diagonal both agree."""
    ticks = [(value / 5, f"{value / 5:.0%}") for value in range(6)]
    shapes = [*_draw_frame("Probability said", "Share that was unwanted", ticks)]
    shapes.append(
        f'<line x1="{_x_at(0)}" y1="{_y_at(0)}" x2="{_x_at(1)}" y2="{_y_at(1)}" stroke="#999" stroke-dasharray="4"/>'
    )
    for each in bins:
        radius = 2 + math.log10(each.count)
        shapes.append(
            f'<circle cx="{_x_at(each.said):.1f}" cy="{_y_at(each.seen):.1f}" r="{radius:.1f}" fill="{_COLOURS[0]}"/>'
        )
        shapes.append(_draw_text(_x_at(each.said), _y_at(each.seen) - 8, f"{each.count}", "middle", "#555"))
    return _wrap_svg(shapes)


def _thin_points(points: Sequence[Point]) -> Iterable[Point]:
    """Return a few hundred of the points, which show as much as ten thousand."""
    last = (-1.0, -1.0)
    for point in points:
        here = round(_scale_logarithmic(point.wanted), 2), round(point.unwanted, 2)
        if here != last:
            yield point
        last = here


def _scale_logarithmic(share: float) -> float:
    return max(0.0, 1 + math.log10(max(share, _DECADES[0])) / (len(_DECADES) - 1))


def _x_at(share: float) -> float:
    return EDGE + share * SIDE


def _y_at(share: float) -> float:
    return EDGE / 2 + (1 - share) * SIDE


def _draw_frame(across: str, up: str, ticks: Sequence[tuple[float, str]]) -> Iterable[str]:
    yield f'<rect x="{_x_at(0)}" y="{_y_at(1)}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#333"/>'
    for place, shown in ticks:
        yield _draw_text(_x_at(place), _y_at(0) + 16, shown, "middle")
    for fifth in range(6):
        yield _draw_text(_x_at(0) - 6, _y_at(fifth / 5) + 4, f"{fifth / 5:.0%}", "end")
    yield _draw_text(_x_at(0.5), _y_at(0) + 34, across, "middle")
    yield f'<g transform="rotate(-90 14 {_y_at(0.5)})">{_draw_text(14, _y_at(0.5), up, "middle")}</g>'


def _draw_text(x: float, y: float, shown: str, anchor: str, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(shown)}</text>'


def _wrap_svg(shapes: Iterable[str]) -> str:
    size = SIDE + EDGE + 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>", ""])
