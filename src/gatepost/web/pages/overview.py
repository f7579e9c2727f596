"""The first page: state of the queue and the cores, messages and verdicts, the quarantine, what is most frequent.

Numbers of messages are compared with the week before. `/overview/live` is the part that changes, without the frame; the
page fetches it every few seconds.

Charts are drawn here as SVG that takes its colours from the stylesheet. Every bar has a title that a mouse shows, the
chart has a sentence for screen readers, and the page has a table with the same numbers beside it. Only numbers and
escaped words get into the markup.

Administrators have a checklist of the first days: what is left to do, with a link to each. An item is done when what it
asks for is there. Items that do not apply can be dismissed, for all administrators.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup, escape

from gatepost.api.errors import Failure
from gatepost.policy.rules import VERDICTS
from gatepost.scanning.request import Load
from gatepost.store.quarantine import QuarantineFlow
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.traffic import BINS, TopValues, TrafficBucket
from gatepost.store.users import User
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.message_lines import name_tag
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about
from gatepost.web.time_zones import local_time

MINUTE = 60_000
WEEK = 7 * 1_440 * MINUTE
TOP_MILLISECONDS = 30_000
MAX_KNOWN = 200


class Span(msgspec.Struct, frozen=True):
    """A period that the charts cover, and the length of its steps, in milliseconds. The axis has a `tick` at every full
    hour that is a multiple of `hours`."""

    key: str
    name: str
    length: int
    step: int
    label: str
    tick: str
    hours: int


SPANS = (
    Span("hours", "6 hours", 360 * MINUTE, 10 * MINUTE, "%H:%M", "%H:%M", 1),
    Span("day", "24 hours", 1_440 * MINUTE, 30 * MINUTE, "%H:%M", "%H:%M", 6),
    Span("week", "7 days", 7 * 1_440 * MINUTE, 180 * MINUTE, "%a %H:%M", "%a %d", 24),
    Span("month", "30 days", 30 * 1_440 * MINUTE, 720 * MINUTE, "%d %b %H:%M", "%d %b", 24),
)
VERDICT_ORDER = (*reversed(VERDICTS), "undecided")


async def show_overview(context: WebContext, request: SignedInRequest, values: Mapping[str, Any]) -> PageResult:
    """Show the whole page."""
    return await context.page(
        request,
        "overview.html",
        scopes=await find_scopes(context, request),
        checklist=await find_checklist(context, request),
        **values,
    )


async def show_live_overview(context: WebContext, _request: SignedInRequest, values: Mapping[str, Any]) -> PageResult:
    """Show the part of the page that changes."""
    return html_response(context.renderer.render_public("overview-live.html", **values))


async def _collect_values(context: WebContext, request: SignedInRequest) -> Mapping[str, Any] | Failure:
    tenant = request.parse_tenant()
    if isinstance(tenant, Failure):
        return tenant
    span = next((each for each in SPANS if each.key == request.query.text("span")), SPANS[1])
    now = context.now()
    buckets = await context.store.traffic.buckets(tenant, now - span.length, now, span.step)
    top, before, flow = await _find_top_values(context, tenant, span, now)
    held = await context.store.quarantine.counts(tenant)
    other = None if request.user.tenant else tenant
    places = [_place_of(bucket.start, span, other) for bucket in buckets]
    return {
        "span": span,
        "spans": SPANS,
        "tenant": tenant,
        "other": other,
        "status": context.cores.colour,
        "waiting": context.cores.waiting,
        "cores": [_describe_core(name, load) for name, load in context.cores.states]
        if request.may("system.read")
        else (),
        "held": held,
        "total": total_traffic(buckets),
        "before": before,
        "week_before": (now - span.length - WEEK, now - WEEK),
        "top": top,
        "flow": flow,
        "may_audit": request.may("audit.read"),
        "steps": tuple(zip(buckets, places, strict=True)),
        "names": {} if request.user.tenant else {each.uid: each.name for each in await context.store.tenants.all()},
        "titles": {tag: name_tag(tag, context.policies.deployment.policy) for tag, _ in top.findings},
        "verdicts": [verdict for verdict in VERDICTS if any(bucket.verdicts.get(verdict) for bucket in buckets)],
        "buckets": buckets,
        "labels": [_format_label(bucket.start, span) for bucket in buckets],
        "now": now,
        "since": local_time(now - span.length).strftime("%Y-%m-%dT%H:%M"),
        **_draw_charts(buckets, span, places),
    }


for_values = about(_collect_values)


async def _find_top_values(
    context: WebContext, tenant: str | None, span: Span, now: int
) -> tuple[TopValues, TrafficBucket, QuarantineFlow]:
    """Return what is most frequent, the sum of the week before, and what came into the quarantine and left it, counted
    at most twice a minute however many pages are open."""
    known = context.top_values.get((tenant, span.key))
    if known and now - known[0] < TOP_MILLISECONDS:
        return known[1:]
    top = await context.store.traffic.top_values(tenant, now - span.length, now + MINUTE)
    before = total_traffic(await context.store.traffic.buckets(tenant, now - span.length - WEEK, now - WEEK, span.step))
    flow = await context.store.quarantine.flow(tenant, now - span.length, now + MINUTE)
    if len(context.top_values) >= MAX_KNOWN:
        context.top_values.clear()
    context.top_values[tenant, span.key] = (now, top, before, flow)
    return top, before, flow


def _place_of(start: int, span: Span, tenant: str | None) -> str:
    """Return the path of the messages of one step."""
    first, last = (local_time(moment).strftime("%Y-%m-%dT%H:%M") for moment in (start, start + span.step))
    return f"/messages?{urlencode({'since': first, 'until': last, **({'tenant': tenant} if tenant else {})})}"


def _draw_charts(buckets: tuple[TrafficBucket, ...], span: Span, places: Sequence[str]) -> dict[str, Any]:
    ticks = [_format_tick(bucket.start, span) for bucket in buckets]
    columns = [
        Column(_format_label(bucket.start, span), bucket.verdicts, tick, place)
        for bucket, tick, place in zip(buckets, ticks, places, strict=True)
    ]
    latency = {
        name: [bucket.percentile(part) if bucket.messages else None for bucket in buckets]
        for name, part in (("a", 0.5), ("b", 0.99))
    }
    return {
        "verdict_chart": draw_stacked_bars(columns, VERDICT_ORDER, f"Messages by verdict over {span.name}"),
        "latency_chart": draw_lines(ticks, latency, f"Analysis time over {span.name}, in milliseconds"),
    }


def _describe_core(name: str, load: Load | None) -> dict[str, Any]:
    if load is None:
        return {"name": name, "load": None, "meter": draw_meter(0, 1, f"{name} is not answering")}
    said = f"{load.in_processing} of {load.maximum} slots in use"
    return {"name": name, "load": load, "meter": draw_meter(load.in_processing, load.maximum, said)}


def total_traffic(buckets: tuple[TrafficBucket, ...]) -> TrafficBucket:
    """Return the sum of all steps."""
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


def _format_tick(start: int, span: Span) -> str:
    """Return what the axis says at a step: something at full hours of the user's day, nothing between them."""
    moment = local_time(start)
    # Steps of three hours and more need not begin at midnight in every zone: the one that has it counts.
    is_first = moment.hour % span.hours * 60 + moment.minute < span.step // MINUTE
    return moment.strftime(span.tick) if is_first else ""


