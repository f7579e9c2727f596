"""The first page: state of the queue and the cores, number of messages, verdicts, and time of analysis.

`/overview/live` is the part that changes, without the frame; the page fetches it every few seconds.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.policy.rules import VERDICTS
from gatepost.scanning.request import Load
from gatepost.store.traffic import BINS, TrafficBucket
from gatepost.web.charts import Column, draw_lines, draw_meter, draw_stacked_bars
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.page_responses import html_response
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute
from gatepost.web.time_zones import local_time

MINUTE = 60_000


class Span(msgspec.Struct, frozen=True):
    """A period that the charts cover, and the length of its steps, in milliseconds."""

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
VERDICT_ORDER = (*reversed(VERDICTS), "undecided")


async def show_overview(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show the whole page."""
    values = await _collect_values(context, request)
    if isinstance(values, Failure):
        return values
    return html_response(
        await context.renderer.render_in_turns(
            "overview.html", request, here="/", scopes=await find_scopes(context, request), **values
        )
    )


async def show_live_overview(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show the part of the page that changes."""
    values = await _collect_values(context, request)
    if isinstance(values, Failure):
        return values
    return html_response(context.renderer.render_public("overview-live.html", **values))


async def _collect_values(context: WebContext, request: SignedInRequest) -> Mapping[str, Any] | Failure:
    tenant = request.parse_tenant()
    if isinstance(tenant, Failure):
        return tenant
    span = next((each for each in SPANS if each.key == request.query.text("span")), SPANS[1])
    now = context.now()
    buckets = await context.store.traffic(tenant, now - span.length, now, span.step)
    held = await context.store.held_counts(tenant)
    return {
        "span": span,
        "spans": SPANS,
        "tenant": tenant,
        "other": None if request.user.tenant else tenant,
        "status": context.cores.colour,
        "waiting": context.cores.waiting,
        "cores": [_describe_core(name, load) for name, load in context.cores.states]
        if request.may("system.read")
        else (),
        "held": held,
        "total": total_traffic(buckets),
        "verdicts": [verdict for verdict in VERDICTS if any(bucket.verdicts.get(verdict) for bucket in buckets)],
        "buckets": buckets,
        "labels": [_format_label(bucket.start, span) for bucket in buckets],
        "now": now,
        "since": local_time(now - span.length).strftime("%Y-%m-%dT%H:%M"),
        **_draw_charts(buckets, span),
    }


def _draw_charts(buckets: tuple[TrafficBucket, ...], span: Span) -> dict[str, Any]:
    labels = [_format_label(bucket.start, span) for bucket in buckets]
    columns = [Column(label, bucket.verdicts) for label, bucket in zip(labels, buckets, strict=True)]
    latency = {
        name: [bucket.percentile(part) if bucket.messages else None for bucket in buckets]
        for name, part in (("a", 0.5), ("b", 0.99))
    }
    return {
        "verdict_chart": draw_stacked_bars(columns, VERDICT_ORDER, f"Messages by verdict over {span.name}"),
        "latency_chart": draw_lines(labels, latency, f"Analysis time over {span.name}, in milliseconds"),
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


def _format_label(start: int, span: Span) -> str:
    return local_time(start).strftime(span.label)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/", show_overview, "overview.read"),
    PageRoute("GET", "/overview/live", show_live_overview, "overview.read", is_polled=True),
)
