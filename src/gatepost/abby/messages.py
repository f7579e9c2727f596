"""Messages on record: `GET /v1/messages/{ggrid}` reads one with its ledger, `POST /v1/messages/search` finds them.

Reading needs the permission `messages.read`, searching `messages.search`. Inside, points are whole hundredths; here
they become decimals with two places, so that they still add up.
"""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby import message_bodies
from gatepost.abby.authenticator import Authenticator
from gatepost.abby.json_bodies import BodyReader
from gatepost.abby.message_timelines import describe_timeline
from gatepost.api.call_limits import CallLimits
from gatepost.api.errors import MESSAGE_NOT_FOUND, TENANT_NOT_FOUND, Failure
from gatepost.api.http import ClientLeft, JsonResponse
from gatepost.api.messages import (
    DEFAULT_PAGE,
    FoundHeldMessage,
    FoundHeldMessages,
    FoundMessage,
    FoundMessages,
    SearchHeldMessagesRequest,
    SearchMessagesRequest,
)
from gatepost.api.scanning import (
    AnalysedFile,
    AnalysedMessage,
    ArcOutcome,
    AuthenticationOutcome,
    DkimOutcome,
    DmarcOutcome,
    IprevOutcome,
    Ledger,
    LedgerLine,
    ListEffect,
    MessageRelease,
    RecordedEnvelope,
    SpfOutcome,
    StageOutcome,
    StrippedAttachment,
    TakenAction,
    encode_scanning,
)
from gatepost.auth.results import Authentication
from gatepost.ids import canonical
from gatepost.mail.message import Envelope
from gatepost.policy.rules import MessageAction
from gatepost.report import FileSeen, Line, Report
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_index import Evidence
from gatepost.store.message_plans import MessageFilter
from gatepost.store.message_records import MessageRecord, Release
from gatepost.store.messages import MessageSummary
from gatepost.store.quarantine import HeldMessage
from gatepost.store.store import Store
from gatepost.store.tenants import Tenants
from gatepost.times import date_time, milliseconds

NOT_ON_RECORD = Failure(MESSAGE_NOT_FOUND, "no analysis with this ggrid is on record")

S = TypeVar("S", SearchMessagesRequest, SearchHeldMessagesRequest)


class MessagesApi:
    """The endpoints that read messages on record and search for them."""

    def __init__(self, *, authenticator: Authenticator, store: Store, limits: CallLimits) -> None:
        self._authenticator = authenticator
        self._store = store
        self._limits = limits

    async def read(self, request: Request) -> Response | Failure:
        """Return one record, by its ggrid in any case."""
        caller = await self._authenticator.enter(request)
        if isinstance(caller, Failure):
            return caller
        if refusal := caller.may("messages.read"):
            return refusal
        ggrid = canonical(request.path_params["ggrid"])
        record = await self._store.messages.find(ggrid) if ggrid else None
        if record is None:
            return NOT_ON_RECORD
        return JsonResponse(encode_scanning(describe_message(record)))

    async def show_timeline(self, request: Request) -> Response | Failure:
        """Return the way of one message."""
        caller = await self._authenticator.enter(request)
        if isinstance(caller, Failure):
            return caller
        if refusal := caller.may("messages.read"):
            return refusal
        call = self._limits.begin("search", caller.party)
        if isinstance(call, Failure):
            return call
        with call:
            ggrid = canonical(request.path_params["ggrid"])
            found = await self._store.messages.timeline(ggrid) if ggrid else None
        if found is None:
            return NOT_ON_RECORD
        return JsonResponse(encode_scanning(describe_timeline(found)))

    async def search(self, request: Request) -> Response | Failure | None:
        """Return a page of results, newest first."""
        return await self._search(request, message_bodies.SEARCH, self._find_messages)

    async def search_held(self, request: Request) -> Response | Failure | None:
        """Return a page of held mail, newest first."""
        return await self._search(request, message_bodies.SEARCH_HELD, self._find_held)

    async def _search(
        self, request: Request, reader: BodyReader[S], find: Callable[[S, str | None], Awaitable[object]]
    ) -> Response | Failure | None:
        caller = await self._authenticator.enter(request)
        if isinstance(caller, Failure):
            return caller
        body = await reader.read(request)
        if isinstance(body, ClientLeft):
            return None
        if isinstance(body, Failure):
            return body
        tenant = canonical(body.tenant_uid) if body.tenant_uid is not None else None
        if refusal := caller.may("messages.search") or await find_tenant_fault(self._store.tenants, tenant):
            return refusal
        call = self._limits.begin("search", caller.party)
        if isinstance(call, Failure):
            return call
        with call:
            return JsonResponse(encode_scanning(await find(body, tenant)))

    async def _find_messages(self, body: SearchMessagesRequest, tenant: str | None) -> FoundMessages:
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
        )
        page = await self._store.messages.search(wanted, body.cursor, body.limit or DEFAULT_PAGE)
        return FoundMessages(tuple(map(_describe_found, page.rows)), page.next, _describe_time(page.reached))

    async def _find_held(self, body: SearchHeldMessagesRequest, tenant: str | None) -> FoundHeldMessages:
        wanted = HeldFilter(
            tenant=tenant,
            verdict=body.verdict,
            sender=body.sender,
            recipient=body.recipient or None,
            since=_to_time(body.since),
            released=bool(body.released),
            until=_to_time(body.until),
            subject=body.subject,
            evidence=_to_evidence(body),
            anywhere=body.anywhere,
        )
        page = await self._store.quarantine.search(wanted, body.cursor, body.limit or DEFAULT_PAGE)
        return FoundHeldMessages(tuple(map(_describe_held, page.rows)), page.next, _describe_time(page.reached))


