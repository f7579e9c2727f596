"""The first page: today against the usual, new campaigns and senders, the quarantine, delivery, nodes, what is most
frequent. Every number leads to a search that finds what it counts.

What came today is compared with the same hours of the same weekday in the four weeks before, up to the last full hour,
since counts of more than nine days ago are kept by the hour. `/overview/live` is the part that changes, without the
frame; the page fetches it every few seconds.

Administrators have a checklist of the first days: what is left to do, with a link to each. An item is done when what it
asks for is there. Items that do not apply can be dismissed, for all administrators.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from statistics import median
from typing import Any
from urllib.parse import urlencode

import msgspec

from gatepost.api.errors import Failure
from gatepost.policy.rules import VERDICTS
from gatepost.scanning.request import Load
from gatepost.store.quarantine import QuarantineFlow
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.search_language import write_term
from gatepost.store.traffic import BINS, Replies, TopValues, TrafficBucket
from gatepost.store.users import User
from gatepost.web.charts import VERDICT_ORDER, Column, draw_lines, draw_meter, draw_stacked_bars
from gatepost.web.context import Scopes, WebContext, find_scopes
from gatepost.web.message_lines import name_tag
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.rendering import note_of
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about
from gatepost.web.time_zones import current_zone_name, local_time

MINUTE = 60_000
HOUR = 60 * MINUTE
WEEK = 7 * 1_440 * MINUTE
TOP_MILLISECONDS = 30_000
MAX_KNOWN = 200
USUAL_WEEKS = 4
DANGEROUS = ("malware", "phishing", "fraud", "spoofing")
# A number that is more than twice the usual, and by so many messages, is remarkable.
REMARKABLE = 10


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


class Compared(msgspec.Struct, frozen=True):
    """A number of messages of today, what is usual at this time, and the search that finds them."""

    name: str
    now: int
    usual: float | None
    path: str

    @property
    def is_remarkable(self) -> bool:
        return self.usual is not None and self.now > 2 * self.usual and self.now - self.usual >= REMARKABLE


class Today(msgspec.Struct, frozen=True):
    """Today until the last full hour, against the same hours of that weekday in earlier weeks that had mail."""

    name: str
    weeks: int
    numbers: tuple[Compared, ...]


class Counted(msgspec.Struct, frozen=True):
    """What is counted at most twice a minute, however many pages are open."""

    time: int
    top: TopValues
    before: TrafficBucket
    flow: QuarantineFlow
    today: Today
    replies: Replies | None


async def show_overview(context: WebContext, request: SignedInRequest, values: Mapping[str, Any]) -> PageResult:
    return await context.page(request, "overview.html", checklist=await find_checklist(context, request), **values)


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
    counted = await _count(context, request, tenant, span, now)
    top = counted.top
    scopes = await find_scopes(context, request)
    held = await context.store.quarantine.counts(tenant)
    other = None if request.user.tenant else tenant
    terms = _write_scope(scopes, other)
    places = [_search_in(terms, bucket.start, bucket.start + span.step) for bucket in buckets]
    nodes = await context.store.publishing.nodes() if request.may("system.read") else ()
    queue = context.cores.health
    return {
        "scopes": scopes,
        "today": counted.today,
        "replies": counted.replies,
        "nodes": [(node, node.state(now)) for node in nodes],
        "found": lambda text: _search_in(" ".join(filter(None, (text, terms))), now - span.length, None),
        "write_term": write_term,
        "dangerous": " OR ".join(f"verdict:{each}" for each in DANGEROUS),
        "span": span,
        "spans": SPANS,
        "tenant": tenant,
        "other": other,
        "queue": queue,
        "queue_said": note_of(queue, may_know=request.may("system.read")),
        "waiting": context.cores.waiting,
        "cores": [_describe_core(name, load) for name, load in context.cores.states]
        if request.may("system.read")
        else (),
        "held": held,
        "total": total_traffic(buckets),
        "before": counted.before,
        "week_before": (now - span.length - WEEK, now - WEEK),
        "top": top,
        "flow": counted.flow,
        "may_audit": request.may("audit.read"),
        "steps": tuple(zip(buckets, places, strict=True)),
        "names": {each.uid: each.name for each in scopes.tenants} if scopes.has_all_tenants else {},
        "titles": {tag: name_tag(tag, context.policies.deployment.policy) for tag, _ in top.findings},
        "verdicts": [verdict for verdict in VERDICTS if any(bucket.verdicts.get(verdict) for bucket in buckets)],
        "buckets": buckets,
        "labels": [_format_label(bucket.start, span) for bucket in buckets],
        "now": now,
        "since": local_time(now - span.length).strftime("%Y-%m-%dT%H:%M"),
        **_draw_charts(buckets, span, places),
    }


for_values = about(_collect_values)


async def _count(context: WebContext, request: SignedInRequest, tenant: str | None, span: Span, now: int) -> Counted:
    """Count what is most frequent, the week before, what came into the quarantine and left it, and what came today in
    the zone of the user."""
    key = (tenant, span.key, current_zone_name(), request.user.tenant is None)
    known: Counted | None = context.top_values.get(key)
    if known and now - known.time < TOP_MILLISECONDS:
        return known
    since, store = now - span.length, context.store
    scopes = await find_scopes(context, request)
    counted = Counted(
        now,
        await store.traffic.top_values(tenant, since, now + MINUTE),
        total_traffic(await store.traffic.buckets(tenant, since - WEEK, now - WEEK, span.step)),
        await store.quarantine.flow(tenant, since, now + MINUTE),
        await _compare_today(context, tenant, now, _write_scope(scopes, None if request.user.tenant else tenant)),
        await store.traffic.replies(since, now + MINUTE) if tenant is None else None,
    )
    if len(context.top_values) >= MAX_KNOWN:
        context.top_values.clear()
    context.top_values[key] = counted
    return counted


async def _compare_today(context: WebContext, tenant: str | None, now: int, terms: str) -> Today:
    """Count today, or yesterday as a whole during the first hour of a day."""
    end = local_time(now).replace(minute=0, second=0, microsecond=0)
    start = end.replace(hour=0) if end.hour else end - timedelta(days=1)
    totals: list[TrafficBucket] = []
    for week in range(USUAL_WEEKS + 1):
        first, last = (int((each - timedelta(weeks=week)).timestamp() * 1000) for each in (start, end))
        totals.append(total_traffic(await context.store.traffic.buckets(tenant, first, last, HOUR)))
    today, *earlier = totals
    usual = [each for each in earlier if each.messages]
    since, until = int(start.timestamp() * 1000), int(end.timestamp() * 1000)
    counted: tuple[tuple[str, str, Callable[[TrafficBucket], int]], ...] = (
        ("Messages", "", lambda each: each.messages),
        ("Not delivered", "NOT decision:deliver", lambda each: each.messages - each.decisions.get("deliver", 0)),
        (
            "Malware, phishing, fraud, spoofing",
            f"({' OR '.join(f'verdict:{each}' for each in DANGEROUS)})",
            lambda each: sum(each.verdicts.get(verdict, 0) for verdict in DANGEROUS),
        ),
        ("Spam", "verdict:spam", lambda each: each.verdicts.get("spam", 0)),
    )
    numbers = tuple(
        Compared(
            name,
            number(today),
            median(map(number, usual)) if usual else None,
            _search_in(" ".join(filter(None, (text, terms))), since, until),
        )
        for name, text, number in counted
    )
    name = f"{start.strftime('%A %d %B, %H:%M')} to {end.strftime('%H:%M') if end.hour else '24:00'}"
    return Today(name, len(usual), numbers)


def _write_scope(scopes: Scopes, tenant: str | None) -> str:
    """The term of a search for the mail of one tenant, for who sees others too."""
    return write_term("tenant", scopes.name(tenant)) if tenant else ""


def _search_in(text: str, since: int, until: int | None) -> str:
    """The address of a search in a period."""
    period = [f"after:{local_time(since).strftime('%Y-%m-%dT%H:%M')}"]
    if until is not None:
        period.append(f"before:{local_time(until).strftime('%Y-%m-%dT%H:%M')}")
    return f"/messages?{urlencode({'q': ' '.join(filter(None, (text, *period)))})}"


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
    verdicts, decisions = Counter[str](), Counter[str]()
    latency = [0] * BINS
    for bucket in buckets:
        verdicts.update(bucket.verdicts)
        decisions.update(bucket.decisions)
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
            "password", "Choose your own password", "the first one lies in a file of the service", "/account"
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


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/", for_values(show_overview), "overview.read"),
    PageRoute("GET", "/overview/live", for_values(show_live_overview), "overview.read", is_polled=True),
    PageRoute("POST", "/checklist/dismiss", dismiss, "system.change"),
)
