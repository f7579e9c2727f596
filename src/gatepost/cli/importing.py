"""Many entries in calls of 500, with a bar, and with a place to go on from.

Each call is atomic and can be repeated, so the number of the last line that was acknowledged is all the state there is.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import msgspec

from gatepost.api.lists import MAX_ENTRIES, DryRun, ListChange
from gatepost.cli.listfiles import Record
from gatepost.client import ApiError
from gatepost.service.datafolder import StartError

_REFUSED = re.compile(r"entries\[(\d+)\]\.entry ([^;]*)")

Send = Callable[[list[Record]], ListChange]


class Source(msgspec.Struct, frozen=True):
    """What is imported into what: a state belongs to just that."""

    list: str
    tenant: str | None
    file: str


class State(msgspec.Struct, frozen=True):
    """How many lines of a file were acknowledged."""

    source: Source
    lines: int


class Skipped(msgspec.Struct, frozen=True):
    """A line that the list refused, and why."""

    line: int
    entry: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line:,}, {self.entry[:100]!r}: {self.reason}"


class Total(msgspec.Struct):
    """What came of an import so far."""

    lines: int = 0
    entries: int = 0
    modified: int = 0
    skipped: list[Skipped] = []
    trials: list[DryRun] = []


def load(state: Path, source: Source) -> int:
    """The line to go on from."""
    try:
        known = msgspec.json.decode(state.read_bytes(), type=State)
    except FileNotFoundError:
        return 1
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise StartError(f"{state} is no state of an import.") from None
    if known.source != source:
        raise StartError(f"{state} belongs to another import: of {known.source.file} into {known.source.list}.")
    return known.lines + 1


def keep(state: Path, source: Source, lines: int) -> None:
    """Write the state whole or not at all."""
    fresh = state.with_name(f".{state.name}.new")
    fresh.write_bytes(msgspec.json.encode(State(source, lines)))
    fresh.replace(state)


def imported(
    records: Iterable[Record], send: Send, source: Source, skip: bool, acknowledged: Callable[[int], None]
) -> Total:
    """Send everything; `acknowledged` is told the last line after each call."""
    total = Total()
    with _say_where_to_go_on(total):
        for call in _calls(records):
            _send(call, send, source, skip, total)
            total.lines = call[-1].last
            acknowledged(total.lines)
    return total


def _calls(records: Iterable[Record]) -> Iterator[list[Record]]:
    left = iter(records)
    while call := list(islice(left, MAX_ENTRIES)):
        yield call


def _send(call: list[Record], send: Send, source: Source, skip: bool, total: Total) -> None:
    while call:
        try:
            change = send(call)
        except ApiError as fault:
            refused = _refused(fault, call)
            if not refused:
                raise
            if not skip:
                raise StartError(_sentence(source, refused)) from None
            total.skipped += refused
            bad = {each.line for each in refused}
            call = [record for record in call if record.first not in bad]
        else:
            total.entries += len(call)
            total.modified += change.modified_entries
            total.trials += [change.dry_run] if change.dry_run else []
            return


def _refused(fault: ApiError, call: list[Record]) -> list[Skipped]:
    """The lines of the entries that an answer names by their indexes."""
    if fault.code not in ("invalid_entry", "invalid_request"):
        return []
    found = ((int(index), reason) for index, reason in _REFUSED.findall(fault.message))
    return [
        Skipped(call[index].first, call[index].entry.entry, reason.strip())
        for index, reason in found
        if index < len(call)
    ]


def _sentence(source: Source, refused: list[Skipped]) -> str:
    lines = "\n".join(f"  {each}" for each in refused)
    return f"{source.list} refuses entries of {source.file}:\n{lines}\nNothing of that call was changed."


@contextmanager
def _say_where_to_go_on(total: Total) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if total.lines:
            print(f"Lines up to {total.lines:,} are done; go on with --from-line {total.lines + 1}.", file=sys.stderr)
        raise
