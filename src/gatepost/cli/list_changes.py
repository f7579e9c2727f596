"""Entries of lists over the List API: change them in calls of 500, import and export files of them, and print them.

Each call is atomic and can be repeated, so the number of the last acknowledged line is all the state that is needed to
resume an import where it stopped.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from gatepost.api import lists
from gatepost.api.lists import (
    MAX_ENTRIES,
    DryRun,
    FileRecord,
    ListChange,
    ListFileError,
    ListFileFormat,
    NewListEntry,
    PublicListsEntry,
    encode_lists,
)
from gatepost.cli.api_client import ListService
from gatepost.cli.printing import Output, ProgressBar, print_json, print_table, print_text
from gatepost.client import Client
from gatepost.client.calls import ApiError
from gatepost.lists import catalogue
from gatepost.service.data_folder import StartError

STANDARD_INPUT = Path("-")
_REFUSED = re.compile(r"entries\[(\d+)\]\.(?:entry|expires: the entry) ([^;]*)")

Send = Callable[[list[FileRecord]], ListChange]


class Source(msgspec.Struct, frozen=True):
    """The file and the list of an import; a state file belongs to one such pair."""

    list: str
    tenant: str | None
    file: str


class State(msgspec.Struct, frozen=True):
    """The number of acknowledged lines of an import."""

    source: Source
    lines: int


class Skipped(msgspec.Struct, frozen=True):
    """A line that the list refused, and the reason."""

    line: int
    entry: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line:,}, {self.entry[:100]!r}: {self.reason}"


class Total(msgspec.Struct):
    """The result of an import so far."""

    lines: int = 0
    entries: int = 0
    modified: int = 0
    skipped: list[Skipped] = []
    dry_runs: list[DryRun] = []


def load_state(state: Path, source: Source) -> int:
    """Return the line from which an import resumes."""
    try:
        known = msgspec.json.decode(state.read_bytes(), type=State)
    except FileNotFoundError:
        return 1
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise StartError(f"{state} is not the state file of an import.") from None
    if known.source != source:
        raise StartError(f"{state} belongs to another import: of {known.source.file} into {known.source.list}.")
    return known.lines + 1


def save_state(state: Path, source: Source, lines: int) -> None:
    """Write the state file completely or not at all."""
    fresh = state.with_name(f".{state.name}.new")
    fresh.write_bytes(msgspec.json.encode(State(source, lines)))
    fresh.replace(state)


def send_all(
    records: Iterable[FileRecord], send: Send, source: Source, skip: bool, acknowledged: Callable[[int], None]
) -> Total:
    """Send all records; `acknowledged` is called with the last line of each call."""
    total = Total()
    with _report_position(total):
        for call in _split_calls(records):
            _send(call, send, source, skip, total)
            total.lines = call[-1].last
            acknowledged(total.lines)
    return total


def _split_calls(records: Iterable[FileRecord]) -> Iterator[list[FileRecord]]:
    left = iter(records)
    while call := list(islice(left, MAX_ENTRIES)):
        yield call


def _send(call: list[FileRecord], send: Send, source: Source, skip: bool, total: Total) -> None:
    while call:
        try:
            change = send(call)
        except ApiError as fault:
            refused = _find_refused(fault, call)
            if not refused:
                raise
            if not skip:
                raise StartError(_describe_refused(source, refused)) from None
            total.skipped += refused
            bad = {each.line for each in refused}
            call = [record for record in call if record.first not in bad]
        else:
            total.entries += len(call)
            total.modified += change.modified_entries
            total.dry_runs += [change.dry_run] if change.dry_run else []
            return


def _find_refused(fault: ApiError, call: list[FileRecord]) -> list[Skipped]:
    """Return the lines of the entries that an error names by their indexes."""
    if fault.code not in ("invalid_entry", "invalid_request"):
        return []
    found = ((int(index), reason) for index, reason in _REFUSED.findall(fault.message))
    return [
        Skipped(call[index].first, call[index].entry.entry, reason.strip())
        for index, reason in found
        if index < len(call)
    ]


def _describe_refused(source: Source, refused: list[Skipped]) -> str:
    lines = "\n".join(f"  {each}" for each in refused)
    return f"{source.list} refuses entries of {source.file}:\n{lines}\nNothing of that call was changed."


@contextmanager
def _report_position(total: Total) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if total.lines:
            print(
                f"Lines up to {total.lines:,} are done; continue with --from-line {total.lines + 1}.", file=sys.stderr
            )
        raise


class Target(msgspec.Struct, frozen=True):
    """The list to change, and how."""

    name: str
    tenant: str | None
    delete: bool
    dry_run: bool
    output: Output


class ChangePlan(msgspec.Struct, frozen=True):
    """The file of an import, and how to read it."""

    file: Path
    kind: ListFileFormat
    from_line: int
    state: Path | None
    skip: bool
    source: Source


def change_entries(service: ListService, target: Target, entries: Sequence[NewListEntry]) -> None:
    """Change entries of the command line."""
    source = Source(target.name, target.tenant, "the command line")
    records = [FileRecord(number, number, entry) for number, entry in enumerate(entries, 1)]
    with service.connect() as client:
        total = send_all(records, _make_sender(client, target), source, False, lambda _line: None)
    _print_total(target, total)


def import_file(service: ListService, target: Target, plan: ChangePlan) -> None:
    """Change the entries of a file."""
    start = plan.from_line
    if plan.state and start > 1:
        raise StartError("--state contains the position; leave out --from-line.")
    if plan.state:
        start = load_state(plan.state, plan.source)
    with (
        service.connect() as client,
        open_file(plan.file) as stream,
        _show_progress(plan.file) as (advance, show),
    ):

        def acknowledge(last: int) -> None:
            show(last)
            if plan.state and not target.dry_run:
                save_state(plan.state, plan.source, last)

        every = read_records(stream, plan.kind, str(plan.file), advance, target.name)
        records = (record for record in every if record.first >= start)
        total = send_all(records, _make_sender(client, target), plan.source, plan.skip, acknowledge)
    if plan.state and not target.dry_run:
        plan.state.unlink(missing_ok=True)
    _print_total(target, total)


def _make_sender(client: Client, target: Target) -> Send:
    def send(call: list[FileRecord]) -> ListChange:
        entries = [record.entry for record in call]
        if target.delete:
            texts = [entry.entry for entry in entries]
            return client.delete_entries(target.name, texts, tenant=target.tenant, dry_run=target.dry_run)
        return client.add_entries(target.name, entries, tenant=target.tenant, dry_run=target.dry_run)

    return send


@contextmanager
def _show_progress(file: Path) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Show a progress bar; yields functions for the bytes that were read and the lines that were acknowledged."""
    size = file.stat().st_size if file != STANDARD_INPUT else 0
    done = 0

    def count_bytes(count: int) -> None:
        nonlocal done
        done += count

    with ProgressBar("importing") as progress:
        yield count_bytes, lambda line: progress.update(done, size or None, f"{line:,} lines")


