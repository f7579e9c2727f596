"""One connection of a mail server: it shows the messages of an SMTP session, or of several, and gets an answer to each.

The mail server keeps every message. A message that goes on is accepted with changed fields. One that is held lies in
the quarantine, on disk, before the mail server is told to discard it; so a kill at any moment leaves it with one of the
two. Everything that goes wrong is a temporary failure: the sender still has the message and comes again.

A connection outlives a change of settings: each message is handled by the settings that hold when it begins.

A mail server shows a message to a filter in pieces: its envelope, its fields one by one, its body. They are put
together to the raw message again. Mail servers give the lines of a folded field with LF alone; here they end with CRLF,
as they did on the wire. The body comes as it is. Fields that claim to be ours are noted by their number among those of
their name, which is how a mail server is told to remove them.

The wire format is that of Sendmail's mail filter protocol ("milter"), versions 2 to 6, as Sendmail and Postfix speak
it. No RFC describes it; libmilter of Sendmail 8.18 is the reference. A frame has four bytes of length in network order,
one letter, and data. Texts in the data end with NUL. The mail server sends commands, and expects an answer to each,
unless both sides agreed at the beginning that some have none.

Everything is bounded: the length of a frame, the number of texts that are read of it, and the macros that are kept.
What does not fit is a `FrameError`, after which a connection is closed: the next byte could mean anything.
"""

import asyncio
import enum
import time
from collections.abc import Awaitable, Callable

import msgspec

from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.names import normal_domain
from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.scanning.held_mail import HoldsMail
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import MessageBody
from gatepost.smtp import replies
from gatepost.smtp.client import SmtpClient, identify_client, parse_address
from gatepost.smtp.connection import Connection, ConnectionGoneError, ConnectionTimeoutError
from gatepost.smtp.intake import AskerPart, AskerSession, read_path, read_recipient
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.services import MessageHandler, Services, SessionPlace
from gatepost.smtp.trace import AUTHENTICATION, MAX_FIELDS, MAX_HEADER, PREFIX, build_result_fields, is_claim
from gatepost.smtp.transaction import digest_message
from gatepost.store.errors import StorageError
from gatepost.store.message_records import Holding

MIN_VERSION, MAX_VERSION = 2, 6
# Bodies come in pieces of 64 KiB. A header field is one frame, and Postfix sends up to `header_size_limit` of it.
MAX_FRAME = 1 << 20
MAX_MACRO = 512
# Address and parameters of MAIL and RCPT; what comes behind is not looked at.
MAX_TEXTS = 32
MAX_MACROS = 64

_LENGTH = 4
_OPTIONS = 12

# Macros whose values are used, by the names that both mail servers give them: queue id, authenticated user, client.
QUEUE_ID, USER, CLIENT_ADDRESS = "i", "{auth_authen}", "{client_addr}"
MACROS = frozenset({QUEUE_ID, USER, CLIENT_ADDRESS})


class FrameError(ValueError):
    """Bytes that are no frame, or a frame that makes no sense where it came."""


class Action(enum.IntFlag):
    """What a filter may do to a message (SMFIF_…)."""

    ADD_FIELDS = 0x01
    CHANGE_FIELDS = 0x10
    QUARANTINE = 0x20


class Step(enum.IntFlag):
    """What is left out of the conversation (SMFIP_…). Those of `UNANSWERED` are sent and have no answer."""

    NO_REPLY_HEADER = 0x80
    NO_UNKNOWN = 0x100
    NO_DATA = 0x200
    NO_REPLY_CONNECT = 0x1000
    NO_REPLY_HELO = 0x2000
    NO_REPLY_DATA = 0x10000
    NO_REPLY_UNKNOWN = 0x20000
    NO_REPLY_END_OF_HEADER = 0x40000
    NO_REPLY_BODY = 0x80000
    LEADING_SPACE = 0x100000


