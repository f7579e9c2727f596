"""Accuracy: what the mail of a tenant says about the decisions on it.

People release mail that was held by mistake, report mail that was missed, confirm or delete what was rightly held. The
page counts messages that came in a period by what was decided and by what people said of them, by verdict, finding and
step of time. Every share has its two numbers beside it. What nobody looked at counts as decided rightly, so the shares
are the least that went wrong, and the page says how much was looked at.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gatepost.api.errors import Failure
from gatepost.policy.rules import VERDICTS
from gatepost.store.feedback import Corrections
from gatepost.store.messages import MessageSummary
from gatepost.store.traffic import DecidedStep, FindingCounts
from gatepost.web.charts import Column, draw_stacked_bars
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.message_lines import name_tag
from gatepost.web.pages.overview import MINUTE
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute
from gatepost.web.time_zones import local_time

DAY = 1_440 * MINUTE
MAX_SHOWN = 20
MAX_FINDINGS = 10
PARTS = ("mistaken", "missed")


class Period(msgspec.Struct, frozen=True):
    """A period that can be chosen, and the steps of its chart, in milliseconds."""

    key: str
    name: str
    length: int
    step: int


PERIODS = (
    Period("week", "7 days", 7 * DAY, DAY),
    Period("month", "30 days", 30 * DAY, DAY),
    Period("quarter", "90 days", 90 * DAY, 7 * DAY),
)


class Judgements(msgspec.Struct, frozen=True):
    """Messages that came in the period and that somebody spoke of: held and unwanted by nobody (`mistaken`), held and
    rightly so, delivered and unwanted (`missed`). `unknown` are those whose result is no longer on record."""

    mistaken: tuple[MessageSummary, ...] = ()
    confirmed: tuple[MessageSummary, ...] = ()
    missed: tuple[MessageSummary, ...] = ()
    unknown: int = 0


class VerdictLine(msgspec.Struct, frozen=True):
    """The numbers of one verdict, or of all."""

    name: str
    held: int = 0
    mistaken: int = 0
    confirmed: int = 0
    delivered: int = 0
    missed: int = 0


class FindingLine(msgspec.Struct, frozen=True):
    """A finding of mail that was held by mistake, and how much held mail has it."""

    tag: str
    title: str
    mistaken: int
    held: int


async def show_accuracy(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show what was held by mistake and what was missed, as far as people said so."""
    tenant = request.parse_tenant()
    if isinstance(tenant, Failure):
        return tenant
    period = next((each for each in PERIODS if each.key == request.query.text("span")), PERIODS[1])
    now, store = context.now(), context.store
    said = await store.feedback.corrections(tenant, now - period.length, now + MINUTE)
    found = await find_judgements(context, said)
    steps = await store.traffic.decided(tenant, said.since, now, period.step)
    counted = await store.traffic.held_findings(tenant, said.since, now + MINUTE)
    lines = count_by_verdict(steps, found)
    return await context.page(
        request,
        "accuracy.html",
        period=period,
        periods=PERIODS,
        tenant=tenant,
        other=None if request.user.tenant else tenant,
        scopes=await find_scopes(context, request),
        said=said,
        is_cut=said.since > now - period.length,
        found=found,
        lines=lines,
        total=sum_lines(lines),
        steps=_describe_steps(steps, found),
        chart=_draw_chart(steps, found, period),
        counted=counted,
        findings=count_findings(found.mistaken, counted, lambda tag: _name(context, tag)),
        shown=MAX_SHOWN,
    )


def _name(context: WebContext, tag: str) -> str:
    return name_tag(tag, context.policies.deployment.policy)


