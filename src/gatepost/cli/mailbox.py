"""Messages from files, folders, standard input and mailboxes, one at a time.

A mailbox (RFC 4155) is messages after each other, each after a line `From sender date`. Such a line counts only at the
start or after an empty line and only with a time and a year in it: mail has paragraphs that start with "From ". Lines
that were quoted as `>From ` on the way in lose one `>` again ("mboxrd"), so that signatures hold.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

FROM_LINE = re.compile(rb"From [^\r\n]{0,300}? \d{1,2}:\d\d(?::\d\d)?[^\r\n]{0,60}? \d{4}[^\r\n]{0,40}\r?\n?")
QUOTED = re.compile(rb">+From ")
# As much as the API takes; a line or message beyond it is cut there and said to be.
MAX_MESSAGE = 52_428_800
STANDARD_INPUT = Path("-")


class Mail(msgspec.Struct, frozen=True):
    """One message and where it was. `consumed` bytes of the source were read for it; `cut` ones were longer."""

    name: str
    raw: bytes
    consumed: int
    cut: bool = False


def total_size(paths: Iterable[Path]) -> int:
    """Bytes in all files, for a progress bar; standard input has none."""
    return sum(file.stat().st_size for file in files_in(paths) if file != STANDARD_INPUT)


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Every file that is meant: a folder is everything below it, in order."""
    for path in paths:
        if path != STANDARD_INPUT and path.is_dir():
            yield from sorted(entry for entry in path.rglob("*") if entry.is_file())
        else:
            yield path


def is_mailbox(path: Path) -> bool:
    """Does a file hold several messages?"""
    with path.open("rb") as stream:
        return FROM_LINE.fullmatch(stream.readline(1000)) is not None


def messages_in(paths: Iterable[Path]) -> Iterator[Mail]:
    """Every message of every file, read as they are asked for."""
    for path in files_in(paths):
        if path == STANDARD_INPUT:
            yield from _messages(sys.stdin.buffer, "-")
        else:
            with path.open("rb") as stream:
                yield from _messages(stream, str(path))


def _messages(stream: BinaryIO, name: str) -> Iterator[Mail]:
    first = stream.readline(MAX_MESSAGE + 1)
    if FROM_LINE.fullmatch(first):
        yield from _split(stream, name, len(first))
        return
    raw = first + stream.read(MAX_MESSAGE + 1 - len(first))
    yield Mail(name, raw[:MAX_MESSAGE], len(raw), cut=len(raw) > MAX_MESSAGE)


def _split(stream: BinaryIO, name: str, consumed: int) -> Iterator[Mail]:
    number, blank = 1, False
    lines: list[bytes] = []
    while line := stream.readline(MAX_MESSAGE):
        if blank and FROM_LINE.fullmatch(line):
            yield _mail(f"{name}#{number}", lines, consumed)
            number, consumed, lines = number + 1, 0, []
        elif consumed <= MAX_MESSAGE:
            lines.append(line[1:] if QUOTED.match(line) else line)
        consumed += len(line)
        blank = line in {b"\n", b"\r\n"}
    yield _mail(f"{name}#{number}", lines, consumed)


def _mail(name: str, lines: list[bytes], consumed: int) -> Mail:
    # The empty line before the next From_ line is the mailbox's, not the message's.
    if len(lines) > 1 and lines[-1] in {b"\n", b"\r\n"}:
        lines = lines[:-1]
    raw = b"".join(lines)
    return Mail(name, raw[:MAX_MESSAGE], consumed, cut=consumed > MAX_MESSAGE)
