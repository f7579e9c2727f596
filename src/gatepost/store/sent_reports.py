"""What is reported to others about their domains: results of mail that came, added up by day until the day is over, and
what became of each DMARC aggregate report (RFC 9990).

Nothing of this is in the way of mail: processes count in memory and add their counts here every so often. Who sends
mail is a stranger, so a domain has so many different rows in a day; what is beyond is added up in one row without a
detail. One process of all nodes sends at a time (`jobs`). Counts are deleted when their report has
an outcome; a process that dies before that sends the report again under the same id, by which readers know it.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.store.engine import Many, Operations, Read, Work, Write, change, large_query, now, query, storable
from gatepost.store.sql import Row, insert_many, sql

MAX_ROWS = 1_000
MAX_LISTED = 500
PURGE_BATCH = 2_000

REPORT = "report"
SentState: TypeAlias = Literal["sent", "unwanted", "waiting", "failed"]

_ADD = insert_many(
    "report_counts",
    "day, domain, detail, count",
    "(day, domain, detail) DO UPDATE SET count = report_counts.count + excluded.count",
)
_SIZES = sql("SELECT domain, count(*) FROM report_counts WHERE day = $1 AND @one_of(domain, $2) GROUP BY domain")
_KNOWN = sql("SELECT domain, detail FROM report_counts WHERE day = $1 AND @one_of(domain, $2)")
_WAITING = sql("""SELECT c.day, c.domain, coalesce(s.attempts, 0) FROM
(SELECT DISTINCT day, domain FROM report_counts WHERE day < $1) AS c
LEFT JOIN sent_reports AS s ON s.day = c.day AND s.domain = c.domain
WHERE s.next_try IS NULL OR s.next_try <= $2 ORDER BY c.day, c.domain LIMIT $3""")
_ROWS = sql("SELECT detail, count FROM report_counts WHERE day = $1 AND domain = $2 ORDER BY count DESC, detail")
_PUT = sql("""INSERT INTO sent_reports
(day, domain, state, attempts, next_try, messages, destinations, reason, modified)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (day, domain) DO UPDATE SET
state = excluded.state, attempts = excluded.attempts, next_try = excluded.next_try, messages = excluded.messages,
destinations = excluded.destinations, reason = excluded.reason, modified = excluded.modified""")
_DELETE_COUNTS = sql("DELETE FROM report_counts WHERE day = $1 AND domain = $2")
_SENT_SINCE = sql("SELECT count(*) FROM sent_reports WHERE state = 'sent' AND modified >= $1")
_LISTED = sql("""SELECT day, domain, state, attempts, next_try, messages, destinations, reason, modified
FROM sent_reports WHERE modified >= $1 ORDER BY modified DESC, day, domain LIMIT $2""")
_STATES = sql("SELECT state, count(*) FROM sent_reports WHERE modified >= $1 GROUP BY state")
_PURGES = tuple(
    sql(f"DELETE FROM {table} WHERE day IN (SELECT day FROM {table} WHERE day < $1 LIMIT $2)")  # noqa: S608
    for table in ("sent_reports", "report_counts")
)


class ReportCount(msgspec.Struct, frozen=True):
    """So many messages that are alike: `detail` is the JSON of what is reported of them."""

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

    day: int
    domain: str
    state: SentState
    attempts: int = 0
    next_try: int = 0
    messages: int = 0
    destinations: str = ""
    reason: str = ""
    modified: int = 0


class SentReports(Operations):
    """Counts for reports to others, and what became of the reports."""

    @change
    def count(self, counts: Sequence[ReportCount]) -> Work[None]:
        """Add counts. Rows of a domain beyond the limit of a day are added to the one without a detail."""
        groups: dict[int, list[ReportCount]] = {}
        for each in counts:
            groups.setdefault(each.day, []).append(each)
        for day, group in sorted(groups.items()):
            names = Many(tuple(dict.fromkeys(storable(each.domain) for each in group)))
            sizes = {row[0]: int(row[1]) for row in (yield Read(_SIZES, (day, names)))}
            crowded = Many(tuple(name for name, size in sizes.items() if size + len(group) > MAX_ROWS))
            known = {row[:2] for row in (yield Read(_KNOWN, (day, crowded)))} if crowded.values else set()
            rows: dict[Row, int] = {}
            for each in group:
                domain, detail = storable(each.domain), storable(each.detail)
                if (domain, detail) not in known and (day, domain, detail) not in rows:
                    sizes[domain] = sizes.get(domain, 0) + 1
                    if sizes[domain] > MAX_ROWS:
                        detail = ""
                key: Row = (day, domain, detail)
                rows[key] = rows.get(key, 0) + each.count
            yield _ADD.of([(*key, count) for key, count in sorted(rows.items())])

    @large_query
    def waiting(self, before: int, limit: int) -> Work[tuple[WaitingReport, ...]]:
        """Reports on days before that one that are due, the oldest first."""
        rows = yield Read(_WAITING, (before, now(), limit))
        return tuple(WaitingReport(*row) for row in rows)

    @large_query
    def rows(self, day: int, domain: str) -> Work[tuple[tuple[str, int], ...]]:
        """What was counted for one report: JSON and count, most first."""
        rows = yield Read(_ROWS, (day, storable(domain)))
        return tuple((row[0], int(row[1])) for row in rows)

    @change
    def finish(self, report: SentReport) -> Work[None]:
        """Record what became of a report; its counts go unless it is tried again."""
        texts = (storable(report.destinations[:1_000]), storable(report.reason[:500]))
        key = (report.day, storable(report.domain))
        numbers = (report.attempts, report.next_try, report.messages)
        yield Write(_PUT, (*key, report.state, *numbers, *texts, now()))
        if report.state != "waiting":
            yield Write(_DELETE_COUNTS, key)

    @query
    def sent_since(self, moment: int) -> Work[int]:
        """How many reports were sent since a time."""
        return int((yield Read(_SENT_SINCE, (moment,)))[0][0])

    @large_query
    def listed(self, since: int) -> Work[tuple[SentReport, ...]]:
        """Reports since a time, the newest first, up to `MAX_LISTED`."""
        return tuple(SentReport(*row) for row in (yield Read(_LISTED, (since, MAX_LISTED))))

    @query
    def states(self, since: int) -> Work[dict[str, int]]:
        """How many reports ended in which state since a time."""
        return {row[0]: int(row[1]) for row in (yield Read(_STATES, (since,)))}

    async def purge(self, before: int) -> int:
        """Delete what is about days before that one."""
        return sum([await self._repeat_write(statement, before, PURGE_BATCH) for statement in _PURGES])
