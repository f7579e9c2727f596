"""Files with entries as the command line takes them: by their paths, with faults in its words."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gatepost.api import listfiles
from gatepost.api.listfiles import FORMATS, Format, ListFileError, Record
from gatepost.api.lists import PublicListsEntry
from gatepost.service.datafolder import StartError

__all__ = ["FORMATS", "STANDARD_INPUT", "Format", "Record", "format_of", "opened", "records", "written"]

STANDARD_INPUT = Path("-")


def format_of(file: Path) -> Format:
    """The format that a name promises."""
    return listfiles.format_of(file.name)


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
        yield from listfiles.records(_told(stream, advance), kind)
    except ListFileError as fault:
        raise StartError(f"{name}, {fault}.") from None


def _told(stream: BinaryIO, advance: Callable[[int], None]) -> Iterator[bytes]:
    for line in stream:
        advance(len(line))
        yield line


def written(entries: Iterable[PublicListsEntry], kind: Format) -> Iterator[str]:
    """Entries as lines of a file, with what stands above them."""
    if head := listfiles.heading(kind):
        yield head
    yield from listfiles.lines_of(entries, kind)
