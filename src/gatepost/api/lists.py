"""The List API's types: one definition that validates requests, writes answers and makes the documentation.

Requests are strict: a field that is not known is refused, for a misspelt `tenantUid` must not turn a tenant's entry
into a global one. Answers may gain fields, so clients must ignore fields that they do not know.

Entries also stand in files: one a line, CSV, or lines of JSON; they are read as they come, and each with the line that
it stands on. A cell of CSV that a spreadsheet would take for a formula is written with an apostrophe before it, and
read without it: comments may come from people who are not trusted by those that open the file.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import PurePath
from typing import Annotated, Literal, TypeVar

import msgspec

from gatepost.api.scanning import DateTime, Uuid
from gatepost.api.strict_json import find_repeated_key
from gatepost.lists.entries import MAX_ENTRY

MAX_BODY = 8 << 20
MAX_ENTRIES = 500
T = TypeVar("T")
MAX_COMMENT = 1_000

TenantUid = Annotated[
    Uuid | None, msgspec.Meta(description="The tenant whose list is meant, in any case; absent or null: the global one")
]
ListName = Annotated[str, msgspec.Meta(description="Name of the list", examples=["blocked-senders", "blocked-urls"])]
Entry = Annotated[str, msgspec.Meta(max_length=MAX_ENTRY, examples=["ann@example.com", "*.example.org"])]
_HAS_NUL = "has the character NUL (U+0000) in it, which no comment may have"
Comment = Annotated[
    str,
    msgspec.Meta(
        max_length=MAX_COMMENT,
        extra_json_schema={"pattern": r"^[^\x00]*$"},
        extra={"check": lambda text: "\0" not in text, "fault": _HAS_NUL},
    ),
]
_COUNT = {"maxItems": MAX_ENTRIES}
DryRunFlag = Annotated[
    bool | None,
    msgspec.Meta(description="Change nothing, and answer what would have happened; a read-only key may do that"),
]
Count = Annotated[int, msgspec.Meta(ge=0)]


class _Request(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A body of the List API."""


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    """What the List API answers."""


class NewListEntry(_Request, frozen=True):
    """An entry to add, or to update where the list has it already."""

    entry: Annotated[Entry, msgspec.Meta(description="In any spelling; it is stored in its normal form")]
    comment: Annotated[Comment | None, msgspec.Meta(description="For people; empty if absent")] = None
    expires: Annotated[
        DateTime | None,
        msgspec.Meta(
            description="From then on it does not match any more; absent: for good. A time in the past is refused"
        ),
    ] = None


class AddEntriesRequest(_Request, frozen=True):
    """Add or update entries: all of them or, on any error, none."""

    list_name: ListName
    entries: Annotated[tuple[NewListEntry, ...], msgspec.Meta(extra_json_schema=_COUNT)]
    tenant_uid: TenantUid = None
    dry_run: DryRunFlag = None


class DeleteEntriesRequest(_Request, frozen=True):
    """Delete entries; those that the list does not have are ignored."""

    list_name: ListName
    entries: Annotated[
        tuple[str, ...],
        msgspec.Meta(
            description="In any spelling; one without a normal form is compared as it stands", extra_json_schema=_COUNT
        ),
    ]
    tenant_uid: TenantUid = None
    dry_run: DryRunFlag = None


class GetListsRequest(_Request, frozen=True):
    """Ask which lists a scope has."""

    tenant_uid: TenantUid = None


class ListEntriesRequest(_Request, frozen=True):
    """Ask for all entries of a list."""

    list_name: ListName
    tenant_uid: TenantUid = None


class TriedEntry(_Answer, frozen=True):
    """What one entry alone would have done to the messages that were considered."""

    entry: Annotated[str, msgspec.Meta(description="In its normal form")]
    would_hit: Annotated[
        Count | None,
        msgspec.Meta(description="Messages that it would have matched; null where the stored keys cannot tell"),
    ]
    would_flip: Annotated[
        Count | None, msgspec.Meta(description="Messages among these that would have got another decision")
    ]


