"""The quarantine: mail that must not go on, until a person decides about it or its retention is over.

The bytes of a small message lie in the database and come into it, with the record that it is held, by the commit that
puts its result on record. The bytes of others are stored first, then the record. A kill in between leaves bytes
without a record, which `Cleanup` deletes later; a record always has its bytes. Deleting goes the other way: first the
record, with the bytes in the database, then those elsewhere.

guard's event loop never parses mail, here neither: what is shown to a person was read in a sealed worker, within the
same limits as an analysis, and comes back as plain text or as a picture drawn anew. A message that breaks its worker
is not shown, and that is a value like any other.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from gatepost.events.sources import describe_held
from gatepost.events.stream import NO_EVENTS, Emits
from gatepost.guard.metrics import QuarantineMetrics
from gatepost.guard.quarantine.raw_store import HeldBytes, RawStore
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.names import normal_address, normal_domain
from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.scanning.held_mail import (
    DANGEROUS_VERDICTS,
    RECIPIENT_VERDICTS,
    Busy,
    Deleted,
    DeleteOrder,
    ExportOrder,
    HeldMailOrder,
    HtmlOrder,
    NotHeld,
    NotSent,
    PictureOrder,
    RecipientReleaseOrder,
    Released,
    ReleaseOrder,
    ReleaseOutcome,
    ViewOrder,
)
from gatepost.scanning.request import ScanRequest, ScanResult, apply_edits
from gatepost.scanning.spool import BytesBody, MessageBody
from gatepost.smtp.client import SenderClaim, Tenancy
from gatepost.smtp.commands import SmtpLimits, is_address
from gatepost.smtp.content import is_sound, normalise_line_ends
from gatepost.smtp.hop_answers import find_queue_id, render_reply
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.replies import ENHANCED_STATUS, SmtpReply
from gatepost.smtp.routing import Routing
from gatepost.smtp.signing import Signer, UnsignedError
from gatepost.smtp.trace import Arrival, build_release_fields, read_header
from gatepost.store.audit import Actor
from gatepost.store.errors import StorageError
from gatepost.store.message_records import Delivery, Holding, MessageRecord, Release, normalize_address
from gatepost.store.quarantine import HeldMessage
from gatepost.store.store import Store
from gatepost.times import DAY
from gatepost.view.values import HtmlView, NotShown, Picture, View
from gatepost.workers.jobs import Job
from gatepost.workers.pool import WorkerPool
from gatepost.workers.protocol import PAGE, PICTURE, VIEW, Purpose

R = TypeVar("R")
T = TypeVar("T")

# RFC 5321 section 4.5.3.2.6 gives the next hop ten minutes to take a message.
SEND_SECONDS = 660.0
LEASE_SECONDS = 720.0
# How long the record of a delivery is tried again; well within the lease.
RECORD_ATTEMPTS = 5
RECORD_SECONDS = 0.2

UPLOADED = NotSent("it was uploaded on the scan page, and such a message is not sent on", forbidden=True)
WRONG_BYTES = NotSent("it holds a NUL byte, which SMTP cannot carry", forbidden=True)
LOOPS = NotSent("it has passed too many servers; it seems to go round in a circle", forbidden=True)
LONG_HEADER = NotSent("its header section is too long", forbidden=True)
ELSEWHERE = NotSent("a recipient is neither one of the message nor in a domain of its tenant", forbidden=True)
NO_NEXT_HOP = NotSent("no next hop is configured (delivery.nextHop)")
NO_KEY = NotSent("the key that signs it cannot be used")
NOT_FOR_RECIPIENTS = NotSent(
    "recipients release spam and bulk mail only; other mail is released on request", forbidden=True
)
DANGEROUS = NotSent("it is malware or phishing, and releasing that is a right of its own", forbidden=True)

log = Logger("gatepost.guard")


class Releaser:
    """Releases messages: each goes to the next hop once, by the routes of other mail of its direction, with the trace
    fields of a delivered one on top. Without a next hop none is released.

        held ──claim, with a lease──▶ releasing ──the next hop said 2yz──▶ released
          ▲                              │
          └──────anything else───────────┘

    The claim is one statement in the database, so of any number of processes one gets it. The lease outlasts the
    longest delivery. A process that dies with a claim leaves `releasing`, and the lease runs out; then the message can
    be released again. If the next hop had taken it just before the death, it gets it twice: between its reply and our
    record there is always a moment (RFC 1047), and it is better to repeat a message than to lose it.

    A message can also be sent to one of its recipients and stay held for the others. It is claimed in the same way, and
    a release to all goes to those who do not have it yet.

    A release is not analysed again, so it must not be a way to send mail of one's own making to strangers. What a
    person uploaded is never released. Other recipients than those of the message must be in the domains of its tenant,
    and a user of a tenant sends nothing to another one, unless the caller may send anywhere.

    `hostname` is the name of this server in trace fields; without `tenancy` no domain belongs to a tenant. `node` is in
    the record of a delivery. The `signer` signs outbound mail.
    """

    def __init__(
        self,
        store: Store,
        raw: HeldBytes,
        routing: Routing | None,
        clock: Callable[[], float],
        hostname: str,
        tenancy: Tenancy | None,
        *,
        node: str = "",
        outbound: Routing | None = None,
        signer: Signer | None = None,
    ) -> None:
        self._node = node
        self._store, self._raw, self._clock = store, raw, clock
        self._inbound, self._outbound, self._signer = routing, outbound or routing, signer
        self._hostname, self._tenancy = hostname, tenancy
        self._under_way: set[asyncio.Task[ReleaseOutcome]] = set()

    async def release(self, mail: HeldMessage, order: ReleaseOrder) -> ReleaseOutcome:
        """Send one message on, to the recipients of the order or to its own."""
        if mail.release:
            return _as_released(mail, mail.release)
        if refusal := await self._refusal(mail.record, order):
            log.warning("message release refused", ggrid=mail.record.ggrid, by=order.by.label, reason=refusal.reason)
            await self._note_failure(mail.record, order.by, refusal)
            return refusal
        ggrid = mail.record.ggrid
        raw = await self._raw.get(ggrid)
        if raw is None:
            return await self._find_outcome(ggrid, NotHeld())
        if self._routing(mail.record) is None:
            await self._note_failure(mail.record, order.by, NO_NEXT_HOP)
            return NO_NEXT_HOP
        return await self._shield(self._claim_and_send(mail, raw, order, order.recipients))

    async def release_to(self, mail: HeldMessage, order: RecipientReleaseOrder) -> ReleaseOutcome:
        """Send one message on to one of its recipients, who may have it already."""
        if mail.release:
            return _as_released(mail, mail.release)
        record, own = mail.record, normalize_address(order.recipient)
        named = tuple(each for each in record.envelope.recipients if normalize_address(each) == own)[:1]
        if not named:
            return NotHeld()
        if before := await self._find_before(mail, own):
            return before
        refusal = await self._refusal(
            record, ReleaseOrder(record.ggrid, order.tenant, by=order.by, recipients=named, dangerous=order.dangerous)
        )
        if order.by.kind == "recipient" and record.report.verdict not in RECIPIENT_VERDICTS:
            refusal = NOT_FOR_RECIPIENTS
        if refusal or self._routing(record) is None:
            await self._note_failure(record, order.by, refusal or NO_NEXT_HOP)
            return refusal or NO_NEXT_HOP
        raw = await self._raw.get(record.ggrid)
        if raw is None:
            return await self._find_outcome(record.ggrid, NotHeld())
        return await self._shield(self._claim_and_send(mail, raw, order, named))

    async def _find_before(self, mail: HeldMessage, own: str) -> Released | None:
        release = (await self._store.quarantine.recipient_releases(mail.record.ggrid)).get(own)
        return _as_released(mail, release) if release else None

    async def _recipients_left(self, record: MessageRecord) -> tuple[str, ...]:
        """Return the recipients who do not have the message yet."""
        having = await self._store.quarantine.recipient_releases(record.ggrid)
        return tuple(each for each in record.envelope.recipients if normalize_address(each) not in having)

    async def _claim_and_send(
        self, mail: HeldMessage, raw: bytes, order: ReleaseOrder | RecipientReleaseOrder, wanted: Sequence[str]
    ) -> ReleaseOutcome:
        ggrid, holder, now = mail.record.ggrid, new_id(), int(self._clock() * 1_000)
        if not await self._store.quarantine.claim(ggrid, holder, now, now + int(LEASE_SECONDS * 1_000)):
            return await self._find_outcome(ggrid, Busy())
        if isinstance(order, RecipientReleaseOrder):
            # Another release may have ended between the look and the claim.
            if before := await self._find_before(mail, normalize_address(order.recipient)):
                await self._store.quarantine.give_back(ggrid, holder)
                return before
        elif not order.recipients:
            wanted = await self._recipients_left(mail.record)
        return await self._send_claimed(mail, holder, raw, order, wanted)

    async def _shield(self, work: Coroutine[Any, Any, ReleaseOutcome]) -> ReleaseOutcome:
        """Let a release go on whoever waits for it: a client that hangs up must not leave a claim behind."""
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _note_failure(self, record: MessageRecord, by: Actor, failure: NotSent) -> None:
        await self._store.audit.note_failed_release(record.ggrid, record.envelope.tenant, by, failure.reason)

    async def finish(self) -> None:
        """Wait for the releases that are under way."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _refusal(self, record: MessageRecord, order: ReleaseOrder) -> NotSent | None:
        """Return why this caller may not send this message to these recipients."""
        if record.is_trial:
            return UPLOADED
        if record.report.verdict in DANGEROUS_VERDICTS and not order.dangerous:
            return DANGEROUS
        if order.anywhere:
            return None
        envelope = record.envelope
        own = set(map(normal_address, envelope.recipients))
        wanted = order.recipients or envelope.recipients
        owners = await self._find_tenants(wanted)
        for recipient in wanted:
            owner = owners.get(normal_domain(recipient.rpartition("@")[2]))
            if normal_address(recipient) not in own:
                if owner is None or owner != envelope.tenant:
                    return ELSEWHERE
            # A client of the scanning API names recipients of several tenants in one message, and one tenant for it.
            elif order.tenant and owner not in (None, order.tenant):
                return ELSEWHERE
        return None

    async def _find_outcome(self, ggrid: str, otherwise: NotHeld | Busy) -> ReleaseOutcome:
        """Return what has become of a message since its record was read, by another process; `otherwise` if it is not
        released."""
        mail = await self._store.quarantine.find(ggrid)
        if mail is None:
            return NotHeld()
        return _as_released(mail, mail.release) if mail.release else otherwise

    async def _send_claimed(
        self,
        mail: HeldMessage,
        holder: str,
        raw: bytes,
        order: ReleaseOrder | RecipientReleaseOrder,
        wanted: Sequence[str],
    ) -> ReleaseOutcome:
        """Send a message that is claimed; the id of the claim is that of the release."""
        ggrid = mail.record.ggrid
        deliveries: list[Delivery] = []
        try:
            content = await asyncio.to_thread(self._with_trace, mail.record, raw, holder, wanted)
            if isinstance(content, NotSent):
                failure: NotSent | None = content
            else:
                failure = await self._send(mail.record, wanted, content, deliveries)
        except BaseException:
            await self._store.quarantine.give_back(ggrid, holder)
            raise
        if failure:
            log.warning("message not released", ggrid=ggrid, reason=failure.reason)
            await self._store.quarantine.give_back(ggrid, holder)
            await self._note_failure(mail.record, order.by, failure)
            if deliveries:
                await self._store.messages.record_deliveries(deliveries)
            return failure
        if isinstance(order, RecipientReleaseOrder):
            mark_one = partial(self._store.quarantine.mark_released_to, ggrid, order.recipient, order.by, holder)
            release, is_last = await self._record(ggrid, mark_one)
            await self._store.messages.record_deliveries(deliveries)
        else:
            mark_all = partial(self._store.quarantine.mark_released, ggrid, wanted, order.by, holder, deliveries)
            release, is_last = await self._record(ggrid, mark_all), True
        # The label of a recipient is an address, which has no place in the log.
        by = "recipient" if order.by.kind == "recipient" else release.by
        log.info("message released", ggrid=ggrid, by=by, count=len(release.recipients))
        if is_last:
            await self._discard(ggrid)
        return _as_released(mail, release)

    def _with_trace(
        self, record: MessageRecord, raw: bytes, release_id: str, recipients: Sequence[str]
    ) -> bytes | NotSent:
        """Return a message as it leaves, like a delivered one: without claims in our name, with our fields on top."""
        whole = normalise_line_ends(raw)
        if not is_sound(whole):
            return WRONG_BYTES
        header = read_header(whole, self._hostname)
        if header.hops > SmtpLimits().hops:
            return LOOPS
        if not header.whole:
            return LONG_HEADER
        envelope = record.envelope
        arrival = Arrival(
            helo=envelope.helo or "",
            address=envelope.remote_address or "",
            protocol="HTTP" if record.source == "rest" else "ESMTP",
            recipient=recipients[0] if len(recipients) == 1 else "",
            now=record.created / 1_000,
        )
        now, outbound = self._clock(), envelope.outbound
        top = build_release_fields(
            record.ggrid, record.report, self._hostname, arrival, release_id, now, outbound=outbound
        )
        return b"".join((top, *apply_edits([whole], header.claims)))

    def _routing(self, record: MessageRecord) -> Routing | None:
        return self._outbound if record.envelope.outbound else self._inbound

    async def _sign(self, record: MessageRecord, content: bytes) -> bytes | NotSent:
        """Return an outbound message with the signatures that it would have left with."""
        if self._signer is None or not record.envelope.outbound:
            return content
        envelope = record.envelope
        claim = SenderClaim(envelope.tenant, bound=None) if envelope.may_sign else None
        try:
            signing = await self._signer.choose(record.report, envelope, claim, changed=False)
        except UnsignedError:
            return NO_KEY
        return await asyncio.to_thread(signing.make_fields, [content]) + content if signing else content

    async def _send(
        self, record: MessageRecord, recipients: Sequence[str], content: bytes, deliveries: list[Delivery]
    ) -> NotSent | None:
        """Send the message; return None if the next hop has taken it. What next hops answer is added to
        `deliveries`."""
        routing, sender = self._routing(record), record.envelope.sender
        assert routing is not None
        signed = await self._sign(record, content)
        if isinstance(signed, NotSent):
            return signed
        if not (recipients and is_address("MAIL", sender) and all(is_address("RCPT", each) for each in recipients)):
            return NotSent("its sender or a recipient is not an address that SMTP can carry")
        try:
            async with asyncio.timeout(SEND_SECONDS):
                tenants = await self._find_tenants(recipients)
                sent = await routing.send(sender, recipients, signed, tenants)
        except TimeoutError:
            return NotSent("the next hop did not answer in time")
        except NextHopError as fault:
            return NotSent(f"the next hop {fault}")
        now = int(self._clock() * 1_000)
        deliveries += [
            Delivery(
                ggrid=record.ggrid,
                time=now,
                next_hop=next_hop,
                code=reply.code,
                reply=render_reply(reply),
                queue_id=find_queue_id(reply),
                node=self._node,
                released=True,
            )
            for next_hop, reply in sent.answers
        ]
        if sent.reply.positive:
            return None
        partly = f"; {len(sent.recipients)} of {len(recipients)} recipients have it already" if sent.recipients else ""
        return NotSent(f"the next hop answered {_describe_reply(sent.reply)}{partly}")

    async def _find_tenants(self, recipients: Sequence[str]) -> dict[str, str | None]:
        """Return the tenants of the recipients' domains."""
        domains = {normal_domain(recipient.rpartition("@")[2]) for recipient in recipients}
        return {domain: await self._tenancy.tenant_of(domain) for domain in domains} if self._tenancy else {}

    async def _record(self, ggrid: str, mark: Callable[[], Awaitable[T]]) -> T:
        """Put a release on record, in several attempts: the next hop has the message, and that must not be
        forgotten."""
        for attempt in range(RECORD_ATTEMPTS - 1):
            try:
                return await mark()
            except StorageError as fault:
                log.error("message release could not be put on record yet", ggrid=ggrid, reason=str(fault))
                await asyncio.sleep(RECORD_SECONDS * 2**attempt)
        return await mark()

    async def _discard(self, ggrid: str) -> None:
        try:
            await self._raw.delete(ggrid)
        except StorageError as fault:
            # They are swept later, like what a kill leaves behind.
            log.warning("bytes of a released message could not be deleted", ggrid=ggrid, reason=str(fault))