class Command(bytes, enum.Enum):
    """The letters of commands (SMFIC_…)."""

    ABORT = b"A"
    BODY = b"B"
    CONNECT = b"C"
    MACRO = b"D"
    END_OF_MESSAGE = b"E"
    HELO = b"H"
    QUIT_NEW_CONNECTION = b"K"
    HEADER = b"L"
    MAIL = b"M"
    END_OF_HEADER = b"N"
    OPTIONS = b"O"
    QUIT = b"Q"
    RCPT = b"R"
    DATA = b"T"
    UNKNOWN = b"U"


UNANSWERED = {
    Command.CONNECT: Step.NO_REPLY_CONNECT,
    Command.HELO: Step.NO_REPLY_HELO,
    Command.DATA: Step.NO_REPLY_DATA,
    Command.UNKNOWN: Step.NO_REPLY_UNKNOWN,
    Command.HEADER: Step.NO_REPLY_HEADER,
    Command.END_OF_HEADER: Step.NO_REPLY_END_OF_HEADER,
    Command.BODY: Step.NO_REPLY_BODY,
}
_COMMANDS = {each.value: each for each in Command}


class Frame(msgspec.Struct, frozen=True):
    """One command of the mail server."""

    command: Command
    data: bytes = b""


class FrameReader:
    """Puts the bytes of a connection together to frames. It keeps at most one frame and the piece that was fed last,
    if `next` is called until it returns None."""

    def __init__(self, most: int = MAX_FRAME) -> None:
        self._most = most
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Frame | None:
        """Return the next frame if it is whole. Raises `FrameError` as soon as its length or its letter is wrong."""
        buffer = self._buffer
        if len(buffer) < _LENGTH:
            return None
        size = int.from_bytes(buffer[:_LENGTH])
        if not 1 <= size <= self._most:
            raise FrameError(f"a frame of {size} bytes")
        if len(buffer) == _LENGTH:
            return None
        command = _COMMANDS.get(bytes(buffer[_LENGTH : _LENGTH + 1]))
        if command is None:
            raise FrameError(f"an unknown command ({buffer[_LENGTH]:#04x})")
        end = _LENGTH + size
        if len(buffer) < end:
            return None
        frame = Frame(command, bytes(buffer[_LENGTH + 1 : end]))
        del buffer[:end]
        return frame


class Options(msgspec.Struct, frozen=True):
    """What one side offers, or both have agreed on."""

    version: int = MAX_VERSION
    actions: int = 0
    steps: int = 0

    def has(self, flag: Action | Step) -> bool:
        """Whether an action is allowed, or a step agreed on."""
        return bool((self.actions if isinstance(flag, Action) else self.steps) & flag)


_NEEDED = Action.ADD_FIELDS | Action.CHANGE_FIELDS
_WANTED_STEPS = Step(sum(UNANSWERED.values())) | Step.NO_UNKNOWN | Step.NO_DATA | Step.LEADING_SPACE


def parse_options(data: bytes) -> Options:
    """Read what the mail server offers (SMFIC_OPTNEG). Raises `FrameError`."""
    if len(data) < _OPTIONS:
        raise FrameError("an offer that is too short")
    return Options(*(int.from_bytes(data[start : start + 4]) for start in range(0, _OPTIONS, 4)))


def agree(offered: Options, *, quarantine: bool) -> Options:
    """Return what is taken of an offer; `quarantine` says that messages are to be held by the mail server if it can.
    Raises `FrameError` where fields that claim to be ours could not be removed."""
    if offered.version < MIN_VERSION:
        raise FrameError(f"version {offered.version} of the protocol")
    if offered.actions & _NEEDED != _NEEDED:
        raise FrameError("a mail server that lets no header fields be added and changed")
    wanted = _NEEDED | (Action.QUARANTINE if quarantine else 0)
    return Options(min(offered.version, MAX_VERSION), offered.actions & wanted, offered.steps & _WANTED_STEPS)


def parse_texts(data: bytes) -> list[bytes]:
    """Return the texts of a frame, as many as are looked at. Raises `FrameError` where the first one does not end."""
    *texts, rest = data.split(b"\0", MAX_TEXTS)
    if not texts or (rest and len(texts) < MAX_TEXTS):
        raise FrameError("a text that does not end")
    return texts


