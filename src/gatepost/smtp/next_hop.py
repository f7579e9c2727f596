"""A connection to the next hop: commands go out as they come, replies come back in their order.

Made for passing a transaction through while it happens: a command returns the promise of its reply, so a client's
pipelined commands are pipelined here, too (RFC 2920), where the server can; else each waits for the one before it. A
connection that breaks the rules, closes or takes too long fails every promise that is open and is not used again.

It authenticates (RFC 4954) where the settings have credentials, with SCRAM (RFC 5802 and 7677), PLAIN (RFC 4616) or
LOGIN. PLAIN and LOGIN hand the password over, so they are used under TLS only. SCRAM proves on both sides that the
password is known and does not show it; it is preferred, and is the only one that is used in clear.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import secrets
import ssl
from collections import deque
from collections.abc import Iterable
from typing import cast

import msgspec

from gatepost.api.connections import DeadlineTimer
from gatepost.smtp.content import DotStuffer
from gatepost.smtp.replies import NEXT_HOP_CONFUSED, ReplyReader, SmtpReply

_WRITE_AHEAD = 512 << 10
# Pieces of a message are sent together up to this size: the top, the text and the end of most mail are one write.
_WRITE_TOGETHER = 64 << 10
_CLOSE_SECONDS = 1.0


class NextHopTimeouts(msgspec.Struct, frozen=True):
    """Seconds that the next hop may take for each step (RFC 5321 section 4.5.3.2, scaled).

    A client waits ten minutes for the last reply; analysis and next hop must both fit into that.
    """

    connect: float = 10.0
    greeting: float = 60.0
    command: float = 60.0
    block: float = 60.0
    final: float = 300.0

    @classmethod
    def from_setting(cls, seconds: float) -> "NextHopTimeouts":
        """Return all times from that for a reply to a command; the last reply may take five times as long."""
        return cls(min(seconds, 10.0), seconds, seconds, seconds, seconds * 5)


class NextHopError(Exception):
    """The next hop cannot be used; the text is the end of a sentence that starts with the next hop."""


class NextHop(asyncio.Protocol):
    """One connection, as a client of SMTP, or of LMTP (RFC 2033) with one recipient in a transaction."""

    def __init__(self, timeouts: NextHopTimeouts, *, lmtp: bool = False) -> None:
        self._timeouts, self.lmtp = timeouts, lmtp
        self._transport: asyncio.Transport | None = None
        self._lost = asyncio.Event()
        self._reader = ReplyReader()
        self._greeting: asyncio.Future[SmtpReply]
        self._expected: deque[tuple[asyncio.Future[SmtpReply], float]] = deque()
        self._unsent: deque[bytes] = deque()
        self._reset: asyncio.Future[SmtpReply] | None = None
        self._timer = DeadlineTimer(self._be_late)
        self._loop = asyncio.get_running_loop()
        self._drained = asyncio.Event()
        self._drained.set()
        self._fault: str | None = None
        self.features: dict[str, str] = {}
        self.encrypted = False
        self.transactions = 0
        # Whether a transaction was begun that is neither completed nor ended.
        self.unfinished = False
        self.last_used = self._loop.time()

    @property
    def usable(self) -> bool:
        """Whether it stands, with no reply pending."""
        return self._fault is None and not self._expected and self._reader.empty

    @property
    def broken(self) -> bool:
        """Whether it is closed or failed; one that stands may still owe replies."""
        return self._fault is not None

    @property
    def certificate(self) -> bytes | None:
        """The server's certificate in PEM, under TLS."""
        secured = self._transport.get_extra_info("ssl_object") if self._transport and self.encrypted else None
        raw = secured.getpeercert(binary_form=True) if secured else None
        return ssl.DER_cert_to_PEM_cert(raw).encode() if raw else None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of this class; they only behave like it.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_WRITE_AHEAD)
        # It may come before anybody asks for it.
        self._greeting = self._promise(self._timeouts.greeting)

    def data_received(self, data: bytes) -> None:
        try:
            found = self._reader.feed(data)
        except ValueError as fault:
            self.fail(f"sent {fault}")
            return
        for reply in found:
            if not self._expected:
                # 421 on its own is a goodbye (RFC 5321 section 3.8); anything else was not asked for.
                self.fail(f"said {reply.code} uninvited")
                return
            promise, _ = self._expected.popleft()
            if promise is self._reset and not reply.positive:
                self.fail(f"answered {reply.code} to RSET")
                return
            if not promise.done():
                promise.set_result(reply)
            if reply.code == 421:
                self.fail("answered 421")
                return
        self._continue()

    def eof_received(self) -> bool:
        self.fail("closed the connection")
        return False

    def connection_lost(self, _exc: Exception | None) -> None:
        self._lost.set()
        self.fail("closed the connection")

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def ask(self, line: bytes, seconds: float | None = None) -> asyncio.Future[SmtpReply]:
        """Send a command; the future has its reply, or `NextHopError`."""
        promise = self._promise(self._timeouts.command if seconds is None else seconds)
        if self._fault is None:
            if not self._unsent:
                # Commands that the client has pipelined go out together.
                self._loop.call_soon(self._send)
            self._unsent.append(line + b"\r\n")
        return promise

    def reset_with_next(self) -> None:
        """End a transaction in one write with what is asked next, if one is unfinished. Where the server does not do
        so, its replies to the next commands mean nothing, and the connection fails."""
        if self.unfinished:
            self.unfinished = False
            self._reset = self.ask(b"RSET")

    async def greet(self, hostname: str) -> None:
        """Wait for the greeting, then say who we are and learn what the server can."""
        greeting = await self._greeting
        if greeting.code != 220:
            raise NextHopError(f"greeted with {greeting.code}")
        await self._hello(hostname)

    async def start_tls(self, context: ssl.SSLContext, host: str, hostname: str) -> None:
        """Go over to TLS. What was learnt in clear is forgotten (RFC 3207 section 4.2)."""
        if not (reply := await self.ask(b"STARTTLS")).positive:
            raise NextHopError(f"answered {reply.code} to STARTTLS")
        if not self._reader.empty or self._transport is None:
            raise NextHopError("sent something in clear behind its answer to STARTTLS")
        try:
            secure = await self._loop.start_tls(
                self._transport, self, context, server_hostname=host, ssl_handshake_timeout=self._timeouts.greeting
            )
        except (OSError, ssl.SSLError) as fault:
            self.fail("could not start TLS")
            raise NextHopError(f"could not start TLS: {getattr(fault, 'verify_message', '') or fault}") from None
        self._transport = secure
        self.encrypted = True
        await self._hello(hostname)

    async def send_message(self, pieces: Iterable[bytes]) -> SmtpReply:
        """Send DATA, the message and the lone dot; return the last reply. Raises `NextHopError`. A server that speaks
        LMTP gives a reply for each recipient that it has accepted, so there may be only one.

        However this ends, the dot is sent only behind the whole message: what is cut off is not taken for mail.
        """
        invitation = await self.ask(b"DATA")
        if invitation.code != 354:
            return NEXT_HOP_CONFUSED if invitation.positive else invitation
        whole = False
        try:
            final = self._promise(self._timeouts.final)
            stuffer, ready, size = DotStuffer(), list[bytes](), 0
            for piece in pieces:
                ready.append(stuffer.feed(piece))
                size += len(piece)
                if size >= _WRITE_TOGETHER:
                    await self._write(b"".join(ready), final)
                    ready, size = [], 0
            if not final.done():
                await self._write(b"".join((*ready, stuffer.end)), final)
                whole = True
            return await final
        finally:
            if not whole:
                self.fail("answered before the end of a message, or the message was given up")

    def close(self) -> None:
        if self._fault is None and self._transport is not None:
            self._transport.write(b"QUIT\r\n")
            self._fault = "was disconnected"
            self._transport.close()
        self.fail("was disconnected")

    async def wait_closed(self) -> None:
        """Wait until a connection that was closed is gone; after a second, end it without the next hop's last word."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._lost.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    def fail(self, reason: str) -> None:
        """Close the connection and fail every promise that is open."""
        if self._fault is None:
            self._fault = reason
            if self._transport is not None:
                self._transport.abort()
        self._drained.set()
        self._timer.stop()
        for promise, _ in self._expected:
            if not promise.done():
                promise.set_exception(NextHopError(self._fault))
                promise.exception()  # its caller may have gone
        self._expected.clear()
        self._unsent.clear()

    async def _hello(self, hostname: str) -> None:
        verb = b"LHLO " if self.lmtp else b"EHLO "
        reply = await self.ask(verb + hostname.encode("ascii", "replace"))
        if reply.positive:
            self.features = _features(reply)
            return
        if self.lmtp:
            raise NextHopError(f"answered {reply.code} to LHLO")
        reply = await self.ask(b"HELO " + hostname.encode("ascii", "replace"))
        if not reply.positive:
            raise NextHopError(f"answered {reply.code} to HELO")
        self.features = {}

    def _promise(self, seconds: float) -> asyncio.Future[SmtpReply]:
        promise: asyncio.Future[SmtpReply] = self._loop.create_future()
        if self._fault is not None:
            promise.set_exception(NextHopError(self._fault))
            promise.exception()
            return promise
        self.last_used = self._loop.time()
        self._expected.append((promise, seconds))
        if len(self._expected) == 1:
            self._start_timer()
        return promise

    def _send(self) -> None:
        """Send what may be sent now: all of it to a server that has PIPELINING, else one command at a time."""
        if self._transport is None or not self._unsent:
            return
        if "PIPELINING" in self.features:
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()
        elif len(self._expected) == len(self._unsent):
            self._transport.write(self._unsent.popleft())

    def _continue(self) -> None:
        if self._expected:
            self._start_timer()
        if self._unsent:
            self._send()

    def _start_timer(self) -> None:
        """The reply that is due next has its time from now on."""
        self._timer.set(self._loop.time() + self._expected[0][1])

    def _be_late(self) -> None:
        if self._expected:
            self.fail("did not answer in time")

    async def _write(self, data: bytes, final: asyncio.Future[SmtpReply]) -> None:
        if final.done() or self._transport is None:
            return
        self._transport.write(data)
        self._start_timer()
        if not self._drained.is_set():
            try:
                async with asyncio.timeout(self._timeouts.block):
                    await self._drained.wait()
            except TimeoutError:
                self.fail("did not take the message in time")


def _features(reply: SmtpReply) -> dict[str, str]:
    """Keywords of an EHLO answer in upper case, with their parameters."""
    pairs = (line.decode("ascii", "replace").partition(" ") for line in reply.lines[1:])
    return {name.upper(): rest.strip() for name, _, rest in pairs}


_SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-1": "sha1"}
# RFC 7677 section 4 asks for 4,096 iterations at least; a server must not make this machine compute for minutes.
MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 1_000_000
_ITERATIONS = re.compile(r"[0-9]{1,8}")
_CONTINUE = 334


class Credentials(msgspec.Struct, frozen=True):
    """A user and a password, in printable ASCII."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.user!r})"


