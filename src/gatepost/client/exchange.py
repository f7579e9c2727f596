"""What can go wrong for a caller: the service said no, or nobody answered.

What to send, what came back and whether to try again, without a socket.

Each call is a generator: it yields `Send` or `Wait` and is sent what came of it. The two clients differ only in how
they drive it, so there is one place for the requests, the retries and the reading of answers, and a test needs no
network and no clock.
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
    """Everything that the client raises."""


class ApiError(ClientError):
    """The service answered with an error: its HTTP status, its machine-readable code, and its words."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{message or code} ({status} {code})")
        self.status = status
        self.code = code
        self.message = message


class UnreachableError(ClientError):
    """No answer, after every attempt."""


class UnexpectedReplyError(ClientError):
    """An answer that is not Gatepost's: a proxy's page, another service, a newer version."""


class BrokenStreamError(ClientError):
    """A stream ended before its end: what came so far is not the whole list."""


T = TypeVar("T")

RETRIED = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})


class Send(msgspec.Struct, frozen=True):
    """Send this request."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = {}


class Wait(msgspec.Struct, frozen=True):
    """Let this time pass."""

    seconds: float


class Reply(msgspec.Struct, frozen=True):
    """An answer; header names in lower case. One that is still to be read has a `stream` instead of a body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}
    stream: Any = None


class NoReply(msgspec.Struct, frozen=True):
    """The connection failed, and how. `again` is false where another attempt cannot help, as with a bad certificate."""

    reason: str
    again: bool = True


Outcome: TypeAlias = Reply | NoReply | None
Exchange: TypeAlias = Generator[Send | Wait, Outcome, T]


class Retries(msgspec.Struct, frozen=True):
    """How often and how patiently. The n-th pause is about `first` × 2ⁿ seconds, `longest` at most, or what the
    service asks for in Retry-After; where that is over `longest`, the caller gets the error at once."""

    attempts: int = 5
    first: float = 0.5
    longest: float = 30.0
    jitter: Callable[[], float] = lambda: secrets.randbelow(1000) / 1000

    def pause(self, attempt: int, asked: float) -> float:
        """Half of the pause is chance, so that clients that failed together do not return together."""
        own: float = min(self.longest, self.first * float(2**attempt))
        return max(own * (0.5 + self.jitter() / 2), asked)


def call(request: Send, answer: type[T], retries: Retries) -> Exchange[T]:
    """One call of the API: all of it can be repeated safely, a scan too."""
    return _read((yield from answered(request, retries)), answer)


def answered(request: Send, retries: Retries) -> Exchange[Reply]:
    """The answer to a request that was successful in the end."""
    last: ClientError = UnreachableError("no attempt was made")
    for attempt in range(retries.attempts):
        outcome = yield request
        asked = 0.0
        if isinstance(outcome, Reply):
            if outcome.status == HTTPStatus.OK:
                return outcome
            last = _refusal(outcome)
            asked = _retry_after(outcome.headers.get("retry-after", ""))
            if outcome.status not in RETRIED or asked > retries.longest:
                raise last
        elif isinstance(outcome, NoReply):
            last = UnreachableError(outcome.reason)
            if not outcome.again:
                raise last
        if attempt + 1 < retries.attempts:
            yield Wait(retries.pause(attempt, asked))
    raise last


def multipart(parts: Sequence[tuple[str, str, bytes]]) -> tuple[str, bytes]:
    """A `multipart/form-data` body (RFC 7578) of (name, content type, content), with its content type."""
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


def _read(reply: Reply, answer: type[T]) -> T:
    try:
        return msgspec.json.decode(reply.body, type=answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise UnexpectedReplyError(f"the answer is not one of Gatepost's: {fault}") from None


def _refusal(reply: Reply) -> ClientError:
    try:
        error = msgspec.json.decode(reply.body, type=Error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UnexpectedReplyError(f"the answer has status {reply.status} and is not one of Gatepost's")
    return ApiError(reply.status, error.error, error.message or "")


def _retry_after(text: str) -> float:
    """Seconds to wait, from either form of the field (RFC 9110 section 10.2.3)."""
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())
