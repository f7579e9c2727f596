"""The formats of feeds: a reader for each, and what the feed says, collected in the normal form of its list.

Every reader of a format hands its values over to `FeedItems`. Nothing that a feed says is trusted. A value that the
list refuses is skipped and counted, and a feed with more entries than it may have ends the run.

Feeds of lines are plain text, CSV (RFC 4180) and lines of JSON. Lines are read one by one, and one that cannot be read
is counted and passed over. Work is linear in the bytes, whatever they are: lines and cells have a maximum length.

Feeds of indicators name kinds of values: MISP folders, STIX 2.1 bundles and TAXII 2.1 collections.

A MISP feed is a folder with `manifest.json`, which names events and when each changed, and a file for each event. A run
reads the manifest, and of the events all or those that changed since the last run, the newest first. Only attributes
that are marked for detection (`to_ids`) and not deleted are taken.

Of a STIX bundle the indicators are read, and of their patterns those that only compare one value. Patterns (section 9
of the standard) can say much more than a list can hold: that two things were seen together, in an order, within a time.
Such a pattern is counted and passed over, for each part of it by itself may be innocent. What is understood is one
comparison, or several of which any one is enough: `[url:value = 'http://a.example/']`, `[domain-name:value =
'a.example' OR domain-name:value = 'b.example']`, `[ipv4-addr:value IN ('192.0.2.1')]`.

A TAXII collection has such indicators page by page (OASIS TAXII 2.1, sections 3.4 on filtering, 3.5 on pagination and
5.4 on getting objects). Pages come in the order in which objects were added, so the last date of the last page is where
the next run goes on.

All of this runs in a sealed process (`feeds.sealed_reading`): `FeedPlan` says what that has to know, and `read_part`
is what it does. What a source consists of is fetched outside, by `read_misp` and `read_taxii`, which are told of each
part only what leads to the next one.
"""

import csv
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlencode

import msgspec

from gatepost.api.lists import MAX_COMMENT, NewListEntry
from gatepost.ids import canonical
from gatepost.lists.catalogue import ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.rejudge.try_change import new_entry
from gatepost.store.lists import NewEntry
from gatepost.times import date_time, milliseconds, now

# A line or value that is longer is no entry of any list.
MAX_VALUE = 10_000
SAMPLES = 5

ValueKind: TypeAlias = Literal["url", "host", "address", "email", "sha256"]

# Which values of formats that name kinds of values (MISP, STIX) are entries of which kind of list. A host is no sender:
# a site that was broken into may still send honest mail.
_USES: dict[str, frozenset[ValueKind]] = {
    "url": frozenset({"url", "host"}),
    "network": frozenset({"address"}),
    "sender": frozenset({"email"}),
    "sha256": frozenset({"sha256"}),
    "domain": frozenset({"host"}),
}


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
PartKind: TypeAlias = Literal["whole", "manifest", "event", "page"]


class PartSaid(msgspec.Struct, frozen=True):
    """What a part of a source says of other parts. A manifest: the events that changed after the time in question, the
    newest first, and the time of the newest. A page: whether there is more, and how to ask for it."""

    events: tuple[str, ...] = ()
    newest: Number = 0
    more: bool = False
    next: str = ""


class RejectedValue(msgspec.Struct, frozen=True):
    """A value that the list refused, and why."""

    value: str
    reason: str


