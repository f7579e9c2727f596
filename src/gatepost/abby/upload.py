"""How long a body may take to arrive.

A client earns time with bytes: it may pause for `IDLE_SECONDS`, and after a first minute must have kept up `SLOWEST`
bytes per second.

The upload, read as it comes: multipart/form-data (RFC 7578) with the parts `parameters` and `email` in either order.

The message goes straight into the spool, so memory stays flat whatever the size. Every bound holds while reading: bytes
of the whole body, bytes of `parameters`, number of parts, and time (see `pace`).

Parts with other names are ignored, as unknown fields are.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec
from multipart import (  # type: ignore[import-untyped]  # it is annotated, without saying so
    MultipartSegment,
    ParserLimitReached,
    PushMultipartParser,
    parse_options_header,
)

from gatepost.api.errors import (
    DUPLICATE_PART,
    EMPTY_EMAIL,
    INVALID_PARAMETERS,
    MALFORMED_REQUEST,
    MISSING_PART,
    PAYLOAD_TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    WRONG_PART_TYPE,
    Failure,
)
from gatepost.api.scanning import MAX_BODY, MAX_PARAMETERS

IDLE_SECONDS = 30.0
FIRST_SECONDS = 60.0
SLOWEST = 1024


class Pace:
    """A body on its way; raises `TimeoutError` where it stops, or comes too slowly."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._start, self._received = self._loop.time(), 0
        self._patience = asyncio.timeout(IDLE_SECONDS)

    def earn(self, count: int) -> None:
        """So many more bytes have come."""
        self._received += count
        earned = self._start + FIRST_SECONDS + self._received / SLOWEST
        self._patience.reschedule(min(self._loop.time() + IDLE_SECONDS, earned))

    async def __aenter__(self) -> Self:
        await self._patience.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._patience.__aexit__(kind, fault, trace)


MAX_PARTS = 100
MAX_BOUNDARY = 200

TOO_LARGE = Failure(PAYLOAD_TOO_LARGE, f"the request body is larger than 50 MiB ({MAX_BODY:,} bytes)")

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Sink(Protocol):
    """Where the message's bytes go."""

    @property
    def size(self) -> int: ...

    def write(self, data: bytes) -> object: ...


class Left(msgspec.Struct, frozen=True):
    """The client has left; nobody waits for an answer."""


def boundary_of(headers: list[tuple[bytes, bytes]]) -> str | Failure:
    """The boundary of a request that is multipart/form-data, of bounded and announced size, and not compressed."""
    content_type = ""
    for name, value in headers:
        if name == b"content-type":
            content_type = value.decode("latin-1")
        elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            return Failure(UNSUPPORTED_MEDIA_TYPE, "send the body as it is, without Content-Encoding")
    kind, options = parse_options_header(content_type[:1024])
    if kind != "multipart/form-data":
        return Failure(UNSUPPORTED_MEDIA_TYPE, "the content type must be multipart/form-data")
    boundary = str(options.get("boundary", ""))
    if not (0 < len(boundary) <= MAX_BOUNDARY and boundary.isascii() and boundary.isprintable()):
        return Failure(MALFORMED_REQUEST, "multipart/form-data needs a boundary of 1 to 200 printable characters")
    return boundary


async def read_upload(receive: Receive, boundary: str, email: Sink) -> bytes | Failure | Left:
    """Read the whole body; the message goes to `email`, and `parameters` is returned."""
    upload, received = _Upload(boundary, email), 0
    try:
        async with Pace() as pace:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return Left()
                chunk = message["body"]
                received += len(chunk)
                failure = TOO_LARGE if received > MAX_BODY else upload.feed(chunk)
                if failure:
                    return failure
                if not message["more_body"]:
                    return upload.finish()
                pace.earn(len(chunk))
    except TimeoutError:
        return Failure(MALFORMED_REQUEST, "the request body stopped arriving, or arrives too slowly")


class _Upload:
    """The parts, as they come."""

    def __init__(self, boundary: str, email: Sink) -> None:
        self._parser = PushMultipartParser(boundary, max_segment_count=MAX_PARTS)
        self._email = email
        self._parameters: list[bytes] = []
        self._room = MAX_PARAMETERS
        self._seen: set[str] = set()
        self._part = ""

    def feed(self, chunk: bytes) -> Failure | None:
        """Take some bytes of the body."""
        if not chunk:
            return None
        try:
            for event in self._parser.parse(chunk):
                failure = self._event(event)
                if failure:
                    return failure
        except ParserLimitReached:
            return Failure(MALFORMED_REQUEST, f"a part has too long a header, or there are over {MAX_PARTS} parts")
        except (ValueError, LookupError):
            return _malformed()
        return None

    def finish(self) -> bytes | Failure:
        """The body has ended: is everything there?"""
        try:
            self._parser.close()
        except ValueError:
            return _malformed()
        missing = [name for name in ("parameters", "email") if name not in self._seen]
        if missing:
            return Failure(MISSING_PART, f"there is no part {' and no part '.join(missing)}")
        if not self._email.size:
            return Failure(EMPTY_EMAIL, "the part email has no bytes")
        return b"".join(self._parameters)

    def _event(self, event: MultipartSegment | bytes | None) -> Failure | None:
        if isinstance(event, MultipartSegment):
            return self._begin(event)
        if event is None:
            self._part = ""
        elif self._part == "email":
            self._email.write(event)
        elif self._part == "parameters":
            return self._parameter_bytes(event)
        return None

    def _begin(self, part: MultipartSegment) -> Failure | None:
        name = self._part = part.name or ""
        if name not in ("parameters", "email"):
            return None
        if name in self._seen:
            return Failure(DUPLICATE_PART, f"the part {name} is there twice")
        self._seen.add(name)
        if name == "parameters" and part.content_type != "application/json":
            return Failure(WRONG_PART_TYPE, "the part parameters must have application/json as its own content type")
        # RFC 7578 section 4.7 deprecates these. Encoded bytes that were scanned as they stand would pass as clean.
        encoding = next((value for key, value in part.headerlist if key == "Content-Transfer-Encoding"), "binary")
        if encoding.strip().lower() not in ("7bit", "8bit", "binary"):
            return Failure(MALFORMED_REQUEST, f"send the part {name} as it is, without Content-Transfer-Encoding")
        return None

    def _parameter_bytes(self, data: bytes) -> Failure | None:
        self._room -= len(data)
        if self._room < 0:
            return Failure(INVALID_PARAMETERS, "the part parameters is larger than 1 MiB")
        self._parameters.append(data)
        return None


def _malformed() -> Failure:
    return Failure(MALFORMED_REQUEST, "the body is not valid multipart/form-data")
