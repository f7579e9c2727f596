"""The upload of a scan: multipart/form-data (RFC 7578) with the parts `parameters` and `email` in either order.

The message goes straight into the spool, so memory stays flat whatever the size. Every bound holds while reading: bytes
of the whole body, bytes of `parameters`, number of parts, and time (`api.http.BodyPace`). Parts with other names
are ignored, as unknown fields are.

Most uploads are small and arrive whole, as every common client writes them. Those are split in place (`split_plain`);
what is unusual in any way goes to the parser, which also says what is wrong with it.
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from multipart import (  # type: ignore[import-untyped]  # it is annotated, without saying so
    MultipartSegment,
    ParserLimitReached,
    PushMultipartParser,
)
from starlette.requests import Request

from gatepost.api.errors import (
    DUPLICATE_PART,
    EMPTY_EMAIL,
    INVALID_PARAMETERS,
    MALFORMED_REQUEST,
    MISSING_PART,
    PAYLOAD_TOO_LARGE,
    WRONG_PART_TYPE,
    Failure,
)
from gatepost.api.http import BodyPace, ClientLeft, content_length, parse_boundary
from gatepost.api.scanning import MAX_BODY, MAX_PARAMETERS
from gatepost.scanning.spool import SpooledBody

MAX_PARTS = 100
# Larger bodies hardly ever arrive whole; within it `parameters` has room for all that it may have.
MAX_PLAIN = 1 << 20

TOO_LARGE = Failure(PAYLOAD_TOO_LARGE, f"the request body is larger than 50 MiB ({MAX_BODY:,} bytes)")

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class MessageSink(Protocol):
    """Where the bytes of the message go."""

    @property
    def size(self) -> int: ...

    def write(self, data: bytes) -> object: ...


async def read_parts(request: Request, email: SpooledBody) -> bytes | Failure | ClientLeft:
    """Read the upload of a request; the message goes to the spool, and `parameters` is returned."""
    headers = request.scope["headers"]
    boundary = parse_boundary(headers)
    if isinstance(boundary, Failure):
        return boundary
    if content_length(headers) > MAX_BODY:
        return TOO_LARGE
    parameters = await read_upload(request.receive, boundary, email)
    if isinstance(parameters, bytes):
        email.finish()
    return parameters


async def read_upload(receive: Receive, boundary: str, email: MessageSink) -> bytes | Failure | ClientLeft:
    """Read the whole body; the message goes to `email`, and `parameters` is returned."""
    upload, received = None, 0
    try:
        with BodyPace() as pace:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return ClientLeft()
                chunk = message["body"]
                received += len(chunk)
                if upload is None:
                    if not message["more_body"] and (plain := split_plain(chunk, boundary)):
                        email.write(plain[1])
                        return plain[0]
                    upload = _ScanParts(boundary, email)
                failure = TOO_LARGE if received > MAX_BODY else upload.feed(chunk)
                if failure:
                    return failure
                if not message["more_body"]:
                    return upload.finish()
                pace.earn(len(chunk))
    except TimeoutError:
        return Failure(MALFORMED_REQUEST, "the request body stopped arriving, or arrives too slowly")


# Both parts with the headers that clients write, in their order. A name of a file has no escapes.
_HEADERS = (
    rb'Content-Disposition: form-data; name="%b"(?:; filename="[ !#$&-[\]^-~]{0,200}")?'
    rb"\r\nContent-Type: %b\r\n\r\n"
)
_PARAMETERS = re.compile(_HEADERS % (b"parameters", b"application/json"))
_EMAIL = re.compile(_HEADERS % (b"email", rb"[a-z0-9.+/-]{1,100}"))


def split_plain(body: bytes, boundary: str) -> tuple[bytes, bytes] | None:
    """Return `parameters` and the message of a whole body that has these two parts and nothing else, in the form that
    common clients write; None for every other body, be it right or wrong."""
    delimiter = b"\r\n--%b" % boundary.encode("ascii")
    start = len(delimiter)
    if not body.startswith(delimiter[2:]) or body[start - 2 : start] != b"\r\n" or len(body) > MAX_PLAIN:
        return None
    found = {}
    for is_last in (False, True):
        headers = _PARAMETERS.match(body, start) or _EMAIL.match(body, start)
        if headers is None:
            return None
        end = body.find(delimiter, headers.end())
        start = end + len(delimiter) + 2
        if end < 0 or body[start - 2 : start] != (b"--" if is_last else b"\r\n"):
            return None
        found[headers.re] = body[headers.end() : end]
    if body[start:] not in (b"", b"\r\n") or len(found) < 2 or not found[_EMAIL]:
        return None
    return found[_PARAMETERS], found[_EMAIL]


class _ScanParts:
    """The parts of a body, as they arrive."""

    def __init__(self, boundary: str, email: MessageSink) -> None:
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
            return _malformed_multipart()
        return None

    def finish(self) -> bytes | Failure:
        """Check that both parts were there, and return `parameters`."""
        try:
            self._parser.close()
        except ValueError:
            return _malformed_multipart()
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


def _malformed_multipart() -> Failure:
    return Failure(MALFORMED_REQUEST, "the body is not valid multipart/form-data")
