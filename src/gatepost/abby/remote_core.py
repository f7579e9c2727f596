"""A core over HTTPS, as abby hands mail to it.

It gets `POST /scan`: a length of four bytes, big-endian, that many bytes of JSON, and the raw message, streamed from
where it lies. abby proves itself with a shared secret and verifies the core's certificate; neither redirects nor
proxies of the environment are followed. Orders on held mail go as `scanning.held_mail` says.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar, cast

import httpx
import msgspec

from gatepost.abby.cores import Down
from gatepost.api.http import ConnectedClient
from gatepost.api.scanning import MAX_BODY
from gatepost.api.tls_sessions import client_context
from gatepost.scanning.held_mail import (
    MESSAGE,
    ExportOrder,
    HeldMailOrder,
    NotHeld,
    ReleaseOrder,
    read_answer,
)
from gatepost.scanning.request import CONTENT_TYPE, STORAGE_FAILED, Full, Load, ScanRequest, ScanResult, frame_request
from gatepost.scanning.spool import MessageBody
from gatepost.view.values import NotShown
from gatepost.workers.protocol import Extracted

R = TypeVar("R")

CONNECT_SECONDS = 3.0
WRITE_SECONDS = 60.0
MAX_ANSWER = 32 << 20
# A core gives one message as long as an analysis may take; then it says that it could not be shown.
ORDER_SECONDS = 60.0
# A core that does not even tell its load for so long has stalled: twice this is how long an order waits for it.
STALL_SECONDS = 2.0
# How long requests under way may go on with the trust of before.
FORMER_SECONDS = 300.0


_RESULT = msgspec.json.Decoder(ScanResult)
_LOAD = msgspec.json.Decoder(Load)
_FEATURES = msgspec.json.Decoder(Extracted | NotShown)
_FULL = msgspec.json.Decoder(Full)


class RemoteCore:
    """A core at a base address like `https://host:9785`."""

    enabled = True

    def __init__(self, address: str, secret: str, ca: Path | ssl.SSLContext | None) -> None:
        self.name, self._secret = address, secret
        self._client = self._new_client(_tls_context(ca))
        self._former: set[asyncio.Task[None]] = set()

    def _new_client(self, context: ssl.SSLContext) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.name,
            headers={"Authorization": f"Bearer {self._secret}"},
            verify=context,
            trust_env=False,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, write=WRITE_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30),
        )

    def trust(self, ca: Path) -> None:
        """Verify connections from now on with this file, which has changed; raises `OSError` if it cannot be read.
        Connections that stand are used for what is under way, and closed."""
        former, self._client = self._client, self._new_client(_tls_context(ca))
        task = asyncio.create_task(_close_later(former))
        self._former.add(task)
        task.add_done_callback(self._former.discard)

    def load_now(self) -> Load | None:
        return None

    @property
    def waiting(self) -> tuple[int, int]:
        return 0, 0

    async def close(self) -> None:
        for task in self._former:
            task.cancel()
        await asyncio.gather(*self._former, return_exceptions=True)
        await self._client.aclose()

    async def ask_load(self) -> Load | Down:
        try:
            response = await self._client.get("/load")
            return (
                _LOAD.decode(response.content)
                if response.status_code == 200
                else _describe_refusal(response.status_code)
            )
        except (httpx.HTTPError, ValueError) as fault:
            return Down(f"no load ({_name_fault(fault)})", begun=False, refused=_is_refused(fault))

    async def scan(self, request: ScanRequest, body: MessageBody, _client: ConnectedClient) -> ScanResult | Full | Down:
        result = await self._upload("/scan", request, body, _RESULT)
        if isinstance(result, ScanResult) and result.ggrid != request.ggrid:
            return Down("it answered for another message")
        return result

    async def read_features(
        self, request: ScanRequest, body: MessageBody, _client: ConnectedClient
    ) -> Extracted | NotShown | Full | Down:
        return await self._upload("/features", request, body, _FEATURES)

    async def _upload(
        self, path: str, request: ScanRequest, body: MessageBody, decoder: msgspec.json.Decoder[R]
    ) -> R | Full | Down:
        size, pieces = frame_request(request, body)
        headers = {"Content-Type": CONTENT_TYPE, "Content-Length": str(size)}
        try:
            async with self._client.stream("POST", path, content=_stream(pieces), headers=headers) as got:
                content = await _read_bounded(got)
                if got.status_code == 503:
                    return _FULL.decode(content)
                if got.status_code == STORAGE_FAILED:
                    return Down("its storage failed", answered=True, storage=True)
                return decoder.decode(content) if got.status_code == 200 else _describe_refusal(got.status_code)
        except (httpx.ConnectError, httpx.ConnectTimeout) as fault:
            return Down(f"no connection ({_name_fault(fault)})", begun=False)
        except (httpx.HTTPError, ValueError) as fault:
            return Down(f"no result ({type(fault).__name__})")

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld | Down:
        """Have this core do what the order says with mail that it holds."""
        outcome = asyncio.create_task(self._send_order(order))
        try:
            while not (await asyncio.wait([outcome], timeout=STALL_SECONDS))[0]:
                # It may take its time, as the next hop does; but it has to be alive.
                if not await self._is_alive():
                    return Down(f"no answer to {order.path} (it has stalled)", core=self.name)
            result = await outcome
            return msgspec.structs.replace(result, core=self.name) if isinstance(result, Down) else result
        finally:
            outcome.cancel()
            await asyncio.gather(outcome, return_exceptions=True)

    async def _is_alive(self) -> bool:
        try:
            async with asyncio.timeout(STALL_SECONDS):
                return not isinstance(await self.ask_load(), Down)
        except TimeoutError:
            return False

    async def _send_order(self, order: HeldMailOrder[R]) -> R | NotHeld | Down:
        content = msgspec.json.encode(order)
        seconds = None if isinstance(order, ReleaseOrder) else ORDER_SECONDS
        timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS, write=WRITE_SECONDS)
        try:
            async with self._client.stream("POST", order.path, content=content, timeout=timeout) as got:
                if got.status_code != 200:
                    return _describe_refusal(got.status_code)
                if isinstance(order, ExportOrder) and got.headers.get("content-type") == MESSAGE:
                    return cast("R", await _read_bounded(got, MAX_BODY))
                return read_answer(order, await _read_bounded(got))
        except (httpx.HTTPError, ValueError) as fault:
            return Down(f"no answer to {order.path} ({type(fault).__name__})")


async def _close_later(client: httpx.AsyncClient) -> None:
    try:
        await asyncio.sleep(FORMER_SECONDS)
    finally:
        await client.aclose()


def _tls_context(ca: Path | ssl.SSLContext | None) -> ssl.SSLContext:
    if isinstance(ca, ssl.SSLContext):
        return ca
    return client_context(ca)


async def _stream(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def _read_bounded(response: httpx.Response, most: int = MAX_ANSWER) -> bytes:
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > most:
            raise ValueError("the answer is too long")
        pieces.append(piece)
    return b"".join(pieces)


def _is_refused(fault: BaseException | None) -> bool:
    """Whether the machine is there and says that the port is closed: the core has ended, or is about to."""
    while fault is not None and not isinstance(fault, ConnectionRefusedError):
        fault = fault.__cause__ or fault.__context__
    return fault is not None


def _name_fault(fault: BaseException) -> str:
    """Return what went wrong: a certificate that is not trusted is named, all else by its kind."""
    found: BaseException | None = fault
    while found is not None and not isinstance(found, ssl.SSLCertVerificationError):
        found = found.__cause__ or found.__context__
    if isinstance(found, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {found.verify_message}; look at ca and at the core's certificate"
    return type(fault).__name__


def _describe_refusal(status: int) -> Down:
    hint = ": is the secret the same on both sides?" if status == 401 else ""
    return Down(f"it answered {status}{hint}", answered=True)
