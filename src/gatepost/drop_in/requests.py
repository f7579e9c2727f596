"""One request of a client of spamd or rspamd: a line, fields, and a message.

All of them look alike on the wire: `CHECK SPAMC/1.5`, `CHECK RSPAMC/1.3` or `POST /checkv2 HTTP/1.1`, then fields as in
HTTP, an empty line, and the message. A field says how long it is, or that it comes in chunks (RFC 9112 section 7.1,
which Haraka sends), or it ends where the client ends its half of the connection. Everything is bounded: lines, fields,
the message, and how much a compressed one may become.

Clients of spamd say nothing of the envelope. Then sender and recipients are what the last mail server wrote into the
header (Return-Path, RFC 5321 section 4.4; X-Envelope-From and X-Envelope-To, which Exim writes for its filters), the
sender else From; the sending host is found in the Received fields by the analysis. The line `From sender date` of
mailbox files (RFC 4155) is no part of a message, and is kept apart.
"""

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from typing import Literal

import msgspec

from gatepost.api.connections import ArrivalPace
from gatepost.scanning.request import ScanResult
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp.connection import Connection, ConnectionGoneError, LineError
from gatepost.smtp.content import start_pace
from gatepost.smtp.services import Services
from gatepost.store.errors import StorageError

MAX_LINE = 2_048
# A client names each recipient in a field of its own, and a message has up to 1,000.
MAX_FIELDS = 1_200
MAX_HEAD = 640 << 10
PIECE = 256 << 10
# How much of a message is looked at for its sender.
MAX_LOOK = 64 << 10

_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,10})[ \t]*+(?:;.*+)?", re.DOTALL)
_LENGTH = re.compile(r"\d{1,12}", re.ASCII)
_FIELD_NAME = re.compile(rb"[!-9;-~]{1,100}")
_MBOX = re.compile(rb">?From ([^\s]{1,512})[^\n]{0,1000}\n")
_TRACE = re.compile(
    rb"^(?:return-path|envelope-sender|x-envelope-(?:from|sender))[ \t]*+:[ \t]*+<?([^\s<>]{0,512})>?[ \t]*+\r?$",
    re.IGNORECASE | re.MULTILINE,
)
_RECIPIENTS = re.compile(rb"^x-envelope-to[ \t]*+:([^\r\n]{0,9999}+)", re.IGNORECASE | re.MULTILINE)
_FROM = re.compile(rb"^from[ \t]*+:([^\r\n]{0,999}+(?>\r?\n[ \t][^\r\n]{0,999}+){0,9}+)", re.IGNORECASE | re.MULTILINE)
_ADDRESS = re.compile(rb"[^\s<>\",;:()@]{1,256}@[^\s<>\",;:()@]{1,256}")
_HEADER_END = re.compile(rb"\r?\n\r?\n")


class Refusal(msgspec.Struct, frozen=True):
    """Why a request gets no verdict: the request is `malformed`, asks for what is not done here (`unavailable`), has a
    message that is `too large`, or comes at a bad time (`later`)."""

    why: Literal["malformed", "unavailable", "too large", "later"]
    text: str


