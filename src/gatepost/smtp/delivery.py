"""The way of one message to the next hop, with the action of its verdict: to its recipients, to another mailbox, and
with the changes that the action makes.

A copy goes first: when it is safe, the message follows, and the reply to that is the client's. So a client that is told
2xx can forget both, and a failure in between costs a second copy and no mail. Where the next hop is the same for both,
the mailbox is one more recipient of the same transaction, and there is no in between.

Redirected and separate copies have the empty sender (RFC 5321 section 4.5.5): what becomes of them is no business of
whoever sent the message, so no bounce can go there.
"""

import asyncio
import time
from collections.abc import Iterator

import msgspec

from gatepost.ids import new_id
from gatepost.logs import Logger
from gatepost.names import normal_domain
from gatepost.scanning.edits import Edit, apply_edits, order_edits
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp import replies
from gatepost.smtp.client import SmtpClient
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.replies import SmtpReply, pass_on
from gatepost.smtp.services import Services
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
from gatepost.smtp.transaction import Transaction

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
        *(new_id(), int(now * 1_000), transaction.envelope(), "smtp", unfit),
        client=how.client.address,
        queue_id=how.client.queue_id(header.queue_id),
        can_act=True,
    )
    if transaction.report and services.reports:
        answer = await services.reports.take(request, body, how.client, transaction.report)
        services.count_reply(answer)
        return answer
    arrival = transaction.describe_arrival(now, extended=how.extended, encrypted=how.encrypted)
    delivery = MessageDelivery(transaction, body, header, arrival, services)
    digest = transaction.digest(body.sha256)
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
        """Keep what the next hop answered."""
        delivery = self._transaction.describe_delivery(ggrid, int(time.time() * 1_000))
        self.sent.update(next_hop=delivery.next_hop, queue_id=delivery.queue_id)
        if self._deliveries is not None:
            self._deliveries.note(delivery)

    async def redirect(self, result: ScanResult, mailbox: str) -> SmtpReply:
        """Send the message to a mailbox instead of its recipients; its envelope stands in its header."""
        return await self._send(result, mailbox, self._describe_envelope())

    async def _copy(self, result: ScanResult, mailbox: str) -> SmtpReply:
        if self._routing is None:
            return replies.NO_NEXT_HOP
        domain = normal_domain(mailbox.rpartition("@")[2])
        route = self._routing.find(domain, await self._tenancy.tenant_of(domain))
        answer = await self._transaction.add_copy(mailbox, route)
        return answer if answer is not None else await self._send(result, mailbox, self._describe_envelope())

    async def _send(self, result: ScanResult, mailbox: str, fields: bytes) -> SmtpReply:
        pieces = await self._prepare(result, fields)
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
            signing = await self._signer.choose(result.report, self._transaction.envelope(), changed=edited.is_changed)
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
        """Yield all of it, signatures first."""
        yield signatures + self.top
        yield from apply_edits(self.body.chunks(PIECE), self.edits)