def parse_field(data: bytes) -> tuple[bytes, bytes]:
    """Return name and value of a header field (SMFIC_HEADER). Raises `FrameError`."""
    texts = parse_texts(data)
    if len(texts) != 2 or not texts[0]:
        raise FrameError("a header field that is not a name and a value")
    return texts[0], texts[1]


def parse_macros(data: bytes) -> dict[str, str]:
    """Return the macros (SMFIC_MACRO) that are used here; the first byte is the command that they belong to. What is
    too long or not printable is left out: it would be no queue id, name or address."""
    texts = data[1:].split(b"\0", 2 * MAX_MACROS)[: 2 * MAX_MACROS]
    found = {}
    for name, value in zip(texts[::2], texts[1::2], strict=False):
        key, text = name[:32].decode("latin-1"), value[: MAX_MACRO + 1].decode("utf-8", "replace")
        if key in MACROS and len(text) <= MAX_MACRO and text.isprintable():
            found[key] = text
    return found


def parse_connect(data: bytes) -> str:
    """Return the address of the SMTP client (SMFIC_CONNECT) as it is written, "" if it has none: a family other than
    IPv4 and IPv6. Raises `FrameError`."""
    _name, end, rest = data.partition(b"\0")
    if not end or not rest:
        raise FrameError("a connection without a family of addresses")
    if rest[:1] not in (b"4", b"6"):
        return ""
    return rest[3:].partition(b"\0")[0][:64].decode("ascii", "replace")


def pack(letter: bytes, data: bytes = b"") -> bytes:
    return (len(data) + 1).to_bytes(4) + letter + data


def pack_options(agreed: Options) -> bytes:
    numbers = (agreed.version, agreed.actions, agreed.steps)
    return pack(Command.OPTIONS.value, b"".join(number.to_bytes(4) for number in numbers))


CONTINUE, ACCEPT, DISCARD, TEMPORARY_FAILURE, PROGRESS = (pack(letter) for letter in (b"c", b"a", b"d", b"t", b"p"))


def pack_reply(code: int, text: bytes) -> bytes:
    """Return a refusal with the SMTP reply that the client is to get (SMFIR_REPLYCODE)."""
    return pack(b"y", b"%d " % code + text + b"\0")


def pack_quarantine(reason: str) -> bytes:
    """Return the wish that the mail server holds the message (SMFIR_QUARANTINE)."""
    return pack(b"q", reason.encode("ascii", "replace") + b"\0")


def pack_insertion(name: bytes, value: bytes) -> bytes:
    """Return the insertion of a field above all others (SMFIR_INSHEADER)."""
    return pack(b"i", bytes(4) + name + b"\0" + value + b"\0")


def pack_removal(name: bytes, number: int) -> bytes:
    """Return the removal of a field (SMFIR_CHGHEADER without a value): that with this number, from 1, among those of
    its name."""
    return pack(b"m", number.to_bytes(4) + name + b"\0\0")


