"""Messages on record: one with its ledger and its timeline, searches, and complaints about decisions.

`GET /v1/messages/{ggrid}` reads one, `POST /v1/messages/search` finds them. Reading needs the permission
`messages.read`, searching `messages.search`. Inside, points are whole hundredths; here they become decimals with two
places, so that they still add up. A timeline says what happened to a message in words that a help desk understands, for
the API, the command line and the pages.

`POST /v1/messages/{ggrid}/report`: a person or program says that a decision was wrong, or that it was right
(`messages.report`). The body is JSON, or multipart as in `submitEmail` with the message beside it: delivered mail
leaves no bytes behind, and records of some age have no feature row. The bytes are read by a sealed worker of a core,
like any mail, and only their feature row and the signature of their text are kept.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from decimal import Decimal
from typing import Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import Authenticator, Caller
from gatepost.abby.cores import Cores
from gatepost.abby.json_bodies import BodyReader
from gatepost.abby.scan import read_parts
from gatepost.analysis.report import Line, Report
from gatepost.api import messages, scanning
from gatepost.api.call_limits import CallLimits
from gatepost.api.errors import INVALID_REQUEST, MESSAGE_NOT_FOUND, MESSAGE_NOT_SHOWN, TENANT_NOT_FOUND, Failure
from gatepost.api.http import ClientLeft, ConnectedClient, JsonResponse
from gatepost.ids import canonical, new_id
from gatepost.mail.message import Envelope, Receipt
from gatepost.policy.rules import MessageAction
from gatepost.scanning.request import ScanRequest
from gatepost.scanning.spool import Spool, SpooledBody
from gatepost.settings.keys import TokenPermission
from gatepost.store.audit import AuditRecord
from gatepost.store.evidence import Evidence
from gatepost.store.feedback import NO_FEATURES, Correction, TextFeatures
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import Delivery, MessageRecord, Release
from gatepost.store.messages import DeliveryAttempt, MessageSummary, MessageTimeline
from gatepost.store.quarantine import HeldMessage
from gatepost.store.removed_mail import RemovedCopy, digest_mailbox
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.search_language import EVERYTHING, Expression, SearchFault, SearchPlace, by_name_and_id, find_state
from gatepost.store.store import Store
from gatepost.store.tenants import Tenants
from gatepost.times import date_time, milliseconds, now
from gatepost.view.values import NotShown
from gatepost.workers.protocol import Extracted

MAX_NAMED = 5
_ACTIONS: dict[str, tuple[messages.TimelineEvent, str]] = {
    "message.reported": ("reported", "Reported by {by}: it {said}."),
    "message.reportTakenBack": ("reportTakenBack", "The report of {by} that it {said} was taken back."),
    "quarantine.delete": ("deleted", "Deleted from the quarantine by {by}."),
    "quarantine.release": ("released", "Released by {by}."),
    "quarantine.releaseFailed": ("releaseFailed", "{by} wanted to release it; it was not sent: {said}."),
    "quarantine.restore": ("restored", "Its deletion was taken back by {by}."),
}
_COPIES: dict[str, tuple[messages.TimelineEvent, str]] = {
    "moved": ("removed", "Taken out of"),
    "deleted": ("removed", "Deleted from"),
    "restored": ("putBack", "Put back into"),
}
_NOT_REMOVED: tuple[messages.TimelineEvent, str] = "removeFailed", "Not taken out of"
# What was done by the decision on a message that came over SMTP.
_DONE: dict[str, tuple[messages.TimelineEvent, str]] = {
    "deliver": ("unknown", "What the next hop answered is not on record."),
    "quarantine": ("unknown", "It is not in the quarantine: it was deleted, or its time there is over."),
    "drop": ("dropped", "Accepted and discarded, as the policy says."),
    "bounce": ("refused", "Refused with 550; the sending server tells the sender."),
    "undecided": ("deferred", "Put off with 451, because there was no decision; the sending server tries again."),
}


def describe_timeline(found: MessageTimeline, *, shows_hosts: bool = True) -> messages.Timeline:
    """Return the steps of a message in the order of time. For people of a tenant, names and addresses of nodes, clients
    and next hops are left out: those are the operator's."""
    record = found.record
    return messages.Timeline(
        ggrid=record.ggrid,
        message_id=record.report.message_id,
        tenant_uid=record.envelope.tenant,
        envelope_from=record.envelope.sender,
        envelope_recipients=record.envelope.recipients,
        subject=record.report.subject,
        steps=tuple(sorted(_list_steps(found, shows_hosts=shows_hosts), key=lambda step: step.time)),
        is_cut=found.is_cut,
    )