class DryRun(_Answer, frozen=True):
    """What a change would have done, judged by the keys and findings that are stored of the last messages of its scope.

    Phrases, protected names and trusted relays need the message itself: they answer null.
    """

    considered: Annotated[Count, msgspec.Meta(description="Stored messages that were looked at, the newest first")]
    would_modify: Annotated[Count, msgspec.Meta(description="What `modifiedEntries` would have been")]
    would_hit: Annotated[Count | None, msgspec.Meta(description="Messages that any of the entries would have matched")]
    would_flip: Annotated[
        Count | None, msgspec.Meta(description="Messages that all of the entries together would have decided otherwise")
    ]
    entries: Annotated[
        tuple[TriedEntry, ...], msgspec.Meta(description="Each distinct entry once, as the call first names it")
    ]


class ListChange(_Answer, frozen=True, omit_defaults=True):
    """What a change did."""

    modified_entries: Annotated[
        Count, msgspec.Meta(description="Distinct entries that were added, updated or deleted; 0 for a dry run")
    ]
    dry_run: Annotated[DryRun | None, msgspec.Meta(description="Only where the request asked for a dry run")] = None


class ListInfo(_Answer, frozen=True):
    """What a list is."""

    display_name: str
    category: Annotated[
        str,
        msgspec.Meta(
            description="What a hit does in general", examples=["block", "allow", "policy", "trust", "protect"]
        ),
    ]
    description: str
    max_size: Annotated[Count, msgspec.Meta(description="The most entries that the list may hold in one scope")]


class ListFileInfo(_Answer, frozen=True):
    """One list of a scope."""

    list_name: str
    list_info: ListInfo


class ListsOfScope(_Answer, frozen=True):
    """All lists of one scope."""

    list_file_infos: tuple[ListFileInfo, ...]


class PublicListsEntry(_Answer, frozen=True, gc=False):
    """One entry of the list: one line of the stream."""

    entry: str
    comment: str
    created: DateTime
    modified: DateTime
    modified_by: Annotated[
        str, msgspec.Meta(description="Who set it last: the kind and the name of a key, a user or a program")
    ]
    expires: DateTime | None
    hits: Annotated[Count, msgspec.Meta(description="Messages that it matched so far")]
    last_hit: DateTime | None


_ENCODER = msgspec.json.Encoder()


def encode_lists(value: object) -> bytes:
    """A value of these types as JSON."""
    return _ENCODER.encode(value)


def encode_lines(entries: list[PublicListsEntry]) -> bytes:
    """Entries as lines of JSON, each ended by a line feed."""
    return _ENCODER.encode_lines(entries)


def split_calls(items: Iterable[T]) -> Iterator[list[T]]:
    """Split entries into calls, none of which is larger than the API takes."""
    left = iter(items)
    while call := list(islice(left, MAX_ENTRIES)):
        yield call