async def find_judgements(context: WebContext, said: Corrections) -> Judgements:
    """Find the results of the messages that somebody spoke of, and sort them by what was said."""
    named = sorted({*said.said, *said.released, *said.deleted})
    results = await context.store.messages.summaries(named)
    recent = [each for each in results if each.completed >= said.since]
    heads = await context.store.messages.heads([each.ggrid for each in recent])
    here = [each for each in recent if not (each.ggrid in heads and heads[each.ggrid].is_trial)]
    held = [each for each in here if each.decision != "deliver"]
    mistaken = [each for each in held if is_mistaken(each.ggrid, said)]
    known = {each.ggrid for each in mistaken}
    return Judgements(
        tuple(mistaken),
        tuple(each for each in held if each.ggrid not in known),
        tuple(each for each in here if each.decision == "deliver" and said.said.get(each.ggrid, False)),
        len(named) - len(results),
    )


def is_mistaken(ggrid: str, said: Corrections) -> bool:
    """Return whether people wanted a held message: it was released, unless somebody said afterwards that it was rightly
    held, or reported."""
    if ggrid in said.said:
        return not said.said[ggrid]
    return ggrid in said.released


def count_by_verdict(steps: Sequence[DecidedStep], found: Judgements) -> list[VerdictLine]:
    """Return the numbers of every verdict that a message of the period had."""
    held, delivered = Counter[str](), Counter[str]()
    for step in steps:
        for (verdict, decision), number in step.results.items():
            (delivered if decision == "deliver" else held)[verdict] += number
    mistaken, confirmed, missed = (
        Counter(each.verdict for each in some) for some in (found.mistaken, found.confirmed, found.missed)
    )
    return [
        VerdictLine(name, held[name], mistaken[name], confirmed[name], delivered[name], missed[name])
        for name in VERDICTS
        if held[name] or delivered[name]
    ]


def sum_lines(lines: Sequence[VerdictLine]) -> VerdictLine:
    """Return the numbers of all verdicts together."""
    sums = (sum(getattr(line, name) for line in lines) for name in VerdictLine.__struct_fields__[1:])
    return VerdictLine("all", *sums)


def count_findings(
    mistaken: Sequence[MessageSummary], counted: FindingCounts, name: Callable[[str], str]
) -> list[FindingLine]:
    """Return the findings that most of the messages have that were held by mistake, among those messages of which all
    findings were counted."""
    there = [each for each in mistaken if each.completed >= counted.reached]
    numbers = Counter(tag for each in there for tag in each.tags)
    return [
        FindingLine(tag, name(tag), number, max(number, counted.findings.get(tag, 0)))
        for tag, number in numbers.most_common(MAX_FINDINGS)
    ]


def _sort_into_steps(steps: Sequence[DecidedStep], some: Sequence[MessageSummary]) -> Counter[int]:
    """Count messages by the step in which they were decided."""
    starts = [step.start for step in steps]
    return Counter(max((start for start in starts if start <= each.completed), default=0) for each in some)


def _describe_steps(steps: Sequence[DecidedStep], found: Judgements) -> list[Mapping[str, Any]]:
    """Return the numbers of every step in which there was mail, the newest first."""
    mistaken, missed = (_sort_into_steps(steps, some) for some in (found.mistaken, found.missed))
    rows: list[Mapping[str, Any]] = []
    for step in reversed(steps):
        held = sum(number for (_, decision), number in step.results.items() if decision != "deliver")
        delivered = sum(step.results.values()) - held
        if held or delivered:
            numbers = {"held": held, "delivered": delivered}
            rows.append(
                {"start": step.start, "mistaken": mistaken[step.start], "missed": missed[step.start], **numbers}
            )
    return rows


def _draw_chart(steps: Sequence[DecidedStep], found: Judgements, period: Period) -> Any:
    counts = {name: _sort_into_steps(steps, getattr(found, name)) for name in PARTS}
    columns = [
        Column(local_time(step.start).strftime("%d %b"), {name: counts[name][step.start] for name in PARTS})
        for step in steps
    ]
    return draw_stacked_bars(columns, PARTS, f"Messages held by mistake and missed over {period.name}")


PAGES: tuple[WebRoute, ...] = (PageRoute("GET", "/accuracy", show_accuracy, "messages.read"),)
