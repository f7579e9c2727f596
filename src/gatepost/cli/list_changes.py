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
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from gatepost.api import lists
from gatepost.api.lists import (
    DryRun,
    FileRecord,
    ListChange,
    ListFileError,
    ListFileFormat,
    NewListEntry,
    PublicListsEntry,
    RejectedLine,
    encode_lists,
    split_calls,
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
    """The list and where its entries come from; a state file belongs to one such pair."""

    list: str
    tenant: str | None
    file: str = "the command line"


class State(msgspec.Struct, frozen=True):
    """The number of acknowledged lines of an import."""

    source: Source
    lines: int


class Changing(msgspec.Struct, frozen=True):
    """What is done to a list with the entries of a source. With `skip`, those that the list refuses are left out."""

    source: Source
    output: Output
    delete: bool = False
    dry_run: bool = False
    skip: bool = False


class Total(msgspec.Struct):
    """The result of a change so far."""

    lines: int = 0
    entries: int = 0
    modified: int = 0
    skipped: list[RejectedLine] = []
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
    records: Iterable[FileRecord], send: Send, changing: Changing, acknowledged: Callable[[int], None]
) -> Total:
    """Send all records; `acknowledged` is called with the last line of each call."""
    total = Total()
    try:
        for call in split_calls(records):
            _send(call, send, changing, total)
            total.lines = call[-1].last
            acknowledged(total.lines)
    except BaseException:
        if total.lines:
            print(
                f"Lines up to {total.lines:,} are done; continue with --from-line {total.lines + 1}.", file=sys.stderr
            )
        raise
    return total


def _send(call: list[FileRecord], send: Send, changing: Changing, total: Total) -> None:
    while call:
        try:
            change = send(call)
        except ApiError as fault:
            refused = _find_refused(fault, call)
            if not refused:
                raise
            if not changing.skip:
                lines = "\n".join(f"  {_render_rejected(each)}" for each in refused)
                source = changing.source
                raise StartError(
                    f"{source.list} refuses entries of {source.file}:\n{lines}\nNothing of that call was changed."
                ) from None
            total.skipped += refused
            bad = {each.line for each in refused}
            call = [record for record in call if record.first not in bad]
        else:
            total.entries += len(call)
            total.modified += change.modified_entries
            total.dry_runs += [change.dry_run] if change.dry_run else []
            return


def _find_refused(fault: ApiError, call: list[FileRecord]) -> list[RejectedLine]:
    """Return the lines of the entries that an error names by their indexes."""
    if fault.code not in ("invalid_entry", "invalid_request"):
        return []
    found = ((int(index), reason) for index, reason in _REFUSED.findall(fault.message))
    return [
        RejectedLine(call[index].first, call[index].entry.entry, reason.strip())
        for index, reason in found
        if index < len(call)
    ]


def _render_rejected(each: RejectedLine) -> str:
    return f"line {each.line:,}, {each.entry[:100]!r}: {each.reason}"


def change_entries(service: ListService, changing: Changing, entries: Sequence[NewListEntry]) -> None:
    """Change entries of the command line."""
    records = [FileRecord(number, number, entry) for number, entry in enumerate(entries, 1)]
    with service.connect() as client:
        total = send_all(records, partial(_call, client, changing), changing, lambda _line: None)
    _print_total(changing, total)


def import_file(
    service: ListService, changing: Changing, file: Path, kind: ListFileFormat, start: int, state: Path | None
) -> None:
    """Change the entries of a file from a line on, or from where the import of the state file ended."""
    if state and start > 1:
        raise StartError("--state contains the position; leave out --from-line.")
    if state:
        start = load_state(state, changing.source)
    is_kept = state is not None and not changing.dry_run
    size = file.stat().st_size if file != STANDARD_INPUT else 0
    with service.connect() as client, open_file(file) as stream, ProgressBar("importing") as progress:

        def acknowledge(last: int) -> None:
            progress.update(stream.tell() if size else 0, size or None, f"{last:,} lines")
            if state and is_kept:
                save_state(state, changing.source, last)

        every = read_records(stream, kind, str(file), changing.source.list)
        records = (record for record in every if record.first >= start)
        total = send_all(records, partial(_call, client, changing), changing, acknowledge)
    if state and is_kept:
        state.unlink(missing_ok=True)
    _print_total(changing, total)


def _call(client: Client, changing: Changing, call: list[FileRecord]) -> ListChange:
    name, where = changing.source.list, {"tenant": changing.source.tenant}
    entries = [record.entry for record in call]
    if changing.delete:
        return client.delete_entries(name, [each.entry for each in entries], dry_run=changing.dry_run, **where)
    return client.add_entries(name, entries, dry_run=changing.dry_run, **where)


def _print_total(changing: Changing, total: Total) -> None:
    if changing.output.json:
        print_json(_describe_total(changing, total))
        return
    for each in total.skipped:
        print(f"Skipped: {_render_rejected(each)}", file=sys.stderr)
    if changing.dry_run:
        _print_dry_runs(total.dry_runs)
    else:
        print(
            f"{total.modified:,} of {total.entries:,} entries {'deleted' if changing.delete else 'added or updated'}."
        )


def _describe_total(changing: Changing, total: Total) -> dict[str, object]:
    described: dict[str, object] = {
        "listName": changing.source.list,
        "tenantUid": changing.source.tenant,
        "entries": total.entries,
        "modifiedEntries": total.modified,
        "skipped": total.skipped,
    }
    if changing.dry_run:
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


def read_records(stream: BinaryIO, kind: ListFileFormat, name: str, list_name: str) -> Iterator[FileRecord]:
    """Yield the entries of a file for a list."""
    definition = catalogue.BY_NAME.get(list_name)
    is_free_text = definition is not None and catalogue.KINDS[definition.kind].is_free_text
    try:
        yield from lists.records(stream, kind, is_free_text=is_free_text)
    except ListFileError as fault:
        raise StartError(f"{name}, {fault}.") from None


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