def _list_steps(found: MessageTimeline, *, shows_hosts: bool) -> Iterator[messages.TimelineStep]:
    record = found.record
    yield from (_describe_attempt(each, record) for each in found.attempts)
    yield _describe_receipt(record, shows_hosts=shows_hosts)
    report, throttled = record.report, record.receipt.throttled if record.receipt else 0
    if throttled:
        text = f"Waited {throttled:,} ms because the node was busy."
        yield messages.TimelineStep(date_time(record.created), "throttled", text)
    took = max(0, record.completed - record.created - throttled)
    text = f"Analysed in {took:,} ms: the verdict is {report.verdict}, the decision {report.decision}."
    yield messages.TimelineStep(date_time(record.completed), "analysed", text)
    if step := _describe_decision(found):
        yield step
    yield from (_describe_delivery(each, shows_hosts=shows_hosts) for each in found.deliveries)
    if release := found.held.release if found.held else None:
        text = f"Released by {release.by} to {_name_some(release.recipients)}."
        yield messages.TimelineStep(date_time(release.time), "released", text, by=release.by)
    for action in found.actions:
        if action.action != "quarantine.release" or not release:
            yield _describe_audit(action)
    yield from (_describe_copy(each, record.envelope.recipients) for each in found.copies)


_WAYS = {
    "smtp": "over SMTP",
    "milter": "over milter",
    "spamd": "in the protocol of spamd",
    "rspamd": "in the protocol of rspamd",
    "rest": "through the scanning API",
    "page": "as a trial on the scan page",
}
# Sources whose mail server keeps the message and is told the decision.
_ASKING = ("rest", "milter", "spamd", "rspamd")


def _describe_receipt(record: MessageRecord, *, shows_hosts: bool) -> messages.TimelineStep:
    receipt = record.receipt or Receipt()
    node, client = (receipt.node, receipt.client) if shows_hosts else ("", "")
    texts = (
        *((" {}", _WAYS.get(record.source)), (" by the node {}", node), (" from {}", client)),
        *((" (sending host {})", record.envelope.remote_address), (" with the queue id {}", receipt.queue_id)),
    )
    text = f"Received{''.join(form.format(value) for form, value in texts if value)}."
    return messages.TimelineStep(date_time(record.created), "received", text, node=node, queue_id=receipt.queue_id)


def _describe_decision(found: MessageTimeline) -> messages.TimelineStep | None:
    """What was done by the decision, as far as no delivery says it."""
    record, decision = found.record, found.record.report.decision
    if found.held is not None:
        return messages.TimelineStep(date_time(found.held.kept), "held", "Held in the quarantine.")
    if record.source in _ASKING:
        text = "The decision was returned to the mail server that asked; what it did is in the log of that server."
        return messages.TimelineStep(date_time(record.completed), "answered", text)
    if record.source != "smtp" or (decision == "deliver" and found.deliveries):
        return None  # a trial, a record that does not say how the message came, or a reply that says more
    return messages.TimelineStep(date_time(record.completed), *_DONE[decision])


def _describe_delivery(sent: Delivery, *, shows_hosts: bool) -> messages.TimelineStep:
    node, named = (sent.node, sent.next_hop) if shows_hosts else ("", "")
    hop = f" {named}" if named else ""
    again = "the sending server tries again" if not sent.released else "it is still held"
    reply = f"{sent.code} {sent.reply}".strip()
    event: messages.TimelineEvent = "delivered" if sent.is_accepted else "deferred" if sent.code < 500 else "refused"
    if sent.is_accepted:
        own = f" Its id there is {sent.queue_id}." if sent.queue_id else ""
        text = f"Accepted by the next hop{hop}: {reply}.{own}"
    elif sent.code == 0:
        text = f"The next hop{hop} gave no reply ({sent.reply}); {again}."
    elif sent.code < 500:
        text = f"Put off by the next hop{hop}: {reply}; {again}."
    else:
        text = f"Refused by the next hop{hop}: {reply}."
    time, code = date_time(sent.time), sent.code or None
    return messages.TimelineStep(time, event, text, node, "", named, code, sent.reply, sent.queue_id)


