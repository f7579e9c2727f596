"""One connection of a mail server: it shows the messages of an SMTP session, or of several, and gets an answer to each.

The mail server keeps every message. A message that goes on is accepted with changed fields. One that is held lies in
the quarantine, on disk, before the mail server is told to discard it; so a kill at any moment leaves it with one of the
two. Everything that goes wrong is a temporary failure: the sender still has the message and comes again.

A connection outlives a change of settings: each message is handled by the settings that hold when it begins.

A mail server shows a message to a filter in pieces: its envelope, its fields one by one, its body. They are put
together to the raw message again. Mail servers give the lines of a folded field with LF alone; here they end with CRLF,
as they did on the wire. The body comes as it is. Fields that claim to be ours are noted by their number among those of
their name, which is how a mail server is told to remove them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from gatepost.ids import new_id
from gatepost.logs import Logger
from gatepost.mail.message import Envelope
from gatepost.milter import protocol
from gatepost.milter.protocol import (
    Action,
    Command,
    Frame,
    FrameError,
    FrameReader,
    Options,
    Step,
    pack_insertion,
    pack_removal,
)
from gatepost.names import normal_domain
from gatepost.periodic import PeriodicWork
from gatepost.scanning.held_mail import HoldsMail
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import MessageBody
from gatepost.smtp import replies
from gatepost.smtp.client import Networks, SmtpClient, identify_client, parse_address
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.connection import Connection, ConnectionGoneError, ConnectionTimeoutError
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.reporting import ReportAddress
from gatepost.smtp.services import MessageHandler, Services
from gatepost.smtp.trace import AUTHENTICATION, MAX_FIELDS, MAX_HEADER, PREFIX, build_result_fields, is_claim
from gatepost.smtp.transaction import digest_message
from gatepost.store.errors import StorageError


def read_path(text: bytes, limits: SmtpLimits) -> str | None:
    """Return the address of MAIL or RCPT as the SMTP client wrote it, without brackets and source route; None for one
    that no analysis could use. What makes an address valid has been decided by the mail server."""
    path = text.strip(b" \t")
    if path.startswith(b"<") and path.endswith(b">"):
        path = path[1:-1]
    if path.startswith(b"@") and b":" in path:
        path = path.partition(b":")[2]
    try:
        address = path.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return address if len(path) <= limits.path and address.isprintable() else None


class MilterMessage:
    """From MAIL to the answer. `refusal` is the reply to a message that is refused whatever is in it; `claims` are the
    fields to remove. `tenant` is that of all recipients, `report` the reporting address that the message is for."""

    def __init__(self, sender: str, client: SmtpClient, helo: str, services: Services) -> None:
        self._sender, self._client, self._helo, self._services = sender, client, helo, services
        self._recipients: list[str] = []
        self._fields = self._results = 0
        # How often each name came that fields of ours have; only as many as a header may have fields.
        self._numbers: dict[bytes, int] = {}
        self.claims: list[tuple[bytes, int]] = []
        self.body = services.spool.new()
        self.tenants: dict[str, str | None] = {}
        self.tenant: str | None = None
        self.report: ReportAddress | None = None
        self.refusal: SmtpReply | None = None

    @property
    def recipients(self) -> int:
        """How many recipients it has."""
        return len(self._recipients)

    def fits(self, tenant: str | None, report: ReportAddress | None) -> bool:
        """Whether a recipient of that tenant can be added; a reporting address has a message of its own."""
        if not self._recipients:
            return True
        return tenant == self.tenant and report is None and self.report is None

    def add_recipient(self, address: str, tenant: str | None, report: ReportAddress | None) -> None:
        """Add a recipient who fits."""
        self._recipients.append(address)
        self.tenant, self.report = tenant, report

    def add_field(self, name: bytes, value: bytes, *, spaced: bool) -> None:
        """Add the next header field; `spaced` says that the value comes with the space behind the colon."""
        self._fields += 1
        colon = b":" if spaced or not value else b": "
        raw = (name + colon + value).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") + b"\r\n"
        if self._fields > MAX_FIELDS or self.body.size + len(raw) > MAX_HEADER:
            self.refusal = self.refusal or replies.LONG_HEADER
        self._note_claim(name.strip().lower(), raw)
        self.add(raw)

    def _note_claim(self, name: bytes, raw: bytes) -> None:
        if self.refusal or not (name == AUTHENTICATION or name.startswith(PREFIX)):
            return
        self._results += name == AUTHENTICATION
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        if is_claim(name, raw, self._results, self._services.hostname):
            self.claims.append((name, number))

    def add(self, content: bytes) -> None:
        """Add bytes of the body, or of the header as it goes to the analysis. Nothing is kept of what is refused."""
        services = self._services
        if self.refusal is None and self.body.size + len(content) > services.limits.message:
            self.refusal = replies.TOO_LARGE
        if self.refusal is None and not services.space.write(self.body, content):
            self.refusal = replies.NO_ROOM

    def finish(self) -> None:
        """End writing."""
        try:
            self.body.finish()
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
        """Free what it holds."""
        self._services.space.close(self.body)


# How often a mail server is told that the analysis goes on; it waits minutes (Postfix: milter_content_timeout).
PROGRESS_SECONDS = 10.0
# Frames, some microseconds each, after which other sessions have the event loop.
FRAMES_IN_A_TURN = 50
MAX_HELO = 255
_PIECE = 256 << 10

log = Logger("gatepost.guard")


class MilterPart(msgspec.Struct, frozen=True, eq=False):
    """The milter source of one generation. `in_queue` leaves mail that is to be held in the queue of the mail server;
    `allowed` are the hosts, besides this machine, that may connect."""

    services: Services
    quarantine: HoldsMail
    max_connections: int
    allowed: Networks = ()
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

    async def take_back(self, ggrid: str) -> None:
        """Hold it no longer."""
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


class MilterSession:
    """The conversation with one mail server; `current` returns the part that new messages are handled by."""

    def __init__(self, connection: Connection, peer: str, current: Callable[[], MilterPart]) -> None:
        self._connection, self._peer, self._current = connection, peer, current
        self._part = current()
        self._frames = FrameReader()
        self._count = 0
        self._agreed: Options | None = None
        self._client, self._helo = SmtpClient(""), ""
        self._macros: dict[str, str] = {}
        self._message: MilterMessage | None = None
        self._in_header = self._in_body = False
        self._content_ends = 0.0
        self._closing = False
        self._interruptible = True
        self.idle = asyncio.Event()
        self.idle.set()
        self.deciding = False
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

    def has_message_of(self, part: MilterPart) -> bool:
        """Whether a message is under way that this part handles."""
        return self._message is not None and self._part is part

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
            self._connection.write(protocol.TEMPORARY_FAILURE)
        finally:
            self._end()
            self._connection.close()

    def stop(self) -> None:
        """The service stops: a session whose message is not on its way ends now, another one after its answer."""
        self._closing = True
        if self._interruptible:
            self._connection.close()

    def cut_off(self) -> None:
        """End the connection at once, without an answer: the mail server has a failure for now."""
        self._connection.abort()

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
            self._macros |= protocol.parse_macros(frame.data)
            return b""
        handler = self._handlers.get(command)
        answer = await handler(frame) if handler else protocol.CONTINUE
        unanswered = protocol.UNANSWERED.get(command)
        return b"" if unanswered and self._agreed.has(unanswered) else answer

    def _negotiate(self, frame: Frame) -> bytes:
        if self._agreed is not None:
            raise FrameError("a second offer")
        self._agreed = protocol.agree(protocol.parse_options(frame.data), quarantine=self._part.in_queue)
        return protocol.pack_options(self._agreed)

    async def _connect(self, frame: Frame) -> bytes:
        self._end()
        stated = (protocol.parse_connect(frame.data), self._macros.get(protocol.CLIENT_ADDRESS))
        address = next(filter(None, map(parse_address, stated)), "")
        self._client, self._helo = identify_client(address, ()), ""
        return protocol.CONTINUE

    async def _hello(self, frame: Frame) -> bytes:
        self._end()
        name = protocol.parse_texts(frame.data)[0][:MAX_HELO].decode("utf-8", "replace")
        self._helo = "".join(char if char.isprintable() else "?" for char in name)
        return protocol.CONTINUE

    async def _mail(self, frame: Frame) -> bytes:
        # The macros of MAIL come before it, and those of the message before are no longer of use.
        self._end(keep_macros=True)
        part = self._part = self._current()
        services = part.services
        sender = read_path(protocol.parse_texts(frame.data)[0], services.limits)
        if sender is None:
            return _refuse(replies.BAD_SENDER)
        if shortage := services.find_shortage():
            return _refuse(shortage)
        client = self._client
        if self._macros.get(protocol.USER):
            # A user's own machine is no mail server: neither SPF nor lists of hosts have to do with it.
            client = msgspec.structs.replace(client, listed=True)
        self._message = MilterMessage(sender, client, self._helo, services)
        self.idle.clear()
        return protocol.CONTINUE

    async def _rcpt(self, frame: Frame) -> bytes:
        message, services = self._message, self._part.services
        address = read_path(protocol.parse_texts(frame.data)[0], services.limits)
        if message is None or self._in_header or self._in_body:
            raise FrameError("RCPT out of order")
        if not address:
            return _refuse(replies.BAD_RECIPIENT)
        if max(message.recipients, len(message.tenants)) >= services.limits.recipients:
            return _refuse(replies.TOO_MANY_RECIPIENTS)
        domain = normal_domain(address.rpartition("@")[2]) if "@" in address else ""
        try:
            if domain not in message.tenants:
                message.tenants[domain] = await services.tenancy.tenant_of(domain)
        except StorageError:
            return _refuse(replies.TRY_LATER)
        tenant = message.tenants[domain]
        report = services.reports.find(address) if services.reports else None
        if not message.fits(tenant, report):
            return _refuse(replies.SEPARATELY)
        message.add_recipient(address, tenant, report)
        return protocol.CONTINUE

    async def _header(self, frame: Frame) -> bytes:
        message = self._content()
        if self._in_body:
            raise FrameError("a header field behind the header")
        name, value = protocol.parse_field(frame.data)
        message.add_field(name, value, spaced=self._has(Step.LEADING_SPACE))
        return protocol.CONTINUE

    async def _end_of_header(self, _frame: Frame) -> bytes:
        message = self._content()
        if self._in_body:
            raise FrameError("a second end of the header")
        message.add(b"\r\n")
        self._in_header, self._in_body = False, True
        return protocol.CONTINUE

    async def _body(self, frame: Frame) -> bytes:
        message = self._content()
        if not self._in_body:
            raise FrameError("a body before the end of the header")
        message.add(frame.data)
        return protocol.CONTINUE

    async def _end_of_message(self, frame: Frame) -> bytes:
        await self._body(frame)
        message = self._message
        assert message is not None
        self.deciding = True
        try:
            message.finish()
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
            return _name_refusal(message.refusal), _refuse(message.refusal)
        queue_id = self._macros.get(protocol.QUEUE_ID, "")
        request = ScanRequest(
            *(new_id(), int(time.time() * 1_000), message.envelope(), "milter"),
            client=self._client.address,
            queue_id=queue_id,
        )
        leaves_it = part.in_queue and self._has(Action.QUARANTINE)
        outcome = MilterOutcome(request, message.body, part.quarantine, in_queue=leaves_it)
        failed = "the mail server could not be told that the analysis goes on"
        progress = PeriodicWork(self._show_progress, PROGRESS_SECONDS, failed, log, waits_first=True)
        progress.start()
        try:
            if message.report and services.reports:
                answer = await services.reports.take(request, message.body, self._client, message.report)
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
            return "accept", changes + protocol.ACCEPT
        if outcome.left_in_queue:
            reason = f"{outcome.left_in_queue.report.verdict}, reference {outcome.left_in_queue.ggrid}"
            return "quarantine", changes + protocol.pack_quarantine(reason) + protocol.ACCEPT
        if answer.positive:
            return "discard", protocol.DISCARD
        return _name_refusal(answer), _refuse(answer)

    async def _show_progress(self) -> None:
        self._connection.write(protocol.PROGRESS)

    def _has(self, flag: Action | Step) -> bool:
        return self._agreed is not None and self._agreed.has(flag)

    def _end(self, *, keep_macros: bool = False) -> None:
        """Drop the message, whether it was answered or not."""
        message, self._message = self._message, None
        self._in_header = self._in_body = False
        if not keep_macros:
            for name in (protocol.QUEUE_ID, protocol.USER):
                self._macros.pop(name, None)
        if message is not None:
            message.close()
        self.idle.set()


def _name_refusal(answer: SmtpReply) -> str:
    return "reject" if answer.code >= 500 else "tempfail"


def _refuse(answer: SmtpReply) -> bytes:
    return protocol.pack_reply(answer.code, answer.lines[0])
