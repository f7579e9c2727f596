"""Feedback: reports of wrong decisions, stored in the audit trail.

A report is an audit record with the action `message.reported`, so it cannot be changed or lost. In the same transaction
it marks the campaign of the message and goes into a training pool, where there is a feature row to learn from.

A report that was a slip is taken back by a second record, `message.reportTakenBack`: what was marked and taught before
the report holds again, and no figure counts it. Whoever reports is told what that was, and keeps it for as long as the
report can be taken back.
"""

from typing import Literal, TypeAlias

import msgspec

from gatepost.store.audit import MESSAGE_REPORTED, REPORT_TAKEN_BACK, Actor, write_audit
from gatepost.store.campaigns import MarkSays, mark_message, take_mark_back
from gatepost.store.engine import Operations, Read, Work, change, normalize_scope, now, query, storable
from gatepost.store.learning import (
    TaughtMessage,
    count_by_mail,
    digest_of,
    find_taught,
    take_lesson_back,
    teach,
    teach_record,
)
from gatepost.store.message_records import MessageRecord, find_message
from gatepost.store.quarantine import find_held
from gatepost.store.recipients import add_request
from gatepost.store.sql import sql

_SELECT_SAID = sql("""SELECT says, created FROM campaign_marks
WHERE scope = $2 AND ggrid = $1 AND says IN ('wanted', 'unwanted')""")

Correction: TypeAlias = Literal["should have been delivered", "should have been held"]


class Before(msgspec.Struct, frozen=True):
    """What was said of a message before a report: by its mark, and by the same reporter to the training pool (whether
    it is unwanted)."""

    mark: str = ""
    taught: bool | None = None


class Noted(msgspec.Struct, frozen=True):
    """A report was stored; `taught` says whether it went into a training pool, and `before` what it replaced."""

    taught: bool = False
    before: Before = Before()


class TextFeatures(msgspec.Struct, frozen=True):
    """What a sealed worker read from the bytes that came with a report: feature row and signature of the text."""

    row: bytes = b""
    signature: tuple[int, ...] = ()


_samples = msgspec.json.Decoder(tuple[str, ...])
_HELD = "should have been held"
_MARKS: dict[Correction, MarkSays] = {"should have been delivered": "wanted", "should have been held": "unwanted"}

NO_FEATURES = TextFeatures()


# Messages that one reporter, and all of a scope, report by mail in a day.
MAX_BY_REPORTER, MAX_BY_MAIL = 50, 500
BY_MAIL = "mail.reported"


class ReportedMessage(msgspec.Struct, frozen=True):
    """A message that was attached to a report, as a sealed worker read it: its hash, and the domain in its From."""

    sha256: str
    features: bytes
    signature: tuple[int, ...] = ()
    sender: str = ""


class MailReport(msgspec.Struct, frozen=True):
    """A report by mail: its id, whose address it was sent to, who sent it, and what it says of the messages in it.
    `is_certain` says that something certain was found in it, such as malware."""

    ggrid: str
    tenant: str | None
    by: Actor
    unwanted: bool
    messages: tuple[ReportedMessage, ...]
    is_certain: bool = False


class FeedbackReports(Operations):
    """Reports of wrong decisions."""

    @change
    def report_mail(self, report: MailReport) -> Work[int | None]:
        """Store a report by mail; returns how many messages taught the pool, None where the reporter, or all reporters
        of the scope, have said enough for a day."""
        # A pool has no address of a person: reporters are told apart by a digest.
        reporter = Actor(report.by.kind, digest_of(report.by.name))
        in_all, own = yield from count_by_mail(report.tenant, reporter.label)
        if own + len(report.messages) > MAX_BY_REPORTER or in_all + len(report.messages) > MAX_BY_MAIL:
            return None
        moment, taken = now(), 0
        says: Correction = "should have been held" if report.unwanted else "should have been delivered"
        sample = (report.ggrid, says, *(message.sha256 for message in report.messages))
        count = len(report.messages)
        scope = normalize_scope(report.tenant)
        yield from write_audit(moment, report.by, BY_MAIL, scope, count=count, sample=sample, limit=len(sample))
        yield from add_request("report", report.ggrid, scope, report.by.name, f"{says} ({count} attached)")
        if report.is_certain and not report.unwanted:
            return 0
        for message in report.messages:
            yield from mark_message(
                scope,
                f"sha256:{message.sha256}",
                "unwanted" if report.unwanted else "wanted",
                message.signature,
                moment,
            )
            taught = TaughtMessage(message.sha256, message.features, report.by.name, message.sender)
            taken += yield from teach(scope, reporter, taught, "address", unwanted=report.unwanted)
        return taken

    @change
    def report_wrong(
        self, ggrid: str, says: Correction, by: Actor, tenant: str | None = None, features: TextFeatures = NO_FEATURES
    ) -> Work[Noted | None]:
        """Store a report; None where no such message is stored or held, or it is not that tenant's. `features` stand
        for what is stored with the record."""
        owner = normalize_scope(tenant)
        record = yield from _find_record(ggrid, owner)
        if record is None:
            return None
        moment = now()
        yield from write_audit(
            moment, by, MESSAGE_REPORTED, record.envelope.tenant, count=1, sample=(record.ggrid, says)
        )
        mark = _MARKS[says]
        # What a tenant's people say holds for that tenant; what the deployment's say holds for all.
        signature = features.signature or record.report.signature
        marked = yield from mark_message(owner, record.ggrid, mark, signature, moment)
        before = Before(marked, (yield from find_taught(owner, by, record.ggrid)))
        unwanted = mark == "unwanted"
        taught = yield from teach_record(owner, by, record, "report", unwanted=unwanted, features=features.row)
        return Noted(taught, before)

    @change
    def take_back(
        self, ggrid: str, says: Correction, before: Before, by: Actor, tenant: str | None = None
    ) -> Work[bool]:
        """Take back what the same reporter has said: what was `before` holds again. False where there is no such
        message any more, or it is not that tenant's."""
        owner = normalize_scope(tenant)
        record = yield from _find_record(ggrid, owner)
        if record is None:
            return False
        moment = now()
        scope = record.envelope.tenant
        yield from write_audit(moment, by, REPORT_TAKEN_BACK, scope, count=1, sample=(record.ggrid, says))
        mark = _MARKS[says]
        yield from take_mark_back(owner, record.ggrid, mark, before.mark, record.report.signature, moment)
        yield from take_lesson_back(owner, by, record, before.taught, unwanted=mark == "unwanted")
        return True

    @query
    def state(self, ggrid: str, tenant: str | None = None) -> Work[tuple[str, int] | None]:
        """What people of the deployment, or of that tenant, said of a message last, and when; None if they said
        nothing, or its text was too short to be remembered."""
        rows = yield Read(_SELECT_SAID, (storable(ggrid.lower()), normalize_scope(tenant) or ""))
        return (str(rows[0][0]), int(rows[0][1])) if rows else None


def _find_record(ggrid: str, owner: str | None) -> Work[MessageRecord | None]:
    """A message that is stored or held, of that tenant if one is named."""
    record = yield from find_message(ggrid)
    if record is None:
        held = yield from find_held(ggrid, owner)
        record = held.record if held else None
    return record if record and owner in (None, record.envelope.tenant) else None
