"""Charts drawn on the server, as SVG that takes its colours from the stylesheet.

Every bar has a title for whoever points at it, the picture has a sentence for whoever cannot see it, and beside it
stands a table with the same numbers. Only numbers and words of ours get into the markup.

The first page: is everything well, how much comes, what becomes of it, how long does it take.

`/overview/live` is the same without the frame around it; the page fetches it anew while somebody looks.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from markupsafe import Markup, escape
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.policy.rules import VERDICTS
from gatepost.scanning.request import Load
from gatepost.store.traffic import BINS, TrafficBucket
from gatepost.web.context import WebContext, scopes
from gatepost.web.request import SignedInRequest
from gatepost.web.responses import html_response
from gatepost.web.site import Page, Row

WIDTH, HEIGHT = 460, 180
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 10, 24
_ROUND = (1, 2, 5)


class Column(msgspec.Struct, frozen=True):
    """One step of time: what stands below it, and how much of what there was."""

    label: str
    parts: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def stacked(columns: Sequence[Column], order: Sequence[str], summary: str) -> Markup:
    """Bars of parts on top of each other; a part is drawn in the class `s-` and its name."""
    top = ceiling(max((column.total for column in columns), default=0))
    slot = (WIDTH - LEFT - RIGHT) / max(1, len(columns))
    drawn = [_grid(top), _labels([column.label for column in columns], slot)]
    for place, column in enumerate(columns):
        drawn.append(_bar(column, order, LEFT + place * slot, slot, top))
    return _picture("".join(drawn), summary)


def lines(labels: Sequence[str], series: Mapping[str, Sequence[float | None]], summary: str) -> Markup:
    """A line for each series, drawn in the class `stroke-` and its name; None is a gap in it."""
    top = ceiling(max((value for values in series.values() for value in values if value is not None), default=0))
    slot = (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    drawn = [_grid(top), _labels(labels, slot)]
    for name, values in series.items():
        drawn += [_run(run, name, slot, top) for run in _runs(values)]
    return _picture("".join(drawn), summary)


def meter(part: float, whole: float, label: str) -> Markup:
    """How full something is."""
    share = min(1.0, part / whole) if whole else 0.0
    state = "full" if share >= 1 else "fill"
    return Markup(
        '<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="back" width="100" height="6" rx="3"/><rect class="{}" width="{}" height="6" rx="3"/></svg>'
    ).format(label, state, f"{100 * share:.1f}")


def ceiling(most: float) -> int:
    """The round number that the axis ends with."""
    scale = 1
    while True:
        for step in _ROUND:
            if step * scale * 4 >= most:
                return step * scale * 4
        scale *= 10


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The stretches without a gap, each point with its place."""
    runs: list[list[tuple[int, float]]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((place, value))
    return [run for run in runs if run]


def _run(run: Sequence[tuple[int, float]], name: str, slot: float, top: int) -> str:
    points = [(f"{LEFT + (place + 0.5) * slot:.1f}", f"{_y(value, top):.1f}") for place, value in run]
    if len(points) == 1:
        return f'<circle class="stroke-{escape(name)}" cx="{points[0][0]}" cy="{points[0][1]}" r="2"/>'
    return f'<polyline class="stroke-{escape(name)}" points="{" ".join(",".join(point) for point in points)}"/>'


def _bar(column: Column, order: Sequence[str], left: float, slot: float, top: int) -> str:
    gap = min(2.0, slot / 5)
    done, pieces = 0, []
    for name in order:
        if number := column.parts.get(name, 0):
            upper, lower = _y(done + number, top), _y(done, top)
            pieces.append(
                f'<rect class="s-{escape(name)}" x="{left + gap / 2:.1f}" y="{upper:.1f}" '
                f'width="{slot - gap:.1f}" height="{max(0.5, lower - upper):.1f}"/>'
            )
            done += number
    said = ", ".join(f"{name} {column.parts[name]:,}" for name in order if column.parts.get(name))
    return f"<g><title>{escape(column.label)}: {escape(said or 'nothing')}</title>{''.join(pieces)}</g>"


def _y(value: float, top: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top


def _grid(top: int) -> str:
    drawn = []
    for quarter in range(5):
        y, kind = _y(top * quarter / 4, top), "grid" if quarter else "axis"
        drawn.append(
            f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(top * quarter // 4)}</text>'
        )
    return "".join(drawn)


def _labels(labels: Sequence[str], slot: float) -> str:
    every = max(1, -(-len(labels) // 6))
    return "".join(
        f'<text x="{LEFT + (place + 0.5) * slot:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(label)}</text>'
        for place, label in enumerate(labels)
        if place % every == every // 2
    )


def _short(number: int) -> str:
    if number >= 1_000_000:
        return f"{number / 1_000_000:g}M"
    return f"{number / 1_000:g}k" if number >= 1_000 else str(number)


def _picture(inside: str, summary: str) -> Markup:
    head = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(WIDTH, HEIGHT, summary)
    return head + Markup(inside) + Markup("</svg>")  # noqa: S704  numbers and escaped words


MINUTE = 60_000


class Span(msgspec.Struct, frozen=True):
    """A time to look at, in steps."""

    key: str
    name: str
    length: int
    step: int
    label: str


SPANS = (
    Span("hours", "6 hours", 360 * MINUTE, 10 * MINUTE, "%H:%M"),
    Span("day", "24 hours", 1_440 * MINUTE, 30 * MINUTE, "%H:%M"),
    Span("week", "7 days", 7 * 1_440 * MINUTE, 180 * MINUTE, "%a %H:%M"),
    Span("month", "30 days", 30 * 1_440 * MINUTE, 720 * MINUTE, "%d %b"),
)
ORDER = (*reversed(VERDICTS), "undecided")


async def show(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """The whole page."""
    values = await _values(desk, visit)
    if isinstance(values, Failure):
        return values
    return html_response(
        desk.renderer.page("overview.html", visit, here="/", scopes=await scopes(desk, visit), **values)
    )


async def live(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """What changes on it."""
    values = await _values(desk, visit)
    if isinstance(values, Failure):
        return values
    return html_response(desk.renderer.plain("overview-live.html", **values))


async def _values(desk: WebContext, visit: SignedInRequest) -> Mapping[str, Any] | Failure:
    tenant = visit.tenant()
    if isinstance(tenant, Failure):
        return tenant
    span = next((each for each in SPANS if each.key == visit.query.text("span")), SPANS[1])
    now = desk.now()
    buckets = await desk.store.traffic(tenant, now - span.length, now, span.step)
    held = await desk.store.held_counts(tenant)
    return {
        "span": span,
        "spans": SPANS,
        "tenant": tenant,
        "other": None if visit.user.tenant else tenant,
        "status": desk.cores.colour,
        "waiting": desk.cores.waiting,
        "cores": [_core(name, load) for name, load in desk.cores.states] if visit.may("system.read") else (),
        "held": held,
        "total": summed(buckets),
        "verdicts": [verdict for verdict in VERDICTS if any(bucket.verdicts.get(verdict) for bucket in buckets)],
        "buckets": buckets,
        "labels": [_label(bucket.start, span) for bucket in buckets],
        "now": now,
        **_pictures(buckets, span),
    }


def _pictures(buckets: tuple[TrafficBucket, ...], span: Span) -> dict[str, Any]:
    labels = [_label(bucket.start, span) for bucket in buckets]
    columns = [Column(label, bucket.verdicts) for label, bucket in zip(labels, buckets, strict=True)]
    latency = {
        name: [bucket.percentile(part) if bucket.messages else None for bucket in buckets]
        for name, part in (("a", 0.5), ("b", 0.99))
    }
    return {
        "verdict_chart": stacked(columns, ORDER, f"Messages by verdict over {span.name}"),
        "latency_chart": lines(labels, latency, f"Time of analysis over {span.name}, in milliseconds"),
    }


def _core(name: str, load: Load | None) -> dict[str, Any]:
    if load is None:
        return {"name": name, "load": None, "meter": meter(0, 1, f"{name} does not answer")}
    said = f"{load.in_processing} of {load.maximum} slots in use"
    return {"name": name, "load": load, "meter": meter(load.in_processing, load.maximum, said)}


def summed(buckets: tuple[TrafficBucket, ...]) -> TrafficBucket:
    """All steps as one."""
    verdicts: dict[str, int] = {}
    decisions: dict[str, int] = {}
    latency = [0] * BINS
    for bucket in buckets:
        for name, number in bucket.verdicts.items():
            verdicts[name] = verdicts.get(name, 0) + number
        for name, number in bucket.decisions.items():
            decisions[name] = decisions.get(name, 0) + number
        latency = [one + other for one, other in zip(latency, bucket.latency, strict=True)]
    return TrafficBucket(
        start=buckets[0].start if buckets else 0,
        messages=sum(bucket.messages for bucket in buckets),
        bytes=sum(bucket.bytes for bucket in buckets),
        duration=sum(bucket.duration for bucket in buckets),
        longest=max((bucket.longest for bucket in buckets), default=0),
        latency=tuple(latency),
        verdicts=verdicts,
        decisions=decisions,
    )


def _label(start: int, span: Span) -> str:
    return datetime.fromtimestamp(start / 1000, UTC).strftime(span.label)


ROWS: tuple[Row, ...] = (
    Page("GET", "/", show, "overview.read"),
    Page("GET", "/overview/live", live, "overview.read"),
)
