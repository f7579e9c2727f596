"""Training pools: what people reported, as feature rows, for each tenant and for the deployment.

What a tenant's people say teaches that tenant alone; what administrators of the deployment say teaches the deployment.
A pool never has the mail: a row has hashes of features, and digests of mailbox and sender's domain, by which training
limits what one of them weighs. A pool is bounded in number and age, and so is what one reporter can add in a day.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from gatepost.names import org_domain
from gatepost.report import Report
from gatepost.store.audit import Actor
from gatepost.store.engine import (
    Operations,
    Read,
    Row,
    Work,
    Write,
    change,
    normalize_scope,
    now,
    query,
    search,
    storable,
)
from gatepost.store.messages import MessageRecord
from gatepost.verdict import ATTACKS

MAX_PER_DAY = 500
MAX_POOL = 10_000
# Rows beyond the bound that are deleted with each report.
SURPLUS = 50
MAX_PAGE = 2_000
PURGE_BATCH = 2_000
DAY = 86_400_000

_COUNT_TODAY = """SELECT count(*) FROM training_reports WHERE scope = $1 AND reporter = $2 AND created > $3
AND message <> $4"""
_COUNT_BY_MAIL = """SELECT count(*), sum(CASE WHEN reporter = $3 THEN 1 ELSE 0 END) FROM training_reports
WHERE scope = $1 AND source = 'address' AND created > $2"""
_FORGET = "DELETE FROM training_reports WHERE scope = $1 AND reporter = $2 AND message = $3"
_INSERT = """INSERT INTO training_reports
(scope, reporter, message, unwanted, source, mailbox, domain, features, created)
VALUES ($1, $2, $3, $4::bigint, $5, $6, $7, $8, $9::bigint)"""
_PRUNE = """DELETE FROM training_reports WHERE id IN
(SELECT id FROM training_reports WHERE scope = $1 ORDER BY id DESC LIMIT $2 OFFSET $3)"""
_POOLS = """SELECT scope, sum(unwanted), count(*) - sum(unwanted), count(DISTINCT reporter),
count(DISTINCT mailbox), max(created) FROM training_reports GROUP BY scope ORDER BY scope"""
_ROWS = """SELECT id, message, unwanted, reporter, mailbox, domain, features FROM training_reports
WHERE scope = $1 AND id > $2 ORDER BY id LIMIT $3"""
_PURGE = """DELETE FROM training_reports WHERE id IN
(SELECT id FROM training_reports WHERE created < $1 ORDER BY created LIMIT $2)"""
_DELETE_OF_TENANT = """DELETE FROM training_reports WHERE id IN
(SELECT id FROM training_reports WHERE scope = $1 LIMIT $2)"""

ReportSource: TypeAlias = Literal["report", "release", "mail", "address"]


class TaughtMessage(msgspec.Struct, frozen=True):
    """A message as a pool takes it: its id (a ggrid, or the hash of a file), its feature row, one recipient, and the
    sender's address or domain."""

    id: str
    features: bytes
    recipient: str = ""
    sender: str = ""


class PoolReport(msgspec.Struct, frozen=True):
    """One report in a pool; `mailbox` and `domain` are digests."""

    id: int
    message: str
    unwanted: bool
    reporter: str
    mailbox: str
    domain: str
    features: bytes


class PoolSummary(msgspec.Struct, frozen=True):
    """How much a pool holds. `tenant` None is the pool of the deployment."""

    tenant: str | None
    unwanted: int
    wanted: int
    reporters: int
    mailboxes: int
    newest: int


