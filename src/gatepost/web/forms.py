"""What a form sends: urlencoded, or multipart where it carries a file. Size and time are bounded while it is read.

A form of somebody who is not signed in is small and has to arrive soon. A large form is parsed in a thread: decoding
megabytes would stop everything else that the event loop does.

A form that is sent after its session has ended is kept in the form for signing in, and offered again afterwards.
Nothing of it waits on the server. Forms with a password or a code in them are not kept, nor are long ones, since a
stranger's form must stay small.

A field that comes twice keeps all its values, in order: selected rows are sent like that. Times in forms are a day, or
a day and a minute, in the zone of the request.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Self
from urllib.parse import parse_qsl, urlencode

import msgspec
from multipart import (  # type: ignore[import-untyped]  # it is annotated, without saying so
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
)
from starlette.requests import Request

from gatepost.api.errors import INVALID_REQUEST, MALFORMED_REQUEST, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, Failure
from gatepost.api.http import BodyPace, content_length, parse_boundary
from gatepost.process.background_work import background
from gatepost.scanning.spool import SpooledBody
from gatepost.web.time_zones import current_zone, local_time

MAX_FORM = 4 << 20
MAX_FIELDS = 2_000
# A form above this is parsed in a thread.
LARGE_FORM = 64 << 10

FORM_TOO_LARGE = Failure(PAYLOAD_TOO_LARGE, "the form is too large; nothing was saved")
STALLED = Failure(MALFORMED_REQUEST, "the upload stopped or was too slow; nothing was saved")
UNREADABLE_FORM = Failure(
    MALFORMED_REQUEST, "the form could not be read; nothing was saved. Go back and submit it again"
)


class FormLimits(msgspec.Struct, frozen=True):
    """How large a form may be, how long its client may pause, and how long it may take before its size counts; None
    for the times of any upload."""

    size: int = MAX_FORM
    idle_seconds: float | None = None
    first_seconds: float | None = None


# A field that a browser encodes takes three bytes for each that it has.
SIGNED_IN = FormLimits(size=512 << 10)
LONG_TEXT = FormLimits()
STRANGER = FormLimits(size=16 << 10, idle_seconds=5.0, first_seconds=10.0)


class Form(msgspec.Struct, frozen=True):
    """The fields of a form; `file` is the name of the file that came with it."""

    fields: dict[str, tuple[str, ...]] = {}
    file: str = ""

    def text(self, name: str, limit: int = 1_000) -> str:
        """The first value of a field without the spaces around it; empty where there is none."""
        return self.raw_text(name).strip()[:limit]

    def raw_text(self, name: str) -> str:
        """The first value as it came: passwords may begin with a space."""
        return next(iter(self.fields.get(name, ())), "")

    def all(self, name: str) -> tuple[str, ...]:
        return self.fields.get(name, ())

    def with_field(self, name: str, value: str) -> str:
        """Return the fields as the query of a URL with one of them set, or left out where the value is empty."""
        kept = {key: values for key, values in self.fields.items() if key != name and any(values)}
        return urlencode({**kept, **({name: (value,)} if value else {})}, doseq=True, errors="replace")

    @property
    def is_filtered(self) -> bool:
        """Does the query of a URL filter the rows? The position (`before`) and the order (`sort`) do not."""
        return any(any(values) for name, values in self.fields.items() if name not in ("before", "sort"))

    def has(self, name: str) -> bool:
        """Was the field sent with a value? Browsers send a checkbox only when it is ticked."""
        return bool(self.raw_text(name))


def whole_number(text: str, otherwise: int = 0) -> int:
    """Return the number that a text of digits is; `otherwise` for any other text, and for a number that is too long."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else otherwise


def parse_query(text: str) -> Form:
    """Return the fields of a URL's query; none where it cannot be parsed."""
    try:
        return _build_form(parse_qsl(text[:20_000], keep_blank_values=True, max_num_fields=100, errors="replace"))
    except ValueError:
        return Form()


