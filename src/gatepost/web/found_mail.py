"""What a search found, at a glance: a chart of when it came, and the most frequent values, each of which narrows it.

A search that asks for nothing but time, tenant, verdict and decision is drawn from the counts of traffic, which know
every message; any other from the messages that were counted, and says so. Every value has two links, to the list that
has only this and to the one without it. The numbers are those of the messages that were counted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gatepost.store.found_values import Facet, FoundValues
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.search_language import add_term, write_term
from gatepost.store.traffic import TrafficBucket
from gatepost.web.charts import STRIP, VERDICT_ORDER, Column, draw_stacked_bars
from gatepost.web.context import WebContext
from gatepost.web.message_lines import name_tag
from gatepost.web.message_search import Search
from gatepost.web.request import SignedInRequest
from gatepost.web.time_zones import local_time

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


class FacetLine(msgspec.Struct, frozen=True):
    """The most frequent values of one facet."""

    title: str
    values: tuple[FacetValue, ...]


class Step(msgspec.Struct, frozen=True):
    """A bar of the chart: its label, its number of messages, and the list of them."""

    label: str
    count: int
    path: str


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
    facets = [_describe_facet(context, search, name, found, names) for name in TITLES]
    return {
        "glance": found,
        "chart": draw_stacked_bars(bars, VERDICT_ORDER, f"Messages by time and verdict{reach}", STRIP) if bars else "",
        "chart_reach": reach,
        "steps": [Step(bar.label, bar.total, bar.path) for bar in bars if bar.total],
        "facets": [line for line in facets if line.values],
    }


async def _find_steps(
    context: WebContext, wanted: MessageFilter, found: FoundValues
) -> tuple[list[tuple[int, int, Mapping[str, int]]] | None, bool]:
    """The steps of all messages, where the counts of traffic know them."""
    known = MessageFilter(
        tenant=wanted.tenant,
        since=wanted.since,
        until=wanted.until,
        verdict=wanted.verdict,
        decision=wanted.decision,
        query=wanted.query,
    )
    if wanted != known or wanted.query is not None or (wanted.verdict and wanted.decision):
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
) -> FacetLine:
    values = found.facets.get(facet, ())
    if len(values) == 1 and values[0][1] == found.counted:
        values = ()  # it says nothing: all have it
    policy = context.policies.deployment.policy
    shown: Sequence[FacetValue] = [
        FacetValue(
            name_tag(value, policy) if facet == "tag" else names.get(value, value),
            count,
            search.narrowed(facet, names.get(value, value)),
            search.without(facet, names.get(value, value)) if facet != "tenant" else "",
        )
        for value, count in values
    ]
    return FacetLine(TITLES[facet], tuple(shown))
