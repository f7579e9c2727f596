"""Entries in files: one a line, CSV, or lines of JSON; read as they come, and each with the line that it stands on."""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from gatepost.api.lists import NewListEntry, PublicListsEntry, encode
from gatepost.service.datafolder import StartError

STANDARD_INPUT = Path("-")
Format = Literal["plain", "csv", "ndjson"]
FORMATS: tuple[Format, ...] = ("plain", "csv", "ndjson")
COLUMNS: tuple[str, ...] = ("entry", "comment", "expires")
_ENDINGS: dict[str, Format] = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson"}


class Record(msgspec.Struct, frozen=True):
    """An entry of a file, with its first and its last line."""

    first: int
    last: int
    entry: NewListEntry


class _Line(msgspec.Struct, frozen=True):
    """A line of JSON; what else an export has in it is ignored."""

    entry: str
    comment: str | None = None
    expires: str | None = None


def format_of(file: Path) -> Format:
    """The format that a name promises."""
    return _ENDINGS.get(file.suffix.lower(), "plain")


@contextmanager
def opened(file: Path) -> Iterator[BinaryIO]:
    """A file, or standard input for `-`."""
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with file.open("rb") as stream:
        yield stream


def records(stream: BinaryIO, kind: Format, name: str, advance: Callable[[int], None]) -> Iterator[Record]:
    """The entries of a file; `advance` is told how many bytes were read."""
    lines = _lines(stream, name, advance)
    if kind == "plain":
        return _plain(lines)
    return _csv(lines, name) if kind == "csv" else _ndjson(lines, name)


def _lines(stream: BinaryIO, name: str, advance: Callable[[int], None]) -> Iterator[str]:
    for number, raw in enumerate(stream, 1):
        advance(len(raw))
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise _fault(name, number, "is not UTF-8") from None


def _plain(lines: Iterable[str]) -> Iterator[Record]:
    """Empty lines and those that start with `#` are skipped."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield Record(number, number, NewListEntry(text))


def _csv(lines: Iterable[str], name: str) -> Iterator[Record]:
    """The columns are entry, comment and expires, unless the first row names them otherwise."""
    reader = csv.reader(lines, strict=True)
    columns, last = COLUMNS, 0
    try:
        for row in reader:
            first, last = last + 1, reader.line_num
            cells = [cell.strip() for cell in row]
            if first == 1 and "entry" in (named := tuple(cell.lower() for cell in cells)):
                columns = named
            elif any(cells):
                stated = dict(zip(columns, cells, strict=False))
                yield Record(first, last, _entry(stated.get("entry"), stated.get("comment"), stated.get("expires")))
    except csv.Error as fault:
        raise _fault(name, reader.line_num, f"is not CSV: {fault}") from None


def _ndjson(lines: Iterable[str], name: str) -> Iterator[Record]:
    decoder = msgspec.json.Decoder(_Line)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            stated = decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as fault:
            raise _fault(name, number, f"is not an entry as JSON: {fault}") from None
        yield Record(number, number, _entry(stated.entry, stated.comment, stated.expires))


def _entry(entry: str | None, comment: str | None, expires: str | None) -> NewListEntry:
    return NewListEntry(entry or "", comment or None, expires or None)


def _fault(name: str, line: int, reason: str) -> StartError:
    return StartError(f"{name}, line {line:,}: {reason}.")


def written(entries: Iterable[PublicListsEntry], kind: Format) -> Iterator[str]:
    """Entries as lines of a file."""
    if kind == "ndjson":
        yield from (encode(entry).decode() + "\n" for entry in entries)
    elif kind == "plain":
        yield from (f"{entry.entry}\n" for entry in entries)
    else:
        row = csv.writer(_Rows(), lineterminator="\n").writerow
        yield row(COLUMNS)
        yield from (row((entry.entry, entry.comment, entry.expires or "")) for entry in entries)


class _Rows:
    """Gives back what a CSV writer writes."""

    def write(self, text: str) -> str:
        return text
