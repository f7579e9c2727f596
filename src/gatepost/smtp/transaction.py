"""One mail transaction (RFC 5321 section 3.3), here and at the next hop at once.

MAIL and RCPT go to the next hop as they come, and its replies are the client's. Nothing is decided here that the next
hop decides: who is a valid recipient, who may send. Without a next hop every recipient is taken, and only `deliver`
fails.

Where there are several routes, MAIL waits for the first recipient, which says whose next hop it is; a sender that this
one refuses is then refused with the recipient. One transaction has one tenant and one route. A next hop that speaks
LMTP gets one recipient in a transaction: it answers for each recipient on its own (RFC 2033 section 4.2), and the
client can be given one answer only.
"""

import asyncio
import hashlib
from collections.abc import Iterable

import msgspec

from gatepost.api.connections import DeadlineTimer
from gatepost.mail.message import Envelope
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp import replies
from gatepost.smtp.client import SmtpClient, Tenancy
from gatepost.smtp.commands import PathCommand, encode_xtext
from gatepost.smtp.hop_answers import Stage, find_queue_id, render_reply
from gatepost.smtp.next_hop import NextHop, NextHopError
from gatepost.smtp.outbound import SendingAccount
from gatepost.smtp.replies import SmtpReply, pass_on
from gatepost.smtp.routing import Relay, Route, Routing
from gatepost.smtp.trace import Arrival
from gatepost.store.message_records import Delivery

Pending = SmtpReply | asyncio.Future[SmtpReply]

KEEP_ALIVE_SECONDS = 60.0
# Parameters of MAIL and RCPT, and the extension that the next hop must have for each.
_NEEDED = {"SIZE": "SIZE", "BODY": "8BITMIME", "SMTPUTF8": "SMTPUTF8"}
_NEEDED |= dict.fromkeys(("RET", "ENVID", "NOTIFY", "ORCPT"), "DSN")


