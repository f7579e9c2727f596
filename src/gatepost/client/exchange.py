"""Requests, retries and the reading of answers, without a socket, and the errors that the client raises.

Each call is a generator: it yields `Send` or `Wait` and is sent the outcome. The two clients differ only in how they
drive it, so there is one place for the protocol, and a test needs no network and no clock.
"""

import email.utils
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar

import msgspec

from gatepost.api.errors import Error


class ClientError(Exception):
    """The base of all errors that the client raises."""


class ApiError(ClientError):
    """The service answered with an error: HTTP status, machine-readable code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{message or code} ({status} {code})")
        self.status = status
        self.code = code
        self.message = message


class UnreachableError(ClientError):
    """The service did not answer any attempt."""


class UnexpectedReplyError(ClientError):
    """The answer is not one of Gatepost: a page of a proxy, another service, a newer version."""


class BrokenStreamError(ClientError):
    """A stream broke off: the entries so far are not the whole list."""


T = TypeVar("T")

RETRIED = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})


class Send(msgspec.Struct, frozen=True):
    """Send this request. With `streams` the caller reads the body of the answer as it arrives, if it is a success."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = {}
    streams: bool = False


class Wait(msgspec.Struct, frozen=True):
    """Wait this long."""

    seconds: float


class Reply(msgspec.Struct, frozen=True):
    """An answer, with header names in lower case. An answer that is still to be read has a `stream` and no body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    stream: Any = None


class NoReply(msgspec.Struct, frozen=True):
    """A failed connection. `again` is false if another attempt cannot help, as with a bad certificate."""

    reason: str
    again: bool = True


Outcome: TypeAlias = Reply | NoReply | None
Exchange: TypeAlias = Generator[Send | Wait, Outcome, T]


class Retries(msgspec.Struct, frozen=True):
    """Number of attempts and pauses between them.

    The n-th pause is about `first` × 2ⁿ seconds, at most `longest`, or what the service asks for in Retry-After; if
    that is over `longest`, the error is raised at once.
    """

    attempts: int = 5
    first: float = 0.5
    longest: float = 30.0
    jitter: Callable[[], float] = lambda: secrets.randbelow(1000) / 1000

    def pause(self, attempt: int, asked: float) -> float:
        """Return the seconds to wait; half is random, so that clients that failed together do not return together."""
        own: float = min(self.longest, self.first * float(2**attempt))
        return max(own * (0.5 + self.jitter() / 2), asked)


def call(request: Send, answer: type[T], retries: Retries) -> Exchange[T]:
    """Make one call of the API; every call can be repeated safely, a scan too."""
    return _decode((yield from request_reply(request, retries)), answer)


def request_reply(request: Send, retries: Retries) -> Exchange[Reply]:
    """Send a request until it succeeds, and return the answer."""
    last: ClientError = UnreachableError("no attempt was made")
    for attempt in range(retries.attempts):
        outcome = yield request
        asked = 0.0
        if isinstance(outcome, Reply):
            if outcome.status == HTTPStatus.OK:
                return outcome
            last = _read_error(outcome)
            asked = _parse_retry_after(outcome.headers.get("retry-after", ""))
            if outcome.status not in RETRIED or asked > retries.longest:
                raise last
        elif isinstance(outcome, NoReply):
            last = UnreachableError(outcome.reason)
            if not outcome.again:
                raise last
        if attempt + 1 < retries.attempts:
            yield Wait(retries.pause(attempt, asked))
    raise last


def build_multipart(parts: Sequence[tuple[str, str, bytes]]) -> tuple[str, bytes]:
    """Return the content type and body of `multipart/form-data` (RFC 7578) with parts (name, content type, content)."""
    boundary = f"gatepost-{secrets.token_hex(16)}"
    pieces: list[bytes] = []
    for name, content_type, content in parts:
        filename = '; filename="message.eml"' if name == "email" else ""
        pieces += [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n'.encode(),
            f"Content-Type: {content_type}\r\n\r\n".encode(),
            content,
            b"\r\n",
        ]
    pieces.append(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(pieces)


def _decode(reply: Reply, answer: type[T]) -> T:
    try:
        return msgspec.json.decode(reply.body, type=answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise UnexpectedReplyError(f"the answer is not one of Gatepost's: {fault}") from None


def _read_error(reply: Reply) -> ClientError:
    try:
        error = msgspec.json.decode(reply.body, type=Error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UnexpectedReplyError(f"the answer has status {reply.status} and is not one of Gatepost's")
    return ApiError(reply.status, error.error, error.message or "")


def _parse_retry_after(text: str) -> float:
    """Return the seconds of a Retry-After field, in either of its forms (RFC 9110 section 10.2.3)."""
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())