class MilterMessage:
    """From MAIL to the answer. `refusal` is the reply to a message that is refused whatever is in it; `claims` are the
    fields to remove. `tenant` is that of all recipients, `is_report` whether it is for a reporting address."""

    def __init__(self, sender: str, client: SmtpClient, helo: str, services: Services, *, logged_in: bool) -> None:
        self._sender, self._client, self._helo, self._services = sender, client, helo, services
        self._logged_in = logged_in
        self._recipients: list[str] = []
        self._fields = self._results = 0
        # How often each name came that fields of ours have; only as many as a header may have fields.
        self._numbers: dict[bytes, int] = {}
        self.claims: list[tuple[bytes, int]] = []
        self.body = services.spool.new()
        self.tenants: dict[str, str | None] = {}
        self.tenant: str | None = None
        self.is_report = False
        self.refusal: SmtpReply | None = None

    @property
    def recipients(self) -> int:
        return len(self._recipients)

    def fits(self, tenant: str | None, *, is_report: bool) -> bool:
        """Whether a recipient of that tenant can be added; a reporting address has a message of its own."""
        if not self._recipients:
            return True
        return tenant == self.tenant and not (is_report or self.is_report)

    def add_recipient(self, address: str, tenant: str | None, *, is_report: bool) -> None:
        self._recipients.append(address)
        self.tenant, self.body.tenant, self.is_report = tenant, tenant, is_report

    async def add_field(self, name: bytes, value: bytes, *, spaced: bool) -> None:
        """Add the next header field; `spaced` says that the value comes with the space behind the colon."""
        self._fields += 1
        colon = b":" if spaced or not value else b": "
        raw = (name + colon + value).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") + b"\r\n"
        if self._fields > MAX_FIELDS or self.body.size + len(raw) > MAX_HEADER:
            self.refusal = self.refusal or replies.LONG_HEADER
        self._note_claim(name.strip().lower(), raw)
        await self.add(raw)

    def _note_claim(self, name: bytes, raw: bytes) -> None:
        if self.refusal or not (name == AUTHENTICATION or name.startswith(PREFIX)):
            return
        self._results += name == AUTHENTICATION
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        if is_claim(name, raw, self._results, self._services.hostname):
            self.claims.append((name, number))

    async def add(self, content: bytes) -> None:
        """Add bytes of the body, or of the header as it goes to the analysis. Nothing is kept of what is refused."""
        services = self._services
        if self.refusal is None and self.body.size + len(content) > services.limits.message:
            self.refusal = replies.TOO_LARGE
        if self.refusal is None and not await services.space.write(self.body, content):
            self.refusal = replies.NO_ROOM

    async def finish(self) -> None:
        try:
            await self.body.finish()
        except StorageError:
            self.refusal = self.refusal or replies.NO_ROOM

    def envelope(self) -> Envelope:
        """Return the envelope for the analysis."""
        return Envelope(
            sender=self._sender,
            recipients=tuple(self._recipients),
            remote_address=self._client.remote_address() or None,
            helo=self._client.helo(self._helo) or None,
            tenant=self.tenant,
            logged_in=self._logged_in,
            local=self._client.here,
        )

    def digest(self) -> str:
        """Return a hash that is the same for the same bytes and envelope."""
        return digest_message(self.body.sha256, self._sender, self._recipients)

    def pack_changes(self, result: ScanResult, *, spaced: bool) -> bytes:
        """Return the changes of a message that goes on: fields that claim to be ours removed, ours put on top."""
        # From the last one on: mail servers differ in whether a field that was removed still counts.
        removed = [pack_removal(name, number) for name, number in reversed(self.claims)]
        added = []
        # Each one goes above those before it.
        for field in reversed(build_result_fields(result.ggrid, result.report, self._services.hostname)):
            name, _, value = field.removesuffix(b"\r\n").replace(b"\r\n", b"\n").partition(b":")
            added.append(pack_insertion(name, value if spaced else value.removeprefix(b" ")))
        return b"".join(removed + added)

    def close(self) -> None:
        self._services.space.close(self.body)


# How often a mail server is told that the analysis goes on; it waits minutes (Postfix: milter_content_timeout).
PROGRESS_SECONDS = 10.0
# Frames, some microseconds each, after which other sessions have the event loop.
FRAMES_IN_A_TURN = 50
MAX_HELO = 255
_PIECE = 256 << 10

log = Logger("gatepost.guard")


class MilterPart(AskerPart, frozen=True, eq=False, kw_only=True):
    """What the milter source uses. `in_queue` leaves mail that is to be held with the mail server."""

    quarantine: HoldsMail
    in_queue: bool = False


