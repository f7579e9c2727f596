"""ClamAV through its daemon: the whole message is handed to clamd, which takes mail and archives apart by itself.

Workers have no network, so guard asks, and the analysis only says that it wants to know. When clamd is down, mail goes
on: every ledger says that the antivirus was not asked, the log says so once, and once more when it is back.
Protocol: clamd(8), command INSTREAM.
"""

import asyncio
import contextlib

from gatepost.process.logs import Logger
from gatepost.questions import Antivirus
from gatepost.scanning.spool import MessageBody
from gatepost.settings.values import split_address

PORT = 3310
SECONDS = 10.0
_CHUNK = 1 << 20
_MAX_REPLY = 4096
_SHORT = 200

_log = Logger("gatepost.antivirus")


class ClamdClient:
    """One clamd, by `host:port` or by the path of its socket."""

    def __init__(self, address: str, seconds: float = SECONDS) -> None:
        self._address = address
        self._seconds = seconds
        self._is_up = True

    async def scan(self, body: MessageBody) -> Antivirus:
        """Return what clamd says of a message; "failed" where it does not answer."""
        try:
            async with asyncio.timeout(self._seconds):
                reply = await self._stream(await asyncio.to_thread(body.read))
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as fault:
            self._note(False, type(fault).__name__)
            return Antivirus("failed", "clamd did not answer")
        self._note(True)
        return parse_reply(reply)

    async def ping(self) -> bool:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._talk(b"zPING\0", ()) == "PONG"
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return False

    async def _stream(self, raw: bytes) -> str:
        pieces = [raw[start : start + _CHUNK] for start in range(0, len(raw), _CHUNK)]
        return await self._talk(b"zINSTREAM\0", (*pieces, b""))

    async def _talk(self, command: bytes, pieces: tuple[bytes, ...]) -> str:
        reader, writer = await self._connect()
        try:
            writer.write(command)
            for piece in pieces:
                writer.write(len(piece).to_bytes(4, "big") + piece)
                await writer.drain()
            return (await reader.readuntil(b"\0"))[:-1].decode("utf-8", "replace").strip()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._address.startswith("/"):
            return await asyncio.open_unix_connection(self._address, limit=_MAX_REPLY)
        return await asyncio.open_connection(*split_address(self._address, PORT), limit=_MAX_REPLY)

    def _note(self, up: bool, reason: str = "") -> None:
        if up is not self._is_up:
            self._is_up = up
            if up:
                _log.info("clamd answers again", address=self._address)
            else:
                _log.error("clamd does not answer: mail is judged without it", address=self._address, reason=reason)


def parse_reply(reply: str) -> Antivirus:
    """Parse `stream: OK`, `stream: Name FOUND`, or an error."""
    result = reply.rpartition("stream: ")[2]
    if result == "OK":
        return Antivirus("clean")
    if result.endswith(" FOUND"):
        return Antivirus("found", result.removesuffix(" FOUND")[:_SHORT])
    return Antivirus("failed", result[:_SHORT])