def _format_label(start: int, span: Span) -> str:
    return local_time(start).strftime(span.label)


ALL = "all"
DEFAULT_RETENTION = "30"


class ChecklistItem(msgspec.Struct, frozen=True):
    """Something to do: what, why, and the page for it."""

    name: str
    text: str
    why: str
    path: str
    is_done: bool = False


ITEMS: dict[str, ChecklistItem] = {
    each.name: each
    for each in (
        ChecklistItem(
            "password", "Choose your own password", "the first one was printed, and may be in a log", "/account"
        ),
        ChecklistItem("second-factor", "Set up a second factor", "a stolen password is then not enough", "/account"),
        ChecklistItem(
            "own-domains", "Enter your own domains", "mail that imitates them is found", "/lists/global/own-domains"
        ),
        ChecklistItem(
            "protected-people",
            "Add people to protect against impersonation",
            "executives and whoever pays invoices",
            "/lists/global/protected-people",
        ),
        ChecklistItem("mail", "Connect a mail server or a program", "no message was scanned yet", "/tokens"),
        ChecklistItem(
            "retention", "Decide how long results and held mail are kept", "30 days unless set", "/configuration"
        ),
        ChecklistItem(
            "public-url",
            "Set the address of these pages (publicUrl)",
            "links in digests and alerts need it",
            "/configuration",
        ),
    )
}