def _describe_reply(reply: SmtpReply) -> str:
    """Return the code of a reply with its enhanced status code; its text is not for clients, who may be strangers."""
    status = ENHANCED_STATUS.match(reply.lines[0])
    return f"{reply.code} {status.group().decode().strip()}" if status else str(reply.code)


def _as_released(mail: HeldMessage, release: Release) -> Released:
    return Released(mail.record.ggrid, release.time, release.by, release.recipients)


# How long the sum of all that is held is believed; what was kept here meanwhile is added to it.
SIZE_SECONDS = 60.0


class Quarantine:
    """The held mail that this process can reach, `HoldsMail` and `CarriesOutOrders`. At `max_size` bytes it takes no
    more: the sender tries again. Without a `viewer` it shows no message. `hostname`, `tenancy` and `node` are for
    releases. `core` is the name of this core in records, where others cannot reach the bytes. With `in_database`, the
    bytes of small messages lie in the database, if it keeps any."""

    def __init__(
        self,
        store: Store,
        raw: RawStore,
        routing: Routing | None = None,
        viewer: WorkerPool | None = None,
        *,
        max_size: int | None = None,
        hostname: str = "localhost",
        tenancy: Tenancy | None = None,
        node: str = "",
        metrics: QuarantineMetrics | None = None,
        events: Emits = NO_EVENTS,
        clock: Callable[[], float] = time.time,
        core: str = "",
        outbound: Routing | None = None,
        signer: Signer | None = None,
        in_database: bool = False,
        shows_html: bool = True,
    ) -> None:
        self._shows_html = shows_html
        self._store, self._viewer, self._max_size = store, viewer, max_size
        self._raw = HeldBytes(store.quarantine, raw)
        self._events, self._core = events, core
        self._metrics = metrics or QuarantineMetrics(store.quarantine, max_size)
        self._releaser = Releaser(
            store, self._raw, routing, clock, hostname, tenancy, node=node, outbound=outbound, signer=signer
        )
        self._size = 0
        self._summed: float | None = None
        self._largest_in_database = store.quarantine.largest_content if in_database else 0
        # Bytes that are being written of messages that are not held yet.
        self._begun: dict[str, asyncio.Task[None]] = {}
        self._operations: dict[type, Callable[[Any], Awaitable[Any]]] = {
            ReleaseOrder: self._release,
            RecipientReleaseOrder: self._release,
            ViewOrder: self._view,
            PictureOrder: self._picture,
            HtmlOrder: self._html,
            ExportOrder: self._export,
            DeleteOrder: self._delete,
        }

    def begin(self, ggrid: str, raw: MessageBody) -> Holding | None:
        """Return with what a message is held by the commit of its record. Else begin to write its bytes; a kill before
        it is held leaves bytes that are cleaned up."""
        if self._is_for_database(raw) and self._has_room(raw.size):
            return Holding(self._core, raw.read())
        if ggrid not in self._begun:
            self._begun[ggrid] = asyncio.get_running_loop().create_task(self._put(ggrid, raw))
        return None

    def _is_for_database(self, raw: MessageBody) -> bool:
        return raw.size <= self._largest_in_database

    def _has_room(self, size: int) -> bool:
        """Whether it is known, without a look, that so many bytes can be held."""
        if self._max_size is None:
            return True
        is_known = self._summed is not None and time.monotonic() - self._summed <= SIZE_SECONDS
        return is_known and self._size + size <= self._max_size

    async def forget(self, ggrid: str) -> None:
        """Delete what was written of a message that is not held after all."""
        if (begun := self._begun.pop(ggrid, None)) is not None:
            with contextlib.suppress(StorageError):
                await begun
                await self._raw.delete(ggrid)

    async def _put(self, ggrid: str, raw: MessageBody) -> None:
        await self._check_size(raw.size)
        if not self._is_for_database(raw):
            await self._raw.put(ggrid, raw)

    @property
    def failures(self) -> int:
        return self._metrics.failures

    async def keep(self, request: ScanRequest, result: ScanResult, raw: MessageBody) -> None:
        """Hold a message; durable when it returns. The same one again changes nothing."""
        try:
            await self._keep(request, result, raw)
        except StorageError:
            self._metrics.count("failures")
            raise

    async def _keep(self, request: ScanRequest, result: ScanResult, raw: MessageBody) -> None:
        if not result.is_held:
            begun = self._begun.pop(request.ggrid, None)
            await (self._put(request.ggrid, raw) if begun is None else begun)
        record = MessageRecord(
            ggrid=result.ggrid,
            created=result.created,
            completed=result.completed,
            envelope=request.envelope,
            size=raw.size,
            sha256=raw.sha256,
            report=result.report,
            source=request.source,
            receipt=result.receipt,
        )
        content = raw.read() if self._is_for_database(raw) else None
        if result.is_held or await self._store.quarantine.hold(record, self._core, content):
            self._size += raw.size
            self._metrics.count("kept")
            self._events.emit(describe_held, record)
            log.info("message held", ggrid=result.ggrid, verdict=result.report.verdict, size=raw.size)

    async def take_back(self, ggrid: str) -> None:
        """Hold a message no longer that its sender was told to send again; where that fails, it stays."""
        try:
            if await self._store.quarantine.delete(ggrid, None):
                await self._raw.delete(ggrid)
        except StorageError as fault:
            log.warning("a message that comes again stays held", ggrid=ggrid, reason=str(fault))

    async def undecided_before(self, digest: str) -> int:
        """Return how often this digest was undecided in the last 24 hours before this time, which is recorded."""
        return await self._store.quarantine.undecided_before(digest)

    async def one(self, ggrid: str, tenant: str | None = None) -> HeldMessage | None:
        """Return a message that is held or was released, of that tenant if one is named."""
        return await self._store.quarantine.find(ggrid, tenant)

    async def raw(self, ggrid: str, tenant: str | None = None) -> bytes | None:
        mail = await self._store.quarantine.find(ggrid, tenant)
        return await self._raw.get(mail.record.ggrid) if mail and mail.state != "released" else None

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld:
        """Release, view, export or delete a message, as the order says; `NotHeld` if its bytes are not here."""
        return cast("R | NotHeld", await self._operations[type(order)](order))

    async def delete(self, order: DeleteOrder) -> bool:
        """Delete a message, also one whose bytes are not here; False where there is none, or it is being released. The
        bytes of one that can be restored stay."""
        if not await self._store.quarantine.delete(order.ggrid, order.by, order.tenant, for_good=order.for_good):
            return False
        self._metrics.count("deleted")
        if order.for_good:
            await self._raw.delete(order.ggrid)
        return True

    async def _release(self, order: ReleaseOrder | RecipientReleaseOrder) -> ReleaseOutcome:
        mail = await self._store.quarantine.find(order.ggrid, order.tenant)
        if mail is None:
            return NotHeld()
        if isinstance(order, ReleaseOrder):
            outcome = await self._releaser.release(mail, order)
        else:
            outcome = await self._releaser.release_to(mail, order)
        if isinstance(outcome, NotSent) and not outcome.forbidden:
            self._metrics.count("release_failures")
        elif isinstance(outcome, Released) and mail.release is None:
            self._metrics.count("released")
        return outcome

    async def _view(self, order: ViewOrder) -> View | NotShown | NotHeld:
        view = await self._show(order, VIEW)
        return view if self._shows_html or not isinstance(view, View) else msgspec.structs.replace(view, pages=0)

    async def _picture(self, order: PictureOrder) -> Picture | NotShown | NotHeld:
        return await self._show(order, PICTURE, order.index)

    async def _html(self, order: HtmlOrder) -> HtmlView | NotShown | NotHeld:
        if not self._shows_html:
            return NotShown("quarantine.htmlView is off")
        return await self._show(order, PAGE)

    async def _show(self, order: HeldMailOrder[Any], purpose: Purpose[T], index: int = 0) -> T | NotShown | NotHeld:
        """Have a message read in a worker, to be shown. It takes no slot: mail on its way goes first."""
        raw = await self.raw(order.ggrid, order.tenant)
        if raw is None:
            return NotHeld()
        if self._viewer is None:
            return NotShown("there is no worker to read it")
        return await self._viewer.show(Job(purpose, order.ggrid, Envelope(), BytesBody(raw), time.time(), index=index))

    async def _export(self, order: ExportOrder) -> bytes | NotHeld:
        mail = await self._store.quarantine.find(order.ggrid, order.tenant)
        raw = await self.raw(order.ggrid, order.tenant)
        if mail is None or raw is None:
            return NotHeld()
        if order.is_reading:
            await self._store.audit.note_view(mail.record.ggrid, mail.record.envelope.tenant, order.by)
        elif not order.for_learning:
            await self._store.audit.note_export(mail.record.ggrid, mail.record.envelope.tenant, order.by)
        return raw

    async def _delete(self, order: DeleteOrder) -> Deleted | Busy | NotHeld:
        """Without its record, bytes that lie at another core would stay behind: so only the core that has the bytes
        deletes."""
        if await self.raw(order.ggrid, order.tenant) is None:
            return NotHeld()
        if await self.delete(order):
            return Deleted()
        mail = await self.one(order.ggrid, order.tenant)
        return Busy() if mail and mail.state == "releasing" else NotHeld()

    async def finish(self) -> None:
        """Wait for the releases that are under way."""
        await self._releaser.finish()

    async def _check_size(self, size: int) -> None:
        if self._max_size is None:
            return
        now = time.monotonic()
        if self._summed is None or now - self._summed > SIZE_SECONDS or self._size + size > self._max_size:
            (_, self._size), self._summed = await self._store.quarantine.totals(), now
        if self._size + size > self._max_size:
            log.error("the quarantine is full", bytes=self._size, maximum=self._max_size)
            raise StorageError(f"The quarantine holds {self._size:,} bytes; quarantine.maxSize is {self._max_size:,}.")


