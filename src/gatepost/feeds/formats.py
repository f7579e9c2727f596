"""The formats of feeds: a reader for each, and what the feed says, collected in the normal form of its list.

Every reader of a format hands its values over to `FeedItems`. Nothing that a feed says is trusted. A value that the
list refuses is skipped and counted, and a feed with more entries than it may have ends the run.

Feeds are plain text, CSV (RFC 4180) and lines of JSON. Lines are read one by one; one that cannot be read is counted
and passed over. Work is linear in the bytes, whatever they are: lines and cells have a maximum length.

All of this runs in a sealed process (`feeds.sealed_reading`): `FeedPlan` says what that has to know, and `read_feed` is
what it does.
"""

import csv
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, TypeAlias

import msgspec

from gatepost.api.lists import MAX_COMMENT, NewListEntry
from gatepost.lists.catalogue import ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.rejudge.try_change import new_entry
from gatepost.store.lists import NewEntry
from gatepost.times import date_time, now

# A line or value that is longer is no entry of any list.
MAX_VALUE = 10_000
SAMPLES = 5


class FeedFault(Exception):  # noqa: N818  an outcome of a run, not a fault of the program
    """Why a run ends without a result. `refused` says that the source answered, with something that is not accepted."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


class FeedPlan(msgspec.Struct, frozen=True, tag="feed"):
    """How a feed is to be read: for which list and in which format (`settings.feeds.FeedSettings`). `source` is named
    in the comments of its entries."""

    definition: ListDefinition
    source: str
    max_entries: int
    format: str = "plain"
    column: int | str = 1
    delimiter: str = ","
    header: bool = False
    field: str = "entry"


# What storage can hold, and what a reader may answer.
MAX_NUMBER = (1 << 53) - 1
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]


class RejectedValue(msgspec.Struct, frozen=True):
    """A value that the list refused, and why."""

    value: str
    reason: str


class FeedItems:
    """Collects the entries of one run: `entries` by key, and how many values were none."""

    def __init__(self, definition: ListDefinition, source: str, max_entries: int) -> None:
        self._definition, self._max_entries = definition, max_entries
        self.kind = definition.kind
        self._comment = f"{source}, {date_time(now())[:10]}"
        self.entries: dict[str, NewEntry] = {}
        self.read = self.invalid = self.repeated = 0
        self.rejected: list[RejectedValue] = []

    def add(self, value: str, comment: str = "") -> None:
        self.read += 1
        stated = f"{self._comment}: {comment.strip()}" if comment.strip() else self._comment
        made = new_entry(NewListEntry(value[:MAX_VALUE], stated[:MAX_COMMENT]), self._definition)
        if isinstance(made, ListRefusal):
            self._reject(value, made.reason)
            return
        if made.key in self.entries:
            self.repeated += 1
        elif len(self.entries) >= self._max_entries:
            raise FeedFault(f"the feed has more than {self._max_entries:,} entries (maxEntries)", refused=True)
        self.entries[made.key] = made

    def reject(self, value: str, reason: str) -> None:
        self.read += 1
        self._reject(value, reason)

    def _reject(self, value: str, reason: str) -> None:
        self.invalid += 1
        if len(self.rejected) < SAMPLES:
            self.rejected.append(RejectedValue(value[:200], reason))


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


def read_csv(body: bytes, items: FeedItems, plan: FeedPlan) -> None:
    """Read one column. Lines before the header that start with `#` are skipped; a header that starts so is found."""
    rows = _rows(body, items, plan.delimiter)
    place = _find_column(rows, plan)
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


def _find_column(rows: Iterator[list[str]], plan: FeedPlan) -> int:
    """The index of the column; the header, if there is one, is taken from the rows."""
    named = plan.column if isinstance(plan.column, str) else None
    if named is None and not plan.header:
        return int(plan.column) - 1
    for row in islice(rows, MAX_REMARKS):
        cells = [cell.strip().lstrip("#").strip().lower() for cell in row]
        if named is not None and named.lower() in cells:
            return cells.index(named.lower())
        if named is None and row and not row[0].startswith("#"):
            return int(plan.column) - 1
    raise FeedFault(f"the feed has no column {plan.column!r} in its header", refused=True)


def read_feed(plan: FeedPlan, items: FeedItems, body: bytes) -> None:
    """Read a whole feed; raises `FeedFault` where it cannot be one."""
    if plan.format == "csv":
        read_csv(body, items, plan)
    elif plan.format == "jsonl":
        read_json_lines(body, items, plan.field)
    else:
        read_plain(body, items, items.kind)
