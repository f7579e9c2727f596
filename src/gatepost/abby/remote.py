"""A core over HTTPS: `POST /scan` with the request as JSON and the message behind it, streamed from where it lies.

The body is a length of four bytes, big-endian, that many bytes of JSON, and the raw message. abby proves itself with a
shared secret and verifies the core's certificate; neither redirects nor proxies of the environment are followed.
`POST /release` has a held message sent on.
"""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec

from gatepost.abby.place import Down
from gatepost.guard.holding import Outcome
from gatepost.guard.scan import Body, Full, Load, ScanRequest, ScanResult
from gatepost.guard.spool import SpooledBody
from gatepost.guard.upload import CONTENT_TYPE, Head, ReleaseOrder
from gatepost.store.interface import Actor

CONNECT_SECONDS = 3.0
WRITE_SECONDS = 60.0
MAX_ANSWER = 32 << 20
CHUNK = 256 << 10


class _FullAnswer(msgspec.Struct, frozen=True):
    load: Load


_RESULT = msgspec.json.Decoder(ScanResult)
_LOAD = msgspec.json.Decoder(Load)
_OUTCOME: msgspec.json.Decoder[Outcome] = msgspec.json.Decoder(Outcome)
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

    async def load(self) -> Load | Down:
        try:
            response = await self._client.get("/load")
            return _LOAD.decode(response.content) if response.status_code == 200 else _refused(response.status_code)
        except (httpx.HTTPError, ValueError) as fault:
            return Down(f"no load ({type(fault).__name__})", begun=False)

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

    async def release(self, ggrid: str, by: Actor) -> Outcome | Down:
        """Have a message that this core holds sent on."""
        try:
            response = await self._client.post("/release", content=msgspec.json.encode(ReleaseOrder(ggrid, by)))
            return _OUTCOME.decode(response.content) if response.status_code == 200 else _refused(response.status_code)
        except (httpx.HTTPError, ValueError) as fault:
            return Down(f"no answer to a release ({type(fault).__name__})")


def _trusting(ca: Path | ssl.SSLContext | None) -> ssl.SSLContext:
    if isinstance(ca, ssl.SSLContext):
        return ca
    return ssl.create_default_context(cafile=str(ca) if ca else None)


async def _frame(head: bytes, body: Body) -> AsyncIterator[bytes]:
    yield len(head).to_bytes(4, "big") + head
    if isinstance(body, SpooledBody):
        for chunk in body.chunks(CHUNK):
            yield chunk
    else:
        yield body.read()


async def _bounded(response: httpx.Response) -> bytes:
    pieces, size = [], 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > MAX_ANSWER:
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


def _refused(status: int) -> Down:
    hint = ": is the secret the same on both sides?" if status == 401 else ""
    return Down(f"it answered {status}{hint}", answered=True)
