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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from gatepost import __version__
from gatepost.api.lists import ListChange, ListFileInfo, NewListEntry, PublicListsEntry
from gatepost.api.scanning import MessageAnalysisResult, SystemStatus
from gatepost.client import calls
from gatepost.client.calls import EntryLines, Envelope, ListCalls, ListTarget, Raw, broken_stream
from gatepost.client.exchange import (
    ApiError,
    BrokenStreamError,
    ClientError,
    Exchange,
    NoReply,
    Outcome,
    Reply,
    Retries,
    Send,
    UnexpectedReplyError,
    UnreachableError,
    Wait,
)
from gatepost.client.messages import AsyncMessageMethods, MessageCalls, MessageMethods

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

T = TypeVar("T")

# A scan may wait an hour for a slot (`longRequestTimeout`); connecting takes seconds.
DEFAULT_TIMEOUT = 3660.0
CONNECT_TIMEOUT = 10.0
DEFAULT_RETRIES = Retries()
# The other side speaks no TLS or has a wrong certificate: another attempt cannot help.
_HOPELESS = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER")


def _options(url: str, token: str, ca: str | Path | None, verify: bool, timeout: float) -> dict[str, Any]:
    try:
        httpx.URL(url)
    except httpx.InvalidURL as fault:
        raise UnreachableError(f"{url!r} is not an address: {fault}") from None
    context = ssl.create_default_context(cafile=str(ca) if ca else None)
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


def _read_reply(response: httpx.Response) -> Reply:
    return Reply(response.status_code, response.content, response.headers)


def _describe_failure(fault: httpx.TransportError) -> NoReply:
    text = str(fault) or type(fault).__name__
    hopeless = isinstance(fault, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
    return NoReply(text, again=not hopeless and not any(sign in text for sign in _HOPELESS))


class Client(MessageMethods):
    """A connection pool to one abby, for synchronous code. Threads may share it.

    Scans need a token, lists an API key; a client may have both.
    """

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
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._retries = retries
        self._lists = ListCalls(api_key, retries)
        self._messages = MessageCalls(retries)
        self._sleep = sleep
        self._http = httpx.Client(transport=transport, **_options(url, token, ca, verify, timeout))

    def scan(
        self,
        raw: Raw,
        *,
        recipients: Sequence[str],
        sender: str = "",
        remote_address: str | None = None,
        helo: str | None = None,
        tenant: str | None = None,
    ) -> MessageAnalysisResult:
        """Submit one message; return the result when the analysis is complete."""
        envelope = Envelope(
            sender=sender, recipients=recipients, remote_address=remote_address, helo=helo, tenant=tenant
        )
        return self._run(calls.scan(raw, envelope, self._retries))

    def status(self) -> SystemStatus:
        """Return how busy the service is."""
        return self._run(calls.status(self._retries))

    def add_entries(
        self,
        list_name: str,
        entries: Iterable[NewListEntry | str],
        *,
        tenant: str | None = None,
        dry_run: bool = False,
    ) -> ListChange:
        """Add or update at most 500 entries, all or none. A dry run changes nothing and returns what would happen."""
        return self._run(self._lists.add(ListTarget(list_name, tenant), entries, dry_run))

    def delete_entries(
        self, list_name: str, entries: Sequence[str], *, tenant: str | None = None, dry_run: bool = False
    ) -> ListChange:
        """Delete at most 500 entries. If a call was repeated, entries that the first one deleted are not counted."""
        return self._run(self._lists.delete(ListTarget(list_name, tenant), entries, dry_run))

    def get_lists(self, *, tenant: str | None = None) -> tuple[ListFileInfo, ...]:
        """Return all lists of a tenant, or those for all tenants."""
        return self._run(self._lists.lists(tenant))

    def list_entries(self, list_name: str, *, tenant: str | None = None) -> Iterator[PublicListsEntry]:
        """Yield all entries of a list as they arrive; raises `BrokenStreamError` if the stream breaks off."""
        response = self._run(self._lists.entries(ListTarget(list_name, tenant)), self._open).stream
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

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, exchange: Exchange[T], send: Callable[[Send], Outcome] | None = None) -> T:
        outcome: Outcome = None
        try:
            while True:
                step = exchange.send(outcome)
                outcome = self._sleep(step.seconds) if isinstance(step, Wait) else (send or self._send)(step)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _send(self, step: Send) -> Outcome:
        try:
            return _read_reply(self._http.request(step.method, step.path, content=step.body, headers=step.headers))
        except httpx.TransportError as fault:
            return _describe_failure(fault)

    def _open(self, step: Send) -> Outcome:
        """Send a request whose answer, if it is a success, is read by the caller."""
        request = self._http.build_request(step.method, step.path, content=step.body, headers=step.headers)
        try:
            response = self._http.send(request, stream=True)
            if response.status_code == HTTPStatus.OK:
                return Reply(response.status_code, b"", response.headers, response)
            response.read()
        except httpx.TransportError as fault:
            return _describe_failure(fault)
        return _read_reply(response)


