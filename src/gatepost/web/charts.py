"""Charts of pages, drawn as SVG that takes its colours from the stylesheet.

Every bar has a title that a mouse shows, the chart has a sentence for screen readers, and its page has a table with the
same numbers beside it. Only numbers and escaped words get into the markup.
"""

from collections.abc import Mapping, Sequence

import msgspec
from markupsafe import Markup, escape

from gatepost.policy.rules import VERDICTS

# The milder below, the graver on top.
VERDICT_ORDER = (*reversed(VERDICTS), "undecided")


class ChartSize(msgspec.Struct, frozen=True):
    """How wide and high a chart is drawn, before a page scales it."""

    width: int
    height: int


CARD, STRIP = ChartSize(460, 180), ChartSize(1_000, 120)
LEFT = 44
RIGHT = 8
TOP = 10
BOTTOM = 24
# A character of a label, at most, at 12 pixels.
CHARACTER = 8
GAP = 12
# A label that a wide chart has no room for on a phone, where labels are drawn larger.
SPARE = ' class="spare"'
_ROUND_STEPS = (1, 2, 5)


class Column(msgspec.Struct, frozen=True):
    """One step of time: its label, and the number of each part. `tick` is what the axis says there, "" for nothing;
    `path` is where a click on the bar leads."""

    label: str
    parts: Mapping[str, int]
    tick: str | None = None
    path: str = ""

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def draw_stacked_bars(columns: Sequence[Column], order: Sequence[str], summary: str, size: ChartSize = CARD) -> Markup:
    """Draw stacked bars; each part has the class `s-` and its name."""
    top = axis_maximum(max((column.total for column in columns), default=0))
    slot = (size.width - LEFT - RIGHT) / max(1, len(columns))
    ticks = [column.label if column.tick is None else column.tick for column in columns]
    drawn = [_draw_grid(top, size), _draw_labels(ticks, slot, size)]
    for index, column in enumerate(columns):
        drawn.append(_draw_bar(column, order, LEFT + index * slot, slot, top, size))
    return _wrap_svg("".join(drawn), summary, size)


def draw_lines(labels: Sequence[str], series: Mapping[str, Sequence[float | None]], summary: str) -> Markup:
    """Draw a line for each series, with the class `stroke-` and its name; None is a gap."""
    top = axis_maximum(max((value for values in series.values() for value in values if value is not None), default=0))
    slot = (CARD.width - LEFT - RIGHT) / max(1, len(labels))
    drawn = [_draw_grid(top, CARD), _draw_labels(labels, slot, CARD)]
    for name, values in series.items():
        drawn += [_draw_run(run, name, slot, top) for run in _split_at_gaps(values)]
    return _wrap_svg("".join(drawn), summary, CARD)


def draw_meter(part: float, whole: float, label: str) -> Markup:
    share = min(1.0, part / whole) if whole else 0.0
    state = "full" if share >= 1 else "fill"
    return Markup(
        '<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="back" width="100" height="6" rx="3"/><rect class="{}" width="{}" height="6" rx="3"/></svg>'
    ).format(label, state, f"{100 * share:.1f}")


def axis_maximum(most: float) -> int:
    scale = 1
    while True:
        for step in _ROUND_STEPS:
            if step * scale * 4 >= most:
                return step * scale * 4
        scale *= 10


def _split_at_gaps(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Split a series at its gaps; each point comes with its index."""
    runs: list[list[tuple[int, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((index, value))
    return [run for run in runs if run]


def _draw_run(run: Sequence[tuple[int, float]], name: str, slot: float, top: int) -> str:
    points = [(f"{LEFT + (index + 0.5) * slot:.1f}", f"{_y_of(value, top, CARD):.1f}") for index, value in run]
    if len(points) == 1:
        return f'<circle class="stroke-{escape(name)}" cx="{points[0][0]}" cy="{points[0][1]}" r="2"/>'
    return f'<polyline class="stroke-{escape(name)}" points="{" ".join(",".join(point) for point in points)}"/>'


def _draw_bar(column: Column, order: Sequence[str], left: float, slot: float, top: int, size: ChartSize) -> str:
    gap = min(2.0, slot / 5)
    done, pieces = 0, []
    for name in order:
        if number := column.parts.get(name, 0):
            upper, lower = _y_of(done + number, top, size), _y_of(done, top, size)
            pieces.append(
                f'<rect class="s-{escape(name)}" x="{left + gap / 2:.1f}" y="{upper:.1f}" '
                f'width="{slot - gap:.1f}" height="{max(0.5, lower - upper):.1f}"/>'
            )
            done += number
    said = ", ".join(f"{name} {column.parts[name]:,}" for name in order if column.parts.get(name))
    leads = f' data-href="{escape(column.path)}"' if column.path and column.total else ""
    return f"<g{leads}><title>{escape(column.label)}: {escape(said or 'nothing')}</title>{''.join(pieces)}</g>"


def _y_of(value: float, top: int, size: ChartSize) -> float:
    return size.height - BOTTOM - (size.height - TOP - BOTTOM) * value / top


def _draw_grid(top: int, size: ChartSize) -> str:
    drawn = []
    for quarter in range(5):
        y, kind = _y_of(top * quarter / 4, top, size), "grid" if quarter else "axis"
        drawn.append(
            f'<line class="{kind}" x1="{LEFT}" x2="{size.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end"{SPARE if quarter % 4 else ""}>'
            f"{_shorten(top * quarter // 4)}</text>"
        )
    return "".join(drawn)


def _draw_labels(labels: Sequence[str], slot: float, size: ChartSize) -> str:
    widest = max(map(len, labels), default=1) * CHARACTER + GAP
    most = max(1, min(8, int((size.width - LEFT - RIGHT) / widest)))
    places = [index for index, label in enumerate(labels) if label]
    every = max(1, -(-len(places) // most))
    drawn = []
    for number, index in enumerate(places[(every - 1) // 2 :: every]):
        # Half the width of the label, at most: it must not reach beyond the picture.
        half = len(labels[index]) * CHARACTER / 2
        x = min(LEFT + (index + 0.5) * slot, size.width - half)
        kind = "tick spare" if number % 3 else "tick"
        place = f'x="{x:.1f}" y="{size.height - 6}" text-anchor="middle"'
        drawn.append(f'<text {place} class="{kind}">{escape(labels[index])}</text>')
    return "".join(drawn)


def _shorten(number: int) -> str:
    if number >= 1_000_000:
        return f"{number / 1_000_000:g}M"
    return f"{number / 1_000:g}k" if number >= 1_000 else str(number)


def _wrap_svg(inside: str, summary: str, size: ChartSize) -> Markup:
    kind = "chart strip" if size is STRIP else "chart"
    head = Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
        kind, size.width, size.height, summary
    )
    return head + Markup(inside) + Markup("</svg>")  # noqa: S704  numbers and escaped words
