"""Domain reports: who sends in the name of a domain, from where and with what result, and what the next step is.

Users of a tenant see its domains; those of the deployment see all, or one tenant's. The first page has a line for each
domain, those first of which most mail failed. The page of a domain has its days, its sources, its reporters, and the
next step to `p=reject` in words.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.domain_reports import REPORT_KINDS, DomainFigures, ReportKind, advise
from gatepost.names import normal_domain
from gatepost.store.domain_reports import DayFigures
from gatepost.web.charts import Column, draw_stacked_bars
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import whole_number
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute
from gatepost.web.time_zones import local_time

DAY = 86_400_000
PAGE = 100
PARTS = ("passed", "failed")
NO_DOMAIN = Failure(NOT_FOUND, "nothing was reported of this domain")


class Period(msgspec.Struct, frozen=True):
    """A period that can be chosen, in days."""

    key: str
    name: str
    days: int


PERIODS = (
    Period("month", "30 days", 30),
    Period("week", "7 days", 7),
    Period("quarter", "90 days", 90),
    Period("year", "a year", 365),
)
KIND_NAMES: dict[ReportKind, str] = {"dmarc": "DMARC", "tls": "TLS", "failure": "DMARC failures"}


class Choice(msgspec.Struct, frozen=True):
    """What a page shows: whose domains, reports of which kind, and since which day."""

    tenant: str | None
    kind: ReportKind
    period: Period
    since: int

    def query(self) -> dict[str, str]:
        """The choice as a query, without what is usual."""
        stated = {
            "kind": self.kind if self.kind != "dmarc" else "",
            "span": "" if self.period is PERIODS[0] else self.period.key,
        }
        return {name: value for name, value in stated.items() if value}


def _read_choice(context: WebContext, request: SignedInRequest) -> Choice | Failure:
    tenant = request.parse_tenant()
    if isinstance(tenant, Failure):
        return tenant
    kind = next((each for each in REPORT_KINDS if each == request.query.text("kind")), REPORT_KINDS[0])
    period = next((each for each in PERIODS if each.key == request.query.text("span")), PERIODS[0])
    return Choice(tenant, kind, period, context.now() // DAY - period.days + 1)


def _describe(choice: Choice) -> dict[str, Any]:
    return {"choice": choice, "tenant": choice.tenant, "period": choice.period, "periods": PERIODS, "kinds": KIND_NAMES}


async def show_domains(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show every domain that something was reported of."""
    choice = _read_choice(context, request)
    if isinstance(choice, Failure):
        return choice
    every = choice.tenant is None
    found = await context.store.reported_domains.domains(choice.kind, choice.since, choice.tenant, every=every)
    number = max(1, min(whole_number(request.query.text("page"), 1), -(-len(found) // PAGE)))
    return await context.page(
        request,
        "domain-reports.html",
        domains=found[(number - 1) * PAGE : number * PAGE],
        number=number,
        pages=-(-len(found) // PAGE),
        total=_sum_up(found),
        count=len(found),
        scopes=await find_scopes(context, request),
        **_describe(choice),
    )


async def show_domain(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show one domain."""
    choice = _read_choice(context, request)
    if isinstance(choice, Failure):
        return choice
    named, stored = normal_domain(request.path_part("domain")), context.store.reported_domains
    asked = choice.kind, choice.since, choice.tenant, named
    figures = await stored.domain(*asked)
    if figures is None:
        return NO_DOMAIN
    days, sources = await stored.days(*asked), await stored.sources(*asked)
    return await context.page(
        request,
        "domain-report.html",
        figures=figures,
        days=days,
        sources=sources,
        reporters=await stored.reporters(*asked),
        advice=advise(figures, sources) if choice.kind == "dmarc" else None,
        chart=_draw_days(days, choice, named),
        scopes=await find_scopes(context, request),
        **_describe(choice),
    )


def _sum_up(found: Sequence[DomainFigures]) -> DomainFigures:
    return DomainFigures(None, "", "", "", 0, sum(each.messages for each in found), sum(each.passed for each in found))


def _draw_days(days: Sequence[DayFigures], choice: Choice, domain: str) -> Any:
    by_day = {each.day: each for each in days}
    columns = []
    for day in range(choice.since, choice.since + choice.period.days):
        each = by_day.get(day)
        parts = {"passed": each.passed, "failed": each.messages - each.passed} if each else {}
        label = local_time(day * DAY + DAY // 2).strftime("%d %b")
        columns.append(Column(label, parts))
    return draw_stacked_bars(columns, PARTS, f"Mail in the name of {domain} over {choice.period.name}")


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/domain-reports", show_domains, "overview.read"),
    PageRoute("GET", "/domain-reports/{domain}", show_domain, "overview.read"),
)
