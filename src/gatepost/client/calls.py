"""Every call of the Email Scanning API and of the List API, written once; `Client` and `AsyncClient` run them.

Each call is a generator: it yields `Send` or `Wait` and is sent the outcome. The two clients differ only in how they
drive it, so there is one place for requests, retries and the reading of answers, and a test needs no network and no
clock. The signature and docstring of a call are those of the methods of both clients.
"""

import email.utils
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import msgspec

from gatepost.api import lists, messages, scanning
from gatepost.api.errors import Error
from gatepost.api.openapi import LISTS_BASE
from gatepost.policy.rules import Decision, Verdict


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

# What another attempt can change (docs/integrating.md, "Retries").
RETRIED = frozenset(
    {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)


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
        moment = email.utils.parsedate_to_datetime(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


Raw: TypeAlias = bytes | Path | BinaryIO
_JSON = {"content-type": "application/json"}


class CommonFilters(TypedDict, total=False):
    """What results and held mail are both searched by."""

    tenant_uid: str
    since: str
    until: str
    sender: str
    recipient: str
    subject: str
    verdict: Verdict
    remote_address: str
    link_host: str
    file_name: str
    file_hash: str
    message_id: str
    header_from: str
    anywhere: str
    queue_id: str
    query: str


class HeldFilters(CommonFilters, total=False):
    """What held mail is searched by; see `SearchHeldMessagesRequest`."""

    released: bool


class MessageFilters(CommonFilters, total=False):
    """What results are searched by; see `SearchMessagesRequest`."""

    decision: Decision
    tag: str
    ggrid: str
    next_hop_id: str


class Calls:
    """The calls of one client. Those of the List API are made with its API key, all others with its token."""

    def __init__(self, api_key: str, retries: Retries) -> None:
        self._list_headers = {"authorization": f"apikey {api_key}", **_JSON}
        self._retries = retries

    def scan(
        self,
        raw: Raw,
        *,
        recipients: Sequence[str],
        sender: str = "",
        remote_address: str | None = None,
        helo: str | None = None,
        tenant: str | None = None,
    ) -> Exchange[scanning.MessageAnalysisResult]:
        """Submit one message; return the result when the analysis is complete.

        The arguments are the SMTP envelope, as the border MTA knows it. A bounce has an empty `sender`.
        """
        border = scanning.BorderMtaData(
            envelope_from=sender, envelope_recipients=tuple(recipients), remote_address=remote_address, sender_helo=helo
        )
        parameters = scanning.MessageAnalysisRequest(border_mta_data=border, tenant_uid=tenant)
        request = _post_mail("/v1/messageQueue/submitEmail", parameters, _read_content(raw))
        return call(request, scanning.MessageAnalysisResult, self._retries)

    def status(self) -> Exchange[scanning.SystemStatus]:
        """Return how busy the service is."""
        return call(Send("POST", "/v1/admin/status"), scanning.SystemStatus, self._retries)

    def message(self, ggrid: str) -> Exchange[scanning.AnalysedMessage]:
        """Return a stored analysis with its ledger (permission `messages.read`)."""
        return self._call_on("GET", ggrid, "", scanning.AnalysedMessage)

    def message_timeline(self, ggrid: str) -> Exchange[messages.Timeline]:
        """Return the way of one message (permission `messages.read`)."""
        return self._call_on("GET", ggrid, "/timeline", messages.Timeline)

    def message_text(self, ggrid: str) -> Exchange[messages.MessageText]:
        """Return a held message as plain text (permission `messages.read`)."""
        return self._call_on("GET", ggrid, "/text", messages.MessageText)

    def release(self, ggrid: str) -> Exchange[scanning.MessageRelease]:
        """Send a held message on, once (permission `messages.release`)."""
        return self._call_on("POST", ggrid, "/release", scanning.MessageRelease)

    def delete(self, ggrid: str) -> Exchange[messages.MessageDeletion]:
        """Delete a held message for good (permission `messages.delete`)."""
        return self._call_on("POST", ggrid, "/delete", messages.MessageDeletion)

    def _call_on(self, method: str, ggrid: str, operation: str, answer: type[T]) -> Exchange[T]:
        return call(Send(method, _path(ggrid) + operation), answer, self._retries)

    def report(
        self,
        ggrid: str,
        should_have_been: messages.ShouldHaveBeen,
        *,
        tenant: str | None = None,
        message: bytes | None = None,
    ) -> Exchange[messages.MessageReport]:
        """Report that a decision was wrong, or right, with the bytes of the message where they are at hand (permission
        `messages.report`)."""
        body = messages.ReportMessageRequest(should_have_been=should_have_been, tenant_uid=tenant)
        path = f"{_path(ggrid)}/report"
        request = _post(path, body) if message is None else _post_mail(path, body, message)
        return call(request, messages.MessageReport, self._retries)

    def search_messages(
        self, *, cursor: str | None = None, limit: int | None = None, **filters: Unpack[MessageFilters]
    ) -> Exchange[messages.FoundMessages]:
        """Return one page of results, newest first (permission `messages.search`)."""
        body = messages.SearchMessagesRequest(**filters, cursor=cursor, limit=limit)
        return call(_post("/v1/messages/search", body), messages.FoundMessages, self._retries)

    def search_held(
        self, *, cursor: str | None = None, limit: int | None = None, **filters: Unpack[HeldFilters]
    ) -> Exchange[messages.FoundHeldMessages]:
        """Return one page of held mail, newest first (permission `messages.search`)."""
        body = messages.SearchHeldMessagesRequest(**filters, cursor=cursor, limit=limit)
        return call(_post("/v1/heldMessages/search", body), messages.FoundHeldMessages, self._retries)

    def release_messages(
        self, ggrids: Sequence[str], *, tenant: str | None = None
    ) -> Exchange[tuple[messages.ActionResult, ...]]:
        """Send at most 100 held messages on; return what became of each."""
        return self._act("release", ggrids, tenant)

    def delete_messages(
        self, ggrids: Sequence[str], *, tenant: str | None = None
    ) -> Exchange[tuple[messages.ActionResult, ...]]:
        """Delete at most 100 held messages for good; return what became of each."""
        return self._act("delete", ggrids, tenant)

    def _act(
        self, action: str, ggrids: Sequence[str], tenant: str | None
    ) -> Exchange[tuple[messages.ActionResult, ...]]:
        body = messages.HeldMessagesRequest(ggrids=tuple(ggrids), tenant_uid=tenant)
        answer = yield from call(_post(f"/v1/heldMessages/{action}", body), messages.ActionResults, self._retries)
        return answer.results

    def add_entries(
        self,
        list_name: str,
        entries: Iterable[lists.NewListEntry | str],
        *,
        tenant: str | None = None,
        dry_run: bool = False,
    ) -> Exchange[lists.ListChange]:
        """Add or update at most 500 entries, all or none. A dry run changes nothing and returns what would happen."""
        stated = tuple(lists.NewListEntry(each) if isinstance(each, str) else each for each in entries)
        body = lists.AddEntriesRequest(list_name, stated, tenant, dry_run or None)
        return call(self._post_lists("addEntries", body), lists.ListChange, self._retries)

    def delete_entries(
        self, list_name: str, entries: Sequence[str], *, tenant: str | None = None, dry_run: bool = False
    ) -> Exchange[lists.ListChange]:
        """Delete at most 500 entries. If a call was repeated, entries that the first one deleted are not counted."""
        body = lists.DeleteEntriesRequest(list_name, tuple(entries), tenant, dry_run or None)
        return call(self._post_lists("deleteEntries", body), lists.ListChange, self._retries)

    def get_lists(self, *, tenant: str | None = None) -> Exchange[tuple[lists.ListFileInfo, ...]]:
        """Return all lists of a tenant, or those for all tenants."""
        answer = yield from call(
            self._post_lists("getLists", lists.GetListsRequest(tenant)), lists.ListsOfScope, self._retries
        )
        return answer.list_file_infos

    def open_entries(self, list_name: str, tenant: str | None) -> Exchange[Reply]:
        """Open the stream of all entries of a list."""
        request = self._post_lists("listEntries", lists.ListEntriesRequest(list_name, tenant), streams=True)
        return request_reply(request, self._retries)

    def _post_lists(self, operation: str, body: object, *, streams: bool = False) -> Send:
        return Send("POST", f"{LISTS_BASE}/{operation}", lists.encode_lists(body), self._list_headers, streams)


def _path(ggrid: str) -> str:
    return f"/v1/messages/{quote(ggrid, safe='')}"


def _post(path: str, body: object) -> Send:
    return Send("POST", path, scanning.encode_scanning(body), _JSON)


def _post_mail(path: str, parameters: object, raw: bytes) -> Send:
    parts = [("parameters", "application/json", scanning.encode_scanning(parameters)), ("email", "message/rfc822", raw)]
    content_type, body = build_multipart(parts)
    return Send("POST", path, body, {"content-type": content_type})


def _read_content(raw: Raw) -> bytes:
    if isinstance(raw, Path):
        return raw.read_bytes()
    return raw if isinstance(raw, bytes) else raw.read()


class EntryLines:
    """Decodes entries from the chunks of a stream."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(lists.PublicListsEntry)
        self._rest = b""

    def feed(self, chunk: bytes) -> list[lists.PublicListsEntry]:
        """Return the entries that are complete with this chunk."""
        whole, ended, rest = chunk.rpartition(b"\n")
        if not ended:
            self._rest += chunk
            return []
        data, self._rest = self._rest + whole, rest
        try:
            return self._decoder.decode_lines(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise UnexpectedReplyError(f"the answer is not one of Gatepost's: {fault}") from None

    def end(self) -> None:
        """Check that the stream ended with a whole line."""
        if self._rest:
            raise broken_stream("its last line is not whole")


def broken_stream(reason: str) -> BrokenStreamError:
    """Return the error for a stream that broke off."""
    return BrokenStreamError(f"the stream of entries broke off: {reason}")
