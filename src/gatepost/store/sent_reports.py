"""What is reported to others about their domains: results of mail that came, added up by day until the day is over, and
what became of each report (RFC 9990 for DMARC, RFC 8460 for TLS).

Nothing of this is in the way of mail: processes count in memory and add their counts here every so often. Who sends
mail is a stranger, so a domain has so many different rows in a day; what is beyond is added up in one row without a
detail. One process of all nodes sends at a time, under a lock with an end. Counts are deleted when their report has
an outcome; a process that dies before that sends the report again under the same id, by which readers know it.

Beside them stand the TLS policies of other domains (RFC 8461), which have to survive a restart.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.store.engine import (
    Many,
    Operations,
    Read,
    Row,
    Work,
    Write,
    change,
    insert_many,
    large_query,
    now,
    query,
    storable,
    write_rows,
)

MAX_ROWS = 1_000
MAX_LISTED = 500
PURGE_BATCH = 2_000
MAX_POLICIES = 20_000

SentKind: TypeAlias = Literal["dmarc", "tls"]
SENT_KINDS: tuple[SentKind, ...] = ("dmarc", "tls")
SentState: TypeAlias = Literal["sent", "unwanted", "waiting", "failed"]

_ADD = insert_many(
    "report_counts",
    "kind text, day bigint, domain text, detail text, count bigint",
    "(kind, day, domain, detail) DO UPDATE SET count = report_counts.count + excluded.count",
)
_SIZES = """SELECT domain, count(*) FROM report_counts WHERE kind = $1 AND day = $2 AND domain = ANY($3)
GROUP BY domain"""
_KNOWN = "SELECT domain, detail FROM report_counts WHERE kind = $1 AND day = $2 AND domain = ANY($3)"
_WAITING = """SELECT c.day, c.domain, coalesce(s.attempts, 0) FROM
(SELECT DISTINCT kind, day, domain FROM report_counts WHERE kind = $1 AND day < $2) AS c
LEFT JOIN sent_reports AS s ON s.kind = c.kind AND s.day = c.day AND s.domain = c.domain
WHERE s.next_try IS NULL OR s.next_try <= $3 ORDER BY c.day, c.domain LIMIT $4"""
_ROWS = (
    "SELECT detail, count FROM report_counts WHERE kind = $1 AND day = $2 AND domain = $3 ORDER BY count DESC, detail"
)
_ENSURE = "INSERT INTO report_runs (kind, holder, locked_until) VALUES ($1, '', 0) ON CONFLICT (kind) DO NOTHING"
_TAKE = "UPDATE report_runs SET holder = $2, locked_until = $3 WHERE kind = $1 AND (locked_until <= $4 OR holder = $2)"
_LEAVE = "UPDATE report_runs SET holder = '', locked_until = 0 WHERE kind = $1 AND holder = $2"
_PUT = """INSERT INTO sent_reports
(kind, day, domain, state, attempts, next_try, messages, destinations, reason, modified)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (kind, day, domain) DO UPDATE SET
state = excluded.state, attempts = excluded.attempts, next_try = excluded.next_try, messages = excluded.messages,
destinations = excluded.destinations, reason = excluded.reason, modified = excluded.modified"""
_DELETE_COUNTS = "DELETE FROM report_counts WHERE kind = $1 AND day = $2 AND domain = $3"
_SENT_SINCE = "SELECT count(*) FROM sent_reports WHERE kind = $1 AND state = 'sent' AND modified >= $2"
_LISTED = """SELECT kind, day, domain, state, attempts, next_try, messages, destinations, reason, modified
FROM sent_reports WHERE modified >= $1 ORDER BY modified DESC, kind, day, domain LIMIT $2"""
_STATES = "SELECT state, count(*) FROM sent_reports WHERE modified >= $1 GROUP BY state"
_PURGES = tuple(
    f"DELETE FROM {table} WHERE day IN (SELECT day FROM {table} WHERE day < $1 LIMIT $2)"  # noqa: S608
    for table in ("sent_reports", "report_counts")
)
_POLICY = "SELECT id, policy, fetched, expires FROM transport_policies WHERE domain = $1"
_POLICIES = """SELECT domain, id, policy, fetched, expires FROM transport_policies
ORDER BY fetched DESC, domain LIMIT $1"""
_PUT_POLICY = """INSERT INTO transport_policies (domain, id, policy, fetched, expires) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (domain) DO UPDATE SET id = excluded.id, policy = excluded.policy, fetched = excluded.fetched,
expires = excluded.expires"""
_DROP_POLICIES = """DELETE FROM transport_policies WHERE domain IN
(SELECT domain FROM transport_policies WHERE expires < $1 LIMIT $2)"""
_POLICY_COUNT = "SELECT count(*) FROM transport_policies"


class ReportCount(msgspec.Struct, frozen=True):
    """So many messages, or sessions, that are alike: `detail` is the JSON of what is reported of them."""

    kind: SentKind
    day: int
    domain: str
    detail: str
    count: int


class WaitingReport(msgspec.Struct, frozen=True):
    """A report that is to be sent, and how often that was tried."""

    day: int
    domain: str
    attempts: int


class SentReport(msgspec.Struct, frozen=True):
    """What became of a report."""

    kind: SentKind
    day: int
    domain: str
    state: SentState
    attempts: int = 0
    next_try: int = 0
    messages: int = 0
    destinations: str = ""
    reason: str = ""
    modified: int = 0


class KeptPolicy(msgspec.Struct, frozen=True):
    """A TLS policy of another domain as it was fetched: the id of its TXT record, and its JSON."""

    domain: str
    id: str
    policy: str
    fetched: int
    expires: int


class SentReports(Operations):
    """Counts for reports to others, and what became of the reports."""

    @change
    def count(self, counts: Sequence[ReportCount]) -> Work[None]:
        """Add counts. Rows of a domain beyond the limit of a day are added to the one without a detail."""
        groups: dict[tuple[SentKind, int], list[ReportCount]] = {}
        for each in counts:
            groups.setdefault((each.kind, each.day), []).append(each)
        for (kind, day), group in sorted(groups.items()):
            names = Many(tuple(dict.fromkeys(storable(each.domain) for each in group)))
            sizes = {row[0]: int(row[1]) for row in (yield Read(_SIZES, (kind, day, names)))}
            crowded = Many(tuple(name for name, size in sizes.items() if size + len(group) > MAX_ROWS))
            known = {row[:2] for row in (yield Read(_KNOWN, (kind, day, crowded)))} if crowded.values else set()
            rows: dict[Row, int] = {}
            for each in group:
                domain, detail = storable(each.domain), storable(each.detail)
                if (domain, detail) not in known and (kind, day, domain, detail) not in rows:
                    sizes[domain] = sizes.get(domain, 0) + 1
                    if sizes[domain] > MAX_ROWS:
                        detail = ""
                key: Row = (kind, day, domain, detail)
                rows[key] = rows.get(key, 0) + each.count
            yield _ADD.of([(*key, count) for key, count in sorted(rows.items())])

    @large_query
    def waiting(self, kind: SentKind, before: int, limit: int) -> Work[tuple[WaitingReport, ...]]:
        """Reports on days before that one that are due, the oldest first."""
        rows = yield Read(_WAITING, (kind, before, now(), limit))
        return tuple(WaitingReport(*row) for row in rows)

    @large_query
    def rows(self, kind: SentKind, day: int, domain: str) -> Work[tuple[tuple[str, int], ...]]:
        """What was counted for one report: JSON and count, most first."""
        rows = yield Read(_ROWS, (kind, day, storable(domain)))
        return tuple((row[0], int(row[1])) for row in rows)

    @change
    def take(self, kind: SentKind, holder: str, until: int) -> Work[bool]:
        """Take or keep the right to send; False while another process has it."""
        yield Write(_ENSURE, (kind,))
        return bool((yield Write(_TAKE, (kind, holder, until, now()))))

    @change
    def leave(self, kind: SentKind, holder: str) -> Work[None]:
        """Give the right to send back."""
        yield Write(_LEAVE, (kind, holder))

    @change
    def finish(self, report: SentReport) -> Work[None]:
        """Record what became of a report; its counts go unless it is tried again."""
        texts = (storable(report.destinations[:1_000]), storable(report.reason[:500]))
        key = (report.kind, report.day, storable(report.domain))
        numbers = (report.attempts, report.next_try, report.messages)
        yield Write(_PUT, (*key, report.state, *numbers, *texts, now()))
        if report.state != "waiting":
            yield Write(_DELETE_COUNTS, key)

    @query
    def sent_since(self, kind: SentKind, moment: int) -> Work[int]:
        """How many reports were sent since a time."""
        return int((yield Read(_SENT_SINCE, (kind, moment)))[0][0])

    @large_query
    def listed(self, since: int) -> Work[tuple[SentReport, ...]]:
        """Reports since a time, the newest first, up to `MAX_LISTED`."""
        return tuple(SentReport(*row) for row in (yield Read(_LISTED, (since, MAX_LISTED))))

    @query
    def states(self, since: int) -> Work[dict[str, int]]:
        """How many reports ended in which state since a time."""
        return {row[0]: int(row[1]) for row in (yield Read(_STATES, (since,)))}

    async def purge(self, before: int) -> int:
        """Delete what is about days before that one, and policies whose time is over."""
        total = 0
        for statement in _PURGES:
            while deleted := await self._delete(statement, before):
                total += deleted
        return total + await self._delete(_DROP_POLICIES, now())

    @change
    def _delete(self, statement: str, before: int) -> Work[int]:
        return (yield from write_rows(statement, before, PURGE_BATCH))

    @query
    def transport_policy(self, domain: str) -> Work[KeptPolicy | None]:
        """The TLS policy of a domain as it was last fetched."""
        rows = yield Read(_POLICY, (storable(domain),))
        return KeptPolicy(domain, *rows[0]) if rows else None

    @query
    def transport_policies(self) -> Work[tuple[KeptPolicy, ...]]:
        """The policies that are kept, the newest first, up to `MAX_LISTED`."""
        return tuple(KeptPolicy(*row) for row in (yield Read(_POLICIES, (MAX_LISTED,))))

    @change
    def keep_transport_policy(self, policy: KeptPolicy) -> Work[None]:
        """Keep a policy. Strangers decide how many there are: at the limit, those that are over go first, and then
        nothing new is kept."""
        if (yield Read(_POLICY_COUNT))[0][0] >= MAX_POLICIES and not (yield Read(_POLICY, (storable(policy.domain),))):
            yield from write_rows(_DROP_POLICIES, now(), PURGE_BATCH)
            if (yield Read(_POLICY_COUNT))[0][0] >= MAX_POLICIES:
                return
        values = (storable(policy.domain), storable(policy.id), storable(policy.policy))
        yield Write(_PUT_POLICY, (*values, policy.fetched, policy.expires))
