"""Print one analysis or held mail for people: the verdict first, then the reasons, then everything that was seen.

The text comes from a stranger. Control characters in it are shown as their codes, so that they cannot act on the
terminal.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gatepost.abby.messages import describe_message, describe_release
from gatepost.api.scanning import (
    AnalysedFile,
    AnalysedMessage,
    AuthenticationOutcome,
    LedgerLine,
    MessageAnalysisResult,
    MessageRelease,
)
from gatepost.cli.printing import escape, print_line, print_table, print_text
from gatepost.mail.reader import read
from gatepost.policy.rules import VERDICTS
from gatepost.store.quarantine import HeldMessage
from gatepost.times import date_time

_STYLES = {"clean": "bold green", "bulk": "bold green", "spam": "bold yellow", "suspicious": "bold yellow"}
MAX_FILES = 50
_INDENT = "  "


def show_ledger(name: str, analysed: AnalysedMessage | MessageAnalysisResult) -> None:
    """Print one analysis; a bare result has no ledger to show."""
    style = _STYLES.get(analysed.verdict, "bold red")
    print_line((f"{name}: ", ""), (analysed.verdict, style), (f" → {analysed.decision}", ""))
    if isinstance(analysed, AnalysedMessage):
        _show_sections(analysed)
    else:
        print_text(f"tags: {', '.join(analysed.tags) or 'none'}; id: {analysed.ggrid}", indent=_INDENT)
    print()


def show_summary(counts: Mapping[str, int]) -> None:
    """Print how many messages got which verdict, most severe first."""
    total = sum(counts.values())
    order = [*VERDICTS, *(name for name in counts if name not in VERDICTS)]
    lines = [(name, str(counts[name]), f"{counts[name] / total:.1%}") for name in order if counts.get(name)]
    print_table(("verdict", "messages", "share"), [*lines, ("all", str(total), "")])


def _show_sections(analysed: AnalysedMessage) -> None:
    ledger = analysed.ledger
    print_text(f"{ledger.reason}. Score {ledger.score:g}.", indent=_INDENT)
    if analysed.action:
        print_text(f"{analysed.action.summary}.", lead="action: ", style="bold", indent=_INDENT)
    subject, senders = analysed.subject or "(none)", ", ".join(analysed.senders) or "(none)"
    print_text(f"Subject: {subject}   From: {senders}", indent=_INDENT)
    if ledger.findings:
        findings = list(map(_render_finding, ledger.findings))
        print_table(("finding", "weight", "counted", "where", "what was seen"), findings, indent=_INDENT)
    outcomes = list(_render_authentication(analysed.authentication))
    print_table(("authentication", "result", "domain", "reason"), outcomes, indent=_INDENT)
    if analysed.files:
        _show_files(analysed.files)
    for effect in ledger.lists:
        said = f"{effect.effect} by {effect.list}: {effect.entry} ({effect.scope}), on {effect.where}"
        said = f"{said}; {effect.reason}" if effect.reason else said
        print_text(said, lead="list: ", style="bold", indent=_INDENT)
    for override in ledger.overrides:
        print_text(override, lead="policy: ", style="bold", indent=_INDENT)
    for outcome in ledger.outcomes:
        print_text(f"{outcome.stage}: {outcome.reason}", lead="did not run: ", style="yellow", indent=_INDENT)


def _render_finding(line: LedgerLine) -> tuple[str, ...]:
    facts = "; ".join(f"{name}: {value}" for name, value in line.facts.items())
    seen = f"{line.title}. {facts}" if facts else line.title
    mark = " (conclusive)" if line.conclusive else ""
    note = f" [{line.note}]" if line.note else ""
    changed = f" [{line.override}]" if line.override else ""
    return line.tag, f"{line.weight:g}{changed}", f"{line.counted:g}{mark}{note}", line.where, seen


def _render_authentication(found: AuthenticationOutcome) -> Iterator[tuple[str, ...]]:
    if found.origin:
        yield "origin", found.origin, found.host, ""
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


def _show_files(files: Sequence[AnalysedFile]) -> None:
    lines = [
        (each.path, each.type, f"{each.size:,}", each.sha256[:16] + "…", each.unread) for each in files[:MAX_FILES]
    ]
    print_table(("file", "type", "bytes", "sha256", "not read"), lines, indent=_INDENT)
    if len(files) > MAX_FILES:
        kinds = {each.type for each in files[MAX_FILES:]}
        print_text(f"and {len(files) - MAX_FILES} more: {', '.join(sorted(kinds))}", indent=_INDENT)


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


def show_held_message(held: HeldShown) -> None:
    show_ledger(held.analysis.ggrid, held.analysis)
    where = f" by {held.core}" if held.core else ""
    print_text(f"{held.state}, held since {held.kept}{where}")
    if release := held.analysis.release:
        people = ", ".join(release.recipients)
        print_text(f"released {release.released} by {release.released_by} to {people}")
    if held.preview is not None:
        print(f"\n{held.preview}")
    if held.note:
        print_text(held.note)


HELD_COLUMNS = ("ggrid", "held since", "state", "verdict", "from", "to", "subject")


def render_held_line(each: HeldLine) -> tuple[str, ...]:
    first, *others = each.envelope_recipients or ("",)
    people = f"{first} and {len(others)} more" if others else first
    return each.ggrid, each.kept[:16], each.state, each.verdict, each.envelope_from or "<>", people, each.subject[:60]
