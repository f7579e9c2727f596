"""A client of a running Gatepost, in two forms with the same calls: `Client` and `AsyncClient`.

with Client("https://127.0.0.1:9081", token, ca="tls/certificate.pem") as gatepost:
    result = gatepost.scan(Path("mail.eml"), sender="a@example.org", recipients=["b@example.com"])
    print(result.verdict, result.decision)

with Client("https://127.0.0.1:9081", api_key=key, ca="tls/certificate.pem") as gatepost:
    gatepost.add_entries("blocked-senders", ["mallory@example.org"])
    for line in gatepost.list_entries("blocked-senders"):
        print(line.entry, line.hits)

for found in gatepost.messages(link_host="evil.example", since="2026-11-14T00:00:00Z"):
    print(found.ggrid, found.envelope_recipients)
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import wraps
from http import HTTPStatus
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

import httpx

from gatepost import __version__
from gatepost.api.connections import client_context
from gatepost.api.lists import NewListEntry, PublicListsEntry
from gatepost.api.messages import FoundHeldMessage, FoundMessage
from gatepost.client.calls import (
    ApiError,
    BrokenStreamError,
    Calls,
    ClientError,
    EntryLines,
    Exchange,
    HeldFilters,
    MessageFilters,
    NoReply,
    Outcome,
    Reply,
    Retries,
    Send,
    UnexpectedReplyError,
    UnreachableError,
    Wait,
    broken_stream,
)

__all__ = [
    "ApiError",
    "AsyncClient",
    "BrokenStreamError",
    "Client",
    "ClientError",
    "NewListEntry",
    "Retries",
    "UnexpectedReplyError",
    "UnreachableError",
]

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H")
R = TypeVar("R")

# A scan may wait an hour for a slot (`longRequestTimeout`); connecting takes seconds.
DEFAULT_TIMEOUT = 3660.0
CONNECT_TIMEOUT = 10.0
DEFAULT_RETRIES = Retries()
# The other side speaks no TLS or has a wrong certificate: another attempt cannot help.
_HOPELESS = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER")


def _options(url: str, token: str, ca: str | Path | None, verify: bool, timeout: float) -> dict[str, Any]:
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as fault:
        raise UnreachableError(f"{url!r} is not an address: {fault}") from None
    if address.scheme not in ("https", "http") or not address.host:
        raise UnreachableError(f"{url!r} is not an address: it must begin with https:// or http:// and name a host")
    context = client_context(ca)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    headers = {"user-agent": f"gatepost/{__version__}"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    return {
        "base_url": url,
        "verify": context,
        "timeout": httpx.Timeout(timeout, connect=CONNECT_TIMEOUT),
        "headers": headers,
        "trust_env": False,
    }


def _build_request(http: httpx.Client | httpx.AsyncClient, step: Send) -> httpx.Request:
    return http.build_request(step.method, step.path, content=step.body, headers=step.headers)


def _describe_failure(fault: httpx.TransportError) -> NoReply:
    text = str(fault) or type(fault).__name__
    hopeless = isinstance(fault, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
    said = text.partition("] ")[2] if text.startswith("[Errno ") else text
    where = str(fault.request.url.copy_with(raw_path=b"/")).rstrip("/")
    return NoReply(
        f"{where} cannot be reached: {said[:1].lower()}{said[1:]}",
        again=not hopeless and not any(sign in text for sign in _HOPELESS),
    )


def _run_now(made: Callable[Concatenate[Calls, P], Exchange[T]]) -> "Callable[Concatenate[Client, P], T]":
    """Return the method of `Client` that makes a call."""

    @wraps(made)
    def method(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._run(made(client._calls, *args, **kwargs))  # noqa: SLF001

    return method


def _run_later(
    made: Callable[Concatenate[Calls, P], Exchange[T]],
) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]":
    """Return the method of `AsyncClient` that makes a call."""

    @wraps(made)
    async def method(client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client._run(made(client._calls, *args, **kwargs))  # noqa: SLF001

    return method


class _Connections(Generic[H, R]):
    """A connection pool to one abby. Scans need a token, lists an API key; a client may have both. `transport` and
    `sleep` are those of httpx and of the standard library, unless a test brings its own."""

    _open: Callable[..., H]
    _pause: Callable[[float], R]

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        api_key: str = "",
        ca: str | Path | None = None,
        verify: bool = True,
        timeout: float = DEFAULT_TIMEOUT,
        retries: Retries = DEFAULT_RETRIES,
        transport: httpx.BaseTransport | httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], R] | None = None,
    ) -> None:
        self._calls = Calls(api_key, retries)
        self._sleep = sleep or self._pause
        self._http = self._open(transport=transport, **_options(url, token, ca, verify, timeout))


class Client(_Connections[httpx.Client, None]):
    """The calls for synchronous code. Threads may share a client."""

    _open, _pause = httpx.Client, staticmethod(time.sleep)

    scan = _run_now(Calls.scan)
    status = _run_now(Calls.status)
    message = _run_now(Calls.message)
    message_timeline = _run_now(Calls.message_timeline)
    message_text = _run_now(Calls.message_text)
    search_messages = _run_now(Calls.search_messages)
    search_held = _run_now(Calls.search_held)
    release = _run_now(Calls.release)
    delete = _run_now(Calls.delete)
    report = _run_now(Calls.report)
    release_messages = _run_now(Calls.release_messages)
    delete_messages = _run_now(Calls.delete_messages)
    add_entries = _run_now(Calls.add_entries)
    delete_entries = _run_now(Calls.delete_entries)
    get_lists = _run_now(Calls.get_lists)

    def messages(self, **filters: Unpack[MessageFilters]) -> Iterator[FoundMessage]:
        """Yield all results that match, newest first; pages are fetched as they are needed."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.search_messages(cursor=cursor or None, **filters)
            yield from page.messages
            cursor = page.next

    def held_messages(self, **filters: Unpack[HeldFilters]) -> Iterator[FoundHeldMessage]:
        """Yield all held mail that matches, newest first; pages are fetched as they are needed."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.search_held(cursor=cursor or None, **filters)
            yield from page.messages
            cursor = page.next

    def list_entries(self, list_name: str, *, tenant: str | None = None) -> Iterator[PublicListsEntry]:
        """Yield all entries of a list as they arrive; raises `BrokenStreamError` if the stream breaks off."""
        response = self._run(self._calls.open_entries(list_name, tenant)).stream
        lines = EntryLines()
        try:
            for chunk in response.iter_bytes():
                yield from lines.feed(chunk)
            lines.end()
        except httpx.TransportError as fault:
            raise broken_stream(str(fault) or type(fault).__name__) from None
        finally:
            response.close()

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, exchange: Exchange[T]) -> T:
        outcome: Outcome = None
        try:
            while True:
                step = exchange.send(outcome)
                outcome = self._sleep(step.seconds) if isinstance(step, Wait) else self._send(step)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _send(self, step: Send) -> Outcome:
        try:
            response = self._http.send(_build_request(self._http, step), stream=True)
            if step.streams and response.status_code == HTTPStatus.OK:
                return Reply(response.status_code, b"", response.headers, response)
            response.read()
        except httpx.TransportError as fault:
            return _describe_failure(fault)
        return Reply(response.status_code, response.content, response.headers)


class AsyncClient(_Connections[httpx.AsyncClient, Awaitable[None]]):
    """The same calls for code that runs in an event loop."""

    _open, _pause = httpx.AsyncClient, staticmethod(asyncio.sleep)

    scan = _run_later(Calls.scan)
    status = _run_later(Calls.status)
    message = _run_later(Calls.message)
    message_timeline = _run_later(Calls.message_timeline)
    message_text = _run_later(Calls.message_text)
    search_messages = _run_later(Calls.search_messages)
    search_held = _run_later(Calls.search_held)
    release = _run_later(Calls.release)
    delete = _run_later(Calls.delete)
    report = _run_later(Calls.report)
    release_messages = _run_later(Calls.release_messages)
    delete_messages = _run_later(Calls.delete_messages)
    add_entries = _run_later(Calls.add_entries)
    delete_entries = _run_later(Calls.delete_entries)
    get_lists = _run_later(Calls.get_lists)

    async def messages(self, **filters: Unpack[MessageFilters]) -> AsyncIterator[FoundMessage]:
        """Yield all results that match, newest first; pages are fetched as they are needed."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.search_messages(cursor=cursor or None, **filters)
            for found in page.messages:
                yield found
            cursor = page.next

    async def held_messages(self, **filters: Unpack[HeldFilters]) -> AsyncIterator[FoundHeldMessage]:
        """Yield all held mail that matches, newest first; pages are fetched as they are needed."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.search_held(cursor=cursor or None, **filters)
            for found in page.messages:
                yield found
            cursor = page.next

    async def list_entries(self, list_name: str, *, tenant: str | None = None) -> AsyncIterator[PublicListsEntry]:
        """Yield all entries of a list as they arrive; raises `BrokenStreamError` if the stream breaks off."""
        response = (await self._run(self._calls.open_entries(list_name, tenant))).stream
        lines = EntryLines()
        try:
            async for chunk in response.aiter_bytes():
                for entry in lines.feed(chunk):
                    yield entry
            lines.end()
        except httpx.TransportError as fault:
            raise broken_stream(str(fault) or type(fault).__name__) from None
        finally:
            await response.aclose()

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, exchange: Exchange[T]) -> T:
        outcome: Outcome = None
        try:
            while True:
                step = exchange.send(outcome)
                if isinstance(step, Wait):
                    outcome = await self._sleep(step.seconds)  # type: ignore[func-returns-value]
                else:
                    outcome = await self._send(step)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    async def _send(self, step: Send) -> Outcome:
        try:
            response = await self._http.send(_build_request(self._http, step), stream=True)
            if step.streams and response.status_code == HTTPStatus.OK:
                return Reply(response.status_code, b"", response.headers, response)
            await response.aread()
        except httpx.TransportError as fault:
            return _describe_failure(fault)
        return Reply(response.status_code, response.content, response.headers)