PURGE_SECONDS = 3_600.0
# Far longer than it takes to write a record, with every retry.
ORPHAN_SECONDS = 3_600.0


class Cleanup:
    """Deletes what is older than the retention, in days, and bytes that no record knows, from `start` to `stop`.
    Deletions that can be taken back become final after `deleted_retention` days.

    Bytes without a record are what a kill left behind, or belong to a message that was released or deleted. Young ones
    are left alone, for their record may be on its way.
    """

    def __init__(
        self,
        store: Store,
        raw: RawStore,
        retention: int,
        clock: Callable[[], float] = time.time,
        metrics: QuarantineMetrics | None = None,
        deleted_retention: int = 0,
    ) -> None:
        self._store, self._raw, self._retention, self._clock = store, raw, retention, clock
        self._deleted_retention = deleted_retention
        self._metrics = metrics or QuarantineMetrics(store.quarantine, None)
        failed = "the quarantine could not be cleaned up"
        self._periodic = PeriodicWork(self._purge_and_sweep, PURGE_SECONDS, failed, log)

    def start(self) -> None:
        """Clean up now and every hour."""
        self._periodic.start()

    async def stop(self) -> None:
        """Stop; what is left undone is done after the next start."""
        await self._periodic.stop()

    async def purge(self) -> int:
        """Delete what was held for longer than the retention of its tenant or, without one, of the configuration;
        return how many."""
        moment = int(self._clock() * 1_000)
        limits = await self._store.tenants.retention_limits("quarantine", moment)
        purged = await self._store.quarantine.purge(moment - self._retention * DAY, limits)
        await self._store.quarantine.purge_deleted(moment - self._deleted_retention * DAY)
        self._metrics.count("expired", purged)
        return purged

    async def sweep(self, age: float = ORPHAN_SECONDS) -> int:
        """Delete bytes of that age whose record is gone or never came; return how many."""
        swept = 0
        async for ggrids in self._raw.older_than(age):
            for ggrid in set(ggrids) - await self._store.quarantine.needed_among(ggrids):
                await self._raw.delete(ggrid)
                swept += 1
        return swept

    async def _purge_and_sweep(self) -> None:
        purged, swept = await self.purge(), await self.sweep()
        if purged or swept:
            log.info("quarantine cleaned up", purged=purged, swept=swept)