async def find_checklist(context: WebContext, request: SignedInRequest) -> list[ChecklistItem]:
    """Return the items that were not dismissed; none for whoever cannot do them, or where all are done."""
    if request.user.tenant or not request.may("system.change"):
        return []
    dismissed = await context.store.publishing.dismissed_items()
    if ALL in dismissed:
        return []
    done = await _find_done(context, request.user)
    items = [
        msgspec.structs.replace(item, is_done=name in done) for name, item in ITEMS.items() if name not in dismissed
    ]
    return [] if all(item.is_done for item in items) else items


async def _find_done(context: WebContext, user: User) -> set[str]:
    settings = {key: value for _, key, value in context.installation.settings}
    sizes = {state.definition.name: state.size for state in await context.store.lists.all(None)}
    facts = {
        "password": not (user.must_change or user.first_password),
        "second-factor": user.has_second_factor or user.external is not None,
        "own-domains": sizes.get("own-domains", 0) > 0
        or any(each.domains for each in await context.store.tenants.all()),
        "protected-people": sizes.get("protected-people", 0) > 0,
        "mail": bool((await context.store.messages.search(MessageFilter(), limit=1)).rows),
        "retention": any(
            settings.get(key, DEFAULT_RETENTION) != DEFAULT_RETENTION
            for key in ("history.retention", "quarantine.retention")
        ),
        "public-url": any(key == "publicUrl" and value != "not set" for _, key, value in context.installation.settings),
    }
    return {name for name, is_done in facts.items() if is_done}


async def dismiss(context: WebContext, request: SignedInRequest) -> PageResult:
    """Dismiss an item, or all of them."""
    name = request.form.text("name", 30)
    if name not in ITEMS and name != ALL:
        return NOT_VISIBLE
    await context.store.publishing.dismiss_item(name, request.actor)
    return redirect("/", notice="item-dismissed")


WIDTH = 460
HEIGHT = 180
LEFT = 44
RIGHT = 8
TOP = 10
BOTTOM = 24
# A character of a label, at most, at 12 pixels.
CHARACTER = 8
GAP = 12
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


def draw_stacked_bars(columns: Sequence[Column], order: Sequence[str], summary: str) -> Markup:
    """Draw stacked bars; each part has the class `s-` and its name."""
    top = axis_maximum(max((column.total for column in columns), default=0))
    slot = (WIDTH - LEFT - RIGHT) / max(1, len(columns))
    ticks = [column.label if column.tick is None else column.tick for column in columns]
    drawn = [_draw_grid(top), _draw_labels(ticks, slot)]
    for index, column in enumerate(columns):
        drawn.append(_draw_bar(column, order, LEFT + index * slot, slot, top))
    return _wrap_svg("".join(drawn), summary)