class FeedItems:
    """Collects the entries of one run: `entries` by key, and how many values were none."""

    def __init__(self, definition: ListDefinition, source: str, max_entries: int) -> None:
        self._definition, self._max_entries = definition, max_entries
        self._uses = _USES.get(definition.kind, frozenset())
        self._moment = now()
        self.kind = definition.kind
        self._comment = f"{source}, {date_time(self._moment)[:10]}"
        self.entries: dict[str, NewEntry] = {}
        self.revoked: set[str] = set()
        self.read = self.invalid = self.expired = self.other = self.repeated = 0
        self.rejected: list[RejectedValue] = []

    def uses(self, kind: ValueKind) -> bool:
        """Whether values of this kind are entries of the list; others are counted."""
        if kind in self._uses:
            return True
        self.count_other()
        return False

    def add(self, value: str, comment: str = "", expires: int | None = None) -> None:
        """Take one value, whatever it is. `expires` None is never."""
        self.read += 1
        if expires is not None and expires <= self._moment:
            self.expired += 1
            return
        stated = f"{self._comment}: {comment.strip()}" if comment.strip() else self._comment
        made = new_entry(NewListEntry(value[:MAX_VALUE], stated[:MAX_COMMENT]), self._definition)
        if isinstance(made, ListRefusal):
            self._reject(value, made.reason)
            return
        if made.key in self.entries:
            self.repeated += 1
        elif len(self.entries) >= self._max_entries:
            raise FeedFault(f"the feed has more than {self._max_entries:,} entries (maxEntries)", refused=True)
        self.revoked.discard(made.key)
        self.entries[made.key] = msgspec.structs.replace(made, expires=expires)

    def take(self, value: str, comment: str = "", expires: int | None = None, *, revoked: bool = False) -> None:
        """Take one value, or take it back: the source says that it does not hold any more."""
        if not revoked:
            self.add(value, comment, expires)
            return
        key = self._definition.key(value[:MAX_VALUE])
        self.entries.pop(key, None)
        if len(self.revoked) < self._max_entries:
            self.revoked.add(key)

    def reject(self, value: str, reason: str) -> None:
        """Count something that cannot be read."""
        self.read += 1
        self._reject(value, reason)

    def count_other(self) -> None:
        """Count something that can be read and is nothing for this list."""
        self.other += 1

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


T = TypeVar("T")
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _decode(decoder: msgspec.json.Decoder[T], body: bytes, fault: str) -> T:
    try:
        return decoder.decode(body)
    except _WRONG:
        raise FeedFault(fault, refused=True) from None


def _decode_each(
    decoder: msgspec.json.Decoder[T], raws: Iterable[msgspec.Raw], items: FeedItems, fault: str
) -> Iterator[T]:
    """Yield what can be read; the rest is counted and passed over."""
    for raw in raws:
        try:
            yield decoder.decode(raw)
        except _WRONG:
            items.reject(bytes(raw)[:200].decode("utf-8", "replace"), fault)


MAX_EVENTS = 20_000

# MISP's types, with the part of a composite value (`a|b`) that is meant.
_TYPES: dict[str, tuple[tuple[ValueKind, int], ...]] = {
    "url": (("url", 0),),
    "domain": (("host", 0),),
    "hostname": (("host", 0),),
    "hostname|port": (("host", 0),),
    "domain|ip": (("host", 0), ("address", 1)),
    "ip-src": (("address", 0),),
    "ip-dst": (("address", 0),),
    "ip-src|port": (("address", 0),),
    "ip-dst|port": (("address", 0),),
    "email": (("email", 0),),
    "email-src": (("email", 0),),
    "email-reply-to": (("email", 0),),
    "sha256": (("sha256", 0),),
    "filename|sha256": (("sha256", 1),),
}

Part = Callable[[str], Awaitable[bytes]]
ReadPart = Callable[[PartKind, bytes, int], Awaitable[PartSaid]]


class _Attribute(msgspec.Struct, frozen=True):
    type: str
    value: str
    to_ids: bool = False
    deleted: bool = False


class _Object(msgspec.Struct, frozen=True):
    attributes: list[msgspec.Raw] = msgspec.field(default_factory=list, name="Attribute")


class _Event(msgspec.Struct, frozen=True):
    info: str = ""
    attributes: list[msgspec.Raw] = msgspec.field(default_factory=list, name="Attribute")
    objects: list[_Object] = msgspec.field(default_factory=list, name="Object")


class _Document(msgspec.Struct, frozen=True):
    event: _Event = msgspec.field(name="Event")


