"""What feeds and imported files say, read in a sealed process that is killed when its time is up.

Both are text of strangers in any amount, and what comes of it is the same: entries of a list in their normal form.
Whoever wants them (`SealedReader`) fetches or receives the bytes, hands them over piece by piece, and gets the entries
back in batches. The process has no files, no network and no secret, so much memory and so much CPU time. It ends with
the work that it belongs to: when that is done, when the client has left, and when the service stops.

An answer is checked as that of a stranger. A process that was taken over could name other entries than its file does;
whoever wrote that file could have written those as well. It can name no path, no list and no more entries than allowed.

Every reader of a format hands its values over to `FeedItems`. A value that the list refuses is skipped and counted, and
a feed with more entries than it may have ends the run. Feeds are plain text, CSV (RFC 4180) and lines of JSON. Lines
are read one by one; one that cannot be read is counted and passed over. Work is linear in the bytes, whatever they are:
lines and cells have a maximum length.
"""

import asyncio
import csv
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from gatepost.api.lists import (
    FORMATS,
    MAX_COMMENT,
    MAX_ENTRIES,
    ListFileError,
    ListFileFormat,
    NewListEntry,
    RejectedLine,
    records,
)
from gatepost.lists.catalogue import KINDS, LISTS, ListDefinition
from gatepost.lists.entries import MAX_ENTRY, ListRefusal
from gatepost.process.sandbox import SealedProcess, SealedProcessEnded, serve_sealed
from gatepost.rejudge.list_plan import new_entry, plan_line
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


PROCESS = "gatepost.feeds.sealed_reading"
PIECE = 1 << 20
MAX_ORDER = PIECE + (64 << 10)
MAX_ANSWER = 16 << 20
# An entry and a comment of 1,000 characters each take 12,000 bytes where JSON escapes them all.
MAX_LINE = 64 << 10
# What reading takes beside the bytes themselves, their copies, and the entries that come of them.
_BASE_MEMORY, _COPIES, _ENTRY_MEMORY = 256 << 20, 4, 2 << 10
# CPU seconds for an imported file.
FILE_SECONDS = 600.0

T = TypeVar("T")


class Batch(msgspec.Struct, frozen=True):
    """Up to 500 entries of a file, in order. `stop` says why nothing after them can be read."""

    entries: tuple[NewEntry, ...]
    faults: tuple[RejectedLine, ...]
    last: int
    stop: str = ""


class FilePlan(msgspec.Struct, frozen=True, tag="file"):
    """How an imported file is to be read: for which list and in which format."""

    definition: ListDefinition
    kind: ListFileFormat


ReadingPlan: TypeAlias = FeedPlan | FilePlan


class _Piece(msgspec.Struct, frozen=True, tag="piece"):
    """More bytes of what is to be read next."""

    data: bytes


class _FeedEnd(msgspec.Struct, frozen=True, tag="end"):
    """All bytes of the feed have come: read it. The answer is a `_FeedAnswer`."""


class _FeedEntries(msgspec.Struct, frozen=True, tag="entries"):
    """The next entries of the feed. The answer is a tuple, empty at the end."""


class _FileStart(msgspec.Struct, frozen=True, tag="start"):
    """All bytes of the file have come: begin at its first line."""


class _FileBatch(msgspec.Struct, frozen=True, tag="batch"):
    """The next entries of the file. The answer is a `Batch`, or None at the end."""


_Order: TypeAlias = FeedPlan | FilePlan | _Piece | _FeedEnd | _FeedEntries | _FileStart | _FileBatch


class FeedCount(msgspec.Struct, frozen=True):
    """How many values of a feed were read, and how many of them became no entry."""

    read: Number = 0
    invalid: Number = 0
    repeated: Number = 0
    rejected: tuple[RejectedValue, ...] = ()


class _FeedAnswer(msgspec.Struct, frozen=True):
    count: FeedCount = FeedCount()
    fault: str = ""
    refused: bool = False


_done = msgspec.msgpack.Decoder(bool)
_feed_answers = msgspec.msgpack.Decoder(_FeedAnswer)
_entries = msgspec.msgpack.Decoder(tuple[NewEntry, ...])
_batches: msgspec.msgpack.Decoder[Batch | None] = msgspec.msgpack.Decoder(Batch | None)


class ReadingFailed(Exception):  # noqa: N818  an outcome, not a fault of the program
    """Reading ended without a result; the reason follows the words "the file" or "the feed"."""


