"""JSON bodies of requests: read within bounds, decoded fast, and on failure checked again for every fault.

Known fields are strict (`"5"` is not 5), unknown ones are refused, null on an optional field means absent. Faults are
named field by field, in the words of JSON.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from starlette.requests import Request

from gatepost.api.errors import (
    INVALID_REQUEST,
    MALFORMED_REQUEST,
    PAYLOAD_TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    ErrorCode,
    Failure,
)
from gatepost.api.http import ClientLeft
from gatepost.api.strict_json import decode_counted, find_repeated_key, refuse_many_values
from gatepost.ids import canonical
from gatepost.process.background_work import background
from gatepost.times import milliseconds

MAX_FAULTS_SHOWN, MAX_FAULTS_COUNTED = 20, 1_000
# Bodies from this size on are decoded in a thread: checking a key at a time for repeats takes 0.1 ms a kilobyte.
LARGE_BODY = 32 << 10
_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "a boolean"),
    (str, "a string"),
    (int | float, "a number"),
    (list, "an array"),
    (dict, "an object"),
)


def list_faults(code: ErrorCode, faults: Iterable[str]) -> Failure:
    """Return all faults in one sentence; of many the first, and how many more there are. A body of 8 MiB may have
    millions: they are not counted to the end."""
    every = list(islice(faults, MAX_FAULTS_COUNTED + 1))
    rest = len(every) - MAX_FAULTS_SHOWN
    more = f"; and {rest:,} more" if rest > 0 else ""
    if len(every) > MAX_FAULTS_COUNTED:
        more = f"; and more than {rest - 1:,} more"
    return Failure(code, "; ".join(every[:MAX_FAULTS_SHOWN]) + more)


def wrong_kind(name: str, value: Any, wanted: str, present: bool) -> str:
    """Return the fault of a field that has the wrong JSON type or is missing."""
    return f"{name} must be {wanted}, not {kind_of(value)}" if present else f"{name} is missing"


def kind_of(value: Any) -> str:
    """Return the JSON type of a value, with its article."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "null")


# A body of 8 MiB at 256 KiB a second.
BODY_SECONDS = 32.0


class ScopedBody(Protocol):
    """A body that can name a tenant."""

    @property
    def tenant_uid(self) -> str | None: ...


B = TypeVar("B", bound=ScopedBody)
Collector = Callable[[str, Any, bool], Iterator[str]]


def always_sound(_body: Any) -> bool:
    """The default for `BodyReader`: the decoder checks everything."""
    return True


class BodyReader(Generic[B]):
    """Reads the body of one operation: a type that decodes it, what `is_sound` besides, and for each field the
    collector of its faults. A body has at most `most` bytes."""

    def __init__(
        self,
        kind: type[B],
        fields: dict[str, Collector],
        *,
        most: int,
        is_sound: Callable[[B], bool] = always_sound,
    ) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._fields = {**fields, "tenantUid": tenant_faults}
        self._most, self._is_sound = most, is_sound

    async def read(self, request: Request) -> B | Failure | ClientLeft:
        """Return the decoded body of a request, or everything that is wrong with it."""
        refusal = _media_type_fault(request)
        if refusal:
            return refusal
        data = await _receive_body(request, self._most)
        if not isinstance(data, bytes | bytearray):
            return data
        if len(data) <= LARGE_BODY:
            return self.decode(data)
        return await asyncio.to_thread(background.run, self.decode, data)

    def decode(self, data: bytes | bytearray) -> B | Failure:
        """Decode a body."""
        if refusal := refuse_many_values("the body", data):
            return refusal
        try:
            body = self._decoder.decode(data)
        except (ValueError, RecursionError):
            return self._faults(data)
        if body.tenant_uid is not None and canonical(body.tenant_uid) is None:
            return self._faults(data)
        return body if self._is_sound(body) and not find_repeated_key(data) else self._faults(data)

    def _faults(self, data: bytes | bytearray) -> Failure:
        found = decode_counted("the body", data)
        if isinstance(found, Failure):
            return found
        return list_faults(INVALID_REQUEST, object_faults("the body", "", found, self._fields))


def _media_type_fault(request: Request) -> Failure | None:
    """Return None for JSON in UTF-8 without Content-Encoding, else the failure."""
    kind, _, options = request.headers.get("content-type", "").lower().partition(";")
    charset = [value.strip(' "') for name, _, value in _split_options(options) if name.strip() == "charset"]
    if kind.strip() != "application/json" or charset not in ([], ["utf-8"], ["utf8"]):
        return Failure(UNSUPPORTED_MEDIA_TYPE, "the content type must be application/json, in UTF-8")
    if request.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        return Failure(UNSUPPORTED_MEDIA_TYPE, "send the body as it is, without Content-Encoding")
    return None


def _split_options(text: str) -> Iterator[tuple[str, str, str]]:
    return (option.partition("=") for option in text.split(";"))


def _too_large(most: int) -> Failure:
    size = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB"
    return Failure(PAYLOAD_TOO_LARGE, f"the request body is larger than {size} ({most:,} bytes)")


async def _receive_body(request: Request, most: int) -> bytes | bytearray | Failure | ClientLeft:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most:
        return _too_large(most)
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await request.receive()
                if message["type"] != "http.request":
                    return ClientLeft()
                data += message["body"]
                if len(data) > most:
                    return _too_large(most)
                if not message["more_body"]:
                    return data
    except TimeoutError:
        return Failure(MALFORMED_REQUEST, "the request body stopped arriving, or arrives too slowly")


def object_faults(what: str, prefix: str, found: Any, fields: dict[str, Collector]) -> Iterator[str]:
    """The faults of an object and of its fields."""
    if not isinstance(found, dict):
        yield f"{what} must be an object, not {kind_of(found)}"
        return
    for name, faults in fields.items():
        yield from faults(prefix + name, found.get(name), name in found)
    for name in found:
        if name not in fields:
            yield f"{prefix}{name[:100]} is not a known field"


def tenant_faults(name: str, value: Any, _present: bool) -> Iterator[str]:
    """The faults of an optional UUID."""
    if value is not None and not (isinstance(value, str) and canonical(value)):
        yield f"{name} must be a UUID" if isinstance(value, str) else f"{name} must be a string, not {kind_of(value)}"


def text_faults(name: str, value: Any, present: bool) -> Iterator[str]:
    """The faults of a text that is required."""
    if not isinstance(value, str):
        yield wrong_kind(name, value, "a string", present)


def length_faults(name: str, value: Any, most: int) -> Iterator[str]:
    """The fault of a text that is too long."""
    if isinstance(value, str) and len(value) > most:
        yield f"{name} must have at most {most:,} characters, not {len(value):,}"


def time_faults(name: str, value: Any, present: bool) -> Iterator[str]:
    """The faults of an optional date-time."""
    if isinstance(value, str):
        if milliseconds(value) is None:
            yield f"{name} must be a date-time such as 2030-01-31T12:00:00Z"
    elif value is not None:
        yield wrong_kind(name, value, "a string", present)


def flag_faults(name: str, value: Any, present: bool) -> Iterator[str]:
    """The fault of an optional boolean."""
    if value is not None and not isinstance(value, bool):
        yield wrong_kind(name, value, "a boolean", present)


def array_faults(each: Collector, wanted: str) -> Collector:
    """The faults of an array and of each of its items."""

    def faults(name: str, value: Any, present: bool) -> Iterator[str]:
        if not isinstance(value, list):
            yield wrong_kind(name, value, wanted, present)
            return
        for index, entry in enumerate(value):
            yield from each(f"{name}[{index}]", entry, True)

    return faults
