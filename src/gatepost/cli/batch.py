"""Many messages after each other: a line for each one that is held, a bar while it lasts, a summary at the end."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gatepost.api.scanning import AnalysedMessage, MessageAnalysisResult, encode
from gatepost.cli import ledger
from gatepost.cli.mailbox import STANDARD_INPUT, Mail, is_mailbox, messages_in, total_size
from gatepost.cli.printing import console, safe

Analysed: TypeAlias = AnalysedMessage | MessageAnalysisResult


class NotScanned(msgspec.Struct, frozen=True):
    """A message that the service refused, and why."""

    reason: str


Scanner: TypeAlias = Callable[[Mail], Analysed | NotScanned]
Show: TypeAlias = Callable[[Mail, Analysed | NotScanned], None]
NOT_SCANNED = "not scanned"


def run(paths: list[Path], scanner: Scanner, json: bool, note: str) -> Counter[str]:
    """Scan everything and print it; returns how many messages got which verdict, or none."""
    out = console()
    if json:
        return _scanned(messages_in(paths), scanner, _print_json)
    if _several(paths):
        with Progress(*_columns(), console=out, transient=True, disable=not out.is_terminal) as progress:
            mails = _watched(messages_in(paths), progress, total_size(paths))
            counts = _scanned(mails, scanner, lambda mail, analysed: _print_line(out, mail, analysed))
        ledger.summary(out, counts)
    else:
        counts = _scanned(messages_in(paths), scanner, lambda mail, analysed: _print_whole(out, mail, analysed))
    if note:
        out.print(note, style="dim")
    return counts


def _several(paths: list[Path]) -> bool:
    only = paths[0]
    return len(paths) > 1 or (only != STANDARD_INPUT and (only.is_dir() or is_mailbox(only)))


def _scanned(mails: Iterable[Mail], scanner: Scanner, show: Show) -> Counter[str]:
    counts: Counter[str] = Counter()
    for mail in mails:
        analysed = scanner(mail)
        show(mail, analysed)
        counts[NOT_SCANNED if isinstance(analysed, NotScanned) else analysed.verdict] += 1
    return counts


def _columns() -> tuple[ProgressColumn, ...]:
    return TextColumn("{task.fields[count]:,} messages"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()


def _watched(mails: Iterable[Mail], progress: Progress, total: int) -> Iterator[Mail]:
    task = progress.add_task("scanning", total=total or None, count=0)
    for count, mail in enumerate(mails, 1):
        yield mail
        progress.update(task, advance=mail.consumed, count=count)


def _print_whole(out: Console, mail: Mail, analysed: Analysed | NotScanned) -> None:
    if isinstance(analysed, NotScanned):
        _print_line(out, mail, analysed)
    else:
        ledger.show(out, mail.name, analysed)


def _print_line(out: Console, mail: Mail, analysed: Analysed | NotScanned) -> None:
    if isinstance(analysed, NotScanned):
        out.print(safe(f"{mail.name}: {NOT_SCANNED}: {analysed.reason}"), soft_wrap=True)
    elif analysed.decision != "deliver":
        reason = f": {analysed.ledger.reason}" if isinstance(analysed, AnalysedMessage) else ""
        out.print(safe(f"{mail.name}: {analysed.verdict}{reason}"), soft_wrap=True)


def _print_json(mail: Mail, analysed: Analysed | NotScanned) -> None:
    names = zip(analysed.__struct_encode_fields__, analysed.__struct_fields__, strict=True)
    print(encode({"file": mail.name, **{name: getattr(analysed, field) for name, field in names}}).decode())