async def read_form(request: Request, limits: FormLimits = SIGNED_IN) -> Form | Failure:
    """Read the form that a request carries, without files."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return Failure(UNSUPPORTED_MEDIA_TYPE, "forms must be sent as application/x-www-form-urlencoded")
    if content_length(request.scope["headers"]) > limits.size:
        return FORM_TOO_LARGE
    body = bytearray()
    try:
        with BodyPace(limits.idle_seconds, limits.first_seconds) as pace:
            async for chunk in request.stream():
                pace.earn(len(chunk))
                body += chunk
                if len(body) > limits.size:
                    return FORM_TOO_LARGE
    except TimeoutError:
        return STALLED
    if len(body) <= LARGE_FORM:
        return _parse_form(body)
    return await asyncio.to_thread(background.run, _parse_form, body)


def _parse_form(body: bytearray) -> Form | Failure:
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace")
    except (ValueError, UnicodeDecodeError):
        return UNREADABLE_FORM
    return _build_form(pairs)


async def read_upload(request: Request, body: SpooledBody, limit: int) -> Form | Failure:
    """Read a form with one file in it, whose bytes go to `body` as they arrive."""
    boundary = parse_boundary(request.scope["headers"])
    if isinstance(boundary, Failure):
        return boundary
    reading = _FormParts(body.write, limit)
    try:
        with PushMultipartParser(boundary.encode("ascii"), max_segment_count=100, strict=True) as parser:
            with BodyPace() as pace:
                async for chunk in request.stream():
                    pace.earn(len(chunk))
                    if reading.feed(chunk, parser.parse(chunk)).is_too_large:
                        break
                    await body.settle()
            if not reading.is_too_large and not parser.closed:
                reading.feed(b"", parser.parse(b""))
    except TimeoutError:
        return STALLED
    except MultipartError:
        # Leaving before the end is an error to the parser as well.
        return FORM_TOO_LARGE if reading.is_too_large else UNREADABLE_FORM
    return FORM_TOO_LARGE if reading.is_too_large else reading.form()


class _FormParts:
    """The parts of a multipart body, one after the other."""

    def __init__(self, write: Callable[[bytes], object], limit: int) -> None:
        self._write, self._limit = write, limit
        self._pairs: list[tuple[str, str]] = []
        self._name, self._value = "", bytearray()
        self._is_file = False
        self._file = ""
        self._file_size = self._received = 0

    @property
    def is_too_large(self) -> bool:
        return self._file_size > self._limit or self._received - self._file_size > MAX_FORM

    def feed(self, chunk: bytes, events: Iterable[MultipartSegment | bytearray | None]) -> Self:
        """Take a chunk of the body, and the events that the parser made of it."""
        self._received += len(chunk)
        for event in events:
            self._take(event)
        return self

    def _take(self, event: MultipartSegment | bytearray | None) -> None:
        if isinstance(event, MultipartSegment):
            self._name, self._value = event.name or "", bytearray()
            self._is_file = event.filename is not None
            if self._is_file:
                self._file = event.filename[:300]
        elif event is None:
            if not self._is_file:
                self._pairs.append((self._name, self._value.decode("utf-8", "replace")))
        elif self._is_file:
            self._file_size += len(event)
            self._write(bytes(event))
        else:
            self._value += event

    def form(self) -> Form:
        return msgspec.structs.replace(_build_form(self._pairs), file=self._file)


def _build_form(pairs: Iterable[tuple[str, str]]) -> Form:
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value.replace("\0", "\N{REPLACEMENT CHARACTER}"))
    return Form({name: tuple(values) for name, values in fields.items()})


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
UNREADABLE_TIME = Failure(INVALID_REQUEST, "this is not a date; write it as 2027-01-31")
PAST_TIME = Failure(INVALID_REQUEST, "the date is in the past; choose a later one, or none")
REVERSED_PERIOD = Failure(INVALID_REQUEST, "the period ends before it begins; exchange From and To")
UNKNOWN_PERIOD = Failure(INVALID_REQUEST, "this is not a period; choose one of the list")

# Periods up to now that a form offers, in milliseconds.
LAST_PERIODS = {
    "1h": ("last hour", 3_600_000),
    "4h": ("last 4 hours", 4 * 3_600_000),
    "24h": ("last 24 hours", 86_400_000),
    "7d": ("last 7 days", 7 * 86_400_000),
    "30d": ("last 30 days", 30 * 86_400_000),
}


def parse_time(text: str, *, end: bool = False) -> int | Failure | None:
    """`2027-01-31`, or `2027-01-31T10:30` as browsers send it; the end of a day where it is asked for."""
    if not text:
        return None
    try:
        stated = datetime.fromisoformat(text)
        if end and len(text) <= len("2027-01-31"):
            stated += timedelta(days=1)
        moment = stated.replace(tzinfo=current_zone()) if stated.tzinfo is None else stated
        return (moment - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        return UNREADABLE_TIME


class Period(msgspec.Struct, frozen=True):
    """A period of time in Unix milliseconds; None where it is open at that end."""

    since: int | None = None
    until: int | None = None


def parse_period(query: Form, now: int) -> Period | Failure:
    """Return the period of the field `last`, or of the fields `since` and `until`, each with an hour of its own; the
    last day is included, and so is the last minute."""
    if last := query.text("last", 10):
        return Period(now - LAST_PERIODS[last][1]) if last in LAST_PERIODS else UNKNOWN_PERIOD
    since = parse_time(with_hour(query, "since", now))
    until = parse_time(with_hour(query, "until", now), end=True)
    if isinstance(since, Failure):
        return since
    if isinstance(until, Failure):
        return until
    return REVERSED_PERIOD if since is not None and until is not None and until <= since else Period(since, until)


def with_hour(query: Form, name: str, now: int) -> str:
    """Return a day and the hour beside it; an hour alone is one of today."""
    day, hour = query.text(name, 40), query.text(f"{name}-time", 10)
    if hour and not day:
        day = local_time(now).date().isoformat()
    return f"{day}T{hour}" if hour and "T" not in day else day


def parse_expiry(text: str, now: int) -> int | Failure | None:
    """Return when something expires: at the end of the given day, None for never."""
    moment = parse_time(text, end=True)
    if isinstance(moment, int) and moment <= now:
        return PAST_TIME
    return moment


# How long an entry counts that was made from a message, unless its user says otherwise.
ENTRY_DAYS = 90


def default_end(now: int) -> str:
    """Return the last day of an entry that is made from a message, as a form shows it: most of what is blocked in a
    hurry is forgotten."""
    return (local_time(now) + timedelta(days=ENTRY_DAYS)).strftime("%Y-%m-%d")


# Encoded once more in the form for signing in, this is a third of what a stranger may send.
MAX_KEPT = 5_000
_SECRET_FIELDS = frozenset({"password", "new", "again", "code", "old-code", "secret"})


class Unsent(msgspec.Struct, frozen=True):
    """The path of a form with its query, and its fields, encoded; empty where nothing is kept."""

    path: str = ""
    fields: str = ""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return parse_qsl(self.fields, keep_blank_values=True, errors="replace")


def keep_unsent(path: str, query: str, form: Form) -> Unsent:
    """Return what is kept of a form that nobody was signed in for."""
    if not form.fields or not _SECRET_FIELDS.isdisjoint(form.fields):
        return Unsent()
    encoded = urlencode({name: each for name, each in form.fields.items() if name != "csrf"}, doseq=True)
    return Unsent(f"{path}?{query}" if query else path, encoded) if len(encoded) <= MAX_KEPT else Unsent()


def read_unsent(form: Form) -> Unsent:
    """Return what the form for signing in brings along; only paths of this site."""
    path, fields = form.text("unsent-path", 2_000), form.raw_text("unsent-fields")
    is_inside = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return Unsent(path, fields) if is_inside and len(fields) <= MAX_KEPT else Unsent()