async def find_tenant_fault(store: Tenants, tenant: str | None) -> Failure | None:
    """Return the failure where a call names a tenant that does not exist."""
    if tenant is None or await store.find(tenant):
        return None
    return Failure(TENANT_NOT_FOUND, f"tenantUid: there is no tenant {tenant}")


def _to_time(text: str | None) -> int | None:
    return None if text is None else milliseconds(text)


def _to_evidence(body: SearchMessagesRequest | SearchHeldMessagesRequest) -> Evidence:
    return Evidence(
        *(body.remote_address, body.link_host, body.file_name, body.file_hash, body.message_id, body.header_from),
        queue_id=body.queue_id,
    )


def _describe_time(time: int | None) -> str | None:
    return None if time is None else date_time(time)


def _describe_found(row: MessageSummary) -> FoundMessage:
    return FoundMessage(
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


def _describe_held(mail: HeldMessage) -> FoundHeldMessage:
    record, report = mail.record, mail.record.report
    return FoundHeldMessage(
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


def describe_message(record: MessageRecord) -> AnalysedMessage:
    """Return a record as the API shows it."""
    report = record.report
    return AnalysedMessage(
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
        authentication=_describe_authentication(report.authentication),
        files=tuple(_describe_file(file) for file in report.files),
        release=describe_release(record.ggrid, record.release) if record.release else None,
        action=_describe_action(report.action) if report.action else None,
    )


def _describe_action(action: MessageAction) -> TakenAction:
    files = tuple(StrippedAttachment(each.name, each.size, each.sha256, each.reason) for each in action.files)
    return TakenAction(action.name, action.describe(), action.mark, action.to, files, action.failed)


def describe_ledger(report: Report) -> Ledger:
    """Return the ledger of one analysis as the API shows it; the command line prints the same."""
    return Ledger(
        score=_to_decimal(report.score),
        reason=report.reason,
        findings=tuple(_describe_line(line) for line in report.lines),
        outcomes=tuple(StageOutcome(outcome.stage, outcome.state, outcome.reason) for outcome in report.outcomes),
        lists=tuple(msgspec.convert(note, ListEffect, from_attributes=True) for note in report.lists),
        overrides=report.overrides,
    )


def describe_release(ggrid: str, release: Release) -> MessageRelease:
    """A release as the interface shows it."""
    return MessageRelease(ggrid, date_time(release.time), release.by, release.recipients)


def _describe_line(line: Line) -> LedgerLine:
    return LedgerLine(
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


def _describe_envelope(envelope: Envelope) -> RecordedEnvelope:
    return RecordedEnvelope(envelope.sender, envelope.recipients, envelope.remote_address, envelope.helo)


def _describe_authentication(found: Authentication) -> AuthenticationOutcome:
    return AuthenticationOutcome(
        host=found.host,
        host_source=found.host_source,
        spf=msgspec.convert(found.spf, SpfOutcome, from_attributes=True),
        dkim=tuple(msgspec.convert(signature, DkimOutcome, from_attributes=True) for signature in found.dkim),
        dmarc=_describe_dmarc(found),
        arc=msgspec.convert(found.arc, ArcOutcome, from_attributes=True),
        iprev=msgspec.convert(found.iprev, IprevOutcome, from_attributes=True),
    )


def _describe_dmarc(found: Authentication) -> DmarcOutcome:
    dmarc = found.dmarc
    return DmarcOutcome(
        result=dmarc.result,
        domain=dmarc.domain,
        policy=dmarc.policy,
        spf_aligned=dmarc.spf_aligned,
        dkim_aligned=dmarc.dkim_aligned,
        reason=dmarc.reason,
    )


def _describe_file(file: FileSeen) -> AnalysedFile:
    return AnalysedFile(file.path, file.type, file.size, file.sha256, file.names, file.unread)