def _print_total(target: Target, total: Total) -> None:
    if target.output.json:
        print_json(_describe_total(target, total))
        return
    for each in total.skipped:
        print(f"Skipped: {each}", file=sys.stderr)
    if target.dry_run:
        _print_dry_runs(total.dry_runs)
    else:
        print(f"{total.modified:,} of {total.entries:,} entries {'deleted' if target.delete else 'added or updated'}.")


def _describe_total(target: Target, total: Total) -> dict[str, object]:
    described: dict[str, object] = {
        "listName": target.name,
        "tenantUid": target.tenant,
        "entries": total.entries,
        "modifiedEntries": total.modified,
        "skipped": total.skipped,
    }
    if target.dry_run:
        described["dryRun"] = _combine(total.dry_runs)
    return described


def _combine(dry_runs: Sequence[DryRun]) -> DryRun:
    """Combine the dry runs of several calls. They hit the same messages, so the hits cannot be added up."""
    entries = tuple(entry for each in dry_runs for entry in each.entries)
    if len(dry_runs) == 1:
        return dry_runs[0]
    considered = min((each.considered for each in dry_runs), default=0)
    return DryRun(considered, sum(each.would_modify for each in dry_runs), None, None, entries)


def _print_dry_runs(dry_runs: Iterable[DryRun]) -> None:
    dry_run = _combine(list(dry_runs))
    found = [
        (entry.entry, _count(entry.would_hit), _count(entry.would_flip))
        for entry in dry_run.entries
        if entry.would_hit != 0
    ]
    if found:
        print_table(("entry", "would hit", "decisions that would change"), found)
    print_text(
        f"Nothing was changed. {dry_run.would_modify:,} of {len(dry_run.entries):,} entries would change; "
        f"the last {dry_run.considered:,} messages were considered."
    )