class SealedReader:
    """One process that reads one feed or one file."""

    def __init__(self, plan: ReadingPlan, seconds: float, memory: int) -> None:
        self._plan, self._seconds, self._memory = plan, seconds, memory
        self._process: SealedProcess | None = None
        self._is_over = False

    async def put(self, pieces: Iterable[bytes]) -> None:
        iterator = iter(pieces)
        while piece := await asyncio.to_thread(next, iterator, b""):
            for start in range(0, len(piece), PIECE):
                await self._ask(_Piece(piece[start : start + PIECE]), _done)

    async def read_feed(self, body: bytes) -> FeedCount:
        """Have a feed read, and return what was counted; raises `FeedFault`."""
        await self.put(body[start : start + PIECE] for start in range(0, len(body), PIECE))
        answer = await self._ask(_FeedEnd(), _feed_answers)
        if answer.fault:
            raise FeedFault(answer.fault[:2_000], refused=answer.refused)
        return answer.count

    async def feed_entries(self) -> dict[str, NewEntry]:
        """Return the entries of a feed, by key; once."""
        assert isinstance(self._plan, FeedPlan)
        found: dict[str, NewEntry] = {}
        while batch := await self._ask(_FeedEntries(), _entries):
            _check_entries(batch)
            found.update((entry.key, entry) for entry in batch)
            if len(found) > self._plan.max_entries:
                raise ReadingFailed(f"has more than {self._plan.max_entries:,} entries")
        return found

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield the entries of a file, from its first line on; as often as wanted."""
        await self._ask(_FileStart(), _done)
        while (batch := await self._ask(_FileBatch(), _batches)) is not None:
            if len(batch.entries) > MAX_ENTRIES or len(batch.faults) > MAX_ENTRIES:
                raise ReadingFailed("could not be read: its reader answered what is no part of a file")
            _check_entries(batch.entries)
            yield batch

    async def _ask(self, order: _Order, decoder: msgspec.msgpack.Decoder[T]) -> T:
        """Ask the process, in a thread. Who no longer waits ends it."""
        try:
            return decoder.decode(await asyncio.to_thread(self._ask_now, order))
        except asyncio.CancelledError:
            self.kill()
            raise
        except SealedProcessEnded as end:
            reason = "took too long to read" if end.was_late else "took too much memory to read"
            raise ReadingFailed("could not be read: the work on it was ended" if self._is_over else reason) from None
        except (msgspec.DecodeError, RecursionError):
            raise ReadingFailed("could not be read: its reader failed") from None

    def _ask_now(self, order: _Order) -> bytes:
        if self._is_over:
            raise SealedProcessEnded(was_late=False)
        if self._process is None:
            self._process = SealedProcess(PROCESS, str(self._memory))
            self._process.ask(msgspec.msgpack.encode(self._plan), self._seconds, MAX_ANSWER)
        before = self._process.cpu_seconds
        answer = self._process.ask(msgspec.msgpack.encode(order), max(0.05, self._seconds), MAX_ANSWER)
        self._seconds -= self._process.cpu_seconds - before
        if self._seconds <= 0:
            raise SealedProcessEnded(was_late=True)
        return answer

    def kill(self) -> None:
        """Do no more: whoever waits for an answer gets none."""
        self._is_over = True
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process and wait until it is gone."""
        self.kill()
        if self._process is not None:
            self._process.close()


@asynccontextmanager
async def read_sealed(plan: ReadingPlan, size: int, seconds: float) -> AsyncIterator[SealedReader]:
    """Open a reader for a feed or a file of at most so many bytes, with so many seconds of CPU time."""
    entries = plan.max_entries if isinstance(plan, FeedPlan) else MAX_ENTRIES
    reader = SealedReader(plan, seconds, _BASE_MEMORY + _COPIES * size + _ENTRY_MEMORY * entries)
    try:
        yield reader
    finally:
        reader.close()