class TrainingPoolStore(Operations):
    """Reports that teach."""

    @change
    def add_reports(
        self, tenant: str | None, by: Actor, messages: Sequence[TaughtMessage], *, unwanted: bool
    ) -> Work[int]:
        """Add reports on messages that an operator hands in; returns how many were taken."""
        taken = 0
        for message in messages:
            taken += yield from teach(tenant, by, message, "mail", unwanted=unwanted)
        return taken

    @query
    def training_pools(self) -> Work[tuple[PoolSummary, ...]]:
        """Every pool that has reports."""
        rows = yield Read(_POOLS)
        return tuple(PoolSummary(row[0] or None, *map(int, row[1:])) for row in rows)

    @search
    def pool_reports(self, tenant: str | None, after: int = 0) -> Work[tuple[PoolReport, ...]]:
        """The reports of a pool after the one with that id, a page of them."""
        rows = yield Read(_ROWS, (normalize_scope(tenant) or "", after, MAX_PAGE))
        return tuple(map(_report, rows))

    async def purge_reports(self, before: int) -> int:
        """Delete reports that are older; returns how many."""
        return await self._repeat(partial(_purge, before))


def count_by_mail(tenant: str | None, reporter: str) -> Work[tuple[int, int]]:
    """How many reports of a day came by mail into a pool: in all, and from one reporter."""
    rows = yield Read(_COUNT_BY_MAIL, (normalize_scope(tenant) or "", now() - DAY, storable(reporter)))
    return int(rows[0][0]), int(rows[0][1] or 0)


def teach(tenant: str | None, by: Actor, message: TaughtMessage, source: ReportSource, *, unwanted: bool) -> Work[bool]:
    """Add a report to a pool, in place of what the same reporter said of the message before; False where there is no
    feature row, or where the reporter has said enough for a day."""
    if not message.features:
        return False
    scope, moment, uid = normalize_scope(tenant) or "", now(), storable(message.id.lower())
    reporter = storable(by.label)
    # Administrators who hand in whole folders on the command line have the files of the service anyway.
    if by.kind != "cli":
        rows = yield Read(_COUNT_TODAY, (scope, reporter, moment - DAY, uid))
        if int(rows[0][0]) >= MAX_PER_DAY:
            return False
    yield Write(_FORGET, (scope, reporter, uid))
    mailbox, domain = digest_of(message.recipient.lower()), digest_of(_domain_of(message.sender))
    values = (scope, reporter, uid, int(unwanted), source, mailbox, domain, message.features, moment)
    yield Write(_INSERT, values)
    yield Write(_PRUNE, (scope, SURPLUS, MAX_POOL))
    return True


def teach_record(
    tenant: str | None,
    by: Actor,
    record: MessageRecord,
    source: ReportSource,
    *,
    unwanted: bool,
    features: bytes = b"",
) -> Work[bool]:
    """Add a report on a message of record to a pool; `features` stand for those of the record. What a person says for a
    message in which something certain was found, such as malware, teaches nothing."""
    report, envelope = record.report, record.envelope
    if not unwanted and contradicts(report):
        return False
    recipient = envelope.recipients[0] if envelope.recipients else ""
    sender = report.senders[0] if report.senders else envelope.sender
    taught = TaughtMessage(record.ggrid, features or report.features, recipient, sender)
    return (yield from teach(tenant, by, taught, source, unwanted=unwanted))


def contradicts(report: Report) -> bool:
    """Whether something in a message is certain, such as malware: what a person says in its favour teaches nothing."""
    return any(line.conclusive and line.verdict in ATTACKS for line in report.lines)


def digest_of(text: str) -> str:
    """Return a short digest of an address or a domain; "" of nothing."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest() if text else ""


def delete_tenant_reports(tenant: str, limit: int) -> Work[int]:
    """Delete some of the pool of a deleted tenant."""
    deleted: int = yield Write(_DELETE_OF_TENANT, (tenant, limit))
    return deleted


def _domain_of(sender: str) -> str:
    domain = sender.strip("<> ").rpartition("@")[2].lower()
    return org_domain(domain) if domain else ""


def _purge(before: int) -> Work[int]:
    deleted: int = yield Write(_PURGE, (before, PURGE_BATCH))
    return deleted


def _report(row: Row) -> PoolReport:
    uid, message, unwanted, reporter, mailbox, domain, features = row
    return PoolReport(uid, message, bool(unwanted), reporter, mailbox, domain, features)
