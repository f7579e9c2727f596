"""Messages on record: `GET /v1/messages/{ggrid}` reads one with its ledger, `POST …/release` releases a held one.

Reading needs the permission `messages.read`, releasing `messages.release`. Inside, points are whole hundredths; here
they become decimals with two places, so that they still add up.
"""

from decimal import Decimal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import Authenticator
from gatepost.abby.core_state import Down
from gatepost.abby.held_mail import HeldMailCore
from gatepost.api.errors import CORE_UNAVAILABLE, DELIVERY_FAILED, FORBIDDEN, MESSAGE_NOT_FOUND, Failure
from gatepost.api.responses import JsonResponse
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
    encode_scanning,
)
from gatepost.auth.results import Authentication
from gatepost.ids import canonical
from gatepost.mail.message import Envelope
from gatepost.report import FileSeen, Line, Report
from gatepost.scanning.held_mail import NotHeld, NotSent, Released, ReleaseOrder, ReleaseOutcome
from gatepost.store.audit import Actor
from gatepost.store.messages import MessageRecord, MessageStore, Release
from gatepost.times import date_time


class MessagesApi:
    """The endpoint that reads messages on record."""

    def __init__(self, *, authenticator: Authenticator, store: MessageStore) -> None:
        self._authenticator = authenticator
        self._store = store

    async def read(self, request: Request) -> Response | Failure:
        """Return one record, by its ggrid in any case."""
        caller = await self._authenticator.enter(request)
        if isinstance(caller, Failure):
            return caller
        if refusal := caller.may("messages.read"):
            return refusal
        ggrid = canonical(request.path_params["ggrid"])
        record = await self._store.message(ggrid) if ggrid else None
        if record is None:
            return Failure(MESSAGE_NOT_FOUND, "no analysis with this ggrid is on record")
        return JsonResponse(encode_scanning(describe_message(record)))


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
    )


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


NOT_FOUND = Failure(MESSAGE_NOT_FOUND, "no message with this ggrid is held")


class ReleaseApi:
    """The endpoint that releases held messages."""

    def __init__(self, *, door: Authenticator, held_mail: HeldMailCore) -> None:
        self._door, self._held_mail = door, held_mail

    async def release(self, request: Request) -> Response | Failure:
        """Release one message, by its ggrid in any case."""
        caller = await self._door.enter(request)
        if isinstance(caller, Failure):
            return caller
        if refusal := caller.may("messages.release"):
            return refusal
        order = ReleaseOrder(request.path_params["ggrid"], by=Actor("token", caller.name))
        outcome = await self._held_mail.carry_out(order)
        if isinstance(outcome, Released):
            release = Release(outcome.time, outcome.by, outcome.recipients)
            return JsonResponse(encode_scanning(describe_release(outcome.ggrid, release)))
        return _failure(outcome)


def _failure(outcome: ReleaseOutcome | Down) -> Failure:
    if isinstance(outcome, NotHeld):
        return NOT_FOUND
    if isinstance(outcome, Down):
        return Failure(CORE_UNAVAILABLE, "no core that answers has this message")
    if isinstance(outcome, NotSent) and outcome.forbidden:
        return Failure(FORBIDDEN, f"{outcome.reason}; the message is held as before")
    if isinstance(outcome, NotSent):
        return Failure(DELIVERY_FAILED, f"{outcome.reason}; the message is held as before")
    return Failure(DELIVERY_FAILED, "another release of this message is under way")
