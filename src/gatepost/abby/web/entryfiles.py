"""A file with entries, read from the spool in bounded pieces: never more of it in memory than one call of 500."""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from gatepost.abby.listtrials import new_entry
from gatepost.api.listfiles import Format, ListFileError, records
from gatepost.api.lists import MAX_ENTRIES
from gatepost.lists.catalogue import Definition
from gatepost.lists.entry import Refused
from gatepost.store.entries import NewEntry

CHUNK = 64 << 10
# An entry and a comment of 1,000 characters each take 12,000 bytes where JSON escapes them all.
MAX_LINE = 64 << 10


class FaultyLine(msgspec.Struct, frozen=True):
    """A line that is no entry of the list, and why."""

    number: int
    text: str
    reason: str


class Batch(msgspec.Struct, frozen=True):
    """Up to 500 entries of a file, in order. `stop` says why nothing after them can be read."""

    entries: tuple[NewEntry, ...]
    faults: tuple[FaultyLine, ...]
    last: int
    stop: str = ""


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file, none of them longer than a line may be."""
    rest, number = b"", 0
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            yield _bounded(line, number) + b"\n"
        _bounded(rest, number + 1)
    if rest:
        yield rest


def _bounded(line: bytes, number: int) -> bytes:
    if len(line) > MAX_LINE:
        raise ListFileError(number, f"is longer than {MAX_LINE:,} bytes")
    return line


def batches(chunks: Iterable[bytes], kind: Format, definition: Definition) -> Iterator[Batch]:
    """The entries of a file in calls, each line with its normal form or its fault."""
    found = records(lines(chunks), kind)
    last = 0
    while True:
        entries: list[NewEntry] = []
        faults: list[FaultyLine] = []
        stop, seen = "", False
        try:
            for record in islice(found, MAX_ENTRIES):
                seen, last = True, record.last
                made = new_entry(record.entry, definition)
                if isinstance(made, Refused):
                    faults.append(FaultyLine(record.first, record.entry.entry[:200], made.reason))
                else:
                    entries.append(made)
        except ListFileError as fault:
            stop = f"Line {fault.line:,} {fault.reason}."
        if seen or stop:
            yield Batch(tuple(entries), tuple(faults), last, stop)
        if stop or not seen:
            return