def draw_lines(labels: Sequence[str], series: Mapping[str, Sequence[float | None]], summary: str) -> Markup:
    """Draw a line for each series, with the class `stroke-` and its name; None is a gap."""
    top = axis_maximum(max((value for values in series.values() for value in values if value is not None), default=0))
    slot = (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    drawn = [_draw_grid(top), _draw_labels(labels, slot)]
    for name, values in series.items():
        drawn += [_draw_run(run, name, slot, top) for run in _split_at_gaps(values)]
    return _wrap_svg("".join(drawn), summary)


def draw_meter(part: float, whole: float, label: str) -> Markup:
    """Draw how full something is."""
    share = min(1.0, part / whole) if whole else 0.0
    state = "full" if share >= 1 else "fill"
    return Markup(
        '<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="back" width="100" height="6" rx="3"/><rect class="{}" width="{}" height="6" rx="3"/></svg>'
    ).format(label, state, f"{100 * share:.1f}")


def axis_maximum(most: float) -> int:
    """Return the round number that the axis ends with."""
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
    points = [(f"{LEFT + (index + 0.5) * slot:.1f}", f"{_y_of(value, top):.1f}") for index, value in run]
    if len(points) == 1:
        return f'<circle class="stroke-{escape(name)}" cx="{points[0][0]}" cy="{points[0][1]}" r="2"/>'
    return f'<polyline class="stroke-{escape(name)}" points="{" ".join(",".join(point) for point in points)}"/>'


def _draw_bar(column: Column, order: Sequence[str], left: float, slot: float, top: int) -> str:
    gap = min(2.0, slot / 5)
    done, pieces = 0, []
    for name in order:
        if number := column.parts.get(name, 0):
            upper, lower = _y_of(done + number, top), _y_of(done, top)
            pieces.append(
                f'<rect class="s-{escape(name)}" x="{left + gap / 2:.1f}" y="{upper:.1f}" '
                f'width="{slot - gap:.1f}" height="{max(0.5, lower - upper):.1f}"/>'
            )
            done += number
    said = ", ".join(f"{name} {column.parts[name]:,}" for name in order if column.parts.get(name))
    leads = f' data-href="{escape(column.path)}"' if column.path and column.total else ""
    return f"<g{leads}><title>{escape(column.label)}: {escape(said or 'nothing')}</title>{''.join(pieces)}</g>"


def _y_of(value: float, top: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top


def _draw_grid(top: int) -> str:
    drawn = []
    for quarter in range(5):
        y, kind = _y_of(top * quarter / 4, top), "grid" if quarter else "axis"
        drawn.append(
            f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_shorten(top * quarter // 4)}</text>'
        )
    return "".join(drawn)


def _draw_labels(labels: Sequence[str], slot: float) -> str:
    widest = max(map(len, labels), default=1) * CHARACTER + GAP
    most = max(1, min(8, int((WIDTH - LEFT - RIGHT) / widest)))
    places = [index for index, label in enumerate(labels) if label]
    every = max(1, -(-len(places) // most))
    drawn = []
    for index in places[(every - 1) // 2 :: every]:
        # Half the width of the label, at most: it must not reach beyond the picture.
        half = len(labels[index]) * CHARACTER / 2
        x = min(LEFT + (index + 0.5) * slot, WIDTH - half)
        drawn.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(labels[index])}</text>')
    return "".join(drawn)


def _shorten(number: int) -> str:
    if number >= 1_000_000:
        return f"{number / 1_000_000:g}M"
    return f"{number / 1_000:g}k" if number >= 1_000 else str(number)


def _wrap_svg(inside: str, summary: str) -> Markup:
    head = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(WIDTH, HEIGHT, summary)
    return head + Markup(inside) + Markup("</svg>")  # noqa: S704  numbers and escaped words


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/", for_values(show_overview), "overview.read"),
    PageRoute("GET", "/overview/live", for_values(show_live_overview), "overview.read", is_polled=True),
    PageRoute("POST", "/checklist/dismiss", dismiss, "system.change"),
)
