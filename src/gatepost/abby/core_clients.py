"""A core in this very process: the message is handed over as it lies, without a second upload.

A core over HTTPS: `POST /scan` with the request as JSON and the message behind it, streamed from where it lies.

The body is a length of four bytes, big-endian, that many bytes of JSON, and the raw message. abby proves itself with a
shared secret and verifies the core's certificate; neither redirects nor proxies of the environment are followed.
What is asked about held mail is in `guard.orders`. `GET /load?once=free` is answered when a slot is free, so that
whoever waits for one need not ask again and again.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import httpx
import msgspec

from gatepost.abby.core_state import Down
from gatepost.api.scanning import MAX_BODY
from gatepost.guard.quarantine.held_mail import HeldMailOperations
from gatepost.guard.quarantine.orders import MESSAGE, DeleteOrder, ExportOrder, LookOrder, PictureOrder, ReleaseOrder
from gatepost.scanning.held_mail import Busy, Deleted, NotHeld, Outcome
from gatepost.scanning.request import Full, Load, MessageBody, ScanRequest, ScanResult
from gatepost.scanning.spool import SpooledBody
from gatepost.scanning.upload import CONTENT_TYPE, FREE, Head
from gatepost.store.audit import Actor
from gatepost.store.errors import StorageError
from gatepost.view.values import NotShown, Picture, View

T = TypeVar("T")


class InProcess(Protocol):
    """What the guard of this process can do."""

    @property
    def rest_enabled(self) -> bool: ...

    async def scan(self, request: ScanRequest) -> ScanResult | Full: ...

    def load(self) -> Load: ...

    async def room(self) -> None: ...


class LocalCore:
    """The guard of this process as one of the cores, with the mail that it holds. Whoever started it stops it."""

    name = "local"

    def __init__(self, guard: InProcess, custody: HeldMailOperations | None = None) -> None:
        self._guard, self._custody = guard, custody

    @property
    def enabled(self) -> bool:
        return self._guard.rest_enabled

    async def scan(self, request: ScanRequest) -> ScanResult | Full | Down:
        return await self._guard.scan(request)

    async def load(self, *, once_free: bool = False) -> Load | Down:
        if once_free:
            await self._guard.room()
        return self._guard.load()

    async def release(
        self, ggrid: str, by: Actor, recipients: Sequence[str] = (), tenant: str | None = None
    ) -> Outcome | Down:
        return await self._custody.release(ggrid, by, recipients, tenant) if self._custody else NotHeld()

    async def look(self, ggrid: str, tenant: str | None = None) -> View | NotHeld | NotShown | Down:
        return await _stored(self._custody.look(ggrid, tenant)) if self._custody else NotHeld()

    async def picture(self, ggrid: str, index: int, tenant: str | None = None) -> Picture | NotHeld | NotShown | Down:
        return await _stored(self._custody.picture(ggrid, index, tenant)) if self._custody else NotHeld()

    async def export(self, ggrid: str, by: Actor, tenant: str | None = None) -> bytes | NotHeld | Down:
        return await _stored(self._custody.export(ggrid, by, tenant)) if self._custody else NotHeld()

    async def delete(self, ggrid: str, by: Actor, tenant: str | None = None) -> Deleted | NotHeld | Busy | Down:
        return await _stored(self._custody.delete(ggrid, by, tenant)) if self._custody else NotHeld()

    def peek(self) -> Load | None:
        return self._guard.load()

    async def close(self) -> None:
        return None


async def _stored(answer: Awaitable[T]) -> T | Down:
    try:
        return await answer
    except StorageError as fault:
        return Down(str(fault), answered=True)


CONNECT_SECONDS = 3.0
WRITE_SECONDS = 60.0
MAX_ANSWER = 32 << 20
# A core gives one message as long as an analysis may take; then it says that it could not be shown.
LOOK_SECONDS = 60.0
CHUNK = 256 << 10


class _FullAnswer(msgspec.Struct, frozen=True):
    load: Load


_RESULT = msgspec.json.Decoder(ScanResult)
_LOAD = msgspec.json.Decoder(Load)
_OUTCOME: msgspec.json.Decoder[Outcome] = msgspec.json.Decoder(Outcome)
_VIEW: msgspec.json.Decoder[View | NotHeld | NotShown] = msgspec.json.Decoder(View | NotHeld | NotShown)
_PICTURE: msgspec.json.Decoder[Picture | NotHeld | NotShown] = msgspec.json.Decoder(Picture | NotHeld | NotShown)
_DELETED: msgspec.json.Decoder[Deleted | NotHeld | Busy] = msgspec.json.Decoder(Deleted | NotHeld | Busy)
_ABSENT = msgspec.json.Decoder(NotHeld)
_FULL = msgspec.json.Decoder(_FullAnswer)


class RemoteCore:
    """A core at a base address like `https://host:9785`."""

    enabled = True

    def __init__(self, address: str, secret: str, ca: Path | ssl.SSLContext | None) -> None:
        self.name = address
        self._client = httpx.AsyncClient(
            base_url=address,
            headers={"Authorization": f"Bearer {secret}"},
            verify=_trusting(ca),
            trust_env=False,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, write=WRITE_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=30),
        )

    def peek(self) -> Load | None:
        return None

    async def close(self) -> None:
        await self._client.aclose()

    async def load(self, *, once_free: bool = False) -> Load | Down:
        try:
            response = await self._client.get(f"/load?once={FREE}" if once_free else "/load")
            return _LOAD.decode(response.content) if response.status_code == 200 else _refused(response.status_code)
        except (httpx.HTTPError, ValueError) as fault:
            return Down(f"no load ({type(fault).__name__})", begun=False, refused=_nobody_listens(fault))

    async def scan(self, request: ScanRequest) -> ScanResult | Full | Down:
        head = msgspec.json.encode(Head(request.ggrid, request.created, request.envelope))
        headers = {"Content-Type": CONTENT_TYPE, "Content-Length": str(4 + len(head) + request.body.size)}
        try:
            async with self._client.stream("POST", "/scan", content=_frame(head, request.body), headers=headers) as got:
                return _outcome(got.status_code, await _bounded(got), request.ggrid)
        except (httpx.ConnectError, httpx.ConnectTimeout) as fault:
            return Down(f"no connection ({type(fault).__name__})", begun=False)
        except (httpx.HTTPError, ValueError) as fault:
            return Down(f"no result ({type(fault).__name__})")

    async def release(
        self, ggrid: str, by: Actor, recipients: Sequence[str] = (), tenant: str | None = None
    ) -> Outcome | Down:
        """Have a message that this core holds sent on."""
        wanted = ReleaseOrder(ggrid, by, tuple(recipients), tenant)
        return await self._ordered("/release", wanted, _OUTCOME, None)

    async def look(self, ggrid: str, tenant: str | None = None) -> View | NotHeld | NotShown | Down:
        """Have a message that this core holds shown."""
        return await self._ordered("/look", LookOrder(ggrid, tenant), _VIEW)

    async def picture(self, ggrid: str, index: int, tenant: str | None = None) -> Picture | NotHeld | NotShown | Down:
        """Have a picture in a message shown."""
        return await self._ordered("/picture", PictureOrder(ggrid, index, tenant), _PICTURE)

    async def delete(self, ggrid: str, by: Actor, tenant: str | None = None) -> Deleted | NotHeld | Busy | Down:
        """Have a message deleted."""
        return await self._ordered("/delete", DeleteOrder(ggrid, by, tenant), _DELETED)

    async def export(self, ggrid: str, by: Actor, tenant: str | None = None) -> bytes | NotHeld | Down:
        """A message as it came."""
        content = msgspec.json.encode(ExportOrder(ggrid, by, tenant))
        try:
            async with self._client.stream("POST", "/export", content=content, timeout=_patience()) as got:
                if got.status_code != 200:
                    return _refused(got.status_code)
                if got.headers.get("content-type") == MESSAGE:
                    return await _bounded(got, MAX_BODY)
                return _ABSENT.decode(await _bounded(got))
        except (httpx.HTTPError, ValueError) as fault:
            return Down(f"no answer to /export ({type(fault).__name__})")

    async def _ordered(
        self, path: str, order: msgspec.Struct, decoder: msgspec.json.Decoder[T], seconds: float | None = LOOK_SECONDS
    ) -> T | Down:
        try:
            content = msgspec.json.encode(order)
            async with self._client.stream("POST", path, content=content, timeout=_patience(seconds)) as got:
                answer = await _bounded(got)
                return decoder.decode(answer) if got.status_code == 200 else _refused(got.status_code)
        except (httpx.HTTPError, ValueError) as fault:
            return Down(f"no answer to {path} ({type(fault).__name__})")


def _patience(seconds: float | None = LOOK_SECONDS) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=CONNECT_SECONDS, write=WRITE_SECONDS)


def _trusting(ca: Path | ssl.SSLContext | None) -> ssl.SSLContext:
    if isinstance(ca, ssl.SSLContext):
        return ca
    return ssl.create_default_context(cafile=str(ca) if ca else None)


async def _frame(head: bytes, body: MessageBody) -> AsyncIterator[bytes]:
    yield len(head).to_bytes(4, "big") + head
    if isinstance(body, SpooledBody):
        for chunk in body.chunks(CHUNK):
            yield chunk
    else:
        yield body.read()


async def _bounded(response: httpx.Response, most: int = MAX_ANSWER) -> bytes:
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > most:
            raise ValueError("the answer is too long")
        pieces.append(piece)
    return b"".join(pieces)


def _outcome(status: int, content: bytes, ggrid: str) -> ScanResult | Full | Down:
    if status == 503:
        return Full(_FULL.decode(content).load)
    if status != 200:
        return _refused(status)
    result = _RESULT.decode(content)
    return result if result.ggrid == ggrid else Down("it answered for another message")


def _nobody_listens(fault: BaseException | None) -> bool:
    """The machine is there and says that the port is closed: the core has ended, or is about to."""
    while fault is not None and not isinstance(fault, ConnectionRefusedError):
        fault = fault.__cause__ or fault.__context__
    return fault is not None


def _refused(status: int) -> Down:
    hint = ": is the secret the same on both sides?" if status == 401 else ""
    return Down(f"it answered {status}{hint}", answered=True)
