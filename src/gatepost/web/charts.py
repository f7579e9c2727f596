"""Charts of pages, and what a search found at a glance: when it came, and the most frequent values, which narrow it.

A search that asks for nothing but time, tenant, verdict and decision is drawn from the counts of traffic, which know
every message; any other from the messages that were counted, and says so. Every value has two links, to the list that
has only this and to the one without it. The numbers are those of the messages that were counted.

Charts are drawn as SVG that takes its colours from the stylesheet. Every bar has a title that a mouse shows, the chart
has a sentence for screen readers, and its page has a table with the same numbers beside it. Only numbers and escaped
words get into the markup.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from markupsafe import Markup, escape

from gatepost.policy.rules import VERDICTS
from gatepost.store.found_values import Facet, FoundValues
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.search_language import add_term, write_term
from gatepost.store.traffic import TrafficBucket
from gatepost.web.context import WebContext
from gatepost.web.message_lines import name_tag
from gatepost.web.message_search import Search
from gatepost.web.request import SignedInRequest
from gatepost.web.time_zones import local_time

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
        for step in (1, 2, 5):
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


MINUTE = 60_000
DAY = 1_440 * MINUTE
# What the chart shows of a search that names no period.
USUAL_PERIOD = 7 * DAY
MOST_STEPS = 60
# Lengths of a step, in minutes: those of traffic are multiples of five.
STEPS = (5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 7 * 1_440)
TITLES: dict[Facet, str] = {
    "verdict": "Verdict",
    "decision": "Decision",
    "sender": "Envelope domain",
    "to": "Recipient",
    "host": "Link host",
    "file": "File",
    "ip": "Sending host",
    "tag": "Finding",
    "tenant": "Tenant",
}


class FacetValue(msgspec.Struct, frozen=True):
    """A value with its number of messages, and the lists that have only this, and all but this."""

    shown: str
    count: int
    only: str
    without: str


async def describe_found(
    context: WebContext, request: SignedInRequest, search: Search, found: FoundValues
) -> Mapping[str, Any]:
    """Return what the page shows of what was found."""
    names = {} if request.user.tenant else {each.uid: each.name for each in await context.store.tenants.all()}
    wanted = search.messages
    steps, is_whole = await _find_steps(context, wanted, found) if search.path == "/messages" else (None, False)
    columns = _count_times(found, wanted, context.now()) if steps is None else steps
    bars = [_draw_column(start, parts, width, search) for start, width, parts in columns]
    reach = "" if is_whole else f" of the newest {found.counted:,} that match" if found.more else ""
    facets = {title: _describe_facet(context, search, name, found, names) for name, title in TITLES.items()}
    return {
        "glance": found,
        "chart": draw_stacked_bars(bars, VERDICT_ORDER, f"Messages by time and verdict{reach}", STRIP) if bars else "",
        "chart_reach": reach,
        "steps": [bar for bar in bars if bar.total],
        "facets": {title: values for title, values in facets.items() if values},
    }


async def _find_steps(
    context: WebContext, wanted: MessageFilter, found: FoundValues
) -> tuple[list[tuple[int, int, Mapping[str, int]]] | None, bool]:
    """The steps of all messages, where the counts of traffic know them."""
    rest = msgspec.structs.replace(wanted, since=None, until=None, verdict=None, decision=None)
    if rest != MessageFilter(tenant=wanted.tenant) or (wanted.verdict and wanted.decision):
        return None, False
    until = min(context.now(), wanted.until or context.now())
    since = until - USUAL_PERIOD if wanted.since is None else max(wanted.since, 0)
    if wanted.since is None and not found.more and found.reached:
        since = min(found.reached, until - 60 * MINUTE)
    width = _choose_step(until - since)
    buckets = await context.store.traffic.buckets(wanted.tenant, since, until, width)
    return [(each.start, width, _parts_of(each, wanted)) for each in buckets], True


def _parts_of(bucket: TrafficBucket, wanted: MessageFilter) -> Mapping[str, int]:
    if wanted.verdict:
        return {wanted.verdict: bucket.verdicts.get(wanted.verdict, 0)}
    if wanted.decision:
        # By decision alone, verdicts are not known: the bar has the colour of none.
        return {"undecided": bucket.decisions.get(wanted.decision, 0)}
    return bucket.verdicts


def _count_times(found: FoundValues, wanted: MessageFilter, now: int) -> list[tuple[int, int, Mapping[str, int]]]:
    """The steps of the messages that were counted."""
    if not found.times:
        return []
    last = found.times[0][0]
    first = min(found.times[-1][0], last - 60 * MINUTE)
    if wanted.since is not None and not found.more:
        first, last = min(first, wanted.since), max(last, min(now, wanted.until or now))
    width = _choose_step(last - first)
    counts: dict[int, Counter[str]] = {start: Counter() for start in range(first // width * width, last + 1, width)}
    for time, verdict in found.times:
        counts[time // width * width][verdict] += 1
    return [(start, width, parts) for start, parts in counts.items()]


def _choose_step(length: int) -> int:
    return next((each * MINUTE for each in STEPS if length / (each * MINUTE) <= MOST_STEPS), -(-length // MOST_STEPS))


def _draw_column(start: int, parts: Mapping[str, int], width: int, search: Search) -> Column:
    begin, end = local_time(start), local_time(start + width)
    label = begin.strftime("%d %b" if width >= DAY else "%d %b %H:%M")
    is_hourly = width <= 60 * MINUTE
    minutes = begin.hour * 60 + begin.minute
    is_tick = width >= DAY or minutes < width // MINUTE or (is_hourly and begin.minute == 0)
    period = (write_term("after", begin.isoformat()[:16]), write_term("before", end.isoformat()[:16]))
    path = search.with_text(add_term(search.text, " ".join(period)))
    tick = begin.strftime("%H:%M" if is_hourly and begin.hour else "%d %b")
    return Column(label, parts, tick if is_tick else "", path)


def _describe_facet(
    context: WebContext, search: Search, facet: Facet, found: FoundValues, names: Mapping[str, str]
) -> list[FacetValue]:
    """Return the most frequent values of one facet."""
    values = found.facets.get(facet, ())
    if len(values) == 1 and values[0][1] == found.counted:
        values = ()  # it says nothing: all have it
    policy = context.policies.deployment.policy
    return [
        FacetValue(
            name_tag(value, policy) if facet == "tag" else names.get(value, value),
            count,
            search.narrowed(facet, names.get(value, value)),
            search.without(facet, names.get(value, value)) if facet != "tenant" else "",
        )
        for value, count in values
    ]