def _describe_audit(action: AuditRecord) -> messages.TimelineStep:
    if action.action == "lookBack.found":
        what = f"new entries of the list {action.list}" if action.list else "a newly learnt model"
        event: messages.TimelineEvent = "lookedBack"
        text = f"A look back found it: {what} would have held it."
    else:
        event, form = _ACTIONS[action.action]
        text = form.format(by=action.actor.label, said=action.sample[1] if len(action.sample) > 1 else "")
    return messages.TimelineStep(date_time(action.time), event, text, by=action.actor.label)


def _describe_copy(copy: RemovedCopy, recipients: tuple[str, ...]) -> messages.TimelineStep:
    """Say what became of a copy in a mailbox; of the mailbox only a digest is on record."""
    event, words = _COPIES.get(copy.state, _NOT_REMOVED)
    owner = next((each for each in recipients if digest_mailbox(each) == copy.mailbox), "")
    reason = f" ({copy.reason})" if copy.reason else ""
    text = f"{words} {f'the mailbox of {owner}' if owner else 'a mailbox'} by {copy.by}{reason}."
    return messages.TimelineStep(date_time(copy.modified), event, text, by=copy.by)


def _describe_attempt(attempt: DeliveryAttempt, record: MessageRecord) -> messages.TimelineStep:
    when = "before" if attempt.created < record.created else "again"
    what = "The same message came" if attempt.is_same else "A message with the same Message-ID came"
    reply = f"; the next hop answered {attempt.code}" if attempt.code else ""
    text = f"{what} {when}: the decision was {attempt.decision}{reply}."
    return messages.TimelineStep(date_time(attempt.created), "attempt", text, ggrid=attempt.ggrid)


def _name_some(recipients: tuple[str, ...]) -> str:
    more = f" and {len(recipients) - MAX_NAMED} more" if len(recipients) > MAX_NAMED else ""
    return ", ".join(recipients[:MAX_NAMED]) + more


NOT_ON_RECORD = Failure(MESSAGE_NOT_FOUND, "no analysis with this ggrid is on record")

S = TypeVar("S", messages.SearchMessagesRequest, messages.SearchHeldMessagesRequest)
B = TypeVar("B", messages.SearchMessagesRequest, messages.SearchHeldMessagesRequest, messages.HeldMessagesRequest)

SEARCH = BodyReader(messages.SearchMessagesRequest, most=messages.MAX_BODY)
SEARCH_HELD = BodyReader(messages.SearchHeldMessagesRequest, most=messages.MAX_BODY)
REPORT = BodyReader(messages.ReportMessageRequest, most=messages.MAX_BODY)
CORRECTIONS: Mapping[messages.ShouldHaveBeen, Correction] = {
    "delivered": "should have been delivered",
    "held": "should have been held",
}


