"""Asking an LDAP server whether an address exists (RFC 4511): bind, one search, and nothing else.

The filter is parsed with the settings (`settings.recipients`), and an address is only ever put into the value of a
comparison. The search asks for no attributes and for one entry: whether there is any is all that counts.

One connection serves many searches at once, told apart by the number of the message (RFC 4511 section 4.1.1.1). What
the server sends is read within `MAX_MESSAGE`, and what is no answer to a question of ours ends the connection. Why no
library: ldap3 had its last release in 2021 and is under the LGPL, bonsai has no wheels for Linux, and three messages of
the protocol are all that is needed.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import msgspec

from gatepost.settings.recipients import LdapFilter, encode_ber

LDAP_PORT, LDAPS_PORT = 389, 636
# Entries come without attributes, so that the name of the entry is all that an answer has.
MAX_MESSAGE = 64 << 10
MAX_PENDING = 200
CLOSE_SECONDS = 1.0
START_TLS = b"1.3.6.1.4.1.1466.20037"
NO_ATTRIBUTES = b"1.1"

_BIND, _SEARCH, _UNBIND, _EXTENDED = 0x60, 0x63, 0x42, 0x77
_BIND_DONE, _ENTRY, _SEARCH_DONE, _REFERENCE, _EXTENDED_DONE = 0x61, 0x64, 0x65, 0x73, 0x78
_SUCCESS, _SIZE_LIMIT = 0, 4
# What an operator can do about results of a search (RFC 4511 appendix A.2).
_RESULTS = {
    1: "operations error: the server wants a bind before a search",
    3: "the search took longer than the time limit",
    8: "stronger authentication required: use TLS",
    10: "a referral to another server",
    11: "the administrative limit of the server was exceeded",
    13: "confidentiality required: use TLS",
    17: "an attribute of the filter is not known",
    18: "the filter cannot be matched",
    32: "the base does not exist",
    34: "the base is no distinguished name",
    48: "this way to authenticate is not allowed",
    49: "invalid credentials",
    50: "insufficient access rights",
    51: "the server is busy",
    52: "the server is unavailable",
    53: "the server is unwilling to perform the search",
}


class LdapError(Exception):
    """Why there is no answer, as the end of a sentence that starts with the server."""


def _encode_number(value: int, tag: int = 0x02) -> bytes:
    return encode_ber(tag, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _split(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each value; raises `ValueError` for what is no BER with one-byte tags."""
    at = 0
    while at < len(content):
        size = _measure(content[at : at + 6])
        if size is None or at + sum(size) > len(content):
            raise ValueError("cut off")
        head, length = size
        yield content[at], content[at + head : at + head + length]
        at += head + length


def _measure(start: bytes) -> tuple[int, int] | None:
    """Return how long the head and the content of a value are, from its first bytes; None if those do not tell yet."""
    if len(start) < 2:
        return None
    if start[0] & 0x1F == 0x1F:
        raise ValueError("a tag of several bytes")
    count = start[1] & 0x7F
    if start[1] < 0x80:
        return 2, count
    if not 1 <= count <= 4:
        raise ValueError("an unusual length")
    return (2 + count, int.from_bytes(start[2 : 2 + count], "big")) if len(start) >= 2 + count else None


class LdapServer(msgspec.Struct, frozen=True):
    """Where a directory is, how it is asked, and what for. `seconds` are for one answer."""

    urls: tuple[str, ...]
    base: str
    filter: LdapFilter
    user: str = ""
    password: str = ""
    start_tls: bool = False
    ca: str | None = None
    verify: bool = True
    seconds: float = 5.0

    def build_context(self) -> ssl.SSLContext:
        """Read the authorities; raises `OSError`."""
        context = ssl.create_default_context(cafile=self.ca)
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


