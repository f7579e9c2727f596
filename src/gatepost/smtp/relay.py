"""The way to the next hop: connections that are kept between messages, what it can do, and TLS as the settings ask for.

A connection is lent to one transaction at a time. It comes back reset, is checked with NOOP if it lay idle for a while,
and is closed for good when it is old. Why not aiosmtplib: it waits for each reply before the next command, so a
client's pipelined commands could not be passed through.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlsplit

import structlog

from gatepost.smtp import replies
from gatepost.smtp.next_hop import NextHop, NextHopError, NextHopTimeouts
from gatepost.smtp.replies import SmtpReply

log = structlog.get_logger("gatepost.guard")

Tls = Literal["off", "opportunistic", "required", "verified"]

MAX_IDLE = 50
IDLE_SECONDS = 30.0
UNCHECKED_SECONDS = 2.0
MAX_TRANSACTIONS = 500
REFRESH_SECONDS = 60.0
# How soon a next hop that could not be reached is tried again, so that the state of the gateway is known.
RECOVERY_SECONDS = 5.0
# How long a client that says EHLO waits for the next hop to say what it can.
FEATURE_SECONDS = 3.0


class Relay:
    """All connections to one next hop. It belongs to one event loop."""

    def __init__(
        self,
        next_hop: str,
        tls: Tls,
        hostname: str,
        timeouts: NextHopTimeouts | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(next_hop)
        self._host, self._port = parts.hostname or "", parts.port or 25
        self._tls, self._hostname = tls, hostname
        self._timeouts = timeouts or NextHopTimeouts()
        self._context = context or _tls_context(tls)
        self._idle: deque[NextHop] = deque()
        self._features: dict[str, str] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._resetting: set[asyncio.Task[None]] = set()
        self.opened = self.reused = self.failures = 0
        self.fault = ""

    def start(self) -> None:
        """Ask for the next hop's extensions now and every `REFRESH_SECONDS`."""
        self._refreshing = asyncio.create_task(self._refresh_forever())

    async def close(self) -> None:
        """Close every connection that is not lent."""
        if self._refreshing:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, *self._resetting, return_exceptions=True)
        closing = list(self._idle)
        self._idle.clear()
        for link in closing:
            link.close()
        for link in closing:
            await link.wait_closed()

    async def features(self) -> dict[str, str]:
        """Return the next hop's extensions, as it last said; none where it cannot be asked now."""
        if self._features is None:
            with contextlib.suppress(NextHopError, TimeoutError):
                async with asyncio.timeout(FEATURE_SECONDS):
                    self.give_back(await self.borrow())
        return self._features or {}

    async def borrow(self) -> NextHop:
        """Return a connection that is ready for MAIL. Raises `NextHopError`."""
        while self._idle:
            link = self._idle.pop()
            if await self._is_sound(link):
                self.reused += 1
                return link
        return await self._connect()

    def give_back(self, link: NextHop) -> None:
        """Take back a connection; it is closed if it is old, or a transaction or reply is still open."""
        old = link.transactions >= MAX_TRANSACTIONS or len(self._idle) >= MAX_IDLE
        if old or not link.usable:
            link.close()
        else:
            self._idle.append(link)

    def abandon(self, link: NextHop) -> None:
        """End a transaction that is not to be completed, without waiting for it."""
        task = asyncio.create_task(self.reset(link))
        self._resetting.add(task)
        task.add_done_callback(self._resetting.discard)

    async def reset(self, link: NextHop) -> None:
        """End a transaction that is not to be completed, and take the connection back."""
        try:
            if (await link.ask(b"RSET")).positive:
                self.give_back(link)
                return
        except NextHopError:
            pass
        link.close()

    async def send(self, sender: str, recipients: Sequence[str], raw: bytes) -> SmtpReply:
        """Send a whole message, to all recipients or to none; return the last reply. Raises `NextHopError` where the
        next hop gave none."""
        link = await self.borrow()
        try:
            return await self._send(link, sender, recipients, raw)
        finally:
            if link.usable:
                await self.reset(link)
            else:
                link.close()

    async def _send(self, link: NextHop, sender: str, recipients: Sequence[str], raw: bytes) -> SmtpReply:
        wide = not (sender.isascii() and all(map(str.isascii, recipients)))
        if wide and "SMTPUTF8" not in link.features:
            return replies.NEEDS_UTF8
        words = [f"MAIL FROM:<{sender}>"]
        words += ["SMTPUTF8"] if wide else []
        words += ["BODY=8BITMIME"] if "8BITMIME" in link.features and not raw.isascii() else []
        asked = [link.ask(" ".join(words).encode()), *(link.ask(f"RCPT TO:<{each}>".encode()) for each in recipients)]
        for answer in await asyncio.gather(*asked):
            if not answer.positive:
                return answer
        link.transactions += 1
        return await link.send_message([raw])

    async def _is_sound(self, link: NextHop) -> bool:
        idle = asyncio.get_running_loop().time() - link.last_used
        if not link.usable or idle > IDLE_SECONDS:
            link.close()
            return False
        if idle < UNCHECKED_SECONDS:
            return True
        try:
            return (await link.ask(b"NOOP", self._timeouts.connect)).positive
        except NextHopError:
            return False

    async def _connect(self) -> NextHop:
        try:
            return await self._negotiate()
        except (NextHopError, OSError, TimeoutError) as fault:
            self.failures += 1
            self.fault = reason = _describe(fault)
            log.warning("next hop not available", host=self._host, port=self._port, reason=reason)
            raise NextHopError(reason) from None

    async def _negotiate(self) -> NextHop:
        link = await self._open()
        encrypt = self._context is not None and "STARTTLS" in link.features
        if not encrypt and self._tls in ("required", "verified"):
            link.close()
            raise NextHopError("does not offer STARTTLS")
        if encrypt and self._context is not None:
            try:
                await link.start_tls(self._context, self._host, self._hostname)
            except NextHopError:
                link.close()
                if self._tls != "opportunistic":
                    raise
                # Better in clear than not at all (RFC 7435); the next connection tries TLS again.
                log.warning("next hop's TLS does not work; going on in clear", host=self._host, port=self._port)
                link = await self._open()
        self._features, self.fault = link.features, ""
        self.opened += 1
        return link

    async def _open(self) -> NextHop:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._timeouts.connect):
            _, link = await loop.create_connection(lambda: NextHop(self._timeouts), self._host, self._port)
        try:
            await link.greet(self._hostname)
        except NextHopError:
            link.close()
            raise
        return link

    async def _refresh_forever(self) -> None:
        while True:
            with contextlib.suppress(NextHopError):
                self.give_back(await self._connect())
            await asyncio.sleep(RECOVERY_SECONDS if self.fault else REFRESH_SECONDS)
            self._close_idle()

    def _close_idle(self) -> None:
        """Close connections that lay idle for too long."""
        now = asyncio.get_running_loop().time()
        while self._idle and now - self._idle[0].last_used > IDLE_SECONDS:
            self._idle.popleft().close()


def _describe(fault: Exception) -> str:
    """Return what happened, as the end of a sentence that starts with the next hop."""
    if isinstance(fault, NextHopError):
        return str(fault)
    if isinstance(fault, TimeoutError):
        return "did not answer"
    if isinstance(fault, ConnectionRefusedError):
        return "refused the connection"
    if isinstance(fault, socket.gaierror):
        return "has a name that cannot be resolved"
    reason = os.strerror(fault.errno) if isinstance(fault, OSError) and fault.errno else str(fault)
    return f"cannot be reached: {reason.lower()}"


def _tls_context(tls: Tls) -> ssl.SSLContext | None:
    if tls == "off":
        return None
    context = ssl.create_default_context()
    if tls != "verified":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
