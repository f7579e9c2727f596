"""Files with entries as the command line takes them: by their paths, with faults in its words.

Entries of a list for people, and whole lists for files.

The definition of a custom list, from what an administrator types.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import typer

from gatepost.api import list_files
from gatepost.api.list_files import Format, ListFileError, Record
from gatepost.api.lists import PublicListsEntry, encode_lists
from gatepost.cli.list_service import Service
from gatepost.cli.printing import console, rows, table
from gatepost.lists import catalogue
from gatepost.lists.catalogue import ListDefinition, UnfitList
from gatepost.service.data_folder import StartError

STANDARD_INPUT = Path("-")


def format_of(file: Path) -> Format:
    """The format that a name promises."""
    return list_files.format_of(file.name)


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
    try:
        yield from list_files.records(_told(stream, advance), kind)
    except ListFileError as fault:
        raise StartError(f"{name}, {fault}.") from None


def _told(stream: BinaryIO, advance: Callable[[int], None]) -> Iterator[bytes]:
    for line in stream:
        advance(len(line))
        yield line


def written(entries: Iterable[PublicListsEntry], kind: Format) -> Iterator[str]:
    """Entries as lines of a file, with what stands above them."""
    if head := list_files.heading(kind):
        yield head
    yield from list_files.lines_of(entries, kind)


def show_entries(service: Service, name: str, tenant: str | None, contains: str, limit: int, json: bool) -> None:
    """Print some entries: the first ones, or the first that have a text in them."""
    part = contains.casefold()
    with service.connected() as client:
        every = client.list_entries(name, tenant=tenant)
        wanted = (entry for entry in every if part in entry.entry.casefold() or part in entry.comment.casefold())
        found = list(islice(wanted if part else every, limit + 1))
    more, found = len(found) > limit, found[:limit]
    if json:
        for entry in found:
            print(encode_lists(entry).decode())
        return
    out = console()
    made = table("entry", "comment", "modified", "by", "expires", "hits", "last hit")
    out.print(rows(made, [_row(entry) for entry in found]))
    if more:
        out.print(f"There are more than {limit:,}; gatepost lists export has them all.", style="dim")


def _row(entry: PublicListsEntry) -> tuple[str, ...]:
    times = (entry.expires or "", f"{entry.hits:,}", entry.last_hit or "")
    return (entry.entry, entry.comment, entry.modified, entry.modified_by, *times)


def write_entries(service: Service, name: str, tenant: str | None, file: Path, kind: Format) -> None:
    """Write all entries to standard output or to a file."""
    with service.connected() as client:
        lines = written(client.list_entries(name, tenant=tenant), kind)
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


def define_list(
    name: str, kind: str, category: str, display_name: str, description: str, max_size: int | None
) -> ListDefinition:
    """What the list is, or a sentence about what is wrong with it."""
    made = catalogue.define_custom_list(name, kind, category, display_name, description, max_size)
    if isinstance(made, UnfitList):
        place = "NAME" if made.field == "name" else f"--{made.field.replace('_', '-')}"
        raise typer.BadParameter(made.reason, param_hint=place)
    return made


def describe_list(made: ListDefinition, tenant: str | None) -> dict[str, object]:
    """A list as `getLists` has it, with its kind and its scope."""
    about = {
        "displayName": made.display_name,
        "category": made.category,
        "description": made.description,
        "maxSize": made.max_size,
    }
    return {"listName": made.name, "tenantUid": tenant, "kind": made.kind, "listInfo": about}
