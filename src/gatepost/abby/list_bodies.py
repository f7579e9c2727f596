"""What is wrong with a body, field by field, in the words of JSON.

Bodies of the List API: read within bounds, decoded fast, and on failure looked at again by a collector.

Known fields are strict (`"5"` is not 5), unknown ones are refused, null on an optional field means absent.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

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
from gatepost.api.lists import (
    MAX_BODY,
    MAX_COMMENT,
    AddEntriesRequest,
    DeleteEntriesRequest,
    GetListsRequest,
    ListEntriesRequest,
)
from gatepost.api.requests import ClientLeft
from gatepost.ids import canonical
from gatepost.lists.entry import MAX_ENTRY
from gatepost.times import milliseconds

SHOWN = 20
_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "a boolean"),
    (str, "a string"),
    (int | float, "a number"),
    (list, "an array"),
    (dict, "an object"),
)


def listed(code: ErrorCode, faults: Iterable[str]) -> Failure:
    """All faults in one sentence; of very many the first, and how many more there are."""
    every = list(faults)
    more = f"; and {len(every) - SHOWN:,} more" if len(every) > SHOWN else ""
    return Failure(code, "; ".join(every[:SHOWN]) + more)


def wrong(name: str, value: Any, wanted: str, present: bool) -> str:
    """A field of the wrong kind, or none at all."""
    return f"{name} must be {wanted}, not {kind_of(value)}" if present else f"{name} is missing"


def kind_of(value: Any) -> str:
    """What JSON calls it."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "null")


# A body of 8 MiB at 256 KiB a second.
BODY_SECONDS = 32.0
TOO_LARGE = Failure(PAYLOAD_TOO_LARGE, f"the request body is larger than 8 MiB ({MAX_BODY:,} bytes)")

Body = AddEntriesRequest | DeleteEntriesRequest | GetListsRequest | ListEntriesRequest
B = TypeVar("B", bound=Body)
Collector = Callable[[str, Any, bool], Iterator[str]]


class Form(Generic[B]):
    """What one operation takes: a type that decodes, and for each field the collector of its faults."""

    def __init__(self, kind: type[B], **fields: Collector) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._fields: dict[str, Collector] = {**fields, "tenantUid": _tenant}

    async def read(self, request: Request) -> B | Failure | ClientLeft:
        """The body of a request, or everything that is wrong with it."""
        refusal = _media_type(request)
        if refusal:
            return refusal
        data = await _received(request)
        return self.decoded(data) if isinstance(data, bytes | bytearray) else data

    def decoded(self, data: bytes | bytearray) -> B | Failure:
        """The body that these bytes are."""
        try:
            body = self._decoder.decode(data)
        except (ValueError, RecursionError):
            return self._faults(data)
        return body if _sound(body) else self._faults(data)

    def _faults(self, data: bytes | bytearray) -> Failure:
        try:
            found = msgspec.json.decode(data)
        except RecursionError:
            return Failure(MALFORMED_REQUEST, "the body is nested too deeply")
        except ValueError:
            return Failure(MALFORMED_REQUEST, "the body is not valid JSON in UTF-8")
        return listed(INVALID_REQUEST, _object_faults("the body", "", found, self._fields))


def _media_type(request: Request) -> Failure | None:
    """None for JSON in UTF-8, sent as it is."""
    kind, _, options = request.headers.get("content-type", "").lower().partition(";")
    charset = [value.strip(' "') for name, _, value in _options(options) if name.strip() == "charset"]
    if kind.strip() != "application/json" or charset not in ([], ["utf-8"], ["utf8"]):
        return Failure(UNSUPPORTED_MEDIA_TYPE, "the content type must be application/json, in UTF-8")
    if request.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
        return Failure(UNSUPPORTED_MEDIA_TYPE, "send the body as it is, without Content-Encoding")
    return None


def _options(text: str) -> Iterator[tuple[str, str, str]]:
    return (option.partition("=") for option in text.split(";"))


async def _received(request: Request) -> bytes | bytearray | Failure | ClientLeft:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MAX_BODY:
        return TOO_LARGE
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await request.receive()
                if message["type"] != "http.request":
                    return ClientLeft()
                data += message["body"]
                if len(data) > MAX_BODY:
                    return TOO_LARGE
                if not message["more_body"]:
                    return data
    except TimeoutError:
        return Failure(MALFORMED_REQUEST, "the request body stopped arriving, or arrives too slowly")


def _sound(body: Body) -> bool:
    """What the decoder cannot tell."""
    if body.tenant_uid is not None and canonical(body.tenant_uid) is None:
        return False
    if not isinstance(body, AddEntriesRequest):
        return True
    return all(entry.expires is None or milliseconds(entry.expires) is not None for entry in body.entries)


def _object_faults(what: str, place: str, found: Any, fields: dict[str, Collector]) -> Iterator[str]:
    if not isinstance(found, dict):
        yield f"{what} must be an object, not {kind_of(found)}"
        return
    for name, faults in fields.items():
        yield from faults(place + name, found.get(name), name in found)
    for name in found:
        if name not in fields:
            yield f"{place}{name[:100]} is not a known field"


def _tenant(name: str, value: Any, _present: bool) -> Iterator[str]:
    if value is not None and not (isinstance(value, str) and canonical(value)):
        yield f"{name} must be a UUID" if isinstance(value, str) else f"{name} must be a string, not {kind_of(value)}"


def _text(name: str, value: Any, present: bool) -> Iterator[str]:
    if not isinstance(value, str):
        yield wrong(name, value, "a string", present)


def _entry(name: str, value: Any, present: bool) -> Iterator[str]:
    yield from _text(name, value, present)
    yield from _too_long(name, value, MAX_ENTRY)


def _comment(name: str, value: Any, present: bool) -> Iterator[str]:
    if value is not None:
        yield from _text(name, value, present)
        yield from _too_long(name, value, MAX_COMMENT)


def _too_long(name: str, value: Any, most: int) -> Iterator[str]:
    if isinstance(value, str) and len(value) > most:
        yield f"{name} must have at most {most:,} characters, not {len(value):,}"


def _expires(name: str, value: Any, present: bool) -> Iterator[str]:
    if isinstance(value, str):
        if milliseconds(value) is None:
            yield f"{name} must be a date-time such as 2030-01-31T12:00:00Z"
    elif value is not None:
        yield wrong(name, value, "a string", present)


def _flag(name: str, value: Any, present: bool) -> Iterator[str]:
    if value is not None and not isinstance(value, bool):
        yield wrong(name, value, "a boolean", present)


def _entries(each: Collector, wanted: str) -> Collector:
    def faults(name: str, value: Any, present: bool) -> Iterator[str]:
        if not isinstance(value, list):
            yield wrong(name, value, wanted, present)
            return
        for index, entry in enumerate(value):
            yield from each(f"{name}[{index}]", entry, True)

    return faults


def _new_entry(name: str, value: Any, _present: bool) -> Iterator[str]:
    yield from _object_faults(name, f"{name}.", value, {"entry": _entry, "comment": _comment, "expires": _expires})


ADD = Form(AddEntriesRequest, listName=_text, entries=_entries(_new_entry, "an array of objects"), dryRun=_flag)
DELETE = Form(DeleteEntriesRequest, listName=_text, entries=_entries(_text, "an array of strings"), dryRun=_flag)
GET = Form(GetListsRequest)
LIST = Form(ListEntriesRequest, listName=_text)