ListFileFormat = Literal["plain", "csv", "ndjson"]
FORMATS: tuple[ListFileFormat, ...] = ("plain", "csv", "ndjson")
COLUMNS: tuple[str, ...] = ("entry", "comment", "expires")
_ENDINGS: dict[str, ListFileFormat] = {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson"}


class ListFileError(Exception):
    """A line that cannot be read; what follows it cannot be either."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line:,}: {reason}")
        self.line, self.reason = line, reason


class FileRecord(msgspec.Struct, frozen=True):
    """An entry of a file, with its first and its last line."""

    first: int
    last: int
    entry: NewListEntry


class RejectedLine(msgspec.Struct, frozen=True):
    """A line that the list refuses, and the reason, which follows the words "the entry"."""

    line: int
    entry: str
    reason: str


class _Line(msgspec.Struct, frozen=True):
    """A line of JSON; what else an export has in it is ignored."""

    entry: str
    comment: str | None = None
    expires: str | None = None


def format_of(name: str) -> ListFileFormat:
    """The format that a file's name promises."""
    return _ENDINGS.get(PurePath(name).suffix.lower(), "plain")


def records(lines: Iterable[bytes], kind: ListFileFormat, *, is_free_text: bool = False) -> Iterator[FileRecord]:
    """The entries of a file, in which ` # ` stands before a comment unless they are free text. Raises `ListFileError`
    where it cannot go on."""
    texts = _texts(lines)
    if kind == "plain":
        return plain_records(texts, is_free_text=is_free_text)
    return _csv(texts) if kind == "csv" else _ndjson(texts)


def _texts(lines: Iterable[bytes]) -> Iterator[str]:
    for number, raw in enumerate(lines, 1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise ListFileError(number, "is not UTF-8") from None


def _split_comment(text: str, *, is_free_text: bool) -> tuple[str, str]:
    """An entry and its comment, which follows a tab, or ` # ` where that cannot be a part of the entry."""
    entry, found, comment = text.partition("\t")
    if not found and not is_free_text:
        entry, _, comment = text.partition(" # ")
    return entry.strip(), comment.strip()


def plain_records(lines: Iterable[str], *, is_free_text: bool) -> Iterator[FileRecord]:
    """The entries of lines of text, as in a plain file. Empty lines and those that start with `#` are skipped."""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            entry, comment = _split_comment(text, is_free_text=is_free_text)
            yield FileRecord(number, number, NewListEntry(entry, comment or None))


def _csv(lines: Iterable[str]) -> Iterator[FileRecord]:
    """The columns are entry, comment and expires, unless the first row names them otherwise. Spreadsheets of countries
    with a decimal comma separate them with semicolons."""
    texts = iter(lines)
    start = next(texts, "")
    delimiter = ";" if start.count(";") > start.count(",") else ","
    reader = csv.reader(chain((start,), texts), strict=True, delimiter=delimiter)
    columns, last = COLUMNS, 0
    try:
        for row in reader:
            first, last = last + 1, reader.line_num
            cells = [_without_apostrophe(cell.strip()) for cell in row]
            if first == 1 and "entry" in (named := tuple(cell.lower() for cell in cells)):
                columns = named
            elif any(cells):
                stated = dict(zip(columns, cells, strict=False))
                yield FileRecord(first, last, _entry(stated.get("entry"), stated.get("comment"), stated.get("expires")))
    except csv.Error as fault:
        raise ListFileError(reader.line_num, f"is not CSV: {fault}") from None


def _ndjson(lines: Iterable[str]) -> Iterator[FileRecord]:
    decoder = msgspec.json.Decoder(_Line)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            stated = decoder.decode(line)
            repeated = find_repeated_key(line.encode())
        except (msgspec.DecodeError, RecursionError) as fault:
            raise ListFileError(number, f"is not an entry as JSON: {fault}") from None
        if repeated:
            raise ListFileError(number, f"has the key {repeated[:100]} twice in one object")
        yield FileRecord(number, number, _entry(stated.entry, stated.comment, stated.expires))


def _entry(entry: str | None, comment: str | None, expires: str | None) -> NewListEntry:
    return NewListEntry(entry or "", comment or None, expires or None)


def heading(kind: ListFileFormat) -> str:
    """What stands above the entries."""
    return ",".join(COLUMNS) + "\n" if kind == "csv" else ""


def lines_of(entries: Iterable[PublicListsEntry], kind: ListFileFormat) -> Iterator[str]:
    """Entries as lines of a file."""
    if kind == "ndjson":
        yield from (encode_lists(entry).decode() + "\n" for entry in entries)
    elif kind == "plain":
        yield from (f"{entry.entry}\n" for entry in entries)
    else:
        yield from (csv_line((entry.entry, entry.comment, entry.expires or "")) for entry in entries)


# What spreadsheets take for the start of a formula, also after spaces and in full width. A cell that has apostrophes
# before it gets one more, so that reading takes away exactly what writing added.
_FORMULA = re.compile(r"'*+(?:\s*+[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])")


def csv_line(cells: Iterable[str | None]) -> str:
    """A line of CSV without formulas. Python puts quotes around what has a character of the line end in it, so the line
    is written with the end of RFC 4180: a bare carriage return would begin a row of its own in a spreadsheet."""
    # A writer has one buffer, and threads write rows at the same time.
    line: str = csv.writer(_Rows(), lineterminator="\r\n").writerow(map(defuse, cells))
    return line.removesuffix("\r\n") + "\n"


def defuse(cell: str | None) -> str:
    """A cell of CSV that no spreadsheet takes for a formula."""
    text = cell or ""
    return f"'{text}" if _FORMULA.match(text) else text


def _without_apostrophe(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


class _Rows:
    """Gives back what a CSV writer writes."""

    def write(self, text: str) -> str:
        return text