class Challenge(msgspec.Struct, frozen=True):
    """What a server asks for in SCRAM: the nonce of both sides, and how the password is salted."""

    nonce: str
    salt: bytes
    iterations: int


async def authenticate(link: NextHop, credentials: Credentials) -> None:
    """Authenticate on a connection that stands; raises `NextHopError`."""
    offered = link.features.get("AUTH", "").upper().split()
    usable = (*_SCRAM, *(("PLAIN", "LOGIN") if link.encrypted else ()))
    mechanism = next((name for name in usable if name in offered), "")
    if not mechanism:
        where = "under TLS" if link.encrypted else "without TLS"
        raise NextHopError(f"offers no AUTH mechanism that can be used {where}")
    if mechanism == "PLAIN":
        token = f"\0{credentials.user}\0{credentials.password}".encode()
        _check_accepted(await link.ask(b"AUTH PLAIN " + base64.b64encode(token)))
    elif mechanism == "LOGIN":
        _decode_challenge(await link.ask(b"AUTH LOGIN"))
        _decode_challenge(await link.ask(base64.b64encode(credentials.user.encode())))
        _check_accepted(await link.ask(base64.b64encode(credentials.password.encode())))
    else:
        await _exchange_proofs(link, mechanism, credentials)


async def _exchange_proofs(link: NextHop, mechanism: str, credentials: Credentials) -> None:
    """SCRAM (RFC 5802 section 5), without channel binding."""
    name, digest = credentials.user.replace("=", "=3D").replace(",", "=2C"), _SCRAM[mechanism]
    nonce = secrets.token_urlsafe(24)
    bare = f"n={name},r={nonce}"
    first = _decode_challenge(await link.ask(f"AUTH {mechanism} ".encode() + base64.b64encode(f"n,,{bare}".encode())))
    challenge = parse_challenge(first, nonce)
    if challenge is None:
        raise NextHopError("sent a SCRAM challenge that cannot be used")
    final = f"c=biws,r={challenge.nonce}"
    signed = f"{bare},{first},{final}".encode()
    password = credentials.password.encode()
    salted = await asyncio.to_thread(hashlib.pbkdf2_hmac, digest, password, challenge.salt, challenge.iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    last = _decode_challenge(await link.ask(base64.b64encode(f"{final},p={proof}".encode())))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(_decode_base64(last.removeprefix("v=")), expected):
        raise NextHopError("did not prove that it knows the password")
    _check_accepted(await link.ask(b""))


def parse_challenge(first: str, nonce: str) -> Challenge | None:
    """Read the server's first message (RFC 5802 section 7); None if it cannot be used. It has to continue our nonce."""
    theirs = dict(part.split("=", 1) for part in first.split(",") if "=" in part)
    salt, joint = _decode_base64(theirs.get("s", "")), theirs.get("r", "")
    iterations = int(theirs["i"]) if _ITERATIONS.fullmatch(theirs.get("i", "")) else 0
    if not joint.startswith(nonce) or joint == nonce or not salt:
        return None
    return Challenge(joint, salt, iterations) if MIN_ITERATIONS <= iterations <= MAX_ITERATIONS else None


def _check_accepted(reply: SmtpReply) -> None:
    if reply.code != 235:
        raise NextHopError(f"answered {reply.code} to AUTH")


def _decode_challenge(reply: SmtpReply) -> str:
    if reply.code != _CONTINUE:
        raise NextHopError(f"answered {reply.code} to AUTH")
    return _decode_base64(reply.lines[0].decode("ascii", "replace")).decode("utf-8", "replace")


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