def _count(number: int | None) -> str:
    return "not known" if number is None else f"{number:,}"


@contextmanager
def open_file(file: Path) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`."""
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with file.open("rb") as stream:
        yield stream


def read_records(
    stream: BinaryIO, kind: ListFileFormat, name: str, advance: Callable[[int], None], list_name: str
) -> Iterator[FileRecord]:
    """Yield the entries of a file for a list; `advance` is called with the number of bytes that were read."""
    definition = catalogue.BY_NAME.get(list_name)
    is_free_text = definition is not None and catalogue.KINDS[definition.kind].is_free_text
    try:
        yield from lists.records(_count_bytes(stream, advance), kind, is_free_text=is_free_text)
    except ListFileError as fault:
        raise StartError(f"{name}, {fault}.") from None


def _count_bytes(stream: BinaryIO, advance: Callable[[int], None]) -> Iterator[bytes]:
    for line in stream:
        advance(len(line))
        yield line


def render_entries(entries: Iterable[PublicListsEntry], kind: ListFileFormat) -> Iterator[str]:
    """Yield entries as lines of a file, after the heading of the format."""
    if head := lists.heading(kind):
        yield head
    yield from lists.lines_of(entries, kind)


def show_entries(
    service: ListService, name: str, tenant: str | None, contains: str, limit: int, output: Output
) -> None:
    """Print the first entries, or the first that contain a text."""
    part = contains.casefold()
    with service.connect() as client:
        every = client.list_entries(name, tenant=tenant)
        wanted = (entry for entry in every if part in entry.entry.casefold() or part in entry.comment.casefold())
        found = list(islice(wanted if part else every, limit + 1))
    more, found = len(found) > limit, found[:limit]
    if output.json:
        for entry in found:
            print(encode_lists(entry).decode())
        return
    columns = ("entry", "comment", "modified", "by", "expires", "hits", "last hit")
    print_table(columns, [_render_entry(entry) for entry in found])
    if more:
        print_text(f"There are more than {limit:,}; gatepost lists export writes all of them.", style="dim")


def _render_entry(entry: PublicListsEntry) -> tuple[str, ...]:
    times = (entry.expires or "", f"{entry.hits:,}", entry.last_hit or "")
    return (entry.entry, entry.comment, entry.modified, entry.modified_by, *times)


def write_entries(service: ListService, name: str, tenant: str | None, file: Path, kind: ListFileFormat) -> None:
    """Write all entries to standard output or to a file."""
    with service.connect() as client:
        lines = render_entries(client.list_entries(name, tenant=tenant), kind)
        if file == STANDARD_INPUT:
            sys.stdout.writelines(lines)
            return
        descriptor, fresh = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.writelines(lines)
            Path(fresh).replace(file)
        except BaseException:
            Path(fresh).unlink()
            raise
