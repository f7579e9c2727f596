"""Print one analysis or held mail for people: the verdict first, then the reasons, then everything that was seen.

The text comes from a stranger. Control characters in it are shown as their codes, so that they cannot act on the
terminal.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from gatepost.abby.messages import describe_message, describe_release
from gatepost.api.scanning import (
    AnalysedMessage,
    AuthenticationOutcome,
    LedgerLine,
    MessageAnalysisResult,
    MessageRelease,
)
from gatepost.cli.printing import escape, rows, safe, table
from gatepost.mail.reader import read
from gatepost.policy.rules import VERDICTS
from gatepost.store.quarantine import HeldMessage
from gatepost.times import date_time

_STYLES = {"clean": "bold green", "bulk": "bold green", "spam": "bold yellow", "suspicious": "bold yellow"}
MAX_FILES = 50


def show_ledger(out: Console, name: str, analysed: AnalysedMessage | MessageAnalysisResult) -> None:
    """Print one analysis; a bare result has no ledger to show."""
    out.print(_render_headline(name, analysed))
    if isinstance(analysed, AnalysedMessage):
        out.print(Padding(Group(*_render_sections(analysed)), (0, 0, 1, 2), expand=False))
    else:
        out.print(
            Padding(
                safe(f"tags: {', '.join(analysed.tags) or 'none'}; id: {analysed.ggrid}"), (0, 0, 1, 2), expand=False
            )
        )


def show_summary(out: Console, counts: Mapping[str, int]) -> None:
    """Print how many messages got which verdict, most severe first."""
    total = sum(counts.values())
    order = [*VERDICTS, *(name for name in counts if name not in VERDICTS)]
    lines = [(name, str(counts[name]), f"{counts[name] / total:.1%}") for name in order if counts.get(name)]
    out.print(rows(table("verdict", "messages", "share"), [*lines, ("all", str(total), "")]))


def _render_headline(name: str, analysed: AnalysedMessage | MessageAnalysisResult) -> Text:
    style = _STYLES.get(analysed.verdict, "bold red")
    return Text.assemble(safe(name), ": ", (analysed.verdict, style), f" → {analysed.decision}")


def _render_sections(analysed: AnalysedMessage) -> Iterator[RenderableType]:
    ledger = analysed.ledger
    yield safe(f"{ledger.reason}. Score {ledger.score:g}.")
    if analysed.action:
        yield Text.assemble(("action: ", "bold"), safe(f"{analysed.action.summary}."))
    yield safe(f"Subject: {analysed.subject or '(none)'}   From: {', '.join(analysed.senders) or '(none)'}")
    if ledger.findings:
        made = table("finding", "weight", "counted", "where", "what was seen")
        yield rows(made, [_render_finding(line) for line in ledger.findings])
    yield rows(
        table("authentication", "result", "domain", "reason"), list(_render_authentication(analysed.authentication))
    )
    if analysed.files:
        yield from _render_files(analysed)
    for effect in ledger.lists:
        said = f"{effect.effect} by {effect.list}: {effect.entry} ({effect.scope}), on {effect.where}"
        yield Text.assemble(("list: ", "bold"), safe(f"{said}; {effect.reason}" if effect.reason else said))
    for override in ledger.overrides:
        yield Text.assemble(("policy: ", "bold"), safe(override))
    for outcome in ledger.outcomes:
        yield Text.assemble(("did not run: ", "yellow"), safe(f"{outcome.stage}: {outcome.reason}"))


def _render_finding(line: LedgerLine) -> tuple[str, ...]:
    facts = "; ".join(f"{name}: {value}" for name, value in line.facts.items())
    seen = f"{line.title}. {facts}" if facts else line.title
    mark = " (conclusive)" if line.conclusive else ""
    note = f" [{line.note}]" if line.note else ""
    changed = f" [{line.override}]" if line.override else ""
    return line.tag, f"{line.weight:g}{changed}", f"{line.counted:g}{mark}{note}", line.where, seen


def _render_authentication(found: AuthenticationOutcome) -> Iterator[tuple[str, ...]]:
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


def _render_files(analysed: AnalysedMessage) -> Iterator[RenderableType]:
    shown = analysed.files[:MAX_FILES]
    lines = [(file.path, file.type, f"{file.size:,}", file.sha256[:16] + "…", file.unread) for file in shown]
    yield rows(table("file", "type", "bytes", "sha256", "not read"), lines)
    if len(analysed.files) > MAX_FILES:
        kinds = Counter(file.type for file in analysed.files[MAX_FILES:])
        yield safe(f"and {len(analysed.files) - MAX_FILES} more: {', '.join(sorted(kinds))}")


MAX_PREVIEW = 2_000
SHOWN_FIELDS = ("from", "sender", "reply-to", "to", "cc", "date", "message-id", "subject")
MAX_FIELD = 300
MAX_FIELDS = 20


class HeldLine(msgspec.Struct, frozen=True, rename="camel"):
    """One held message in a list."""

    ggrid: str
    kept: str
    state: str
    verdict: str
    tenant_uid: str | None
    envelope_from: str
    envelope_recipients: tuple[str, ...]
    subject: str
    size: int
    release: MessageRelease | None
    core: str


class HeldShown(msgspec.Struct, frozen=True, rename="camel"):
    """One held message with its ledger. `preview` is null where the bytes are gone, or cannot be had now: `note` says
    why. `core` is the one in whose folder the bytes lie."""

    kept: str
    state: str
    core: str
    analysis: AnalysedMessage
    preview: str | None
    note: str


def describe_held_line(mail: HeldMessage) -> HeldLine:
    """Return a held message as a row of a list."""
    record = mail.record
    return HeldLine(
        ggrid=record.ggrid,
        kept=date_time(mail.kept),
        state=mail.state,
        verdict=record.report.verdict,
        tenant_uid=record.envelope.tenant,
        envelope_from=record.envelope.sender,
        envelope_recipients=record.envelope.recipients,
        subject=record.report.subject,
        size=record.size,
        release=describe_release(record.ggrid, mail.release) if mail.release else None,
        core=mail.core,
    )


def describe_held(mail: HeldMessage, raw: bytes | None, note: str = "") -> HeldShown:
    """Return a held message with its analysis and a preview of its bytes, or why there is none."""
    record = msgspec.structs.replace(mail.record, release=mail.release)
    preview = None if raw is None else render_preview(raw)
    return HeldShown(date_time(mail.kept), mail.state, mail.core, describe_message(record), preview, note)


def render_preview(raw: bytes) -> str:
    """Return the common header fields and the beginning of the text, with control characters escaped."""
    message = read(raw)
    fields = [field for field in message.headers.fields if field.name in SHOWN_FIELDS][:MAX_FIELDS]
    head = [f"{field.name}: {escape(field.value[:MAX_FIELD])}" for field in fields]
    text = "\n".join(text.visible.strip() for text in message.texts if not text.attached)
    rest = len(text) - MAX_PREVIEW
    body = escape(text[:MAX_PREVIEW], lines=True) + (f"\n… and {rest:,} more characters" if rest > 0 else "")
    return "\n".join([*head, "", body])


def show_held_message(out: Console, held: HeldShown) -> None:
    """Print one held message."""
    show_ledger(out, held.analysis.ggrid, held.analysis)
    where = f" by {held.core}" if held.core else ""
    out.print(safe(f"{held.state}, held since {held.kept}{where}"))
    if release := held.analysis.release:
        people = ", ".join(release.recipients)
        out.print(safe(f"released {release.released} by {release.released_by} to {people}"))
    if held.preview is not None:
        out.print()
        out.print(Text(held.preview))
    if held.note:
        out.print(safe(held.note))


HELD_COLUMNS = ("ggrid", "held since", "state", "verdict", "from", "to", "subject")


def render_held_line(each: HeldLine) -> tuple[str, ...]:
    """Return a held message as a row of a table."""
    first, *others = each.envelope_recipients or ("",)
    people = f"{first} and {len(others)} more" if others else first
    return each.ggrid, each.kept[:16], each.state, each.verdict, each.envelope_from or "<>", people, each.subject[:60]