class LdapDirectory:
    """Asks the servers of a directory; the first that answers keeps the connection. It belongs to one event loop."""

    def __init__(self, server: LdapServer) -> None:
        self._server, self._context = server, server.build_context()
        self._link: _Link | None = None
        self._opening = asyncio.Lock()

    async def knows(self, address: str) -> bool:
        """Return whether an entry fits the filter. Raises `LdapError`."""
        local, _, domain = address.rpartition("@")
        wanted = self._server.filter.encode({"address": address, "local": local, "domain": domain})
        try:
            async with asyncio.timeout(self._server.seconds):
                reused = self._link is not None
                link = await self._connect()
                try:
                    return await link.search(self._server, wanted)
                except _LinkLostError:
                    # A connection that lay idle may be gone without a word: one more attempt on a new one.
                    if not reused:
                        raise
                    return await (await self._connect()).search(self._server, wanted)
        except TimeoutError:
            self._drop()
            raise LdapError(f"did not answer within {self._server.seconds:g} s") from None

    async def close(self) -> None:
        """End the connection."""
        if (link := self._link) is not None:
            self._drop()
            await link.wait_closed()

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def _connect(self) -> "_Link":
        async with self._opening:
            if self._link is not None and not self._link.lost:
                return self._link
            faults: list[str] = []
            for url in self._server.urls:
                try:
                    self._link = await self._open(url)
                except (LdapError, OSError) as fault:
                    faults.append(f"{url} {_describe(fault)}")
                else:
                    return self._link
            raise LdapError("; ".join(faults))

    async def _open(self, url: str) -> "_Link":
        parts = urlsplit(url)
        secure, host = parts.scheme == "ldaps", parts.hostname or ""
        port = parts.port or (LDAPS_PORT if secure else LDAP_PORT)
        # Half of the time for each server, so that a second one is tried while the sender waits.
        async with asyncio.timeout(self._server.seconds / max(2, len(self._server.urls))):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=self._context if secure else None, limit=MAX_MESSAGE
            )
            link = _Link(reader, writer)
            try:
                if self._server.start_tls and not secure:
                    await link.start_tls(self._context, host)
                link.begin()
                if self._server.user:
                    await link.bind(self._server.user, self._server.password)
            except BaseException:
                link.close()
                await link.wait_closed()
                raise
        return link


def _describe(fault: Exception) -> str:
    if isinstance(fault, LdapError):
        return str(fault)
    if isinstance(fault, TimeoutError):
        return "did not answer"
    if isinstance(fault, ssl.SSLError):
        return f"could not start TLS: {getattr(fault, 'verify_message', '') or fault.reason or 'handshake failed'}"
    strerror = fault.strerror if isinstance(fault, OSError) else ""
    return f"cannot be reached: {(strerror or str(fault)).lower()}"


class _LinkLostError(LdapError):
    """The connection ended before there was an answer."""


class _Answer:
    """What came for one question so far."""

    __slots__ = ("done", "entries")

    def __init__(self, done: "asyncio.Future[int]") -> None:
        self.done, self.entries = done, 0


