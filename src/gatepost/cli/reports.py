"""`gatepost reports`: what others report about mail of our domains, reports from files, and what we report to others.

Files are as hostile as mail: they are read in a sealed worker, as those that come by mail.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gatepost.cli.commands import Argument, BadParameter, Group, Option
from gatepost.cli.deployment import Deployment, TenantOption, render_time
from gatepost.cli.printing import Output, escape, print_json, print_table
from gatepost.domain_reports import ReportKind, SourceFigures, advise
from gatepost.names import normal_domain
from gatepost.times import now

if TYPE_CHECKING:
    from gatepost.domain_reports import DomainFigures, DomainReports
    from gatepost.store.sent_reports import SentReport
    from gatepost.store.store import Store

group = Group("Read the DMARC and TLS reports of others about your domains, and list those sent to others.")

DAY = 86_400_000
MAX_FILE = 50 << 20
MAX_LINES = 30

KindOption = Annotated[ReportKind, Option("--kind", help="Reports of DMARC or TLS, or on single failures.")]
DaysOption = Annotated[int, Option("--days", metavar="NUMBER", help="How many days back.", least=1, most=1_830)]


def _since(days: int) -> int:
    return now() // DAY - days + 1


@group.command("list")
def show_domains(
    *, tenant: TenantOption = None, kind: KindOption = "dmarc", days: DaysOption = 30, place: Deployment, output: Output
) -> None:
    """List the domains that something was reported of; those first of which most mail failed."""

    async def run(store: "Store") -> "tuple[DomainFigures, ...]":
        return await store.reported_domains.domains(kind, _since(days), tenant, every=tenant is None)

    found = place.with_store(run, any_node=True)
    lines = [
        (
            escape(each.domain),
            escape(each.policy) or "-",
            f"{each.messages:,}",
            f"{each.share:.1%}" if each.messages else "-",
            f"{each.failed:,}",
            render_time(each.seen),
        )
        for each in found
    ]
    output.show_table(found, ("domain", "policy", "messages", "passed", "failed", "last report"), lines)


@group.command("show")
def show_domain(
    *,
    domain: Annotated[str, Argument(metavar="DOMAIN", help="The domain.")],
    tenant: Annotated[
        str | None, Option("--tenant", metavar="UID", help="The tenant of the domain; without it, the deployment.")
    ] = None,
    kind: KindOption = "dmarc",
    days: DaysOption = 30,
    place: Deployment,
    output: Output,
) -> None:
    """Show who sends in the name of a domain, with what result, and the next step to p=reject."""

    async def run(store: "Store") -> "tuple[DomainFigures | None, tuple[SourceFigures, ...]]":
        asked = kind, _since(days), tenant, normal_domain(domain)
        return await store.reported_domains.domain(*asked), await store.reported_domains.sources(*asked)

    figures, sources = place.with_store(run, any_node=True)
    if figures is None:
        raise BadParameter(
            "nothing was reported of this domain; `gatepost reports list` has those that are known", "DOMAIN"
        )
    advice = advise(figures, sources) if kind == "dmarc" else None
    if output.json:
        print_json({"domain": figures, "sources": sources, "advice": advice})
        return
    passed = f"{figures.passed:,} of {figures.messages:,} passed in {days} days"
    print(f"{escape(figures.domain)}: {passed}. {escape(figures.published)}")
    if advice:
        print(f"Next step: {advice.text}\n")
    print_table(
        ("source", "count", "dkim", "spf", "result", "names"), [_render_source(each) for each in sources[:MAX_LINES]]
    )
    if len(sources) > MAX_LINES:
        print(f"… and {len(sources) - MAX_LINES:,} more; --json prints all.")


def _render_source(each: SourceFigures) -> tuple[str, ...]:
    row = each.row
    names = ", ".join(dict.fromkeys(filter(None, row.details)))
    passed = ("yes" if row.dkim else "no", "yes" if row.spf else "no")
    return escape(row.source) or "others", f"{row.count:,}", *passed, escape(row.result), escape(names)


@group.command("sent")
def show_sent(*, days: DaysOption = 7, place: Deployment, output: Output) -> None:
    """List the reports to others about their domains, and what became of them."""

    async def run(store: "Store") -> "tuple[SentReport, ...]":
        return await store.sent_reports.listed(now() - days * DAY)

    found = place.with_store(run, any_node=True)
    lines = [
        (
            each.kind,
            render_time(each.day * DAY)[:10],
            escape(each.domain),
            each.state,
            f"{each.messages:,}",
            escape(each.destinations) or "-",
            escape(each.reason),
        )
        for each in found
    ]
    output.show_table(found, ("kind", "day", "domain", "state", "messages", "sent to", "reason"), lines)


@group.command("import")
def read_files(
    *,
    files: Annotated[list[Path], Argument(metavar="FILE", help="Reports, or mails that carry them.")],
    tenant: Annotated[
        str | None, Option("--tenant", metavar="UID", help="The tenant of the domains; without it, the deployment.")
    ] = None,
    place: Deployment,
    output: Output,
) -> None:
    """Read reports from files: XML or JSON, zip or gzip, or whole mails. Nobody proves who wrote them."""
    import asyncio

    raws = [(path, _read(path)) for path in files]
    found = asyncio.run(_read_sealed(place, [raw for _, raw in raws]))

    async def keep(store: "Store") -> list[tuple[str, str, str]]:
        lines: list[tuple[str, str, str]] = []
        for (path, _), each in zip(raws, found, strict=True):
            kept = [(one.domain, await store.reported_domains.keep(tenant, one)) for one in each.reports]
            otherwise = [("", "; ".join(each.problems) or "no report")]
            lines += [(path.name, *outcome) for outcome in kept or otherwise]
        return lines

    lines = place.with_store(keep, any_node=True)
    shown = [{"file": file, "domain": domain, "outcome": outcome} for file, domain, outcome in lines]
    output.show_table(shown, ("file", "domain", "outcome"), [tuple(map(escape, line)) for line in lines])


def _read(path: Path) -> bytes:
    """Return a mail: the file itself, or one that carries it."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except OSError as fault:
        raise BadParameter(f"{path} cannot be read: {(fault.strerror or 'unknown error').lower()}", "FILE") from None
    if len(content) > MAX_FILE:
        raise BadParameter(f"{path} is larger than {MAX_FILE >> 20} MiB", "FILE")
    if content[:2] in (b"PK", b"\x1f\x8b") or content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"<", b"{"):
        from base64 import encodebytes

        head = b"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        return head + encodebytes(content)
    return content


async def _read_sealed(place: Deployment, raws: list[bytes]) -> "list[DomainReports]":
    from gatepost.cli.sealed_analysis import answer_offline, start_pool
    from gatepost.domain_reports import DomainReports
    from gatepost.ids import new_id
    from gatepost.mail.message import Envelope
    from gatepost.policy.rules import shipped_policy
    from gatepost.scanning.spool import BytesBody
    from gatepost.view.values import NotShown
    from gatepost.workers.jobs import Job
    from gatepost.workers.protocol import DOMAIN_REPORTS

    pool = await start_pool(place.load_guard_if_any(), shipped_policy(), answer_offline)
    try:
        read = [await pool.run(Job(DOMAIN_REPORTS, new_id(), Envelope(), BytesBody(raw), 0.0)) for raw in raws]
    finally:
        await pool.stop()
    return [DomainReports((), (each.reason,)) if isinstance(each, NotShown) else each for each in read]
