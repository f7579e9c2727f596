"""A core over HTTPS, as abby hands mail to it.

It gets `POST /scan`: a length of four bytes, big-endian, that many bytes of JSON, and the raw message, streamed from
where it lies. abby proves itself with a shared secret and verifies the core's certificate; neither redirects nor
proxies of the environment are followed. Orders on held mail go as `scanning.held_mail` says.
"""

import asyncio
import ssl
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from gatepost.abby.core_connections import ConnectError, CoreConnections, ExchangeError
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
        self.name = address
        self._headers = {"Authorization": f"Bearer {secret}"}
        self._connections = CoreConnections(address, _tls_context(ca), self._headers)
        self._former: set[asyncio.Task[None]] = set()

    def trust(self, ca: Path) -> None:
        """Verify connections from now on with this file, which has changed; raises `OSError` if it cannot be read.
        Connections that stand are used for what is under way, and closed."""
        former, self._connections = self._connections, CoreConnections(self.name, _tls_context(ca), self._headers)
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
        await self._connections.close()

    async def ask_load(self) -> Load | Down:
        try:
            got = await self._connections.get("/load", MAX_ANSWER)
            return _LOAD.decode(got.body) if got.status == 200 else _describe_refusal(got.status)
        except (ConnectError, ExchangeError, ValueError) as fault:
            return Down(f"does not answer ({_name_fault(fault)})", begun=False, refused=_is_refused(fault))

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
        try:
            got = await self._connections.post(path, CONTENT_TYPE, size, pieces, MAX_ANSWER)
            if got.status == 503:
                return _FULL.decode(got.body)
            if got.status == STORAGE_FAILED:
                return Down("its storage failed", answered=True, storage=True)
            return decoder.decode(got.body) if got.status == 200 else _describe_refusal(got.status)
        except ConnectError as fault:
            return Down(f"no connection ({_name_fault(fault)})", begun=False)
        except (ExchangeError, ValueError) as fault:
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
        most = MAX_BODY if isinstance(order, ExportOrder) else MAX_ANSWER
        try:
            async with asyncio.timeout(seconds):
                got = await self._connections.post(order.path, "application/json", len(content), (content,), most)
            if got.status != 200:
                return _describe_refusal(got.status)
            if isinstance(order, ExportOrder) and got.media_type == MESSAGE:
                return cast("R", got.body)
            return read_answer(order, got.body)
        except (ConnectError, ExchangeError, TimeoutError, ValueError) as fault:
            return Down(f"no answer to {order.path} ({type(fault).__name__})")


async def _close_later(connections: CoreConnections) -> None:
    try:
        await asyncio.sleep(FORMER_SECONDS)
    finally:
        await connections.close()


def _tls_context(ca: Path | ssl.SSLContext | None) -> ssl.SSLContext:
    return ca if isinstance(ca, ssl.SSLContext) else client_context(ca)


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