class MessagesApi:
    """The endpoints that read messages on record, search for them and report them. `seconds` is how long the reading of
    a reported message may take."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        store: Store,
        cores: Cores,
        spool: Spool,
        limits: CallLimits,
        seconds: float,
    ) -> None:
        self._authenticator, self._store, self._cores = authenticator, store, cores
        self._spool, self._limits, self._seconds = spool, limits, seconds

    async def read(self, request: Request) -> Response | Failure:
        """Return one record, by its ggrid in any case."""
        caller = await self._authenticator.enter(request, "messages.read")
        if isinstance(caller, Failure):
            return caller
        ggrid = canonical(request.path_params["ggrid"])
        record = await self._store.messages.find(ggrid, caller.tenant) if ggrid else None
        if record is None:
            return NOT_ON_RECORD
        return JsonResponse(scanning.encode_scanning(describe_message(record)))

    async def show_timeline(self, request: Request) -> Response | Failure:
        """Return the way of one message."""
        caller = await self._authenticator.enter(request, "messages.read")
        if isinstance(caller, Failure):
            return caller
        call = self._limits.begin("search", caller.party)
        if isinstance(call, Failure):
            return call
        with call:
            ggrid = canonical(request.path_params["ggrid"])
            found = await self._store.messages.timeline(ggrid, caller.tenant) if ggrid else None
        if found is None:
            return NOT_ON_RECORD
        way = describe_timeline(found, shows_hosts=caller.tenant is None)
        return JsonResponse(scanning.encode_scanning(way))

    async def search(self, request: Request) -> Response | Failure | None:
        """Return a page of results, newest first."""
        return await self._search(request, SEARCH, self._find_messages)

    async def search_held(self, request: Request) -> Response | Failure | None:
        """Return a page of held mail, newest first."""
        return await self._search(request, SEARCH_HELD, self._find_held)

    async def _search(
        self, request: Request, reader: BodyReader[S], find: Callable[[S, str | None, Expression], Awaitable[object]]
    ) -> Response | Failure | None:
        entered = await enter_with_body(self._authenticator, self._store.tenants, request, reader, "messages.search")
        if not isinstance(entered, Entered):
            return entered
        call = self._limits.begin("search", entered.caller.party)
        if isinstance(call, Failure):
            return call
        with call:
            query = await self._read_query(entered.body, entered.caller.tenant)
            if isinstance(query, Failure):
                return query
            return JsonResponse(scanning.encode_scanning(await find(entered.body, entered.tenant, query)))

    async def _read_query(
        self, body: messages.SearchMessagesRequest | messages.SearchHeldMessagesRequest, tenant: str | None
    ) -> Expression | Failure:
        """Return what the text of a search asks for; a fault is told with its place. A caller who is of one tenant
        knows no other."""
        if not body.query:
            return EVERYTHING
        every = await self._store.tenants.all()
        tenants = by_name_and_id((each.uid, each.name) for each in every if tenant in (None, each.uid))
        place = SearchPlace(now(), tenants=tenants, is_held=isinstance(body, messages.SearchHeldMessagesRequest))
        found = await self._store.messages.read_search(body.query, place, tenant)
        if isinstance(found, SearchFault):
            return Failure(INVALID_REQUEST, f"query, characters {found.start + 1} to {found.end}: {found.message}")
        return found

    async def _find_messages(
        self, body: messages.SearchMessagesRequest, tenant: str | None, query: Expression
    ) -> messages.FoundMessages:
        wanted = MessageFilter(
            tenant=tenant,
            since=_to_time(body.since),
            until=_to_time(body.until),
            sender=body.sender,
            recipient=body.recipient or None,
            subject=body.subject,
            verdict=body.verdict,
            decision=body.decision,
            tag=body.tag or None,
            ggrid=body.ggrid,
            evidence=_to_evidence(body),
            anywhere=body.anywhere,
            next_hop_id=body.next_hop_id,
            query=query,
        )
        page = await self._store.messages.search(wanted, body.cursor, body.limit or messages.DEFAULT_PAGE)
        return messages.FoundMessages(tuple(map(_describe_found, page.rows)), page.next, _describe_time(page.reached))

    async def _find_held(
        self, body: messages.SearchHeldMessagesRequest, tenant: str | None, query: Expression
    ) -> messages.FoundHeldMessages:
        wanted = HeldFilter(
            tenant=tenant,
            verdict=body.verdict,
            sender=body.sender,
            recipient=body.recipient or None,
            since=_to_time(body.since),
            released=bool(body.released) or find_state(query) == "released",
            until=_to_time(body.until),
            subject=body.subject,
            evidence=_to_evidence(body),
            deleted=find_state(query) == "deleted",
            anywhere=body.anywhere,
            query=query,
        )
        page = await self._store.quarantine.search(wanted, body.cursor, body.limit or messages.DEFAULT_PAGE)
        return messages.FoundHeldMessages(
            tuple(map(_describe_held, page.rows)), page.next, _describe_time(page.reached)
        )

    async def report(self, request: Request) -> Response | Failure | None:
        """Note what a decision should have been; near-copies are judged by it from then on, and models learn it."""
        caller = await self._authenticator.enter(request)
        if isinstance(caller, Failure):
            return caller
        with self._spool.new() as email:
            body = await self._read(request, email)
            if isinstance(body, ClientLeft):
                return None
            if isinstance(body, Failure):
                return body
            tenant = await find_scope(self._store.tenants, caller, body.tenant_uid, "messages.report")
            if isinstance(tenant, Failure):
                return tenant
            ggrid = canonical(request.path_params["ggrid"])
            if ggrid is None or (
                await self._store.messages.find(ggrid, caller.tenant) is None
                and await self._store.quarantine.find(ggrid, caller.tenant) is None
            ):
                return NOT_ON_RECORD
            features: TextFeatures | Failure | ClientLeft = NO_FEATURES
            if email.size:
                call = self._limits.begin("view", caller.party)
                if isinstance(call, Failure):
                    return call
                with call:
                    features = await self._read_message(request, email)
            if isinstance(features, ClientLeft):
                return None
            if isinstance(features, Failure):
                return features
        noted = await self._store.feedback.report_wrong(
            ggrid, CORRECTIONS[body.should_have_been], caller.actor, tenant, features
        )
        if noted is None:
            return NOT_ON_RECORD
        answer = messages.MessageReport(ggrid, body.should_have_been, date_time(now()), noted.taught)
        return JsonResponse(scanning.encode_scanning(answer))

    async def _read(self, request: Request, email: SpooledBody) -> messages.ReportMessageRequest | Failure | ClientLeft:
        """Return the body of a request; the message in it, where there is one, goes to the spool."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "multipart/form-data":
            return await REPORT.read(request)
        parameters = await read_parts(request, email)
        return REPORT.decode(parameters) if isinstance(parameters, bytes) else parameters

    async def _read_message(self, request: Request, email: SpooledBody) -> TextFeatures | Failure | ClientLeft:
        """Have a core read the reported message in a sealed worker."""
        opened = time.time_ns()
        message = ScanRequest(new_id(opened), opened // 1_000_000, Envelope())
        client = ConnectedClient(request.receive)
        found = await self._cores.read_features(message, email, client, self._seconds)
        if isinstance(found, NotShown):
            return Failure(MESSAGE_NOT_SHOWN, f"the reported message cannot be read: {found.reason}")
        return TextFeatures(found.row, found.signature) if isinstance(found, Extracted) else found


class Entered(msgspec.Struct, Generic[B], frozen=True):
    """A call that may be made: who calls, its body, and the tenant that it is about."""

    caller: Caller
    body: B
    tenant: str | None


async def enter_with_body(
    authenticator: Authenticator, tenants: Tenants, request: Request, reader: BodyReader[B], permission: TokenPermission
) -> Entered[B] | Failure | None:
    """Check credential, body, permission and tenant, in this order; None where the client has left."""
    caller = await authenticator.enter(request)
    if isinstance(caller, Failure):
        return caller
    body = await reader.read(request)
    if isinstance(body, ClientLeft):
        return None
    if isinstance(body, Failure):
        return body
    tenant = await find_scope(tenants, caller, body.tenant_uid, permission)
    return tenant if isinstance(tenant, Failure) else Entered(caller, body, tenant)


async def find_scope(
    tenants: Tenants, caller: Caller, stated: str | None, permission: TokenPermission
) -> str | Failure | None:
    """Return the tenant that a call is about, None for all, or the failure where the caller may not make it."""
    tenant = caller.may(permission) or caller.scope_of(canonical(stated) if stated is not None else None)
    return tenant if isinstance(tenant, Failure) else await find_tenant_fault(tenants, tenant) or tenant


async def find_tenant_fault(store: Tenants, tenant: str | None) -> Failure | None:
    """Return the failure where a call names a tenant that does not exist."""
    if tenant is None or await store.find(tenant):
        return None
    return Failure(TENANT_NOT_FOUND, f"tenantUid: there is no tenant {tenant}")


def _to_time(text: str | None) -> int | None:
    return None if text is None else milliseconds(text)


def _to_evidence(body: messages.SearchMessagesRequest | messages.SearchHeldMessagesRequest) -> Evidence:
    return Evidence(
        *(body.remote_address, body.link_host, body.file_name, body.file_hash, body.message_id, body.header_from),
        queue_id=body.queue_id,
    )


def _describe_time(time: int | None) -> str | None:
    return None if time is None else date_time(time)


def _describe_found(row: MessageSummary) -> messages.FoundMessage:
    return messages.FoundMessage(
        ggrid=row.ggrid,
        completed=date_time(row.completed),
        decision=row.decision,
        verdict=row.verdict,
        tags=row.tags,
        score=_to_decimal(row.score),
        tenant_uid=row.tenant,
        envelope_from=row.sender,
        envelope_recipients=row.recipients,
        subject=row.subject,
        size=row.size,
    )


def _describe_held(mail: HeldMessage) -> messages.FoundHeldMessage:
    record, report = mail.record, mail.record.report
    return messages.FoundHeldMessage(
        ggrid=record.ggrid,
        held_since=date_time(mail.kept),
        # A search finds deleted mail only where it is asked for, which the API does not do.
        state="held" if mail.state == "deleted" else mail.state,
        verdict=report.verdict,
        tags=report.tags,
        score=_to_decimal(report.score),
        tenant_uid=record.envelope.tenant,
        envelope_from=record.envelope.sender,
        envelope_recipients=record.envelope.recipients,
        subject=report.subject,
        size=record.size,
        release=describe_release(record.ggrid, mail.release) if mail.release else None,
    )


def describe_message(record: MessageRecord) -> scanning.AnalysedMessage:
    """Return a record as the API shows it."""
    report = record.report
    return scanning.AnalysedMessage(
        ggrid=record.ggrid,
        created=date_time(record.created),
        completed=date_time(record.completed),
        decision=report.decision,
        verdict=report.verdict,
        tags=report.tags,
        border_mta_data=_describe_envelope(record.envelope),
        tenant_uid=record.envelope.tenant,
        size=record.size,
        sha256=record.sha256,
        subject=report.subject,
        senders=report.senders,
        ledger=describe_ledger(report),
        authentication=msgspec.convert(report.authentication, scanning.AuthenticationOutcome, from_attributes=True),
        files=msgspec.convert(report.files, tuple[scanning.AnalysedFile, ...], from_attributes=True),
        release=describe_release(record.ggrid, record.release) if record.release else None,
        action=_describe_taken(report.action) if report.action else None,
    )


def _describe_taken(action: MessageAction) -> scanning.TakenAction:
    files = tuple(scanning.StrippedAttachment(each.name, each.size, each.sha256, each.reason) for each in action.files)
    return scanning.TakenAction(action.name, action.describe(), action.mark, action.to, files, action.failed)


def describe_ledger(report: Report) -> scanning.Ledger:
    """Return the ledger of one analysis as the API shows it; the command line prints the same."""
    return scanning.Ledger(
        score=_to_decimal(report.score),
        reason=report.reason,
        findings=tuple(_describe_line(line) for line in report.lines),
        outcomes=msgspec.convert(report.outcomes, tuple[scanning.StageOutcome, ...], from_attributes=True),
        lists=msgspec.convert(report.lists, tuple[scanning.ListEffect, ...], from_attributes=True),
        overrides=report.overrides,
    )


def describe_release(ggrid: str, release: Release) -> scanning.MessageRelease:
    return scanning.MessageRelease(ggrid, date_time(release.time), release.by, release.recipients)


def _describe_line(line: Line) -> scanning.LedgerLine:
    return scanning.LedgerLine(
        tag=line.kind,
        title=line.title,
        where=line.where,
        facts=line.facts,
        weight=_to_decimal(line.weight),
        counted=_to_decimal(line.counted),
        verdict=line.verdict,
        conclusive=line.conclusive,
        group=line.group,
        note=line.note,
        override=line.override,
    )


def _to_decimal(hundredths: int) -> Decimal:
    return Decimal(hundredths).scaleb(-2)


def _describe_envelope(envelope: Envelope) -> scanning.RecordedEnvelope:
    return scanning.RecordedEnvelope(envelope.sender, envelope.recipients, envelope.remote_address, envelope.helo)