class AsyncClient(AsyncMessageMethods):
    """The same calls for code that runs in an event loop."""

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
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._retries = retries
        self._lists = ListCalls(api_key, retries)
        self._messages = MessageCalls(retries)
        self._sleep = sleep
        self._http = httpx.AsyncClient(transport=transport, **_options(url, token, ca, verify, timeout))

    async def scan(
        self,
        raw: Raw,
        *,
        recipients: Sequence[str],
        sender: str = "",
        remote_address: str | None = None,
        helo: str | None = None,
        tenant: str | None = None,
    ) -> MessageAnalysisResult:
        """Submit one message; return the result when the analysis is complete."""
        envelope = Envelope(
            sender=sender, recipients=recipients, remote_address=remote_address, helo=helo, tenant=tenant
        )
        return await self._run(calls.scan(raw, envelope, self._retries))

    async def status(self) -> SystemStatus:
        """Return how busy the service is."""
        return await self._run(calls.status(self._retries))

    async def add_entries(
        self,
        list_name: str,
        entries: Iterable[NewListEntry | str],
        *,
        tenant: str | None = None,
        dry_run: bool = False,
    ) -> ListChange:
        """Add or update at most 500 entries, all or none. A dry run changes nothing and returns what would happen."""
        return await self._run(self._lists.add(ListTarget(list_name, tenant), entries, dry_run))

    async def delete_entries(
        self, list_name: str, entries: Sequence[str], *, tenant: str | None = None, dry_run: bool = False
    ) -> ListChange:
        """Delete at most 500 entries. If a call was repeated, entries that the first one deleted are not counted."""
        return await self._run(self._lists.delete(ListTarget(list_name, tenant), entries, dry_run))

    async def get_lists(self, *, tenant: str | None = None) -> tuple[ListFileInfo, ...]:
        """Return all lists of a tenant, or those for all tenants."""
        return await self._run(self._lists.lists(tenant))

    async def list_entries(self, list_name: str, *, tenant: str | None = None) -> AsyncIterator[PublicListsEntry]:
        """Yield all entries of a list as they arrive; raises `BrokenStreamError` if the stream breaks off."""
        response = (await self._run(self._lists.entries(ListTarget(list_name, tenant)), self._open)).stream
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

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, exchange: Exchange[T], send: Callable[[Send], Awaitable[Outcome]] | None = None) -> T:
        outcome: Outcome = None
        try:
            while True:
                step = exchange.send(outcome)
                if isinstance(step, Wait):
                    outcome = await self._sleep(step.seconds)  # type: ignore[func-returns-value]
                else:
                    outcome = await (send or self._send)(step)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    async def _send(self, step: Send) -> Outcome:
        try:
            return _read_reply(
                await self._http.request(step.method, step.path, content=step.body, headers=step.headers)
            )
        except httpx.TransportError as fault:
            return _describe_failure(fault)

    async def _open(self, step: Send) -> Outcome:
        """Send a request whose answer, if it is a success, is read by the caller."""
        request = self._http.build_request(step.method, step.path, content=step.body, headers=step.headers)
        try:
            response = await self._http.send(request, stream=True)
            if response.status_code == HTTPStatus.OK:
                return Reply(response.status_code, b"", response.headers, response)
            await response.aread()
        except httpx.TransportError as fault:
            return _describe_failure(fault)
        return _read_reply(response)
