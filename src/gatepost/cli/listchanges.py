"""Changes of lists from the command line: sent in calls of 500, and what came of them printed."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gatepost.api.lists import DryRun, ListChange, NewListEntry
from gatepost.cli import importing, listfiles
from gatepost.cli.importing import Send, Source, Total
from gatepost.cli.listfiles import Format, Record
from gatepost.cli.listservice import Service
from gatepost.cli.printing import console, print_json, rows, safe, table
from gatepost.client import Client
from gatepost.service.datafolder import StartError


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
    kind: Format
    from_line: int
    state: Path | None
    skip: bool
    source: Source


def change(service: Service, target: Target, entries: Sequence[NewListEntry]) -> None:
    """Change entries that were typed."""
    source = Source(target.name, target.tenant, "the command line")
    records = [Record(number, number, entry) for number, entry in enumerate(entries, 1)]
    with service.connected() as client:
        total = importing.imported(records, _sender(client, target), source, False, lambda _line: None)
    _report(target, total)


def import_all(service: Service, target: Target, plan: Plan) -> None:
    """Change the entries of a file."""
    start = plan.from_line
    if plan.state and start > 1:
        raise StartError("--state knows where to go on from; leave out --from-line.")
    if plan.state:
        start = importing.load(plan.state, plan.source)
    with service.connected() as client, listfiles.opened(plan.file) as stream, _bar(plan.file) as (advance, line):
        every = listfiles.records(stream, plan.kind, str(plan.file), advance)
        records = (record for record in every if record.first >= start)
        total = importing.imported(
            records, _sender(client, target), plan.source, plan.skip, _acknowledged(plan, target, line)
        )
    if plan.state and not target.dry_run:
        plan.state.unlink(missing_ok=True)
    _report(target, total)


def _acknowledged(plan: Plan, target: Target, show: Callable[[int], None]) -> Callable[[int], None]:
    def acknowledged(line: int) -> None:
        show(line)
        if plan.state and not target.dry_run:
            importing.keep(plan.state, plan.source, line)

    return acknowledged


def _sender(client: Client, target: Target) -> Send:
    def send(call: list[Record]) -> ListChange:
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
    size = file.stat().st_size if file != listfiles.STANDARD_INPUT else 0
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