class _ManifestLine(msgspec.Struct, frozen=True):
    timestamp: int | str = 0


_manifests = msgspec.json.Decoder(dict[str, msgspec.Raw])
_manifest_lines = msgspec.json.Decoder(_ManifestLine, strict=False)
_documents = msgspec.json.Decoder(_Document)
# Numbers and booleans stand in quotes in the files of some programs.
_attributes = msgspec.json.Decoder(_Attribute, strict=False)


async def read_misp(part: Part, read: ReadPart, since: int) -> int:
    """Read the events that changed after a time (0 for all); returns the time of the newest, in Unix seconds.

    `part` fetches a file of the folder, and `read` reads it. Raises `FeedFault` where the manifest or an event is none.
    """
    manifest = await read("manifest", await part("manifest.json"), since)
    # The uuid is a part of a path, and whoever read the manifest is not trusted with paths.
    if any(canonical(uid) != uid for uid in manifest.events):
        raise FeedFault("the manifest names events that have no uuid", refused=True)
    for uid in manifest.events:
        await read("event", await part(f"{uid}.json"), 0)
    return max(since, manifest.newest)


def read_manifest(body: bytes, items: FeedItems, since: int) -> PartSaid:
    """Read a manifest: which events changed after a time; raises `FeedFault` where they are too many."""
    manifest = _read_manifest(body, items)
    wanted = sorted(((time, uid) for uid, time in manifest.items() if time > since), reverse=True)
    if len(wanted) > MAX_EVENTS:
        raise FeedFault(f"the feed has more than {MAX_EVENTS:,} events to read", refused=True)
    return PartSaid(tuple(uid for _, uid in wanted), max(manifest.values(), default=0))


def read_event(body: bytes, items: FeedItems) -> None:
    """Read the file of one event."""
    event = _decode(_documents, body, "an event of the feed is no MISP event").event
    every = (*event.attributes, *(raw for each in event.objects for raw in each.attributes))
    for attribute in _decode_each(_attributes, every, items, "is no attribute of a MISP event"):
        _read_attribute(attribute, event.info, items)


def _read_attribute(attribute: _Attribute, info: str, items: FeedItems) -> None:
    known = _TYPES.get(attribute.type)
    if known is None or not attribute.to_ids:
        items.count_other()
        return
    parts = attribute.value.split("|")
    for kind, place in known:
        if items.uses(kind):
            items.take(parts[place] if place < len(parts) else "", info, revoked=attribute.deleted)


def _read_manifest(body: bytes, items: FeedItems) -> dict[str, int]:
    """The events by their uuid, which is a part of a path and therefore must be one."""
    lines = _decode(_manifests, body, "the feed has no MISP manifest")
    found: dict[str, int] = {}
    for name, raw in lines.items():
        uid = canonical(name)
        try:
            time = int(_manifest_lines.decode(raw).timestamp)
        except (*_WRONG, ValueError):
            uid = None
        if uid is None or not 0 <= time <= MAX_NUMBER:
            items.reject(name, "is no event of a MISP manifest")
        else:
            found[uid] = time
    return found