class _Link:
    """One connection; `begin` starts to read answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0
        self._pending: dict[int, _Answer] = {}
        self._reading: asyncio.Task[None] | None = None
        self.lost = False

    def begin(self) -> None:
        self._reading = asyncio.create_task(self._read_answers())

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Go over to TLS before anything else is said (RFC 4511 section 4.14)."""
        self._send(1, encode_ber(_EXTENDED, encode_ber(0x80, START_TLS)))
        number, tag, content = parse_message(await self._read_message())
        if (number, tag) != (1, _EXTENDED_DONE) or read_result(content) != _SUCCESS:
            raise LdapError("refuses StartTLS")
        await self._writer.start_tls(context, server_hostname=host)
        self._number = 1

    async def bind(self, user: str, password: str) -> None:
        """Authenticate with a name and a password (RFC 4513 section 5.1.3)."""
        name = encode_ber(0x04, user.encode())
        code, _ = await self._ask(encode_ber(_BIND, _encode_number(3), name, encode_ber(0x80, password.encode())))
        if code != _SUCCESS:
            raise LdapError(f"refuses to bind: {_RESULTS.get(code, f'result {code}')}")

    async def search(self, server: LdapServer, wanted: bytes) -> bool:
        """Return whether there is an entry below the base that the filter fits."""
        limits = (_encode_number(1), _encode_number(max(1, int(server.seconds))))
        request = (
            encode_ber(0x04, server.base.encode()),
            _encode_number(2, 0x0A),  # the whole subtree
            _encode_number(0, 0x0A),  # aliases are not followed
            *limits,
            encode_ber(0x01, b"\xff"),  # types only
            wanted,
            encode_ber(0x30, encode_ber(0x04, NO_ATTRIBUTES)),
        )
        code, entries = await self._ask(encode_ber(_SEARCH, *request))
        if entries and code in (_SUCCESS, _SIZE_LIMIT):
            return True
        if code == _SUCCESS:
            return False
        raise LdapError(f"answered the search with {_RESULTS.get(code, f'result {code}')}")

    def close(self) -> None:
        """Say goodbye and close."""
        if not self.lost:
            with contextlib.suppress(OSError, RuntimeError):
                self._number += 1
                self._send(self._number, bytes((_UNBIND, 0)))
        self._fail("was disconnected")
        if self._reading is not None:
            self._reading.cancel()

    async def wait_closed(self) -> None:
        """Wait until a connection that was closed is gone; after a second, end it without the server's last word."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()
                return
        self._writer.transport.abort()

    async def _ask(self, operation: bytes) -> tuple[int, int]:
        if self.lost:
            raise _LinkLostError("closed the connection")
        if len(self._pending) >= MAX_PENDING:
            raise LdapError("has too many questions open")
        self._number = self._number % 0x7FFFFFFE + 1
        number, answer = self._number, _Answer(asyncio.get_running_loop().create_future())
        self._pending[number] = answer
        try:
            self._send(number, operation)
            return await answer.done, answer.entries
        finally:
            self._pending.pop(number, None)

    def _send(self, number: int, operation: bytes) -> None:
        self._writer.write(encode_ber(0x30, _encode_number(number), operation))

    async def _read_answers(self) -> None:
        reason = "closed the connection"
        try:
            while True:
                self._take(*parse_message(await self._read_message()))
        except ValueError:
            reason = "sent something that is no LDAP"
        except (OSError, asyncio.IncompleteReadError):
            pass
        self._fail(reason)

    async def _read_message(self) -> bytes:
        head = await self._reader.readexactly(2)
        if head[1] > 0x80:
            head += await self._reader.readexactly(min(head[1] & 0x7F, 4))
        size = _measure(head)
        if size is None or head[0] != 0x30 or size[1] > MAX_MESSAGE:
            raise ValueError("no message")
        return await self._reader.readexactly(size[1])

    def _take(self, number: int, tag: int, content: bytes) -> None:
        if number == 0:
            # A notice of disconnection (RFC 4511 section 4.4.1); there is no other unsolicited message.
            raise ConnectionResetError
        answer = self._pending.get(number)
        if answer is None or answer.done.done() or tag == _REFERENCE:
            return  # its question was given up; or a part of the directory that is elsewhere
        if tag == _ENTRY:
            answer.entries += 1
        elif tag in (_SEARCH_DONE, _BIND_DONE, _EXTENDED_DONE):
            answer.done.set_result(read_result(content))
        else:
            raise ValueError("an answer that was not asked for")

    def _fail(self, reason: str) -> None:
        self.lost = True
        for answer in self._pending.values():
            if not answer.done.done():
                answer.done.set_exception(_LinkLostError(reason))
                answer.done.exception()  # its caller may have gone
        self._writer.close()


def parse_message(raw: bytes) -> tuple[int, int, bytes]:
    """Return number, operation and its content of a message without its head; raises `ValueError`."""
    parts: Sequence[tuple[int, bytes]] = list(_split(raw))
    if len(parts) < 2 or parts[0][0] != 0x02 or not 1 <= len(parts[0][1]) <= 4:
        raise ValueError("no message")
    return int.from_bytes(parts[0][1], "big"), parts[1][0], parts[1][1]


def read_result(content: bytes) -> int:
    """Return the code of a result; raises `ValueError`."""
    tag, code = next(_split(content), (0, b""))
    if tag != 0x0A or not 1 <= len(code) <= 4:
        raise ValueError("no result")
    return int.from_bytes(code, "big")
