"""Many entries in calls of 500, with a bar, and with a place to go on from.

Each call is atomic and can be repeated, so the number of the last line that was acknowledged is all the state there is.

Changes of lists from the command line: sent in calls of 500, and what came of them printed.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gatepost.api.list_files import FileRecord, ListFileFormat
from gatepost.api.lists import MAX_ENTRIES, DryRun, ListChange, NewListEntry
from gatepost.cli import list_files
from gatepost.cli.list_service import Service
from gatepost.cli.printing import console, print_json, rows, safe, table
from gatepost.client import Client
from gatepost.client.exchange import ApiError
from gatepost.service.data_folder import StartError

_REFUSED = re.compile(r"entries\[(\d+)\]\.entry ([^;]*)")

Send = Callable[[list[FileRecord]], ListChange]


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
    records: Iterable[FileRecord], send: Send, source: Source, skip: bool, acknowledged: Callable[[int], None]
) -> Total:
    """Send everything; `acknowledged` is told the last line after each call."""
    total = Total()
    with _say_where_to_go_on(total):
        for call in _calls(records):
            _send(call, send, source, skip, total)
            total.lines = call[-1].last
            acknowledged(total.lines)
    return total


def _calls(records: Iterable[FileRecord]) -> Iterator[list[FileRecord]]:
    left = iter(records)
    while call := list(islice(left, MAX_ENTRIES)):
        yield call


def _send(call: list[FileRecord], send: Send, source: Source, skip: bool, total: Total) -> None:
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


def _refused(fault: ApiError, call: list[FileRecord]) -> list[Skipped]:
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


class Target(msgspec.Struct, frozen=True):
    """What is to be changed and how."""

    name: str
    tenant: str | None
    delete: bool
    dry_run: bool
    json: bool


class Plan(msgspec.Struct, frozen=True):
    """One import."""

    file: Path
    kind: ListFileFormat
    from_line: int
    state: Path | None
    skip: bool
    source: Source


def change(service: Service, target: Target, entries: Sequence[NewListEntry]) -> None:
    """Change entries that were typed."""
    source = Source(target.name, target.tenant, "the command line")
    records = [FileRecord(number, number, entry) for number, entry in enumerate(entries, 1)]
    with service.connected() as client:
        total = imported(records, _sender(client, target), source, False, lambda _line: None)
    _report(target, total)


def import_all(service: Service, target: Target, plan: Plan) -> None:
    """Change the entries of a file."""
    start = plan.from_line
    if plan.state and start > 1:
        raise StartError("--state knows where to go on from; leave out --from-line.")
    if plan.state:
        start = load(plan.state, plan.source)
    with service.connected() as client, list_files.opened(plan.file) as stream, _bar(plan.file) as (advance, line):
        every = list_files.records(stream, plan.kind, str(plan.file), advance)
        records = (record for record in every if record.first >= start)
        total = imported(records, _sender(client, target), plan.source, plan.skip, _acknowledged(plan, target, line))
    if plan.state and not target.dry_run:
        plan.state.unlink(missing_ok=True)
    _report(target, total)


def _acknowledged(plan: Plan, target: Target, show: Callable[[int], None]) -> Callable[[int], None]:
    def acknowledged(line: int) -> None:
        show(line)
        if plan.state and not target.dry_run:
            keep(plan.state, plan.source, line)

    return acknowledged


def _sender(client: Client, target: Target) -> Send:
    def send(call: list[FileRecord]) -> ListChange:
        options = {"tenant": target.tenant}
        if target.delete:
            return client.delete_entries(
                target.name, [record.entry.entry for record in call], dry_run=target.dry_run, **options
            )
        return client.add_entries(target.name, [record.entry for record in call], dry_run=target.dry_run, **options)

    return send


@contextmanager
def _bar(file: Path) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """A bar on the terminal: told the bytes that were read, and the lines that were acknowledged."""
    out = Console(stderr=True)
    size = file.stat().st_size if file != list_files.STANDARD_INPUT else 0
    columns = (TextColumn("{task.fields[line]:,} lines"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        task = progress.add_task("import", total=size or None, line=0)
        yield (
            lambda count: progress.update(task, advance=count),
            lambda line: progress.update(task, line=line),
        )


def _report(target: Target, total: Total) -> None:
    if target.json:
        print_json(_described(target, total))
        return
    for each in total.skipped:
        print(f"Left out: {each}", file=sys.stderr)
    if target.dry_run:
        _print_trials(total.trials)
    else:
        print(f"{total.modified:,} of {total.entries:,} entries {'deleted' if target.delete else 'added or updated'}.")


def _described(target: Target, total: Total) -> dict[str, object]:
    described: dict[str, object] = {
        "listName": target.name,
        "tenantUid": target.tenant,
        "entries": total.entries,
        "modifiedEntries": total.modified,
        "skipped": total.skipped,
    }
    if target.dry_run:
        described["dryRun"] = _together(total.trials)
    return described


def _together(trials: Sequence[DryRun]) -> DryRun:
    """Several calls as one. Their messages are the same, so those that were hit cannot be added up."""
    entries = tuple(entry for trial in trials for entry in trial.entries)
    if len(trials) == 1:
        return trials[0]
    considered = min((trial.considered for trial in trials), default=0)
    return DryRun(considered, sum(trial.would_modify for trial in trials), None, None, entries)


def _print_trials(trials: Iterable[DryRun]) -> None:
    out, trial = console(), _together(list(trials))
    found = [
        (entry.entry, _count(entry.would_hit), _count(entry.would_flip))
        for entry in trial.entries
        if entry.would_hit != 0
    ]
    if found:
        out.print(rows(table("entry", "would hit", "decisions that would flip"), found))
    out.print(
        safe(
            f"Nothing was changed. {trial.would_modify:,} of {len(trial.entries):,} entries would change; "
            f"the last {trial.considered:,} messages were considered."
        )
    )


def _count(number: int | None) -> str:
    return "not known" if number is None else f"{number:,}"