_STRING = r"'(?>[^'\\]|\\.)*+'"
_TOKEN = re.compile(
    rf"""\s*+(?:(?P<string>{_STRING})|(?P<path>[a-z0-9-]++:[A-Za-z0-9_.'"\[\]*-]++)|(?P<sign>[\[\](),=])
    |(?P<word>[A-Za-z_]++))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PATHS: dict[str, ValueKind] = {
    "domain-name:value": "host",
    "url:value": "url",
    "ipv4-addr:value": "address",
    "ipv6-addr:value": "address",
    "email-addr:value": "email",
    "email-message:from_ref.value": "email",
    "email-message:sender_ref.value": "email",
    "file:hashes.'SHA-256'": "sha256",
    'file:hashes."SHA-256"': "sha256",
}


class _Bundle(msgspec.Struct, frozen=True):
    type: str
    objects: list[msgspec.Raw] = []


class _Indicator(msgspec.Struct, frozen=True):
    type: str
    pattern: str = ""
    pattern_type: str = "stix"
    valid_until: str | None = None
    revoked: bool = False
    modified: str = ""
    name: str | None = None


class _Typed(msgspec.Struct, frozen=True):
    type: str = ""


_bundles = msgspec.json.Decoder(_Bundle)
_indicators = msgspec.json.Decoder(_Indicator)
_types = msgspec.json.Decoder(_Typed)


def read_bundle(body: bytes, items: FeedItems) -> None:
    """Read a bundle; raises `FeedFault` where it is none."""
    bundle = _decode(_bundles, body, "the feed is no STIX bundle")
    if bundle.type != "bundle":
        raise FeedFault(f"the feed is no STIX bundle but {bundle.type[:100]!r}", refused=True)
    read_objects(bundle.objects, items)


def read_objects(objects: Sequence[msgspec.Raw], items: FeedItems) -> None:
    """Read objects; of several versions of one thing the last counts. Objects that are no indicators say nothing."""
    found = []
    for raw in objects:
        try:
            if _types.decode(raw).type != "indicator":
                continue
            found.append(_indicators.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            items.reject(bytes(raw)[:200].decode("utf-8", "replace"), "is no indicator of STIX 2.1")
    for indicator in sorted(found, key=lambda each: each.modified):
        _read_indicator(indicator, items)


def _read_indicator(indicator: _Indicator, items: FeedItems) -> None:
    values = parse_pattern(indicator.pattern) if indicator.pattern_type == "stix" else None
    if values is None:
        items.count_other()
        return
    until = milliseconds(indicator.valid_until) if indicator.valid_until else None
    for kind, value in values:
        if not items.uses(kind):
            continue
        if indicator.valid_until and until is None:
            items.reject(value, "has an end that is no date-time")
            continue
        items.take(value, indicator.name or "", until, revoked=indicator.revoked)


def parse_pattern(pattern: str) -> tuple[tuple[ValueKind, str], ...] | None:
    """The values of which any one makes the pattern match; None for a pattern that says more or something else.

    A pattern with a comparison that no list can make (`file:name = …`) is None as well, unless another one is enough.
    """
    if len(pattern) > 100 * MAX_VALUE:
        return None
    tokens = list(_tokens(pattern))
    if not tokens or tokens[-1][0] == "fault":
        return None
    found: list[tuple[ValueKind, str]] = []
    place, is_inside = 0, False
    while True:
        if not is_inside:
            if _at(tokens, place) != ("sign", "["):
                return None
            place, is_inside = place + 1, True
        place = _read_comparison(tokens, place, found)
        if place < 0:
            return None
        if _at(tokens, place) == ("sign", "]"):
            place, is_inside = place + 1, False
            if place == len(tokens):
                return tuple(found) or None
        if _at(tokens, place) != ("word", "OR"):
            return None
        place += 1


def _read_comparison(tokens: list[tuple[str, str]], place: int, found: list[tuple[ValueKind, str]]) -> int:
    """Read `path = 'text'` or `path IN ('text', …)`; returns the place behind it, -1 where it is something else."""
    kind, path = _at(tokens, place)
    if kind != "path":
        return -1
    values: list[str] = []
    if _at(tokens, place + 1) == ("sign", "=") and _at(tokens, place + 2)[0] == "string":
        values, place = [tokens[place + 2][1]], place + 3
    elif _at(tokens, place + 1) == ("word", "IN") and _at(tokens, place + 2) == ("sign", "("):
        place += 3
        while _at(tokens, place)[0] == "string":
            values.append(tokens[place][1])
            place += 1
            if _at(tokens, place) != ("sign", ","):
                break
            place += 1
        if _at(tokens, place) != ("sign", ")"):
            return -1
        place += 1
    else:
        return -1
    if path in _PATHS:
        found += [(_PATHS[path], value) for value in values]
    return place


def _at(tokens: list[tuple[str, str]], place: int) -> tuple[str, str]:
    return tokens[place] if place < len(tokens) else ("end", "")


def _tokens(pattern: str) -> Iterator[tuple[str, str]]:
    place, end = 0, len(pattern.rstrip())
    while place < end:
        match = _TOKEN.match(pattern, place)
        if match is None:
            yield "fault", ""
            return
        kind = str(match.lastgroup)
        text = match.group(kind)
        yield kind, _ESCAPE.sub(r"\1", text[1:-1]) if kind == "string" else text
        place = match.end()


MEDIA_TYPE = "application/taxii+json;version=2.1"
PAGE = 1_000
MAX_PAGES = 10_000
_LAST = "x-taxii-date-added-last"


class TaxiiPage(msgspec.Struct, frozen=True):
    """A page as it was fetched: its bytes, and the date up to which it reaches."""

    body: bytes
    last: str = ""


GetPage = Callable[[str], Awaitable[TaxiiPage]]


class _Envelope(msgspec.Struct, frozen=True):
    more: bool = False
    next: str | None = None
    objects: list[msgspec.Raw] = []


_envelopes = msgspec.json.Decoder(_Envelope)


def date_header(headers: dict[str, str]) -> str:
    """The date up to which a page reaches, if its header has one that is a date."""
    stated = headers.get(_LAST, "").strip().strip('"')
    return stated if milliseconds(stated) is not None else ""


async def read_taxii(url: str, get: GetPage, read: ReadPart, since: str) -> str:
    """Read what was added after a date ("" for all); returns the date up to which the collection was read.

    `url` is that of the collection; `get` fetches a page, and `read` reads it. Raises `FeedFault` where a page is none,
    or where the pages have no end.
    """
    objects = f"{url.partition('?')[0].rstrip('/')}/objects/"
    asked = {"match[type]": "indicator", "limit": str(PAGE), **({"added_after": since} if since else {})}
    position, seen = since, set[tuple[str, str]]()
    for _ in range(MAX_PAGES):
        page = await get(f"{objects}?{urlencode(asked)}")
        said = await read("page", page.body, 0)
        position = page.last or position
        if not said.more:
            return position
        # A server that has no cursor is asked for what follows the last date of the page (section 3.5).
        step = ("next", said.next) if said.next else ("added_after", page.last)
        if not step[1] or step in seen:
            raise FeedFault("the collection says that there is more, and does not say how to get it", refused=True)
        seen.add(step)
        asked.pop("next", None)
        asked[step[0]] = step[1]
    raise FeedFault(f"the collection has more than {MAX_PAGES:,} pages", refused=True)


def read_page(body: bytes, items: FeedItems) -> PartSaid:
    """Read a page of a collection; raises `FeedFault` where it is none."""
    wrong = "the collection answered with something that is no TAXII envelope"
    envelope = _decode(_envelopes, body, wrong) if body.strip() else _Envelope()
    if envelope.next and len(envelope.next) > MAX_VALUE:
        raise FeedFault("the collection names its next page with a text that is too long", refused=True)
    read_objects(envelope.objects, items)
    return PartSaid(more=envelope.more, next=envelope.next or "")


def read_part(plan: FeedPlan, items: FeedItems, what: PartKind, body: bytes, since: int) -> PartSaid:
    """Read one part of a source; raises `FeedFault`. `since` is for manifests."""
    if what == "manifest":
        return read_manifest(body, items, since)
    if what == "page":
        return read_page(body, items)
    if what == "event":
        read_event(body, items)
    elif plan.format == "csv":
        read_csv(body, items, plan)
    elif plan.format == "jsonl":
        read_json_lines(body, items, plan.field)
    elif plan.format == "stix":
        read_bundle(body, items)
    else:
        read_plain(body, items, items.kind)
    return PartSaid()
