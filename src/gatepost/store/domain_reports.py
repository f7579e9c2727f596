"""What others report about mail of our domains: read once, added up by day, and kept for as long as settings say.

A report is known by its domain, its reporter and the id that the reporter gave it (RFC 9990 section 2.1), so that one
that comes twice counts once. Its rows are added to those of the same day that are alike. Who writes reports is a
stranger: a domain has so many of them in a day, a day so many different rows, and a scope so many domains. Rows beyond
that are added to one without a source, so that the sums stay right.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.domain_reports import DomainFigures, DomainReport, ReportKind, SourceFigures, SourceRow
from gatepost.store.engine import (
    Operations,
    Read,
    Row,
    Work,
    Write,
    change,
    insert_many,
    large_query,
    normalize_scope,
    now,
    query,
    storable,
    write_rows,
)

MAX_DOMAINS = 5_000
MAX_A_DAY = 500
MAX_ROWS_A_DAY = 2_000
MAX_SHOWN = 500
PURGE_BATCH = 2_000
DAY_SECONDS = 86_400
# A report on a time long ago, or to come, is a mistake or a trick to be kept for ever.
OLDEST_DAYS, LATEST_DAYS = 60, 2

Kept: TypeAlias = Literal["kept", "known", "full", "period"]

_KNOWN_DOMAIN = "SELECT day FROM reported_domains WHERE scope = $1 AND domain = $2 AND kind = $3"
_DOMAIN_COUNT = "SELECT count(*) FROM reported_domains WHERE scope = $1"
_RECENT = "SELECT count(*) FROM domain_reports WHERE scope = $1 AND domain = $2 AND received >= $3"
_INSERT = """INSERT INTO domain_reports (scope, domain, kind, reporter, report_id, received, day, messages, failed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (scope, domain, kind, reporter, report_id) DO NOTHING"""
_PUT_DOMAIN = """INSERT INTO reported_domains (scope, domain, kind, policy, published, day, seen)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (scope, domain, kind) DO UPDATE SET
policy = CASE WHEN excluded.day >= reported_domains.day THEN excluded.policy ELSE reported_domains.policy END,
published = CASE WHEN excluded.day >= reported_domains.day THEN excluded.published ELSE reported_domains.published END,
day = GREATEST(reported_domains.day, excluded.day), seen = GREATEST(reported_domains.seen, excluded.seen)"""
_SUMS = ("messages", "passed", "dkim", "spf", "quarantined", "rejected")
_ADD_DAY = f"""INSERT INTO reported_days (scope, kind, day, domain, {", ".join(_SUMS)})
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (scope, kind, day, domain) DO UPDATE SET
{", ".join(f"{name} = reported_days.{name} + excluded.{name}" for name in _SUMS)}"""  # noqa: S608
_ROW_COUNT = "SELECT count(*) FROM reported_sources WHERE scope = $1 AND domain = $2 AND kind = $3 AND day = $4"
_ADD_ROWS = insert_many(
    "reported_sources",
    "scope text, domain text, kind text, day bigint, source text, dkim bigint, spf bigint, result text, details text,"
    " count bigint",
    "(scope, domain, kind, day, source, dkim, spf, result, details) DO UPDATE SET"
    " count = reported_sources.count + excluded.count",
)
# Domains and sums are read apart: joined, a planner may look at all days for each domain.
_DOMAINS = "SELECT scope, domain, policy, published, seen FROM reported_domains WHERE kind = $1"
_DOMAINS_OF_SCOPE = f"{_DOMAINS} AND scope = $2"
_DOMAIN = f"{_DOMAINS} AND scope = $2 AND domain = $3"
_TOTALS = ", ".join(f"CAST(sum({name}) AS BIGINT)" for name in _SUMS)
_TOTALS_OF_ALL = f"""SELECT scope, domain, {_TOTALS}, count(*) FROM reported_days
WHERE kind = $1 AND day >= $2 GROUP BY scope, domain"""  # noqa: S608
_TOTALS_OF_SCOPE = f"""SELECT scope, domain, {_TOTALS}, count(*) FROM reported_days
WHERE kind = $1 AND day >= $2 AND scope = $3 GROUP BY scope, domain"""  # noqa: S608
_TOTALS_OF_DOMAIN = f"""SELECT scope, domain, {_TOTALS}, count(*) FROM reported_days
WHERE kind = $1 AND day >= $2 AND scope = $3 AND domain = $4 GROUP BY scope, domain"""  # noqa: S608
_DAYS = """SELECT day, messages, passed, quarantined, rejected FROM reported_days
WHERE scope = $1 AND domain = $2 AND kind = $3 AND day >= $4 ORDER BY day"""
_SOURCES = """SELECT source, CAST(sum(count) AS BIGINT), dkim, spf, result, details, min(day), max(day)
FROM reported_sources WHERE scope = $1 AND domain = $2 AND kind = $3 AND day >= $4
GROUP BY source, dkim, spf, result, details ORDER BY 2 DESC, 1, 5, 6 LIMIT $5"""
_REPORTERS = """SELECT reporter, count(*), CAST(sum(messages) AS BIGINT), max(received) FROM domain_reports
WHERE scope = $1 AND domain = $2 AND kind = $3 AND day >= $4 GROUP BY reporter ORDER BY 3 DESC, 1 LIMIT $5"""
_PURGES = (
    *(
        f"DELETE FROM {table} WHERE day IN (SELECT day FROM {table} WHERE day < $1 ORDER BY day LIMIT $2)"  # noqa: S608
        for table in ("reported_sources", "reported_days", "domain_reports")
    ),
    "DELETE FROM reported_domains WHERE day IN (SELECT day FROM reported_domains WHERE day < $1 LIMIT $2)",
)


class DayFigures(msgspec.Struct, frozen=True):
    """What was reported of one domain on one day."""

    day: int
    messages: int
    passed: int
    quarantined: int
    rejected: int


class Reporter(msgspec.Struct, frozen=True):
    """Who reported, how many reports, on how many messages, and when last."""

    name: str
    reports: int
    messages: int
    last: int


class ReportedDomains(Operations):
    """Reports about domains. A scope is a tenant's uid; None is the deployment's own."""

    @change
    def keep(self, scope: str | None, report: DomainReport) -> Work[Kept]:
        """Add a report to what is known of its domain."""
        moment, owner = now(), normalize_scope(scope) or ""
        today, day = moment // 1_000 // DAY_SECONDS, (report.begins + report.ends) // 2 // DAY_SECONDS
        if not today - OLDEST_DAYS <= day <= today + LATEST_DAYS:
            return "period"
        key = owner, storable(report.domain), report.kind
        if not (yield Read(_KNOWN_DOMAIN, key)) and (yield Read(_DOMAIN_COUNT, (owner,)))[0][0] >= MAX_DOMAINS:
            return "full"
        if (yield Read(_RECENT, (*key[:2], today * DAY_SECONDS * 1_000)))[0][0] >= MAX_A_DAY:
            return "full"
        named = storable(report.reporter), storable(report.report_id)
        if not (yield Write(_INSERT, (*key, *named, moment, day, report.messages, report.failed))):
            return "known"
        yield Write(_PUT_DOMAIN, (*key, storable(report.policy), storable(report.published), day, moment))
        yield Write(_ADD_DAY, (owner, report.kind, day, key[1], *_sum_up(report)))
        room = MAX_ROWS_A_DAY - (yield Read(_ROW_COUNT, (*key, day)))[0][0]
        if rows := _merge_rows(report.rows, max(0, room)):
            yield _ADD_ROWS.of([(*key, day, *row) for row in rows])
        return "kept"

    @large_query
    def domains(
        self, kind: ReportKind, since: int, scope: str | None, *, every: bool = False
    ) -> Work[tuple[DomainFigures, ...]]:
        """Every domain of a scope, or of all, with the sums since a day; those first of which most mail failed."""
        owner = normalize_scope(scope) or ""
        rows = yield Read(_DOMAINS, (kind,)) if every else Read(_DOMAINS_OF_SCOPE, (kind, owner))
        totals = yield Read(_TOTALS_OF_ALL, (kind, since)) if every else Read(_TOTALS_OF_SCOPE, (kind, since, owner))
        found = _join(rows, totals)
        return tuple(sorted(found, key=lambda each: (-each.failed, -each.messages, each.domain)))

    @query
    def domain(self, kind: ReportKind, since: int, scope: str | None, domain: str) -> Work[DomainFigures | None]:
        """One domain, with the sums since a day; None if nothing was ever reported of it."""
        owner, name = normalize_scope(scope) or "", storable(domain)
        rows = yield Read(_DOMAIN, (kind, owner, name))
        found = _join(rows, (yield Read(_TOTALS_OF_DOMAIN, (kind, since, owner, name))))
        return found[0] if found else None

    @query
    def days(self, kind: ReportKind, since: int, scope: str | None, domain: str) -> Work[tuple[DayFigures, ...]]:
        """What was reported of a domain, day by day."""
        rows = yield Read(_DAYS, (normalize_scope(scope) or "", storable(domain), kind, since))
        return tuple(DayFigures(*row) for row in rows)

    @large_query
    def sources(self, kind: ReportKind, since: int, scope: str | None, domain: str) -> Work[tuple[SourceFigures, ...]]:
        """Who sent in the name of a domain, and with what result; most messages first, up to `MAX_SHOWN`."""
        rows = yield Read(_SOURCES, (normalize_scope(scope) or "", storable(domain), kind, since, MAX_SHOWN))
        return tuple(
            SourceFigures(
                SourceRow(row[0], row[1], bool(row[2]), bool(row[3]), row[4], _read_details(row[5])), *row[6:]
            )
            for row in rows
        )

    @query
    def reporters(self, kind: ReportKind, since: int, scope: str | None, domain: str) -> Work[tuple[Reporter, ...]]:
        """Who reported on a domain."""
        rows = yield Read(_REPORTERS, (normalize_scope(scope) or "", storable(domain), kind, since, MAX_SHOWN))
        return tuple(Reporter(*row) for row in rows)

    async def purge(self, before: int) -> int:
        """Delete what was reported of days before that one."""
        total = 0
        for statement in _PURGES:
            while deleted := await self._delete(statement, before):
                total += deleted
        return total

    @change
    def _delete(self, statement: str, before: int) -> Work[int]:
        return (yield from write_rows(statement, before, PURGE_BATCH))


def _sum_up(report: DomainReport) -> tuple[int, ...]:
    """Return what `reported_days` adds up, in the order of its columns."""
    rows = report.rows
    return (
        report.messages,
        report.passed,
        sum(row.count for row in rows if row.dkim),
        sum(row.count for row in rows if row.spf),
        sum(row.count for row in rows if row.result == "quarantine"),
        sum(row.count for row in rows if row.result == "reject"),
    )


def _merge_rows(rows: Sequence[SourceRow], room: int) -> list[Row]:
    """Return the rows that there is room for, and the others added up without their source."""
    merged: dict[Row, int] = {}
    for index, row in enumerate(sorted(rows, key=lambda each: -each.count)):
        alike = (int(row.dkim), int(row.spf), storable(row.result))
        if index < room:
            key: Row = (
                storable(row.source),
                *alike,
                msgspec.json.encode([storable(each) for each in row.details]).decode(),
            )
        else:
            key = ("", *alike, "[]")
        merged[key] = merged.get(key, 0) + row.count
    return [(*key, count) for key, count in sorted(merged.items())]


_details = msgspec.json.Decoder(tuple[str, ...])


def _read_details(text: str) -> tuple[str, ...]:
    return _details.decode(text)


def _join(domains: Sequence[Row], totals: Sequence[Row]) -> list[DomainFigures]:
    """Return each domain with its sums."""
    sums = {row[:2]: row[2:] for row in totals}
    return [DomainFigures(row[0] or None, *row[1:], *sums.get(row[:2], ())) for row in domains]
