"""A client of a running Gatepost, in two forms with the same calls: `Client` and `AsyncClient`.

with Client("https://127.0.0.1:9081", token, ca="tls/certificate.pem") as gatepost:
    result = gatepost.scan(Path("mail.eml"), sender="a@example.org", recipients=["b@example.com"])
    print(result.verdict, result.decision)
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from gatepost import __version__
from gatepost.api.scanning import AnalysedMessage, MessageAnalysisResult, SystemStatus
from gatepost.client import calls
from gatepost.client.calls import Envelope, Raw
from gatepost.client.errors import ApiError, ClientError, UnexpectedReplyError, UnreachableError
from gatepost.client.exchange import Exchange, NoReply, Outcome, Reply, Retries, Send, Wait

__all__ = ["ApiError", "AsyncClient", "Client", "ClientError", "Retries", "UnexpectedReplyError", "UnreachableError"]

T = TypeVar("T")

# A scan may wait an hour for its slot (`longRequestTimeout`); a connection is made soon or not at all.
DEFAULT_TIMEOUT = 3660.0
CONNECT_TIMEOUT = 10.0
PATIENT = Retries()
# The other side speaks no TLS, or is not who it should be: that stays so.
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
    return {
        "base_url": url,
        "verify": context,
        "timeout": httpx.Timeout(timeout, connect=CONNECT_TIMEOUT),
        "headers": {"authorization": f"Bearer {token}", "user-agent": f"gatepost/{__version__}"},
        "trust_env": False,
    }


def _reply(response: httpx.Response) -> Reply:
    return Reply(response.status_code, response.content, response.headers)


def _no_reply(fault: httpx.TransportError) -> NoReply:
    text = str(fault) or type(fault).__name__
    hopeless = isinstance(fault, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
    return NoReply(text, again=not hopeless and not any(sign in text for sign in _HOPELESS))


class Client:
    """A connection pool to one abby, for ordinary code. Safe to share between threads."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca: str | Path | None = None,
        verify: bool = True,
        timeout: float = DEFAULT_TIMEOUT,
        retries: Retries = PATIENT,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._retries = retries
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
        """Have one message analysed; returns when the analysis is complete."""
        envelope = Envelope(
            sender=sender, recipients=recipients, remote_address=remote_address, helo=helo, tenant=tenant
        )
        return self._run(calls.scan(raw, envelope, self._retries))

    def status(self) -> SystemStatus:
        """How busy the service is."""
        return self._run(calls.status(self._retries))

    def message(self, ggrid: str) -> AnalysedMessage:
        """A stored analysis with its ledger (permission `messages.read`)."""
        return self._run(calls.message(ggrid, self._retries))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
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
            return _reply(self._http.request(step.method, step.path, content=step.body, headers=step.headers))
        except httpx.TransportError as fault:
            return _no_reply(fault)


class AsyncClient:
    """The same for code that runs in an event loop."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca: str | Path | None = None,
        verify: bool = True,
        timeout: float = DEFAULT_TIMEOUT,
        retries: Retries = PATIENT,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._retries = retries
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
        """Have one message analysed; returns when the analysis is complete."""
        envelope = Envelope(
            sender=sender, recipients=recipients, remote_address=remote_address, helo=helo, tenant=tenant
        )
        return await self._run(calls.scan(raw, envelope, self._retries))

    async def status(self) -> SystemStatus:
        """How busy the service is."""
        return await self._run(calls.status(self._retries))

    async def message(self, ggrid: str) -> AnalysedMessage:
        """A stored analysis with its ledger (permission `messages.read`)."""
        return await self._run(calls.message(ggrid, self._retries))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
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
            return _reply(await self._http.request(step.method, step.path, content=step.body, headers=step.headers))
        except httpx.TransportError as fault:
            return _no_reply(fault)
