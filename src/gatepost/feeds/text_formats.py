"""Feeds of lines: plain text, CSV (RFC 4180) and lines of JSON.

Lines are read one by one, and one that cannot be read is counted and passed over. Work is linear in the bytes, whatever
they are: lines and cells have a maximum length.
"""

import csv
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from gatepost.feeds.items import MAX_VALUE, FeedFault, FeedItems
from gatepost.settings.feeds import FeedSettings

# What starts a remark behind an entry; phrases may hold anything, so lists of phrases have none.
_REMARKS = (" #", "\t#", " ;", "\t;")
# Lines that may stand above the header.
MAX_REMARKS = 100
_BOM = b"\xef\xbb\xbf"
# Records of CSV may go over several lines; a quote that nobody closes must not swallow the file.
_MAX_CELL = 131_072


def read_plain(body: bytes, items: FeedItems, kind: str) -> None:
    """Read one entry a line. Empty lines and lines that start with `#` or `;` are skipped, remarks are cut."""
    for line in _lines(body, items):
        text = line.strip()
        if not text or text.startswith(("#", ";")):
            continue
        entry, remark = _split_remark(text) if kind != "phrase" else (text, "")
        items.add(entry, remark)


def read_csv(body: bytes, items: FeedItems, settings: FeedSettings) -> None:
    """Read one column. Lines before the header that start with `#` are skipped; a header that starts so is found."""
    rows = _rows(body, items, settings.delimiter)
    place = _find_column(rows, settings)
    for row in rows:
        if not row or row[0].lstrip().startswith("#"):
            continue
        if place < len(row):
            items.add(row[place].strip())
        else:
            items.reject(",".join(row)[:200], f"has no column {place + 1}")


def read_json_lines(body: bytes, items: FeedItems, field: str) -> None:
    """Read one field of each object; a list of texts is as many entries."""
    path = field.split(".")
    for line in _lines(body, items):
        if not line.strip():
            continue
        try:
            found: Any = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            items.reject(line[:200], "is no JSON")
            continue
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        values = found if isinstance(found, list) else [found]
        for value in values:
            if isinstance(value, str):
                items.add(value)
            else:
                items.reject(line[:200], f"has no text in the field {field}")


def _lines(body: bytes, items: FeedItems) -> Iterator[str]:
    start = len(_BOM) if body.startswith(_BOM) else 0
    while start < len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        if end - start > MAX_VALUE:
            items.reject(body[start : start + 200].decode("utf-8", "replace"), f"is longer than {MAX_VALUE:,} bytes")
        else:
            try:
                yield body[start:end].decode("utf-8")
            except UnicodeDecodeError:
                items.reject(body[start:end].decode("utf-8", "replace"), "is not UTF-8")
        start = end + 1


def _split_remark(text: str) -> tuple[str, str]:
    found = [place for sign in _REMARKS if (place := text.find(sign)) > 0]
    if not found:
        return text, ""
    return text[: min(found)].rstrip(), text[min(found) :].lstrip(" \t#;")


def _rows(body: bytes, items: FeedItems, delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(_MAX_CELL)
    # csv forbids a line end in the middle of a line it is given, so carriage returns go.
    reader = csv.reader((line.rstrip("\r") for line in _lines(body, items)), delimiter=delimiter)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as fault:
            items.reject("", f"is no CSV: {fault}")
        else:
            yield row


def _find_column(rows: Iterator[list[str]], settings: FeedSettings) -> int:
    """The index of the column; the header, if there is one, is taken from the rows."""
    named = settings.column if isinstance(settings.column, str) else None
    if named is None and not settings.header:
        return int(settings.column) - 1
    for row in islice(rows, MAX_REMARKS):
        cells = [cell.strip().lstrip("#").strip().lower() for cell in row]
        if named is not None and named.lower() in cells:
            return cells.index(named.lower())
        if named is None and row and not row[0].startswith("#"):
            return int(settings.column) - 1
    raise FeedFault(f"the feed has no column {settings.column!r} in its header", refused=True)
