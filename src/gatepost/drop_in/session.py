"""One connection of a client that takes Gatepost for spamd or rspamd: a request, a message, an answer, and the end.

The client keeps the message. Nothing is held here, whatever the decision is: the result goes on record, and the client
does with the message what its own settings say. Whatever goes wrong is said in the words of the protocol as a failure
for now, so that the client comes again or delivers unscanned, as it was set up.
"""

import time
from collections.abc import Iterable

import gatepost
from gatepost.drop_in.protocols import Rspamd, Spamd
from gatepost.drop_in.requests import Answered, Asked, Received, Refusal, find_envelope, read_head, receive
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.names import normal_domain
from gatepost.process.logs import Logger
from gatepost.scanning.held_mail import ignore_report
from gatepost.scanning.request import Full, ScanRequest, is_queue_id
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp import replies
from gatepost.smtp.connection import ConnectionGoneError, ConnectionTimeoutError
from gatepost.smtp.intake import AskerPart, AskerSession, read_path, read_recipient
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.services import SessionPlace
from gatepost.store.errors import StorageError

# How long a client may take for its line and fields, and to read its answer.
HEAD_SECONDS = 30.0

log = Logger("gatepost.guard")

LATER = Refusal("later", "no verdict could be reached now; try again later")


class DropInPart(AskerPart, frozen=True, eq=False, kw_only=True):
    """What a source uses; `tenant` is that of mail whose recipients tell none."""

    protocol: Spamd | Rspamd
    tenant: str | None = None


class DropInSession(AskerSession[DropInPart]):
    """The conversation with one client. It is never `deciding`: a client that ends its half of the connection behind
    the message still reads its answer, and has not hung up. `is_asked` once a whole request for a verdict is known."""

    is_asked = False

    async def run(self) -> None:
        try:
            await self._serve()
        except (ConnectionGoneError, ConnectionTimeoutError):
            pass
        except Exception as fault:
            # The client never sees what broke; the log does.
            log.error("drop-in session broke", protocol=self._part.protocol.name, reference=new_id(), exc_info=fault)
            self._connection.write(self._part.protocol.refuse(LATER))
        finally:
            self._connection.close()

    def stop(self, *, patient: bool) -> None:
        """The service stops: a session without a message ends now, another one after its answer."""
        if not self.is_asked and not patient:
            self._connection.close()

    async def _serve(self) -> None:
        head = await read_head(self._connection, HEAD_SECONDS)
        part = self._part
        protocol, services = part.protocol, part.services
        asked = head if isinstance(head, Refusal) else protocol.read(head)
        if isinstance(asked, bytes):
            self._connection.write(asked)
            return
        if isinstance(asked, Refusal):
            self._refuse(asked)
            return
        self.is_asked = True
        body, place = services.spool.new(), SessionPlace()
        try:
            answer = await self._judge(asked, body, place)
            if isinstance(answer, Refusal):
                self._refuse(answer, asked)
            else:
                await self._answer(answer)
        finally:
            place.leave()
            services.space.close(body)

    def _refuse(self, refusal: Refusal, asked: Asked | None = None) -> None:
        self._part.services.answers[refusal.why.replace(" ", "_")] += 1
        protocol = self._part.protocol
        log.info("drop-in request refused", protocol=protocol.name, client=self._peer, reason=refusal.text)
        self._connection.write(protocol.refuse(refusal, asked))

    async def _judge(self, asked: Asked, body: SpooledBody, place: SessionPlace) -> Answered | Refusal:
        """Take the message and have it analysed."""
        services = self._part.services
        services.attempts += 1
        try:
            body.tenant = await self._find_tenant(asked.recipients[: services.limits.recipients])
            received = await receive(self._connection, asked, body, services)
            if isinstance(received, Refusal):
                return received
            envelope = await self._build_envelope(asked, received)
            if isinstance(envelope, Refusal):
                return envelope
            if shortage := await place.take(services, envelope.tenant):
                return self._put_off(shortage)
            request = ScanRequest(
                ggrid=new_id(),
                created=int(time.time() * 1_000),
                envelope=envelope,
                source=asked.source,
                client=asked.address or "",
                queue_id=asked.queue_id if is_queue_id(asked.queue_id) else "",
                guesses=not asked.recipients,
            )
            result = await services.guard.scan(request, body, ignore_report)
        except StorageError as fault:
            log.error("message left with its sender", reason=str(fault))
            return self._put_off(replies.TRY_LATER)
        if isinstance(result, Full):
            return self._put_off(replies.FULL)
        return Answered(asked, result, received, services.hostname, gatepost.__version__)

    def _put_off(self, why: SmtpReply) -> Refusal:
        """Have the client come again, for a reason of ours that SMTP would say with this reply."""
        self._part.services.count_deferral((why,), counted=False)
        return LATER

    async def _build_envelope(self, asked: Asked, received: Received) -> Envelope | Refusal:
        services = self._part.services
        told, stated = asked.sender, asked.recipients
        if told is None:
            told, written = find_envelope(received)
            stated = stated or written
        if len(stated) > services.limits.recipients:
            return Refusal("later", f"a message may have {services.limits.recipients} recipients")
        found = (read_recipient(each.encode(), services.limits) for each in stated)
        sender, recipients = read_path(told.encode(), services.limits), tuple(filter(None, found))
        if sender is None or len(recipients) < len(stated):
            return Refusal("malformed", "an address of the envelope that is too long, or reads in two ways")
        tenant = await self._find_tenant(recipients)
        return Envelope(sender, recipients, asked.address, asked.helo, tenant, logged_in=asked.logged_in)

    async def _find_tenant(self, recipients: Iterable[str]) -> str | None:
        """Return the tenant of a message. There is one verdict for all recipients: where they are of several tenants,
        it is by the rules of none. Raises `StorageError`."""
        domains = dict.fromkeys(normal_domain(each.rpartition("@")[2]) for each in recipients if "@" in each)
        tenants = {await self._part.services.tenancy.tenant_of(domain) for domain in domains}
        return None if len(tenants) > 1 else next(iter(tenants), None) or self._part.tenant

    async def _answer(self, answered: Answered) -> None:
        part, report = self._part, answered.result.report
        part.services.answers[report.decision] += 1
        for piece in part.protocol.answer(answered):
            self._connection.write(piece)
            await self._connection.drain(HEAD_SECONDS)
        log.info("message answered", ggrid=answered.result.ggrid, answer=report.decision, client=self._peer)


def build_protocol(name: str, held_as: str) -> Spamd | Rspamd:
    return Rspamd("reject" if held_as == "reject" else "add header") if name == "rspamd" else Spamd()
