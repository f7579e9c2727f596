"""Held mail as a person reads it: one line each, or one message with its ledger and the beginning of its text.

The text is a stranger's. Whatever could act on a terminal is shown as its code, and never carried out.
"""

import msgspec
from rich.console import Console
from rich.text import Text

from gatepost.abby.messages import described, released
from gatepost.api.scanning import AnalysedMessage, MessageRelease
from gatepost.api.times import date_time
from gatepost.cli import ledger
from gatepost.cli.printing import rows, safe, table
from gatepost.mail import read
from gatepost.store.held_mail import HeldMessage

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


class HeldShown(msgspec.Struct, frozen=True, rename="camel"):
    """One held message with its ledger; `preview` is null where the bytes are gone."""

    kept: str
    state: str
    analysis: AnalysedMessage
    preview: str | None


def line(mail: HeldMessage) -> HeldLine:
    """A message in a list."""
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
        release=released(record.ggrid, mail.release) if mail.release else None,
    )


def shown(mail: HeldMessage, raw: bytes | None) -> HeldShown:
    """A message with all that is known of it."""
    record = msgspec.structs.replace(mail.record, release=mail.release)
    return HeldShown(date_time(mail.kept), mail.state, described(record), None if raw is None else preview(raw))


def preview(raw: bytes) -> str:
    """The header fields that people know, and the beginning of the text, with nothing in it that acts."""
    message = read(raw)
    fields = [field for field in message.headers.fields if field.name in SHOWN_FIELDS][:MAX_FIELDS]
    head = [f"{field.name}: {escaped(field.value[:MAX_FIELD])}" for field in fields]
    text = "\n".join(text.visible.strip() for text in message.texts if not text.attached)
    rest = len(text) - MAX_PREVIEW
    body = escaped(text[:MAX_PREVIEW], lines=True) + (f"\n… and {rest:,} more characters" if rest > 0 else "")
    return "\n".join([*head, "", body])


def escaped(text: str, *, lines: bool = False) -> str:
    """Text in which every control, format and direction character is written out: ESC is `\\x1b`."""
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else char.encode("unicode_escape").decode()
        for char in (text.replace("\r\n", "\n") if lines else text)
    )


def show_lines(out: Console, lines: list[HeldLine]) -> None:
    """Print a list."""
    made = table("ggrid", "kept", "state", "verdict", "from", "to", "subject")
    out.print(rows(made, [_cells(each) for each in lines]))


def show_one(out: Console, held: HeldShown) -> None:
    """Print one message."""
    ledger.show(out, held.analysis.ggrid, held.analysis)
    out.print(safe(f"{held.state}, kept since {held.kept}"))
    if release := held.analysis.release:
        people = ", ".join(release.recipients)
        out.print(safe(f"released {release.released} by {release.released_by} to {people}"))
    if held.preview is not None:
        out.print()
        out.print(Text(held.preview))


def _cells(each: HeldLine) -> tuple[str, ...]:
    first, *others = each.envelope_recipients or ("",)
    people = f"{first} and {len(others)} more" if others else first
    return each.ggrid, each.kept[:16], each.state, each.verdict, each.envelope_from or "<>", people, each.subject[:60]
