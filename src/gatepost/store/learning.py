"""Training pools, which are what people reported as feature rows, and the models that were trained from them.

There is a pool for each tenant and one for the deployment. What a tenant's people say teaches that tenant alone; what
administrators of the deployment say teaches the deployment. A pool never has the mail: a row has hashes of features,
and digests of mailbox and sender's domain, by which training limits what one of them weighs. A pool is bounded in
number and age, and so is what one reporter can add in a day.

Models are stored with their figures, every version. At most one model of a scope is current; a partial index sees to
that. Nodes ask every second or two which models are current, and read the bytes of those that they need. A model that
was refused is kept with its figures, without its bytes, so that an operator can see why nothing changed.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from gatepost.analysis.report import Report
from gatepost.analysis.verdict import ATTACKS
from gatepost.names import org_domain
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import (
    Operations,
    Read,
    Work,
    Write,
    change,
    large_query,
    normalize_scope,
    now,
    query,
    storable,
)
from gatepost.store.message_records import MessageRecord
from gatepost.store.sql import Row, sql

MAX_PER_DAY = 500
MAX_POOL = 10_000
# Rows beyond the bound that are deleted with each report.
SURPLUS = 50
MAX_PAGE = 2_000
PURGE_BATCH = 2_000
DAY = 86_400_000

_COUNT_TODAY = sql("""SELECT count(*) FROM training_reports WHERE scope = $1 AND reporter = $2 AND created > $3
AND message <> $4""")
_COUNT_BY_MAIL = sql("""SELECT count(*), sum(CASE WHEN reporter = $3 THEN 1 ELSE 0 END) FROM training_reports
WHERE scope = $1 AND source = 'address' AND created > $2""")
_FORGET = sql("DELETE FROM training_reports WHERE scope = $1 AND reporter = $2 AND message = $3")
_TAUGHT = sql("SELECT unwanted FROM training_reports WHERE scope = $1 AND reporter = $2 AND message = $3")
_INSERT = sql("""INSERT INTO training_reports
(scope, reporter, message, unwanted, source, mailbox, domain, features, created)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)""")
_PRUNE = sql("""DELETE FROM training_reports WHERE id IN
(SELECT id FROM training_reports WHERE scope = $1 ORDER BY id DESC LIMIT $2 OFFSET $3)""")
_POOLS = sql("""SELECT scope, sum(unwanted), count(*) - sum(unwanted), count(DISTINCT reporter),
count(DISTINCT mailbox), max(created) FROM training_reports GROUP BY scope ORDER BY scope""")
_ROWS = sql("""SELECT id, message, unwanted, reporter, mailbox, domain, features FROM training_reports
WHERE scope = $1 AND id > $2 ORDER BY id LIMIT $3""")
_PURGE = sql("""DELETE FROM training_reports WHERE id IN
(SELECT id FROM training_reports WHERE created < $1 ORDER BY created LIMIT $2)""")

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


def find_taught(tenant: str | None, by: Actor, ggrid: str) -> Work[bool | None]:
    """Whether a reporter has told a pool that a message is unwanted; None where the pool has nothing from them."""
    rows = yield Read(_TAUGHT, (normalize_scope(tenant) or "", storable(by.label), storable(ggrid.lower())))
    return bool(rows[0][0]) if rows else None


def take_lesson_back(
    tenant: str | None, by: Actor, record: MessageRecord, before: bool | None, *, unwanted: bool
) -> Work[None]:
    """Take what a reporter said of a message out of a pool; what they had said `before` stands there again. Models that
    were trained meanwhile stay as they are until the next training."""
    if (yield from find_taught(tenant, by, record.ggrid)) is not unwanted:
        return
    yield Write(_FORGET, (normalize_scope(tenant) or "", storable(by.label), record.ggrid))
    if before is not None:
        yield from teach_record(tenant, by, record, "report", unwanted=before)


def teach_record(
    tenant: str | None, by: Actor, record: MessageRecord, source: ReportSource, *, unwanted: bool, features: bytes = b""
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


def _domain_of(sender: str) -> str:
    domain = sender.strip("<> ").rpartition("@")[2].lower()
    return org_domain(domain) if domain else ""


MAX_KEPT, MAX_SHOWN = 20, 100

ModelState: TypeAlias = Literal["current", "former", "refused", "withdrawn"]

_CURRENT = sql("SELECT scope, id FROM learnt_models WHERE state = 'current'")
_CURRENT_OF_SCOPE = sql(f"{_CURRENT} AND scope = $1")
_DATA = sql("SELECT data FROM learnt_models WHERE id = $1")
_COLUMNS = "id, scope, state, created, figures, look_back"
_SELECT = sql(f"SELECT {_COLUMNS} FROM learnt_models ORDER BY id DESC LIMIT $1")  # noqa: S608
_SELECT_SCOPE = sql(f"SELECT {_COLUMNS} FROM learnt_models WHERE scope = $1 ORDER BY id DESC LIMIT $2")  # noqa: S608
_SELECT_ONE = sql(f"SELECT {_COLUMNS} FROM learnt_models WHERE id = $1")  # noqa: S608
_RETIRE = sql("UPDATE learnt_models SET state = 'former' WHERE scope = $1 AND state = 'current'")
_WITHDRAW = sql("UPDATE learnt_models SET state = 'withdrawn' WHERE scope = $1 AND state = 'current'")
_INSERT_MODEL = sql("""INSERT INTO learnt_models (scope, state, created, figures, look_back, data)
VALUES ($1, $2, $3, $4, '', $5) RETURNING id""")
_FORMER = sql("SELECT id FROM learnt_models WHERE scope = $1 AND state = 'former' ORDER BY id DESC LIMIT 1")
_RESTORE = sql("UPDATE learnt_models SET state = 'current' WHERE id = $1")
_PRUNE_MODELS = sql("""DELETE FROM learnt_models WHERE scope = $1 AND state <> 'current' AND id NOT IN
(SELECT id FROM learnt_models WHERE scope = $1 ORDER BY id DESC LIMIT $2)""")
LEARNING = "learning"


class ModelLookBack(msgspec.Struct, frozen=True, rename="camel"):
    """What a model would have held of the delivered mail of some days: ggrids, the newest first, at most 500."""

    days: int = 0
    considered: int = 0
    found: int = 0
    hits: tuple[str, ...] = ()


class StoredModel(msgspec.Struct, frozen=True):
    """A model as storage knows it, without its bytes. `figures` is JSON of its training; `tenant` None is the
    deployment."""

    version: int
    tenant: str | None
    state: ModelState
    created: int
    figures: bytes
    look_back: ModelLookBack | None = None


class Learning(Operations):
    """Training pools, and the models that reports have taught."""

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
    def pools(self) -> Work[tuple[PoolSummary, ...]]:
        """Every pool that has reports."""
        rows = yield Read(_POOLS)
        return tuple(PoolSummary(row[0] or None, *map(int, row[1:])) for row in rows)

    @large_query
    def pool_reports(self, tenant: str | None, after: int = 0) -> Work[tuple[PoolReport, ...]]:
        """The reports of a pool after the one with that id, a page of them."""
        rows = yield Read(_ROWS, (normalize_scope(tenant) or "", after, MAX_PAGE))
        return tuple(PoolReport(uid, message, bool(unwanted), *rest) for uid, message, unwanted, *rest in rows)

    async def purge_reports(self, before: int) -> int:
        """Delete reports that are older; returns how many."""
        return await self._repeat_write(_PURGE, before, PURGE_BATCH)

    @query
    def current_models(self) -> Work[dict[str, int]]:
        """The version that takes part, by scope; the deployment's is ""."""
        return {row[0]: int(row[1]) for row in (yield Read(_CURRENT))}

    @query
    def model_bytes(self, version: int) -> Work[bytes]:
        """The bytes of one model; none where it is gone, or was refused."""
        rows = yield Read(_DATA, (version,))
        return bytes(rows[0][0]) if rows else b""

    @query
    def models(self, tenant: str | None = None, *, every: bool = False) -> Work[tuple[StoredModel, ...]]:
        """The last models of a scope, or of all scopes, the newest first."""
        scope = normalize_scope(tenant) or ""
        rows = yield Read(_SELECT, (MAX_SHOWN,)) if every else Read(_SELECT_SCOPE, (scope, MAX_SHOWN))
        return tuple(map(_model, rows))

    @query
    def find_model(self, version: int) -> Work[StoredModel | None]:
        """One model; None where there is none with that number."""
        rows = yield Read(_SELECT_ONE, (version,))
        return _model(rows[0]) if rows else None

    @change
    def keep_model(self, tenant: str | None, figures: bytes, data: bytes, by: Actor) -> Work[int]:
        """Keep a model: with bytes it takes part from now on, without it was refused. Returns its number."""
        scope, moment = normalize_scope(tenant) or "", now()
        if data:
            yield Write(_RETIRE, (scope,))
        state = "current" if data else "refused"
        rows = yield Read(_INSERT_MODEL, (scope, state, moment, storable(figures.decode()), data))
        version = int(rows[0][0])
        yield Write(_PRUNE_MODELS, (scope, MAX_KEPT))
        action = "model.taken" if data else "model.refused"
        yield from write_audit(moment, by, action, scope or None, "", 1, (str(version),))
        return version

    @change
    def roll_back(self, tenant: str | None, by: Actor) -> Work[tuple[int | None, int | None]]:
        """Withdraw the current model of a scope; the one before it takes part again. Returns the numbers of both, None
        where there is none."""
        scope, moment = normalize_scope(tenant) or "", now()
        current = yield Read(_CURRENT_OF_SCOPE, (scope,))
        if not current:
            return None, None
        yield Write(_WITHDRAW, (scope,))
        former = yield Read(_FORMER, (scope,))
        if former:
            yield Write(_RESTORE, (former[0][0],))
        withdrawn, restored = int(current[0][1]), int(former[0][0]) if former else None
        sample = (str(withdrawn), *([str(restored)] if restored else ()))
        yield from write_audit(moment, by, "model.rolledBack", scope or None, "", 1, sample)
        return withdrawn, restored


def _model(row: Row) -> StoredModel:
    version, scope, state, created, figures, look_back = row
    seen = msgspec.json.decode(look_back, type=ModelLookBack) if look_back else None
    return StoredModel(version, scope or None, state, created, figures.encode(), seen)
