"""One analysis as a person reads it: verdict first, then why, then everything that was seen."""

from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from gatepost.api.scanning import AnalysedMessage, AuthenticationOutcome, LedgerLine, MessageAnalysisResult
from gatepost.cli.printing import rows, safe, table
from gatepost.policy import VERDICTS

_STYLES = {"clean": "bold green", "bulk": "bold green", "spam": "bold yellow", "suspicious": "bold yellow"}
MAX_FILES = 50


def show(out: Console, name: str, analysed: AnalysedMessage | MessageAnalysisResult) -> None:
    """Print one analysis; a bare result has no ledger to show."""
    out.print(_headline(name, analysed))
    if isinstance(analysed, AnalysedMessage):
        out.print(Padding(Group(*_sections(analysed)), (0, 0, 1, 2), expand=False))
    else:
        out.print(
            Padding(
                safe(f"tags: {', '.join(analysed.tags) or 'none'}; id: {analysed.ggrid}"), (0, 0, 1, 2), expand=False
            )
        )


def summary(out: Console, counts: Mapping[str, int]) -> None:
    """Print how many messages got which verdict, most severe first."""
    total = sum(counts.values())
    order = [*VERDICTS, *(name for name in counts if name not in VERDICTS)]
    lines = [(name, str(counts[name]), f"{counts[name] / total:.1%}") for name in order if counts.get(name)]
    out.print(rows(table("verdict", "messages", "share"), [*lines, ("all", str(total), "")]))


def _headline(name: str, analysed: AnalysedMessage | MessageAnalysisResult) -> Text:
    style = _STYLES.get(analysed.verdict, "bold red")
    return Text.assemble(safe(name), ": ", (analysed.verdict, style), f" → {analysed.decision}")


def _sections(analysed: AnalysedMessage) -> Iterator[RenderableType]:
    ledger = analysed.ledger
    yield safe(f"{ledger.reason}. Score {ledger.score:g}.")
    yield safe(f"Subject: {analysed.subject or '(none)'}   From: {', '.join(analysed.senders) or '(none)'}")
    if ledger.findings:
        made = table("finding", "weight", "counted", "where", "what was seen")
        yield rows(made, [_finding(line) for line in ledger.findings])
    yield rows(table("authentication", "result", "domain", "reason"), list(_authentication(analysed.authentication)))
    if analysed.files:
        yield from _files(analysed)
    for effect in ledger.lists:
        said = f"{effect.effect} by {effect.list}: {effect.entry} ({effect.scope}), on {effect.where}"
        yield Text.assemble(("list: ", "bold"), safe(f"{said}; {effect.reason}" if effect.reason else said))
    for override in ledger.overrides:
        yield Text.assemble(("policy: ", "bold"), safe(override))
    for outcome in ledger.outcomes:
        yield Text.assemble(("did not run: ", "yellow"), safe(f"{outcome.stage}: {outcome.reason}"))


def _finding(line: LedgerLine) -> tuple[str, ...]:
    facts = "; ".join(f"{name}: {value}" for name, value in line.facts.items())
    seen = f"{line.title}. {facts}" if facts else line.title
    mark = " (conclusive)" if line.conclusive else ""
    note = f" [{line.note}]" if line.note else ""
    changed = f" [{line.override}]" if line.override else ""
    return line.tag, f"{line.weight:g}{changed}", f"{line.counted:g}{mark}{note}", line.where, seen


def _authentication(found: AuthenticationOutcome) -> Iterator[tuple[str, ...]]:
    yield "spf", found.spf.result, found.spf.domain, found.spf.reason
    for signature in found.dkim:
        yield "dkim", signature.result, signature.domain, signature.reason
    aligned = " and ".join(
        name for name, yes in (("DKIM", found.dmarc.dkim_aligned), ("SPF", found.dmarc.spf_aligned)) if yes
    )
    yield (
        "dmarc",
        found.dmarc.result,
        found.dmarc.domain,
        found.dmarc.reason or (f"{aligned} aligned" if aligned else ""),
    )
    if found.arc.instances:
        yield "arc", found.arc.result, ", ".join(found.arc.sealers), found.arc.reason


def _files(analysed: AnalysedMessage) -> Iterator[RenderableType]:
    shown = analysed.files[:MAX_FILES]
    lines = [(file.path, file.type, f"{file.size:,}", file.sha256[:16] + "…", file.unread) for file in shown]
    yield rows(table("file", "type", "bytes", "sha256", "not read"), lines)
    if len(analysed.files) > MAX_FILES:
        kinds = Counter(file.type for file in analysed.files[MAX_FILES:])
        yield safe(f"and {len(analysed.files) - MAX_FILES} more: {', '.join(sorted(kinds))}")