def _check_entries(entries: Iterable[NewEntry]) -> None:
    """Refuse what no reader answers: texts that are too long for storage."""
    for entry in entries:
        texts = (entry.key, entry.shown, entry.comment)
        is_long = max(map(len, texts)) > max(MAX_ENTRY, MAX_COMMENT)
        if is_long or any("\0" in text for text in texts) or not 0 <= (entry.expires or 0) <= MAX_NUMBER:
            raise ReadingFailed("could not be read: its reader answered what is no entry")


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Split a file into lines; raise `ListFileError` for a line that is too long."""
    rest, number = b"", 0
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            yield _check_length(line, number) + b"\n"
        _check_length(rest, number + 1)
    if rest:
        yield rest


def _check_length(line: bytes, number: int) -> bytes:
    if len(line) > MAX_LINE:
        raise ListFileError(number, f"is longer than {MAX_LINE:,} bytes")
    return line


def read_batches(chunks: Iterable[bytes], kind: ListFileFormat, definition: ListDefinition) -> Iterator[Batch]:
    """Read the entries of a file in batches of one call, with the rejected lines."""
    found = records(split_lines(chunks), kind, is_free_text=KINDS[definition.kind].is_free_text)
    last = 0
    while True:
        entries: list[NewEntry] = []
        faults: list[RejectedLine] = []
        stop, seen = "", False
        try:
            for record in islice(found, MAX_ENTRIES):
                seen, last = True, record.last
                made = plan_line(record, definition)
                if isinstance(made, RejectedLine):
                    faults.append(made)
                else:
                    entries.append(made.entry)
        except ListFileError as fault:
            stop = f"Line {fault.line:,} {fault.reason}."
        if seen or stop:
            yield Batch(tuple(entries), tuple(faults), last, stop)
        if stop or not seen:
            return


class _Reading:
    """What the sealed process remembers between two orders."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._plan: ReadingPlan | None = None
        self._batches: Iterator[Batch] = iter(())
        self._entries: Iterator[NewEntry] = iter(())

    def answer(self, raw: bytes) -> bytes:
        return msgspec.msgpack.encode(self._carry_out(msgspec.msgpack.decode(raw, type=_Order)))

    def _carry_out(self, order: _Order) -> object:
        plan = self._plan
        if isinstance(order, FeedPlan | FilePlan):
            self._plan = order
        elif isinstance(order, _Piece):
            self._data += order.data
        elif isinstance(order, _FeedEnd) and isinstance(plan, FeedPlan):
            return self._read_feed(plan)
        elif isinstance(order, _FeedEntries):
            return tuple(islice(self._entries, MAX_ENTRIES))
        elif isinstance(order, _FileStart) and isinstance(plan, FilePlan):
            self._batches = read_batches(self._chunks(), plan.kind, plan.definition)
        elif isinstance(order, _FileBatch):
            return next(self._batches, None)
        return True

    def _read_feed(self, plan: FeedPlan) -> _FeedAnswer:
        body, self._data = bytes(self._data), bytearray()
        items = FeedItems(plan.definition, plan.source, plan.max_entries)
        try:
            read_feed(plan, items, body)
        except FeedFault as fault:
            return _FeedAnswer(fault=str(fault), refused=fault.refused)
        self._entries = iter(items.entries.values())
        return _FeedAnswer(FeedCount(items.read, items.invalid, items.repeated, tuple(items.rejected)))

    def _chunks(self) -> Iterator[bytes]:
        return (bytes(self._data[start : start + MAX_LINE]) for start in range(0, len(self._data), MAX_LINE))


def main() -> None:
    """`python -m gatepost.feeds.sealed_reading PARENT MEMORY`, with the socket as standard input."""
    # What is read or imported on first use is so now, while there are files.
    for definition in LISTS:
        for kind in FORMATS:
            _try(FilePlan(definition, kind), _FileStart(), _FileBatch())
        for form in ("plain", "csv", "jsonl"):
            _try(FeedPlan(definition, "", 10, form), _FeedEnd(), _FeedEntries())
    serve_sealed(_Reading().answer, int(sys.argv[2]), MAX_ORDER)


_SPECIMENS = (
    b'b\xc3\xbccher.example\nann@b.example\n192.0.2.0/24\n2001:db8::1\n*.exe\nAnn B. <ann@b.example>\n"x","y"\n',
    b'{"entry": "https://b\xc3\xbccher.example/x", "expires": "2999-01-01T00:00:00Z"}\n{"entry": 5}\n\xff\n',
)


def _try(plan: ReadingPlan, *orders: _Order) -> None:
    for specimen in _SPECIMENS:
        reading = _Reading()
        for order in (plan, _Piece(specimen), *orders):
            reading.answer(msgspec.msgpack.encode(order))


if __name__ == "__main__":
    main()