class MilterOutcome:
    """What became of one message; the quarantine, for the handler of the message."""

    def __init__(self, request: ScanRequest, body: MessageBody, quarantine: HoldsMail, *, in_queue: bool) -> None:
        self._request, self._body, self._quarantine, self._in_queue = request, body, quarantine, in_queue
        self._is_kept = False
        self.delivered: ScanResult | None = None
        self.left_in_queue: ScanResult | None = None

    async def deliver(self, result: ScanResult) -> SmtpReply:
        """Let the mail server deliver it. It would deliver the message as it came: what is not to be delivered without
        a change is held instead, as it is for the scan API."""
        if result.report.decision == "deliver":
            self.delivered = result
        elif not self._is_kept:
            await self.keep(self._request, result, self._body)
        return replies.OK

    def begin(self, ggrid: str, raw: MessageBody) -> Holding | None:
        """Begin to hold it, where it is held here."""
        return None if self._in_queue else self._quarantine.begin(ggrid, raw)

    async def forget(self, ggrid: str) -> None:
        await self._quarantine.forget(ggrid)

    async def take_back(self, ggrid: str) -> None:
        await self._quarantine.take_back(ggrid)

    async def keep(self, request: ScanRequest, result: ScanResult, raw: MessageBody) -> None:
        """Hold it here, or have the mail server hold it."""
        self._is_kept = True
        if self._in_queue:
            self.left_in_queue = result
        else:
            await self._quarantine.keep(request, result, raw)

    async def undecided_before(self, digest: str) -> int:
        """Return how often it was undecided before."""
        return await self._quarantine.undecided_before(digest)


