"""Read and write files with list entries, print entries, and define custom lists."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import typer

from gatepost.api import lists
from gatepost.api.lists import FileRecord, ListFileError, ListFileFormat, PublicListsEntry, encode_lists
from gatepost.cli.api_client import ListService
from gatepost.cli.printing import console, rows, table
from gatepost.lists import catalogue
from gatepost.lists.catalogue import ListDefinition, UnfitList
from gatepost.service.data_folder import StartError

STANDARD_INPUT = Path("-")


def format_of(file: Path) -> ListFileFormat:
    """Return the format that a file name stands for."""
    return lists.format_of(file.name)


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


def show_entries(service: ListService, name: str, tenant: str | None, contains: str, limit: int, json: bool) -> None:
    """Print the first entries, or the first that contain a text."""
    part = contains.casefold()
    with service.connect() as client:
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
        out.print(f"There are more than {limit:,}; gatepost lists export writes all of them.", style="dim")


def _row(entry: PublicListsEntry) -> tuple[str, ...]:
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


def define_list(
    name: str, kind: str, category: str, display_name: str, description: str, max_size: int | None
) -> ListDefinition:
    """Return the definition of a custom list; raises `typer.BadParameter` with the fault."""
    made = catalogue.define_custom_list(name, kind, category, display_name, description, max_size)
    if isinstance(made, UnfitList):
        place = "NAME" if made.field == "name" else f"--{made.field.replace('_', '-')}"
        raise typer.BadParameter(made.reason, param_hint=place)
    return made


def describe_list(made: ListDefinition, tenant: str | None) -> dict[str, object]:
    """Return a list as `getLists` answers it, with its kind and scope."""
    about = {
        "displayName": made.display_name,
        "category": made.category,
        "description": made.description,
        "maxSize": made.max_size,
    }
    return {"listName": made.name, "tenantUid": tenant, "kind": made.kind, "listInfo": about}
