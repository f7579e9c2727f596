"""One SMTP session: commands in, replies out, in their order (RFC 5321 section 4).

MAIL and RCPT are answered by the next hop. While more of the client's pipelined commands are waiting (RFC 2920) its
replies are not waited for: they are promises that are kept in order and sent before the session would have to wait for
the client, and before any command whose meaning depends on them.

A whole message is analysed and goes to the next hop with the action of its verdict: to its recipients, to another
mailbox, and with the changes that the action makes. A copy goes first: when it is safe, the message follows, and the
reply to that is the client's. So a client that is told 2xx can forget both, and a failure in between costs a second
copy and no mail. Where the next hop is the same for both, the mailbox is one more recipient of the same transaction,
and there is no in between.

Redirected and separate copies have the empty sender (RFC 5321 section 4.5.5): what becomes of them is no business of
whoever sent the message, so no bounce can go there.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterator

import msgspec

from gatepost.ids import new_id
from gatepost.names import normal_domain
from gatepost.process.logs import Logger
from gatepost.scanning.request import Edit, ScanRequest, ScanResult, apply_edits, order_edits
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp import replies
from gatepost.smtp.client import XCLIENT, XFORWARD, SmtpClient
from gatepost.smtp.commands import (
    Attributes,
    Chunk,
    Command,
    InvalidCommand,
    ParsedCommand,
    PathCommand,
    check_recipient,
    check_sender,
    parse_command,
)
from gatepost.smtp.connection import Connection, ConnectionGoneError, ConnectionTimeoutError, LineError
from gatepost.smtp.content import LineEnds, MessageReceiver
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.outbound import SendingAccount
from gatepost.smtp.replies import SmtpReply, pass_on, reply
from gatepost.smtp.routing import Route
from gatepost.smtp.services import Services, SessionPlace
from gatepost.smtp.signing import UnsignedError
from gatepost.smtp.trace import (
    MAX_HEADER,
    PIECE,
    Arrival,
    Header,
    build_trace_fields,
    format_field,
    mark_subjects,
    read_header,
    sanitise_word,
)
from gatepost.smtp.transaction import Pending, Transaction, digest_message, wait_for_reply
from gatepost.store.errors import StorageError

# RFC 5321 section 4.5.3.2.6 gives the next hop ten minutes to take a message.
SEND_SECONDS = 660.0
# Recipients that a redirected message names.
MAX_NAMED = 20

log = Logger("gatepost.guard")


class Submission(msgspec.Struct, frozen=True):
    """A whole message, whose it is, and how it came: after EHLO, under TLS. With a `refusal` it is held (see
    `Services.holds`)."""

    client: SmtpClient
    body: SpooledBody
    refusal: SmtpReply | None
    extended: bool
    encrypted: bool


async def answer_message(services: Services, transaction: Transaction, how: Submission) -> SmtpReply:
    """Have a message analysed, carry out the decision, and return the reply."""
    body, refusal, account = how.body, how.refusal, transaction.account
    header = read_header(next(body.chunks(MAX_HEADER), b""), services.hostname)
    if header.hops > services.limits.hops:
        refusal = refusal or replies.LOOP
    if not header.whole:
        refusal = refusal or replies.LONG_HEADER
    if refusal and not services.holds(refusal):
        return refusal
    if account is not None:
        account.count_message(len(transaction.accepted))
    now = time.time()
    unfit = refusal.text if refusal else account.excess if account else ""
    request = ScanRequest(
        ggrid=new_id(),
        created=int(now * 1_000),
        envelope=transaction.envelope(logged_in=how.client.logged_in(by_field=header.logged_in)),
        source="smtp",
        unfit=unfit,
        client=how.client.address,
        queue_id=how.client.queue_id(header.queue_id),
        can_act=True,
    )
    if transaction.is_report and services.reports:
        answer = await services.reports.take(request, body)
        services.count_reply(answer)
        return answer
    arrival = transaction.describe_arrival(now, extended=how.extended, encrypted=how.encrypted)
    delivery = MessageDelivery(transaction, body, header, arrival, services)
    digest = digest_message(body.sha256, transaction.sender, transaction.accepted)
    answer = await services.handler.handle(request, body, digest, delivery.deliver, delivery.redirect)
    services.count_reply(answer)
    log.info("message answered", ggrid=request.ggrid, code=answer.code, client=how.client.address, **delivery.sent)
    return answer


class MessageDelivery:
    """One whole message that can be sent on. `sent` says where it went, for the log."""

    def __init__(
        self, transaction: Transaction, body: SpooledBody, header: Header, arrival: Arrival, services: Services
    ) -> None:
        self._transaction, self._body, self._header, self._arrival = transaction, body, header, arrival
        self._hostname, self._tenancy = services.hostname, services.tenancy
        # Mailboxes of actions are the operator's own, so that outbound mail reaches them by the inbound routes.
        self._routing = services.routing or transaction.routing
        self._signer, self._deliveries = services.signer, services.deliveries
        self.sent: dict[str, str] = {}

    async def deliver(self, result: ScanResult) -> SmtpReply:
        """Send the message to its recipients, as its action changes it, and the copy before it where there is one."""
        pieces = await self._prepare(result)
        if pieces is None:
            return replies.TRY_LATER
        action = result.report.action
        if action is not None and action.name == "copy" and not action.failed:
            answer = await self._copy(result, action.to)
            if not answer.positive:
                log.error("copy of a message not taken", ggrid=result.ggrid, code=answer.code)
                return replies.TRY_LATER
        try:
            return await self._transaction.deliver(pieces)
        finally:
            self._note(result.ggrid)

    def _note(self, ggrid: str) -> None:
        delivery = self._transaction.describe_delivery(ggrid, int(time.time() * 1_000))
        self.sent.update(next_hop=delivery.next_hop, queue_id=delivery.queue_id)
        if self._deliveries is not None:
            self._deliveries.note(delivery)

    async def _copy(self, result: ScanResult, mailbox: str) -> SmtpReply:
        if self._routing is None:
            return replies.NO_NEXT_HOP
        domain = normal_domain(mailbox.rpartition("@")[2])
        route = self._routing.find(domain, await self._tenancy.tenant_of(domain))
        answer = await self._transaction.add_copy(mailbox, route)
        return answer if answer is not None else await self.redirect(result, mailbox)

    async def redirect(self, result: ScanResult, mailbox: str) -> SmtpReply:
        """Send the message to a mailbox instead of its recipients; its envelope stands in its header."""
        pieces = await self._prepare(result, self._describe_envelope())
        if self._routing is None or pieces is None:
            return replies.NO_NEXT_HOP if self._routing is None else replies.TRY_LATER
        content = await asyncio.to_thread(b"".join, pieces)
        domain = normal_domain(mailbox.rpartition("@")[2])
        tenants = {domain: await self._tenancy.tenant_of(domain)}
        try:
            async with asyncio.timeout(SEND_SECONDS):
                return pass_on((await self._routing.send("", (mailbox,), content, tenants)).reply)
        except (NextHopError, TimeoutError):
            return replies.NEXT_HOP_LOST

    async def _prepare(self, result: ScanResult, fields: bytes = b"") -> Iterator[bytes] | None:
        """Return the message as it leaves, with the signatures that it gets; None where it cannot leave for now."""
        edited = self._edit(result, fields)
        if edited is None or self._signer is None:
            return None if edited is None else edited.pieces()
        try:
            envelope, account = self._transaction.envelope(), self._transaction.account
            claim = account.claim if account else None
            signing = await self._signer.choose(result.report, envelope, claim, changed=edited.is_changed)
        except UnsignedError:
            return None
        made = await asyncio.to_thread(signing.make_fields, edited.pieces()) if signing else b""
        return edited.pieces(made)

    def _edit(self, result: ScanResult, fields: bytes) -> "_Edited | None":
        """Return the message without claims in our name, as the action changes it, with our fields on top. None where
        the changes do not fit together."""
        action = result.report.action
        mark = action.mark if action is not None and not action.failed else ""
        marks, subject = mark_subjects(self._header, mark, result.report.subject)
        edits = order_edits((*self._header.claims, *marks, *result.edits), self._body.size)
        if edits is None:
            log.error("changes of a message do not fit together", ggrid=result.ggrid)
            return None
        outbound = self._transaction.account is not None
        top = fields + build_trace_fields(result, self._hostname, self._arrival, outbound=outbound) + subject
        return _Edited(self._body, top, edits, bool(marks or subject or result.edits))

    def _describe_envelope(self) -> bytes:
        """Return fields with sender and recipients of the message, for whoever looks after the mailbox."""
        envelope = self._transaction.envelope()
        named = [f"<{sanitise_word(each)}>" for each in envelope.recipients[:MAX_NAMED]]
        words = [f"{each}," for each in named[:-1]] + named[-1:]
        if len(envelope.recipients) > MAX_NAMED:
            words.append(f"and {len(envelope.recipients) - MAX_NAMED} more")
        sender = format_field("X-Gatepost-Envelope-From", [f"<{sanitise_word(envelope.sender)}>"])
        return sender + format_field("X-Gatepost-Envelope-To", words)


class _Edited(msgspec.Struct, frozen=True):
    """A message as it leaves. It `is_changed` where not only fields of ours were added or taken out."""

    body: SpooledBody
    top: bytes
    edits: tuple[Edit, ...]
    is_changed: bool

    def pieces(self, signatures: bytes = b"") -> Iterator[bytes]:
        yield signatures + self.top
        yield from apply_edits(self.body.chunks(PIECE), self.edits)


# What may be said before TLS where TLS is required (RFC 3207 section 4).
_BEFORE_TLS = frozenset({"EHLO", "HELO", "NOOP", "QUIT", "STARTTLS", "RSET", "HELP"})
_IDLE = frozenset({"NOOP", "RSET", "HELP", "VRFY", "EXPN", "EHLO", "HELO", "XCLIENT", "XFORWARD"})


# In a full port a client has so long for each message, and longer where it sends as fast as it must.
STALL_SECONDS = 60.0
# When the service ends, a client that was heard of since may go on.
STOP_SECONDS = 1.0
# Commands, some twenty microseconds each, after which other sessions have the event loop.
COMMANDS_IN_A_TURN = 50


class Session:
    """The conversation with one client."""

    def __init__(self, connection: Connection, client: SmtpClient, services: Services) -> None:
        self._connection, self._client, self._services = connection, client, services
        self._limits = services.limits
        self._receiver = MessageReceiver(connection, services.limits, services.space, services.holds)
        outbound = services.outbound
        self._outbound = outbound if outbound and outbound.covers(client, connection.local_port) else None
        self._routing = self._outbound.routing if self._outbound else services.routing
        # Replies that are waited for, and replies that are ready to be sent.
        self._pending: deque[Pending] = deque()
        self._due = b""
        self._helo = ""
        self._extended = False
        # What EHLO announced holds for the session: what a next hop turns out not to have is no fault of the client's.
        self._announced: dict[str, str] = {}
        self._transaction: Transaction | None = None
        # A MAIL that was refused: what was pipelined behind it is out of order through no fault of the client's.
        self._mail_refused = self._deferred = False
        self._place, self._lacks_place = SessionPlace(), False
        self._chunk_ends = LineEnds()
        self._commands = self._idle = self._errors = 0
        # A session that is to end has no further message; its client may say so first.
        self._closing = self._stopping = self._is_served = False
        self.interruptible = True
        self.deciding = False
        # Whether a transaction was ever begun.
        self._has_begun = False
        # Since when the client has had no message answered.
        self._since = self._awaited = asyncio.get_running_loop().time()

    @property
    def _waits(self) -> bool:
        """Whether the client has nothing under way: no transaction is open, and its next command is waited for."""
        return self.interruptible and self._transaction is None and not self._connection.has_line

    def rank_to_end(self, *, is_old: bool) -> int | None:
        """How soon the session ends in favour of another client: one whose client was put off or has never begun a
        transaction, one that waits between two, then one that for `STALL_SECONDS` has sent less of a message than it
        must, whatever else it has said: drops of a command, of a message or of a handshake hold a place, too."""
        if not self._closing and (self._lacks_place or (is_old and self._waits)):
            return 1 if self._has_begun and not self._lacks_place else 0
        body, waited = self._transaction and self._transaction.body, asyncio.get_running_loop().time() - self._since
        is_stalled = waited >= STALL_SECONDS and (body.size if body else 0) < waited * self._limits.data_rate
        return 2 if is_old and is_stalled and self._connection.is_awaited and not self._closing else None

    async def run(self) -> None:
        """Serve the client until one side ends the session."""
        try:
            await self._serve()
        except ConnectionGoneError:
            pass
        except ConnectionTimeoutError:
            self._send_last(replies.TIMED_OUT)
        except LineError as fault:
            with contextlib.suppress(ConnectionGoneError):
                await self._flush()
            self._send_last(replies.LINE_TOO_LONG if fault.too_long else replies.BARE_LINE_END)
        except Exception as fault:
            # A client never sees what broke; the log does.
            log.error("SMTP session broke", reference=new_id(), exc_info=fault)
            self._send_last(replies.BROKEN)
        finally:
            self._end_transaction()
            self._connection.close()

    def stop(self, *, patient: bool) -> None:
        """The service stops: a session that waits for its client ends now, one with a message after its reply. A client
        that was heard in the last second, and has sent no message since, can still send one of a patient service."""
        if self._closing:
            return
        self._stopping = True
        is_late = asyncio.get_running_loop().time() - self._awaited >= STOP_SECONDS and self._waits
        if patient and not is_late:
            return
        self._closing = True
        if self.interruptible:
            self._send_last(replies.STOPPING)
            self._connection.close()

    def give_way(self) -> None:
        """End an idle session, because the port is full and another client comes."""
        self._send_last(replies.TOO_MANY_CONNECTIONS)
        self._connection.close()

    async def _serve(self) -> None:
        if not await self._greet():
            return
        while not self._closing:
            if not self._connection.has_line or len(self._pending) >= COMMANDS_IN_A_TURN:
                await self._flush()
            if self._commands % COMMANDS_IN_A_TURN == 0:
                await asyncio.sleep(0)  # reading does not wait where the client has sent thousands of commands at once
            self.interruptible = True
            self._awaited, begun = asyncio.get_running_loop().time(), self._transaction
            line = await self._connection.read_line(self._limits.command_line, self._limits.command_wait)
            self.interruptible = False
            command = parse_command(line, self._limits)
            if self._is_served and not (isinstance(command, Command) and command.verb == "QUIT"):
                break
            if isinstance(command, Command) and command.verb == "DATA":
                await self._settle()  # what is due goes out with the reply to DATA
            elif not isinstance(command, PathCommand):
                await self._flush()
            answer = await self._handle(command)
            if answer is not None:
                self._pending.append(answer)
            self._is_served |= self._stopping and begun is not None and self._transaction is None
            if self._is_exhausted(command):
                await self._flush()
                break
        await self._flush()
        if self._stopping and self._services.stopping:
            self._send_last(replies.STOPPING)

    async def _greet(self) -> bool:
        pause = 0.0 if self._client.known else self._limits.greeting_pause
        if await self._connection.talks_within(pause):
            self._send_last(replies.EARLY_TALKER)
            return False
        self._connection.write(b"220 " + self._services.hostname.encode() + b" ESMTP\r\n")
        return True

    async def _flush(self) -> None:
        await self._settle()
        if self._due:
            self._write(b"")
            await self._connection.drain(self._limits.command_wait)

    async def _settle(self) -> None:
        """Wait for the replies that are pending, and see what the next hop's mean for the transaction."""
        if not self._pending:
            return
        due = [await wait_for_reply(answer) for answer in self._pending]
        self._pending.clear()
        self._deferred = self._services.count_deferral(due, counted=self._deferred)
        self._due += b"".join(each.encode() for each in due)
        transaction = self._transaction
        if transaction is not None and not transaction.started:
            self._end_transaction()
            self._mail_refused = True

    def _write(self, last: bytes) -> None:
        """Send what is due, and this behind it, in one piece."""
        due, self._due = self._due, b""
        self._connection.write(due + last)

    def _is_exhausted(self, command: ParsedCommand) -> bool:
        """Count the command; return whether the client has used up what a session may have."""
        self._commands += 1
        verb = getattr(command, "verb", "")
        if self._commands > self._limits.commands or (verb in _IDLE and self._idle >= self._limits.idle_commands):
            self._pending.append(replies.TOO_MANY_COMMANDS)
            return True
        self._idle = self._idle + 1 if verb in _IDLE else self._idle
        if self._errors >= self._limits.errors:
            self._pending.append(replies.TOO_MANY_ERRORS)
            return True
        return False

    async def _handle(self, command: ParsedCommand) -> Pending | None:
        if isinstance(command, InvalidCommand):
            self._errors += 1
            self._closing |= command.hostile
            return command.reply
        verb, is_clear = getattr(command, "verb", ""), not self._connection.encrypted
        if self._services.tls_required and is_clear and verb not in _BEFORE_TLS:
            if isinstance(command, Chunk):
                await self._receiver.discard(command.size)
            return replies.NEEDS_TLS
        if isinstance(command, PathCommand):
            return await (self._mail(command) if command.verb == "MAIL" else self._rcpt(command))
        if isinstance(command, Chunk):
            return await self._bdat(command)
        if isinstance(command, Attributes):
            return self._handle_attributes(command)
        return await self._handle_command(command)

    async def _handle_command(self, command: Command) -> Pending | None:
        verb = command.verb
        if verb in ("EHLO", "HELO"):
            self._end_transaction()
            self._helo, self._extended = command.argument, verb == "EHLO"
            return SmtpReply(250, await self._extensions()) if self._extended else reply(250, self._services.hostname)
        if verb == "DATA":
            return await self._data()
        if verb == "STARTTLS":
            return await self._start_tls()
        if verb == "RSET":
            self._end_transaction()
            self._client = self._client.after_message()
        elif verb == "QUIT":
            self._closing = True
            return replies.BYE
        simple = {"HELP": replies.HELP, "VRFY": replies.CANNOT_VERIFY, "EXPN": replies.NOT_IMPLEMENTED}
        return simple.get(verb, replies.OK)

    async def _extensions(self) -> tuple[bytes, ...]:
        """Return our extensions; those that concern the message itself only if all next hops have them, too. Without a
        next hop, those that limit no message."""
        services, routing = self._services, self._routing
        theirs = self._announced = await routing.features() if routing else {"8BITMIME": "", "SMTPUTF8": ""}
        lines = [services.hostname, "PIPELINING", f"SIZE {services.size_limit(theirs)}"]
        lines += [name for name in ("8BITMIME", "SMTPUTF8", "DSN") if name in theirs]
        lines += ["ENHANCEDSTATUSCODES", "CHUNKING"]
        if services.tls is not None and not self._connection.encrypted:
            lines.append("STARTTLS")
        if self._client.listed:
            lines += [f"XFORWARD {XFORWARD}", f"XCLIENT {XCLIENT}"]
        return tuple(line.encode() for line in lines)

    async def _start_tls(self) -> SmtpReply | None:
        services = self._services
        if services.tls is None or self._connection.encrypted or not self._extended:
            return replies.OUT_OF_ORDER if self._connection.encrypted or not self._extended else replies.NOT_IMPLEMENTED
        self._end_transaction()
        if not await self._connection.start_tls(services.tls, replies.GO_AHEAD_TLS.encode(), self._limits.handshake):
            raise ConnectionGoneError
        # RFC 3207 section 4.2: the client starts anew and says who it is once more.
        self._helo, self._extended = "", False
        return None

    def _handle_attributes(self, attributes: Attributes) -> SmtpReply:
        if not self._client.listed:
            self._errors += 1
            return replies.NOT_ALLOWED
        if self._transaction is not None or (attributes.verb == "XFORWARD" and not self._helo):
            return replies.OUT_OF_ORDER
        client = self._client.with_attributes(attributes)
        if client is None:
            self._errors += 1
            return replies.SYNTAX
        self._client = client
        if attributes.verb == "XFORWARD":
            return replies.OK
        self._helo, self._extended = "", False
        return reply(220, f"{self._services.hostname} ESMTP")

    async def _mail(self, mail: PathCommand) -> Pending:
        self._mail_refused = self._deferred = False
        if not self._helo or self._transaction is not None:
            self._errors += 1
            return replies.OUT_OF_ORDER
        self._services.attempts += 1
        theirs = self._announced
        refusal = check_sender(mail, theirs, self._services.size_limit(theirs), extended=self._extended)
        account: SendingAccount | None = None
        leaves_as = mail.address
        if refusal is None and self._outbound:
            try:
                tenancy = self._services.tenancy
                account = await self._outbound.open_account(self._client, mail.address, mail.domain, tenancy)
                refusal = account.refuse()
                leaves_as = await self._outbound.rewrite_sender(mail.address, mail.domain, tenancy)
            except StorageError:
                refusal = replies.TRY_LATER
        if refusal is not None:
            self._mail_refused = True
            return refusal
        self._idle = 0
        self._transaction = Transaction(mail, self._client, self._helo, self._routing, account, leaves_as)
        self._has_begun = True
        return await self._transaction.begin()

    async def _rcpt(self, rcpt: PathCommand) -> Pending:
        transaction = self._transaction
        if transaction is None or transaction.body is not None:
            self._errors += not self._mail_refused
            return replies.OUT_OF_ORDER
        may_route, wide = self._client.known or bool(transaction.account), transaction.international
        if refusal := check_recipient(rcpt, self._announced, international=wide, may_route=may_route):
            return refusal
        if transaction.asked >= self._limits.recipients:
            return replies.TOO_MANY_RECIPIENTS
        returned = self._find_forwarded(transaction, rcpt)
        if isinstance(returned, SmtpReply):
            return returned
        rcpt = returned or rcpt
        try:
            tenant = await transaction.find_tenant(self._services.tenancy, rcpt.domain)
        except StorageError:
            return replies.TRY_LATER
        if transaction.account and (refusal := transaction.account.refuse(transaction.asked + 1)):
            return refusal
        reports = None if transaction.account else self._services.reports
        is_report = reports is not None and reports.is_address(rcpt.address)
        if transaction.is_report or (is_report and transaction.asked):
            return replies.SEPARATELY
        routing = self._services.outbound.routing if returned and self._services.outbound else self._routing
        route = routing.find(rcpt.domain, tenant) if routing else None
        fits = await self._fits(transaction, tenant, route)
        if self._transaction is None:  # the next hop refused the sender meanwhile
            return replies.OUT_OF_ORDER
        if not fits:
            return replies.SEPARATELY
        recipients = self._services.recipients
        if recipients and not (is_report or returned or transaction.account):
            refusal = await recipients.check(rcpt.address, rcpt.domain, tenant)
            if refusal is not None:
                return refusal
        self._lacks_place = True
        shortage = await self._place.take(self._services, tenant)
        self._lacks_place = shortage is not None
        return shortage or await transaction.add(rcpt, route, is_report=is_report)

    def _find_forwarded(self, transaction: Transaction, rcpt: PathCommand) -> PathCommand | SmtpReply | None:
        """Return whom a bounce to a rewritten sender is for (SRS), or the reply where it is for nobody; None for all
        other recipients. Only bounces go back: whoever has such an address must not send through it."""
        rewriting = self._services.outbound.rewriting if self._services.outbound else None
        if rewriting is None or transaction.account or rcpt.domain != rewriting.domain:
            return None
        if not rewriting.is_rewritten(rcpt.address):
            return None
        original = None if transaction.sender else rewriting.reverse(rcpt.address)
        return replies.UNKNOWN_RECIPIENT if original is None else msgspec.structs.replace(rcpt, address=original)

    async def _fits(self, transaction: Transaction, tenant: str | None, route: Route | None) -> bool:
        """Whether the transaction can have a recipient of that tenant and route; the first recipient that is accepted
        says which they are."""
        if transaction.asked and transaction.fits(tenant, route):
            return True
        if transaction.asked:
            await self._flush()
        if transaction.accepted:
            return False
        transaction.tenant = tenant
        return True

    def _why_not_ready(self) -> SmtpReply | None:
        """Return the reply if no message can come now."""
        transaction = self._transaction
        if transaction is None:
            self._errors += not self._mail_refused
            return replies.OUT_OF_ORDER
        if not transaction.accepted:
            return replies.NEXT_HOP_LOST if transaction.lost else replies.NO_RECIPIENTS
        return replies.NEXT_HOP_LOST if transaction.lost else None

    async def _data(self) -> SmtpReply:
        if self._connection.buffered:
            # A client that does not wait for the 354 may be driven by an attacker: what follows is no command.
            self._closing = True
            return replies.UNINVITED
        transaction = self._transaction
        if transaction is not None and transaction.body is not None:
            return replies.OUT_OF_ORDER
        if refusal := self._why_not_ready():
            return refusal
        assert transaction is not None
        self._write(replies.SEND_DATA.encode())
        transaction.body = self._services.spool.new(transaction.tenant)
        refusal = await self._receiver.receive_data(transaction.body)
        return await self._finish_message(transaction, refusal)

    async def _bdat(self, chunk: Chunk) -> SmtpReply:
        transaction = self._transaction
        if refusal := self._why_not_ready():
            await self._receiver.discard(chunk.size)
            return refusal
        assert transaction is not None
        if transaction.body is None:
            transaction.body, self._chunk_ends = self._services.spool.new(transaction.tenant), LineEnds()
        refusal = await self._receiver.receive_chunk(transaction.body, chunk, self._chunk_ends, transaction.refusal)
        if not chunk.last and (refusal is None or self._services.holds(refusal)):
            transaction.refusal = refusal
            return reply(250, f"2.0.0 {chunk.size} octets received")
        return await self._finish_message(transaction, refusal)

    async def _finish_message(self, transaction: Transaction, refusal: SmtpReply | None) -> SmtpReply:
        """Answer a message that is whole, or that is refused, and end its transaction."""
        body = transaction.body
        assert body is not None
        try:
            if refusal is None and not body.size:
                refusal = replies.EMPTY
            if refusal is not None and not self._services.holds(refusal):
                return refusal
            try:
                await body.finish()
            except StorageError:
                return replies.NO_ROOM
            self.deciding = True
            how = Submission(self._client, body, refusal, extended=self._extended, encrypted=self._connection.encrypted)
            return await answer_message(self._services, transaction, how)
        finally:
            self.deciding, self._since = False, asyncio.get_running_loop().time()
            self._end_transaction()
            self._client = self._client.after_message()

    def _end_transaction(self) -> None:
        transaction, self._transaction = self._transaction, None
        self._place.leave()
        if transaction is not None:
            if transaction.body is not None:
                self._services.space.close(transaction.body)
            transaction.end()

    def _send_last(self, last: SmtpReply) -> None:
        self._closing = True
        self._write(last.encode())