class Head(msgspec.Struct, frozen=True):
    """What comes before the message; names of fields in lower case."""

    line: str
    fields: tuple[tuple[str, str], ...] = ()

    def all(self, name: str) -> list[str]:
        return [value for each, value in self.fields if each == name]

    def first(self, name: str) -> str:
        """The value of the first field of that name; "" without one."""
        return next((value for each, value in self.fields if each == name), "")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for, in the words of its protocol (`form`), with the envelope as far as it says. A client
    that has authenticated itself is no sending host. `length` is None where the message comes in chunks or ends with
    the connection. One that `is_older` does not read the length of its answer."""

    form: str
    is_older: bool = False
    source: Literal["spamd", "rspamd"]
    length: int | None = None
    is_chunked: bool = False
    is_compressed: bool = False
    sender: str | None = None
    recipients: tuple[str, ...] = ()
    address: str | None = None
    helo: str | None = None
    queue_id: str = ""
    logged_in: bool = False


class Received(msgspec.Struct, frozen=True):
    """A message that came; `mailbox_line` is the line of a mailbox file before it."""

    body: SpooledBody
    mailbox_line: bytes = b""


class Answered(msgspec.Struct, frozen=True):
    """A verdict, and what its answer is made of."""

    asked: Asked
    result: ScanResult
    received: Received
    hostname: str
    version: str


async def read_head(connection: Connection, seconds: float) -> Head | Refusal:
    """Read the line and the fields of a request."""
    fields: list[tuple[str, str]] = []
    ends = asyncio.get_running_loop().time() + seconds
    try:
        line = await connection.read_line(MAX_LINE, seconds)
        size = len(line)
        while text := await connection.read_line(MAX_LINE, _seconds_until(ends)):
            size += len(text)
            name, colon, value = text.partition(b":")
            # White space before a name or a colon is read in several ways (RFC 9112 sections 5.1 and 5.2).
            if not (colon and _FIELD_NAME.fullmatch(name)) or len(fields) >= MAX_FIELDS or size > MAX_HEAD:
                return Refusal("malformed", "a field without a name or a colon, or too many of them")
            fields.append((_decode(name).lower(), _decode(value).strip(" \t")))
    except LineError:
        return Refusal("malformed", "a line that is too long, or does not end with CRLF")
    return Head(_decode(line), tuple(fields))


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def read_length(texts: list[str]) -> int | Refusal | None:
    """Return what the field Content-length says; None where there is none."""
    if not texts:
        return None
    plain = len(texts) == 1 and _LENGTH.fullmatch(texts[0])
    return int(texts[0]) if plain else Refusal("malformed", "a Content-length that is no number, or two of them")


async def receive(connection: Connection, asked: Asked, body: SpooledBody, services: Services) -> Received | Refusal:
    """Read the message behind the fields into a body."""
    mailbox_line = b""
    most = services.limits.message
    inflate = zlib.decompressobj() if asked.is_compressed else None
    if asked.length is not None and asked.length > most:
        return _too_large(most)
    try:
        async for piece in _read_pieces(connection, asked, start_pace(services.limits)):
            content = inflate.decompress(piece, most + 1 - body.size) if inflate else piece
            if body.size + len(content) > most or (inflate and inflate.unconsumed_tail):
                return _too_large(most)
            if not body.size and not mailbox_line and (found := _MBOX.match(content)):
                mailbox_line = found[0]
                content = content[found.end() :]
            if not await services.space.write(body, content):
                return Refusal("later", "there is no room for messages now")
    except _CutOffError as fault:
        return Refusal("malformed", str(fault))
    except zlib.error:
        return Refusal("malformed", "a message that is not compressed as it says")
    if inflate and (not inflate.eof or inflate.unused_data):
        return Refusal("malformed", "a compressed message without an end, or more behind it")
    if asked.length is not None and connection.buffered:
        return Refusal("malformed", "a message that is longer than its Content-length")
    try:
        await body.finish()
    except StorageError:
        return Refusal("later", "there is no room for messages now")
    return Received(body, mailbox_line) if body.size else Refusal("malformed", "an empty message")


class _CutOffError(Exception):
    """A message that does not end as its request said."""


async def _read_pieces(connection: Connection, asked: Asked, pace: ArrivalPace) -> AsyncIterator[bytes]:
    """Yield the message in pieces, without what frames it."""
    if asked.is_chunked:
        async for piece in _read_chunks(connection, pace):
            yield piece
        return
    left = asked.length
    while left is None or left > 0:
        try:
            piece = await connection.read_piece(PIECE if left is None else min(left, PIECE), pace.deadline)
        except ConnectionGoneError:
            if left is None:
                return
            raise _CutOffError("a message that is shorter than its Content-length") from None
        pace.count(len(piece))
        left = None if left is None else left - len(piece)
        yield piece


async def _read_chunks(connection: Connection, pace: ArrivalPace) -> AsyncIterator[bytes]:
    """Yield a message that comes in chunks (RFC 9112 section 7.1). Small ones are put together, so that many of them
    cost no more than a few."""
    held = bytearray()
    try:
        while size := await _read_chunk_size(connection, pace.deadline):
            while size > 0:
                piece = await connection.read_piece(min(size, PIECE), pace.deadline)
                size -= len(piece)
                pace.count(len(piece))
                held += piece
                if len(held) >= PIECE:
                    yield bytes(held)
                    held.clear()
            await connection.read_line(len(b"\r\n"), _seconds_until(pace.deadline))
        trailers = 0
        while await connection.read_line(MAX_LINE, _seconds_until(pace.deadline)):
            trailers += 1
            if trailers > MAX_FIELDS:
                raise _CutOffError("too many fields behind the chunks")
    except (ConnectionGoneError, LineError):
        raise _CutOffError("chunks that do not end as they say") from None
    if held:
        yield bytes(held)


async def _read_chunk_size(connection: Connection, deadline: float) -> int:
    found = _CHUNK.fullmatch(await connection.read_line(MAX_LINE, _seconds_until(deadline)))
    if not found:
        raise _CutOffError("a chunk without its length")
    return int(found[1], 16)


def _seconds_until(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())


def _too_large(most: int) -> Refusal:
    return Refusal("too large", f"the message is larger than {most} bytes")


def find_envelope(received: Received) -> tuple[str, tuple[str, ...]]:
    """Return the envelope that the header tells: the sender, "" for a bounce or where nothing is told, and the
    recipients, as far as they are told."""
    start = received.body.head(MAX_LOOK)
    end = _HEADER_END.search(start)
    header = start[: end.start() + 1] if end else start
    recipients = _RECIPIENTS.search(header)
    found = tuple(map(_read_address, _ADDRESS.findall(recipients[1]))) if recipients else ()
    return _find_sender(header, received.mailbox_line), tuple(filter(None, found))


def _find_sender(header: bytes, mailbox_line: bytes) -> str:
    if found := _TRACE.search(header):
        return _read_address(found[1])
    # Exim writes `From MAILER-DAEMON`, whoever has sent the message.
    mailbox = _MBOX.match(mailbox_line)
    if mailbox and b"@" in mailbox[1]:
        return _read_address(mailbox[1])
    senders = _FROM.search(header)
    addresses = _ADDRESS.findall(senders[1]) if senders else []
    return _read_address(addresses[-1]) if addresses else ""


def _read_address(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return text if text.isprintable() and "\ufffd" not in text else ""
