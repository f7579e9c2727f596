"""The first page: is everything well, how much comes, what becomes of it, how long does it take.

`/overview/live` is the same without the frame around it; the page fetches it anew while somebody looks.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import Response

from gatepost.abby.web import charts
from gatepost.abby.web.answers import html
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.scopes import scopes
from gatepost.abby.web.site import Page, Row
from gatepost.abby.web.visit import Visit
from gatepost.api.errors import Failure
from gatepost.guard.scan import Load
from gatepost.policy import VERDICTS
from gatepost.store.traffic import BINS, TrafficBucket

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


async def show(desk: Desk, visit: Visit) -> Response | Failure:
    """The whole page."""
    values = await _values(desk, visit)
    if isinstance(values, Failure):
        return values
    return html(desk.renderer.page("overview.html", visit, here="/", scopes=await scopes(desk, visit), **values))


async def live(desk: Desk, visit: Visit) -> Response | Failure:
    """What changes on it."""
    values = await _values(desk, visit)
    if isinstance(values, Failure):
        return values
    return html(desk.renderer.plain("overview-live.html", **values))


async def _values(desk: Desk, visit: Visit) -> Mapping[str, Any] | Failure:
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
    columns = [charts.Column(label, bucket.verdicts) for label, bucket in zip(labels, buckets, strict=True)]
    latency = {
        name: [bucket.percentile(part) if bucket.messages else None for bucket in buckets]
        for name, part in (("a", 0.5), ("b", 0.99))
    }
    return {
        "verdict_chart": charts.stacked(columns, ORDER, f"Messages by verdict over {span.name}"),
        "latency_chart": charts.lines(labels, latency, f"Time of analysis over {span.name}, in milliseconds"),
    }


def _core(name: str, load: Load | None) -> dict[str, Any]:
    if load is None:
        return {"name": name, "load": None, "meter": charts.meter(0, 1, f"{name} does not answer")}
    said = f"{load.in_processing} of {load.maximum} slots in use"
    return {"name": name, "load": load, "meter": charts.meter(load.in_processing, load.maximum, said)}


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
