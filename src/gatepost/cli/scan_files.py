"""Read messages from files, folders, standard input and mailboxes, and scan them one after the other.

A mailbox (RFC 4155) is messages after each other, each after a line `From sender date`. Such a line counts only at the
start or after an empty line, and only with a time and a year in it: mail has paragraphs that start with "From ". Lines
that were quoted as `>From ` lose one `>` again ("mboxrd"), so that signatures remain valid.

Several messages give a line for each one that is held, a progress bar and a summary.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gatepost.api.scanning import AnalysedMessage, MessageAnalysisResult, encode_scanning
from gatepost.cli import ledger
from gatepost.cli.printing import console, safe

FROM_LINE = re.compile(rb"From [^\r\n]{0,300}? \d{1,2}:\d\d(?::\d\d)?[^\r\n]{0,60}? \d{4}[^\r\n]{0,40}\r?\n?")
QUOTED = re.compile(rb">+From ")
# The limit of the API; a longer line or message is cut there and marked as cut.
MAX_MESSAGE = 52_428_800
STANDARD_INPUT = Path("-")


class Mail(msgspec.Struct, frozen=True):
    """One message and its source. `consumed` bytes of the source were read; `cut` says that the message was longer."""

    name: str
    raw: bytes
    consumed: int
    cut: bool = False


def total_size(paths: Iterable[Path]) -> int:
    """Return the size of all files in bytes, for a progress bar; standard input counts as 0."""
    return sum(file.stat().st_size for file in files_in(paths) if file != STANDARD_INPUT)


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield every file; a folder stands for all files below it, in order."""
    for path in paths:
        if path != STANDARD_INPUT and path.is_dir():
            yield from sorted(entry for entry in path.rglob("*") if entry.is_file())
        else:
            yield path


def is_mailbox(path: Path) -> bool:
    """Return whether a file is a mailbox with several messages."""
    with path.open("rb") as stream:
        return FROM_LINE.fullmatch(stream.readline(1000)) is not None


def messages_in(paths: Iterable[Path]) -> Iterator[Mail]:
    """Yield every message of every file; each is read when it is asked for."""
    for path in files_in(paths):
        if path == STANDARD_INPUT:
            yield from _read_messages(sys.stdin.buffer, "-")
        else:
            with path.open("rb") as stream:
                yield from _read_messages(stream, str(path))


def _read_messages(stream: BinaryIO, name: str) -> Iterator[Mail]:
    first = stream.readline(MAX_MESSAGE + 1)
    if FROM_LINE.fullmatch(first):
        yield from _split_mailbox(stream, name, len(first))
        return
    raw = first + stream.read(MAX_MESSAGE + 1 - len(first))
    yield Mail(name, raw[:MAX_MESSAGE], len(raw), cut=len(raw) > MAX_MESSAGE)


def _split_mailbox(stream: BinaryIO, name: str, consumed: int) -> Iterator[Mail]:
    number, blank = 1, False
    lines: list[bytes] = []
    while line := stream.readline(MAX_MESSAGE):
        if blank and FROM_LINE.fullmatch(line):
            yield _build_mail(f"{name}#{number}", lines, consumed)
            number, consumed, lines = number + 1, 0, []
        elif consumed <= MAX_MESSAGE:
            lines.append(line[1:] if QUOTED.match(line) else line)
        consumed += len(line)
        blank = line in {b"\n", b"\r\n"}
    yield _build_mail(f"{name}#{number}", lines, consumed)


def _build_mail(name: str, lines: list[bytes], consumed: int) -> Mail:
    # The empty line before the next From_ line belongs to the mailbox, not to the message.
    if len(lines) > 1 and lines[-1] in {b"\n", b"\r\n"}:
        lines = lines[:-1]
    raw = b"".join(lines)
    return Mail(name, raw[:MAX_MESSAGE], consumed, cut=consumed > MAX_MESSAGE)


Analysed: TypeAlias = AnalysedMessage | MessageAnalysisResult


class NotScanned(msgspec.Struct, frozen=True):
    """A message that the service refused, and the reason."""

    reason: str


Scanner: TypeAlias = Callable[[Mail], Analysed | NotScanned]
Show: TypeAlias = Callable[[Mail, Analysed | NotScanned], None]
NOT_SCANNED = "not scanned"


def scan_paths(paths: list[Path], scanner: Scanner, json: bool, note: str) -> Counter[str]:
    """Scan all messages and print them; return the number of messages per verdict."""
    out = console()
    if json:
        return _scan_all(messages_in(paths), scanner, _print_json)
    if _has_several(paths):
        with Progress(*_columns(), console=out, transient=True, disable=not out.is_terminal) as progress:
            mails = _show_progress(messages_in(paths), progress, total_size(paths))
            counts = _scan_all(mails, scanner, lambda mail, analysed: _print_line(out, mail, analysed))
        ledger.show_summary(out, counts)
    else:
        counts = _scan_all(messages_in(paths), scanner, lambda mail, analysed: _print_whole(out, mail, analysed))
    if note:
        out.print(note, style="dim")
    return counts


def _has_several(paths: list[Path]) -> bool:
    only = paths[0]
    return len(paths) > 1 or (only != STANDARD_INPUT and (only.is_dir() or is_mailbox(only)))


def _scan_all(mails: Iterable[Mail], scanner: Scanner, show: Show) -> Counter[str]:
    counts: Counter[str] = Counter()
    for mail in mails:
        analysed = scanner(mail)
        show(mail, analysed)
        counts[NOT_SCANNED if isinstance(analysed, NotScanned) else analysed.verdict] += 1
    return counts


def _columns() -> tuple[ProgressColumn, ...]:
    return TextColumn("{task.fields[count]:,} messages"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()


def _show_progress(mails: Iterable[Mail], progress: Progress, total: int) -> Iterator[Mail]:
    task = progress.add_task("scanning", total=total or None, count=0)
    for count, mail in enumerate(mails, 1):
        yield mail
        progress.update(task, advance=mail.consumed, count=count)


def _print_whole(out: Console, mail: Mail, analysed: Analysed | NotScanned) -> None:
    if isinstance(analysed, NotScanned):
        _print_line(out, mail, analysed)
    else:
        ledger.show_ledger(out, mail.name, analysed)


def _print_line(out: Console, mail: Mail, analysed: Analysed | NotScanned) -> None:
    if isinstance(analysed, NotScanned):
        out.print(safe(f"{mail.name}: {NOT_SCANNED}: {analysed.reason}"), soft_wrap=True)
    elif analysed.decision != "deliver":
        reason = f": {analysed.ledger.reason}" if isinstance(analysed, AnalysedMessage) else ""
        out.print(safe(f"{mail.name}: {analysed.verdict}{reason}"), soft_wrap=True)


def _print_json(mail: Mail, analysed: Analysed | NotScanned) -> None:
    names = zip(analysed.__struct_encode_fields__, analysed.__struct_fields__, strict=True)
    print(encode_scanning({"file": mail.name, **{name: getattr(analysed, field) for name, field in names}}).decode())