class MilterSession(AskerSession[MilterPart]):
    """The conversation with one mail server."""

    def __init__(self, connection: Connection, peer: str, part: MilterPart) -> None:
        super().__init__(connection, peer, part)
        self._frames = FrameReader()
        self._count = 0
        self._agreed: Options | None = None
        self._client, self._helo = SmtpClient(""), ""
        self._macros: dict[str, str] = {}
        self._message: MilterMessage | None = None
        self._in_header = self._in_body = False
        self._content_ends = 0.0
        self._is_deferred = False
        self._place = SessionPlace()
        self._closing = False
        self._interruptible = True
        self._handlers: dict[Command, Callable[[Frame], Awaitable[bytes]]] = {
            Command.CONNECT: self._connect,
            Command.HELO: self._hello,
            Command.MAIL: self._mail,
            Command.RCPT: self._rcpt,
            Command.HEADER: self._header,
            Command.END_OF_HEADER: self._end_of_header,
            Command.BODY: self._body,
            Command.END_OF_MESSAGE: self._end_of_message,
        }

    async def run(self) -> None:
        """Serve the mail server until one side ends the connection."""
        try:
            await self._serve()
        except (ConnectionGoneError, ConnectionTimeoutError):
            pass
        except FrameError as fault:
            log.warning("milter connection closed", client=self._peer, reason=f"the mail server sent {fault}")
        except Exception as fault:
            # The mail server never sees what broke; the log does.
            log.error("milter session broke", reference=new_id(), exc_info=fault)
            self._connection.write(TEMPORARY_FAILURE)
        finally:
            self._end()
            self._connection.close()

    def stop(self, *, patient: bool) -> None:
        """The service stops: a session whose message is not on its way ends now, another one after its answer."""
        if patient and self._message is not None:
            return
        self._closing = True
        if self._interruptible:
            self._connection.close()

    async def _serve(self) -> None:
        while not self._closing:
            frame = await self._read()
            answer = await self._handle(frame)
            if answer:
                self._connection.write(answer)
                await self._connection.drain(self._part.services.limits.command_wait)
            self._count += 1
            if self._count % FRAMES_IN_A_TURN == 0:
                await asyncio.sleep(0)  # reading does not wait where thousands of frames came at once
            self._interruptible = True

    async def _read(self) -> Frame:
        limits = self._part.services.limits
        in_content = self._in_header or self._in_body
        self._interruptible = not in_content
        deadline = asyncio.get_running_loop().time() + limits.command_wait
        if in_content:
            deadline = min(deadline, self._content_ends)
        while (frame := self._frames.next()) is None:
            self._frames.feed(await self._connection.read_piece(_PIECE, deadline))
        self._interruptible = False
        return frame

    async def _handle(self, frame: Frame) -> bytes:
        """Return what is answered to a command, in as many frames as it takes. Raises `FrameError`."""
        command = frame.command
        if command is Command.OPTIONS:
            return self._negotiate(frame)
        if self._agreed is None:
            raise FrameError("a command before its offer")
        if command in (Command.ABORT, Command.QUIT_NEW_CONNECTION):
            self._end()
            if command is Command.QUIT_NEW_CONNECTION:
                self._client, self._helo, self._macros = SmtpClient(""), "", {}
            return b""
        if command is Command.QUIT:
            self._closing = True
            return b""
        if command is Command.MACRO:
            self._macros |= parse_macros(frame.data)
            return b""
        handler = self._handlers.get(command)
        answer = await handler(frame) if handler else CONTINUE
        unanswered = UNANSWERED.get(command)
        return b"" if unanswered and self._agreed.has(unanswered) else answer

    def _negotiate(self, frame: Frame) -> bytes:
        if self._agreed is not None:
            raise FrameError("a second offer")
        self._agreed = agree(parse_options(frame.data), quarantine=self._part.in_queue)
        return pack_options(self._agreed)

    async def _connect(self, frame: Frame) -> bytes:
        self._end()
        stated = (parse_connect(frame.data), self._macros.get(CLIENT_ADDRESS))
        address = next(filter(None, map(parse_address, stated)), "")
        self._client, self._helo = identify_client(address, ()), ""
        return CONTINUE

    async def _hello(self, frame: Frame) -> bytes:
        self._end()
        name = parse_texts(frame.data)[0][:MAX_HELO].decode("utf-8", "replace")
        self._helo = "".join(char if char.isprintable() else "?" for char in name)
        return CONTINUE

    async def _mail(self, frame: Frame) -> bytes:
        # The macros of MAIL come before it, and those of the message before are no longer of use.
        self._end(keep_macros=True)
        part = self._part
        services = part.services
        services.attempts += 1
        self._is_deferred = False
        sender = read_path(parse_texts(frame.data)[0], services.limits)
        if sender is None:
            return self._refuse(replies.BAD_SENDER)
        client, is_user = self._client, bool(self._macros.get(USER))
        if is_user:
            # A user's own machine is no mail server: neither SPF nor lists of hosts have to do with it.
            client = msgspec.structs.replace(client, listed=True)
        self._message = MilterMessage(sender, client, self._helo, services, logged_in=is_user)
        return CONTINUE

    async def _rcpt(self, frame: Frame) -> bytes:
        message, services = self._message, self._part.services
        address = read_recipient(parse_texts(frame.data)[0], services.limits)
        if message is None or self._in_header or self._in_body:
            raise FrameError("RCPT out of order")
        if not address:
            return self._refuse(replies.BAD_RECIPIENT)
        if max(message.recipients, len(message.tenants)) >= services.limits.recipients:
            return self._refuse(replies.TOO_MANY_RECIPIENTS)
        domain = normal_domain(address.rpartition("@")[2]) if "@" in address else ""
        try:
            if domain not in message.tenants:
                message.tenants[domain] = await services.tenancy.tenant_of(domain)
        except StorageError:
            return self._refuse(replies.TRY_LATER)
        tenant = message.tenants[domain]
        is_report = services.reports is not None and services.reports.is_address(address)
        if not message.fits(tenant, is_report=is_report):
            return self._refuse(replies.SEPARATELY)
        self.is_put_off = not message.recipients
        if shortage := await self._place.take(services, tenant):
            return self._refuse(shortage)
        self.is_put_off = False
        message.add_recipient(address, tenant, is_report=is_report)
        return CONTINUE

    async def _header(self, frame: Frame) -> bytes:
        message = self._content()
        if self._in_body:
            raise FrameError("a header field behind the header")
        name, value = parse_field(frame.data)
        await message.add_field(name, value, spaced=self._has(Step.LEADING_SPACE))
        return CONTINUE

    async def _end_of_header(self, _frame: Frame) -> bytes:
        message = self._content()
        if self._in_body:
            raise FrameError("a second end of the header")
        await message.add(b"\r\n")
        self._in_header, self._in_body = False, True
        return CONTINUE

    async def _body(self, frame: Frame) -> bytes:
        message = self._content()
        if not self._in_body:
            raise FrameError("a body before the end of the header")
        await message.add(frame.data)
        return CONTINUE

    async def _end_of_message(self, frame: Frame) -> bytes:
        await self._body(frame)
        message = self._message
        assert message is not None
        self.deciding = True
        try:
            await message.finish()
            what, frames = await self._decide(message)
            self._part.services.answers[what] += 1
            return frames
        finally:
            self.deciding = False
            self._end()

    def _content(self) -> MilterMessage:
        """Return the message whose content comes. Raises `FrameError` where none can come."""
        message = self._message
        if message is None or not message.recipients:
            raise FrameError("a message without sender or recipient")
        if not self._in_header and not self._in_body:
            self._in_header = True
            self._content_ends = asyncio.get_running_loop().time() + self._part.services.limits.data_most
        return message

    async def _decide(self, message: MilterMessage) -> tuple[str, bytes]:
        """Have a message analysed; return the name of what is done with it, and the frames of the answer."""
        part, services = self._part, self._part.services
        if message.refusal:
            return _name_refusal(message.refusal), self._refuse(message.refusal)
        queue_id = self._macros.get(QUEUE_ID, "")
        request = ScanRequest(
            ggrid=new_id(),
            created=int(time.time() * 1_000),
            envelope=message.envelope(),
            source="milter",
            client=self._client.address,
            queue_id=queue_id,
        )
        leaves_it = part.in_queue and self._has(Action.QUARANTINE)
        outcome = MilterOutcome(request, message.body, part.quarantine, in_queue=leaves_it)
        failed = "the mail server could not be told that the analysis goes on"
        progress = PeriodicWork(self._show_progress, PROGRESS_SECONDS, failed, log, waits_first=True)
        progress.start()
        try:
            if message.is_report and services.reports:
                answer = await services.reports.take(request, message.body)
            else:
                handler = MessageHandler(services.guard, outcome)
                answer = await handler.handle(request, message.body, message.digest(), outcome.deliver)
        finally:
            progress.cancel()
        what, frames = self._carry_out(message, outcome, answer)
        log.info("message answered", ggrid=request.ggrid, answer=what, client=self._client.address, queue_id=queue_id)
        return what, frames

    def _carry_out(self, message: MilterMessage, outcome: MilterOutcome, answer: SmtpReply) -> tuple[str, bytes]:
        goes_on = outcome.delivered or outcome.left_in_queue
        changes = message.pack_changes(goes_on, spaced=self._has(Step.LEADING_SPACE)) if goes_on else b""
        if outcome.delivered:
            return "accept", changes + ACCEPT
        if outcome.left_in_queue:
            reason = f"{outcome.left_in_queue.report.verdict}, reference {outcome.left_in_queue.ggrid}"
            return "quarantine", changes + pack_quarantine(reason) + ACCEPT
        if answer.positive:
            return "discard", DISCARD
        return _name_refusal(answer), self._refuse(answer)

    async def _show_progress(self) -> None:
        self._connection.write(PROGRESS)

    def _refuse(self, answer: SmtpReply) -> bytes:
        """Return the frame of a refusal; one for a reason of ours puts the message off, which is counted once."""
        self._is_deferred = self._part.services.count_deferral((answer,), counted=self._is_deferred)
        return pack_reply(answer.code, answer.lines[0])

    def _has(self, flag: Action | Step) -> bool:
        return self._agreed is not None and self._agreed.has(flag)

    def _end(self, *, keep_macros: bool = False) -> None:
        """Drop the message, whether it was answered or not."""
        message, self._message = self._message, None
        self._in_header = self._in_body = False
        self._place.leave()
        if not keep_macros:
            for name in (QUEUE_ID, USER):
                self._macros.pop(name, None)
        if message is not None:
            message.close()


def _name_refusal(answer: SmtpReply) -> str:
    return "reject" if answer.code >= 500 else "tempfail"
