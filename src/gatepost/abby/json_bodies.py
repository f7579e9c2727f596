"""JSON bodies of requests: read within bounds, decoded fast, and on failure checked again for every fault.

Known fields are strict (`"5"` is not 5), null on an optional field means absent, and unknown fields are refused or
ignored, as the type says. Faults are named field by field, in the words of JSON. What is checked follows from the type
that the body is decoded to: its constraints, the formats and patterns that its schema names, and for the rest a `check`
with the `fault` that it finds, both in `extra` of `msgspec.Meta`.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import inspect
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


B = TypeVar("B")


class BodyReader(Generic[B]):
    """Reads the body of one operation, at most `most` bytes, as a value of one type."""

    def __init__(self, kind: type[B], *, most: int) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._rules, self._most = rules_of(kind), most

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
        if refusal := refuse_many_values("the body", data):
            return refusal
        try:
            body = self._decoder.decode(data)
        except (ValueError, RecursionError):
            return self._faults(data)
        return body if self._rules.is_sound(body) and not find_repeated_key(data) else self._faults(data)

    def _faults(self, data: bytes | bytearray) -> Failure:
        found = decode_counted("the body", data)
        if isinstance(found, Failure):
            return found
        return list_faults(INVALID_REQUEST, self._rules.faults("the body", found, True))


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


Collector: TypeAlias = Callable[[str, Any, bool], Iterator[str]]
Check: TypeAlias = Callable[[Any], object]
Marks: TypeAlias = Mapping[str, Any]


def nothing_left(_value: Any) -> bool:
    """The check of values in which the decoder has checked everything."""
    return True


class Rules(msgspec.Struct, frozen=True):
    """What is checked of the values of one type: `faults` yields everything that is wrong with a value of JSON, by the
    name of its field and whether it is there at all; `is_sound` checks of a decoded value what the decoder does not."""

    faults: Collector
    is_sound: Check = nothing_left


def rules_of(kind: type) -> Rules:
    """Return what is checked of the values of a type."""
    return _read_type(inspect.type_info(kind), {})


def _read_type(found: inspect.Type, marks: Marks) -> Rules:
    match found:
        case inspect.Metadata():
            return _read_type(found.type, {**marks, **(found.extra_json_schema or {}), **(found.extra or {})})
        case inspect.UnionType():
            return _allow_null(next(_read_type(each, marks) for each in found.types if each != inspect.NoneType()))
        case inspect.StructType():
            return _read_struct(found)
        case inspect.VarTupleType():
            return _read_array(found)
        case inspect.StrType():
            return _read_text(found, *_find_check(marks))
        case inspect.LiteralType():
            words = [str(each) for each in found.values]
            return _read_text(inspect.StrType(), words.__contains__, f"must be one of {', '.join(words)}")
        case inspect.IntType():
            return Rules(partial(_number_faults, least=found.ge or 0, most=found.le or 0))
        case inspect.BoolType():
            return Rules(_flag_faults)
    raise TypeError(f"there are no rules for {found}")


def _find_check(marks: Marks) -> tuple[Check, str]:
    """Return the check of a text, and the fault that it finds."""
    if format_ := marks.get("format"):
        return _FORMATS[format_]
    check = re.compile(marks["pattern"]).fullmatch if "pattern" in marks else nothing_left
    return marks.get("check", check), marks.get("fault", "")


_FORMATS: Mapping[str, tuple[Check, str]] = {
    "uuid": (canonical, "must be a UUID"),
    "date-time": (lambda text: milliseconds(text) is not None, "must be a date-time such as 2030-01-31T12:00:00Z"),
}


def _allow_null(inner: Rules) -> Rules:
    def faults(name: str, value: Any, present: bool) -> Iterator[str]:
        return iter(()) if value is None else inner.faults(name, value, present)

    return Rules(faults, lambda value: value is None or inner.is_sound(value))


def _read_text(found: inspect.StrType, check: Check, fault: str) -> Rules:
    def faults(name: str, value: Any, present: bool) -> Iterator[str]:
        if not isinstance(value, str):
            yield wrong_kind(name, value, "a string", present)
            return
        if found.max_length is not None and len(value) > found.max_length:
            yield f"{name} must have at most {found.max_length:,} characters, not {len(value):,}"
        if len(value) < (found.min_length or 0):
            yield f"{name} must not be empty"
        if not check(value):
            yield f"{name} {fault}"

    return Rules(faults, check)


def _number_faults(name: str, value: Any, _present: bool, *, least: int, most: int) -> Iterator[str]:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        yield f"{name} must be a whole number from {least} to {most}"


def _flag_faults(name: str, value: Any, present: bool) -> Iterator[str]:
    if not isinstance(value, bool):
        yield wrong_kind(name, value, "a boolean", present)


def _read_array(found: inspect.VarTupleType) -> Rules:
    each = _read_type(found.item_type, {})
    wanted = "an array of objects" if isinstance(found.item_type, inspect.StructType) else "an array of strings"
    least, most = found.min_length or 0, found.max_length

    def faults(name: str, value: Any, present: bool) -> Iterator[str]:
        if not isinstance(value, list):
            yield wrong_kind(name, value, wanted, present)
            return
        if most is not None and not least <= len(value) <= most:
            yield f"{name} must have {least} to {most:,} items, not {len(value):,}"
        for index, item in enumerate(value):
            yield from each.faults(f"{name}[{index}]", item, True)

    if each.is_sound is nothing_left:
        return Rules(faults)
    return Rules(faults, lambda values: all(map(each.is_sound, values)))


def _read_struct(found: inspect.StructType) -> Rules:
    fields = {field.encode_name: _read_type(field.type, {}) for field in found.fields}
    checked = [(field.name, fields[field.encode_name].is_sound) for field in found.fields]

    def faults(name: str, value: Any, present: bool) -> Iterator[str]:
        if not isinstance(value, dict):
            yield wrong_kind(name, value, "an object", present)
            return
        prefix = "" if name in _WHOLE else f"{name}."
        for each, rules in fields.items():
            yield from rules.faults(prefix + each, value.get(each), each in value)
        if found.forbid_unknown_fields:
            yield from (f"{prefix}{each[:100]} is not a known field" for each in value if each not in fields)

    def is_sound(value: Any) -> bool:
        return all(check(getattr(value, name)) for name, check in checked if check is not nothing_left)

    return Rules(faults, is_sound)


# How a body as a whole is named; its fields have no prefix.
_WHOLE = ("the body", "parameters")