class Transaction:
    """From MAIL to the last reply. `routing` has the routes that the message can take; `body` is what BDAT brought so
    far, `refusal` why a queue's message is to be held; `tenant` is that of all its recipients, `is_report` whether it
    is for a reporting address. An outbound one has the `account` of its sender, and its tenant is the sender's; it may
    leave with another sender (`leaves_as`)."""

    def __init__(
        self,
        mail: PathCommand,
        client: SmtpClient,
        helo: str,
        routing: Routing | None,
        account: SendingAccount | None = None,
        leaves_as: str | None = None,
    ) -> None:
        self._mail, self._client, self._helo = mail, client, helo
        # MAIL as the next hop gets it; records and the analysis have the sender that came.
        self._passed = mail if leaves_as is None else msgspec.structs.replace(mail, address=leaves_as)
        self.routing, self.account = routing, account
        self._route: Route | None = None
        # Routes that did not take the sender: asking again for each recipient would take as long each time.
        self._refusals: dict[Route, SmtpReply] = {}
        self._relay: Relay | None = None
        self._link: NextHop | None = None
        self._timer = DeadlineTimer(self._keep_alive)
        self._sender: Pending = replies.SENDER_OK
        # What the next hop in use has answered to MAIL.
        self._mail_answer: Pending = replies.SENDER_OK
        self._recipients: list[tuple[str, Pending]] = []
        self._tenants: dict[str, str | None] = {}
        self.tenant: str | None = None
        self.is_report = False
        self.body: SpooledBody | None = None
        self.refusal: SmtpReply | None = None
        # Which next hop was sent the message, and what it said; why it said nothing.
        self._sent_to = ""
        self._theirs: SmtpReply | None = None
        self._silence = "no next hop is configured"

    async def begin(self) -> Pending:
        """Handle MAIL: pass it on, if it is known to which next hop."""
        if self.routing is not None and self.routing.only is not None:
            self._sender = await self._open(self.routing.only)
        return self._sender

    def fits(self, tenant: str | None, route: Route | None) -> bool:
        """Whether a further recipient of that tenant and route can be part of the transaction."""
        same = tenant == self.tenant and (self.routing is None or route is self._route)
        return same and not (self._link is not None and self._link.lmtp)

    async def add(self, recipient: PathCommand, route: Route | None, *, is_report: bool = False) -> Pending:
        """Handle RCPT for a recipient who fits, or who is the first that could be accepted; a reporting address is none
        of the next hop's."""
        self.is_report = is_report
        answer = replies.RECIPIENT_OK if is_report else await self._pass_recipient(recipient, route)
        self._recipients.append((recipient.address, answer))
        return answer

    async def _pass_recipient(self, recipient: PathCommand, route: Route | None) -> Pending:
        if self.routing is None:
            return replies.RECIPIENT_OK
        if route is None:
            return replies.NO_NEXT_HOP
        if route is not self._route and (self.routing.only is None or route not in self.routing.routes):
            if route in self._refusals:
                return self._refusals[route]
            said = await wait_for_reply(await self._open(route))
            if not said.positive:
                self._leave()
                self._refusals[route] = said
                return said
        return self._ask(recipient, "RCPT", b"RCPT TO")

    async def _open(self, route: Route) -> Pending:
        """Connect to a next hop of the route, and pass MAIL on."""
        self._leave()
        try:
            self._relay, self._link = await route.borrow()
        except NextHopError:
            return replies.NEXT_HOP_DOWN
        self._route = route
        self._timer.set(asyncio.get_running_loop().time() + KEEP_ALIVE_SECONDS)
        if self._client.xforward and "XFORWARD" in self._link.features:
            self._link.ask(_xforward(self._client.xforward, self._link.features["XFORWARD"]))
        self._mail_answer = answer = self._ask(self._passed, "MAIL", b"MAIL FROM")
        return answer

    def _leave(self) -> None:
        """End the transaction at the next hop, if there is one."""
        link, self._link, self._route = self._link, None, None
        self._timer.stop()
        if link is not None and self._relay is not None:
            self._relay.abandon(link)

    async def find_tenant(self, tenancy: Tenancy, recipient: str) -> str | None:
        """Return the tenant that the message belongs to: that of a recipient's domain, or the one that an outbound
        client was found to send for. Each domain is asked for once. Raises `StorageError`."""
        if self.account is not None:
            return self.account.claim.tenant
        if recipient not in self._tenants:
            self._tenants[recipient] = await tenancy.tenant_of(recipient)
        return self._tenants[recipient]

    @property
    def started(self) -> bool:
        """Whether MAIL was accepted; known only when its reply is there."""
        return _current_reply(self._sender).positive

    @property
    def sender(self) -> str:
        return self._mail.address

    @property
    def accepted(self) -> tuple[str, ...]:
        """The recipients that the next hop takes."""
        return tuple(address for address, answer in self._recipients if _current_reply(answer).positive)

    @property
    def international(self) -> bool:
        """Whether the client announced an international message (RFC 6531)."""
        return "SMTPUTF8" in self._mail.parameters

    @property
    def asked(self) -> int:
        return len(self._recipients)

    @property
    def lost(self) -> bool:
        """Whether the connection to the next hop was lost meanwhile."""
        return self._link is not None and self._link.broken

    def envelope(self, *, logged_in: bool = False) -> Envelope:
        """Return the envelope for the analysis."""
        client = self._client
        return Envelope(
            sender=self._mail.address,
            recipients=self.accepted,
            remote_address=client.remote_address(),
            helo=client.helo(self._helo),
            tenant=self.tenant,
            outbound=self.account is not None,
            may_sign=self.account is not None and self.account.claim.may_sign(self.tenant),
            logged_in=logged_in,
            local=client.local,
        )

    def describe_arrival(self, now: float, *, extended: bool, encrypted: bool) -> Arrival:
        """Return what the Received field says of how the message came (RFC 5321 section 4.4)."""
        accepted = self.accepted
        protocol = "UTF8SMTP" if self.international else "ESMTP" if extended else "SMTP"
        return Arrival(
            helo=self._helo,
            address=self._client.address,
            protocol=protocol + "S" * encrypted,
            recipient=accepted[0] if len(accepted) == 1 else "",
            now=now,
        )

    def _keep_alive(self) -> None:
        """Send NOOP to the next hop while the client or the analysis takes its time, so that it does not close the
        connection."""
        link = self._link
        if link is None or link.broken:
            return
        now = asyncio.get_running_loop().time()
        if link.usable and now - link.last_used >= KEEP_ALIVE_SECONDS:
            link.ask(b"NOOP")
        self._timer.set(now + KEEP_ALIVE_SECONDS)

    async def add_copy(self, mailbox: str, route: Route | None) -> SmtpReply | None:
        """Add a mailbox to the recipients at the next hop, who bounces nothing to the sender for it (RFC 3461 section
        4.1); return the reply, None where the mailbox has another route or must have a transaction of its own."""
        link = self._link
        if link is None or link.lmtp or route is None or route is not self._route:
            return None
        quiet = b" NOTIFY=NEVER" if "DSN" in link.features else b""
        try:
            return pass_on(await link.ask(b"RCPT TO:<" + mailbox.encode("ascii") + b">" + quiet))
        except NextHopError:
            return replies.NEXT_HOP_LOST

    async def deliver(self, pieces: Iterable[bytes]) -> SmtpReply:
        """Send the message on; return the next hop's last reply."""
        if self.routing is None:
            return replies.NO_NEXT_HOP
        link, self._link = self._link, None
        self._timer.stop()
        assert link is not None
        assert self._relay is not None
        assert self._route is not None
        answers = self._route.answers
        self._sent_to, self._silence = self._relay.url, "the client closed the connection before there was a reply"
        link.transactions += 1
        try:
            answer = self._theirs = await link.send_message(pieces)
            answers.count("DATA", answer)
        except NextHopError as fault:
            answers.count("DATA", None)
            self._silence = f"the next hop {fault}"
            return replies.NEXT_HOP_LOST
        finally:
            if not link.usable:
                link.close()
        if answer.positive:
            self._relay.give_back(link)
        else:
            self._relay.abandon(link)
        return pass_on(answer)

    def describe_delivery(self, ggrid: str, time: int) -> Delivery:
        """Return what became of a message that `deliver` was called for."""
        theirs = self._theirs
        if theirs is None:
            return Delivery(ggrid, time, self._sent_to, 0, self._silence)
        return Delivery(ggrid, time, self._sent_to, theirs.code, render_reply(theirs), find_queue_id(theirs))

    def end(self) -> None:
        """End the transaction at the next hop, whether completed or not."""
        if self.account is not None:
            self.account.count_refused(sum(_current_reply(answer).code >= 500 for _, answer in self._recipients))
        self._leave()

    def _ask(self, path: PathCommand, stage: Stage, words: bytes) -> Pending:
        link, route = self._link, self._route
        if link is None or route is None:
            return replies.NEXT_HOP_LOST
        line = words + b":<" + path.address.encode() + b">"
        for name, value in path.parameters.items():
            if _NEEDED[name] in link.features:
                line += f" {name}={value}".encode() if value else f" {name}".encode()
            elif name == "SMTPUTF8":
                return replies.NEXT_HOP_CONFUSED
        promise, sender = link.ask(line), self._mail_answer

        def count(answer: asyncio.Future[SmtpReply]) -> None:
            # A recipient without a sender is refused as out of order, which says nothing about recipients.
            if stage == "MAIL" or _current_reply(sender).positive:
                route.answers.count_promise(stage, answer)

        promise.add_done_callback(count)
        return promise


def digest_message(sha256: str, sender: str, recipients: Iterable[str]) -> str:
    """Return a hash that is the same for the same bytes (by their hash) and envelope."""
    parts = (sha256, sender, *sorted(recipients))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def _current_reply(answer: Pending) -> SmtpReply:
    """Return the reply, if it is there; a promise that failed or is open counts as a failure for now."""
    if isinstance(answer, SmtpReply):
        return answer
    if not answer.done() or answer.cancelled() or answer.exception():
        return replies.NEXT_HOP_LOST
    return answer.result()


async def wait_for_reply(answer: Pending) -> SmtpReply:
    """Wait for a reply, and return it as the client gets it."""
    if isinstance(answer, SmtpReply):
        return answer
    try:
        return pass_on(await answer)
    except NextHopError:
        return replies.NEXT_HOP_LOST


def _xforward(values: dict[str, str | None], names: str) -> bytes:
    known = names.upper().split()
    words = [
        name.encode() + b"=" + (encode_xtext(value) if value else b"[UNAVAILABLE]")
        for name, value in values.items()
        if name in known
    ]
    return b" ".join([b"XFORWARD", *words])
