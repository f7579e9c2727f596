"""Entries of a list for people, and whole lists for files."""

import os
import sys
import tempfile
from itertools import islice
from pathlib import Path

from gatepost.api.lists import PublicListsEntry, encode
from gatepost.cli.listfiles import STANDARD_INPUT, Format, written
from gatepost.cli.listservice import Service
from gatepost.cli.printing import console, rows, table


def show(service: Service, name: str, tenant: str | None, contains: str, limit: int, json: bool) -> None:
    """Print some entries: the first ones, or the first that have a text in them."""
    part = contains.casefold()
    with service.connected() as client:
        every = client.list_entries(name, tenant=tenant)
        wanted = (entry for entry in every if part in entry.entry.casefold() or part in entry.comment.casefold())
        found = list(islice(wanted if part else every, limit + 1))
    more, found = len(found) > limit, found[:limit]
    if json:
        for entry in found:
            print(encode(entry).decode())
        return
    out = console()
    made = table("entry", "comment", "modified", "by", "expires", "hits", "last hit")
    out.print(rows(made, [_row(entry) for entry in found]))
    if more:
        out.print(f"There are more than {limit:,}; gatepost lists export has them all.", style="dim")


def _row(entry: PublicListsEntry) -> tuple[str, ...]:
    times = (entry.expires or "", f"{entry.hits:,}", entry.last_hit or "")
    return (entry.entry, entry.comment, entry.modified, entry.modified_by, *times)


def write(service: Service, name: str, tenant: str | None, file: Path, kind: Format) -> None:
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
