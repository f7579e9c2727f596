"""Figures of the traffic: counts for charts, and the most frequent values of a period.

Counts are in buckets of five minutes, and after nine days of an hour. They are written with the messages, so a chart
reads no messages. A group of messages that is written together changes few rows: one for each tenant, verdict and
decision in it, and one for all tenants together. In PostgreSQL many clients write at the same time, and a changed row
is locked until the commit; so every connection writes a `part` of its own, and parts that are no longer written are
added up later. Buckets of nine days ago are added up as well, since a month of them would be a hundred thousand rows to
a chart. Until then the day of a week before can be compared with this one to five minutes.

Latency is counted in bins that double: bin 0 is below 1 ms, bin n from 2^(n-1) to 2^n ms, the last one all above.

Counters for each sender, target, finding and link host would be several more rows a message, and a stranger could make
any number of them. So the newest messages of the period are counted when somebody asks, by their narrow rows. Which
hosts the links of bad mail lead to stands in packed records, of which some are read that are spread over the whole
period; how many messages have links to such a host is then counted in the narrow rows, as a search would count. The
answer says how many messages it is about, and how far it reaches back. Trials are no mail and are left out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

import apsw
import msgspec

from gatepost.findings.kinds import SENDER_FIRST_CONTACT
from gatepost.lists.links import split_url
from gatepost.store.engine import Many, Operations, Read, Work, large_query, normalize_scope, write_rows
from gatepost.store.evidence import digest, without_digits
from gatepost.store.found_values import TOP, count_top, split_lines
from gatepost.store.record_packing import BRIEFS, read_packed
from gatepost.store.sql import Row, insert_many, sql

BUCKET_MILLISECONDS = 300_000
BINS = 18
MAX_STEPS = 2_000
# The tenant of the row that counts all tenants together.
ALL_TENANTS = ""
PARTS = 16
# Parts are left alone for so long, since a connection may still write them.
SETTLED_MILLISECONDS = 3_600_000
HOUR_MILLISECONDS = 3_600_000
# From which age on counts are kept by the hour.
HOURLY_MILLISECONDS = 9 * 86_400_000

KEY = ("tenant", "bucket", "verdict", "decision", "part")
_LONGEST = 3
COUNTS = ("messages", "bytes", "duration", "longest", *(f"l{n}" for n in range(BINS)))
COLUMNS = (*KEY, *COUNTS)

ADD_ON_CONFLICT = f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET " + ", ".join(
    "longest = @larger(traffic.longest, excluded.longest)"
    if name == "longest"
    else f"{name} = traffic.{name} + excluded.{name}"
    for name in COUNTS
)
INSERT_INTO = f"INSERT INTO traffic ({', '.join(COLUMNS)})"
_ADD = insert_many("traffic", ", ".join(COLUMNS), ADD_ON_CONFLICT.removeprefix("ON CONFLICT "))
_SUMS = ", ".join(f"CAST({'max' if name == 'longest' else 'sum'}({name}) AS BIGINT)" for name in COUNTS)
_SELECT = sql(f"""SELECT bucket / CAST($4 AS BIGINT) * $4, verdict, decision, {_SUMS} FROM traffic
WHERE tenant = $1 AND bucket >= $2 AND bucket < $3 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3""")  # noqa: S608
_DELETE_OLD = sql(
    "DELETE FROM traffic WHERE bucket IN (SELECT bucket FROM traffic WHERE bucket < $1 ORDER BY bucket LIMIT $2)"
)
_TAKE_PARTS = sql(f"""DELETE FROM traffic WHERE part <> 0
AND bucket = (SELECT min(bucket) FROM traffic WHERE part <> 0 AND bucket < $1) RETURNING {", ".join(COLUMNS)}""")  # noqa: S608
# The condition is that of the index, as it is written there.
_FIND_MINUTES = sql("""SELECT tenant, bucket FROM traffic
WHERE bucket % 3600000 <> 0 AND bucket < $1 ORDER BY bucket LIMIT 1""")
_TAKE_HOUR = sql(f"""DELETE FROM traffic
WHERE tenant = $1 AND bucket >= $2 AND bucket < $3 RETURNING {", ".join(COLUMNS)}""")  # noqa: S608


class TrafficBucket(msgspec.Struct, frozen=True):
    """What was analysed from `start` on, for one step. `duration` is the sum and `longest` the longest, in ms."""

    start: int
    messages: int = 0
    bytes: int = 0
    duration: int = 0
    longest: int = 0
    latency: tuple[int, ...] = (0,) * BINS
    verdicts: Mapping[str, int] = {}
    decisions: Mapping[str, int] = {}

    def percentile(self, part: float) -> int:
        """The latency in ms below which that part (0.5, 0.99) of the messages stayed: the upper end of its bin."""
        wanted = part * sum(self.latency)
        number = next((n for n, total in enumerate(accumulate(self.latency)) if total >= wanted), 0)
        return min(1 << number, self.longest)


# Tenant, verdict, decision, created, completed and size of a message.
CountedMessage: TypeAlias = tuple[str | None, str, str, int, int, int]


def count_in_sqlite(connection: apsw.Connection, messages: Iterable[CountedMessage]) -> None:
    """Count messages that SQLite is just writing."""
    connection.executemany(_ADD.sqlite, _rows(messages))


def count(messages: Iterable[CountedMessage]) -> Work[None]:
    """Count messages."""
    if rows := _rows(messages):
        yield _ADD.of(rows)


def delete_old(before: int, limit: int) -> Work[int]:
    """Delete some counts from before a time; 0 when there are none."""
    return (yield from write_rows(_DELETE_OLD, before - BUCKET_MILLISECONDS + 1, limit))


def merge_parts(now: int) -> Work[int]:
    """Add up the parts of one bucket that is no longer written; 0 when there are none."""
    parts = yield Read(_TAKE_PARTS, (now - SETTLED_MILLISECONDS,))
    yield from _add_up(parts, BUCKET_MILLISECONDS)
    return len(parts)


def merge_hour(now: int) -> Work[int]:
    """Add up a tenant's buckets of one hour that is old enough; 0 when there are none."""
    before = (now - HOURLY_MILLISECONDS) // HOUR_MILLISECONDS * HOUR_MILLISECONDS
    found = yield Read(_FIND_MINUTES, (before,))
    if not found:
        return 0
    ((tenant, bucket),) = found
    start = bucket // HOUR_MILLISECONDS * HOUR_MILLISECONDS
    buckets = yield Read(_TAKE_HOUR, (tenant, start, start + HOUR_MILLISECONDS))
    yield from _add_up(buckets, HOUR_MILLISECONDS)
    # Another node may have been faster; then there is nothing, and the next turn comes in an hour.
    return len(buckets)


def _add_up(taken: Sequence[Row], width: int) -> Work[None]:
    """Write the sums of rows that were taken out, in buckets of that width."""
    added: dict[Row, list[int]] = {}
    for tenant, bucket, verdict, decision, _part, *counts in taken:
        total = added.setdefault((tenant, bucket // width * width, verdict, decision), [0] * len(COUNTS))
        longest = max(total[_LONGEST], counts[_LONGEST])
        total[:] = [one + other for one, other in zip(total, counts, strict=True)]
        total[_LONGEST] = longest
    if added:
        yield _ADD.of([(*key, 0, *counts) for key, counts in sorted(added.items())])


def bucket_of(completed: int) -> int:
    """The start of the bucket that a time falls into."""
    return completed // BUCKET_MILLISECONDS * BUCKET_MILLISECONDS


def bin_of(milliseconds: int) -> int:
    """The number of the bin that a latency falls into."""
    return min(milliseconds.bit_length(), BINS - 1)


def _rows(messages: Iterable[CountedMessage]) -> list[Row]:
    """What messages add to the buckets."""
    added: dict[tuple[str, int, str, str], list[int]] = {}
    for tenant, verdict, decision, created, completed, size in messages:
        bucket, milliseconds = bucket_of(completed), max(0, completed - created)
        latency = 4 + bin_of(milliseconds)
        for owner in (ALL_TENANTS, tenant) if tenant else (ALL_TENANTS,):
            key = (owner, bucket, verdict, decision)
            counts = added.get(key) or added.setdefault(key, [0] * len(COUNTS))
            counts[0] += 1
            counts[1] += size
            counts[2] += milliseconds
            counts[_LONGEST] = max(counts[_LONGEST], milliseconds)
            counts[latency] += 1
    return [(*key, 0, *counts) for key, counts in sorted(added.items())]


def _sum_bucket(start: int, rows: Sequence[Row]) -> TrafficBucket:
    verdicts: dict[str, int] = {}
    decisions: dict[str, int] = {}
    for verdict, decision, messages, *_ in rows:
        verdicts[verdict] = verdicts.get(verdict, 0) + messages
        decisions[decision] = decisions.get(decision, 0) + messages
    if not rows:
        return TrafficBucket(start)
    columns = list(zip(*(row[2:] for row in rows), strict=True))
    messages, size, duration, *latency = (sum(column) for number, column in enumerate(columns) if number != _LONGEST)
    return TrafficBucket(start, messages, size, duration, max(columns[_LONGEST]), tuple(latency), verdicts, decisions)


# How many messages are counted, and of how many the links are read.
COUNTED = 5_000
READ_FOR_LINKS = 200
MAX_LINKS = 20
# Hosts whose messages are counted: those with the most among the records that were read.
COUNTED_HOSTS = 3 * TOP
_TRIAL = "\ntrial\n"
_FIRST_CONTACT = f"\n{SENDER_FIRST_CONTACT.id}\n"
# What nobody is attacked by.
_HARMLESS = frozenset({"clean", "bulk"})

_ROWS = """SELECT id, verdict, tenant, sender, sender_domain, recipients, tags, evidence, completed, subject
FROM message_search WHERE completed >= $1 AND completed < $2{} ORDER BY completed DESC, id DESC LIMIT $3"""
_ALL_TENANTS, _OF_TENANT = sql(_ROWS.format("")), sql(_ROWS.format(" AND tenant = $4"))
# Subjects of the week before, to tell which campaigns are new.
_EARLIER = """SELECT verdict, subject FROM message_search
WHERE completed >= $1 AND completed < $2{} ORDER BY completed DESC, id DESC LIMIT $3"""
_EARLIER_OF_ALL, _EARLIER_OF_TENANT = sql(_EARLIER.format("")), sql(_EARLIER.format(" AND tenant = $4"))
_EARLIER_MILLISECONDS = 7 * 86_400_000
_REPLIES = sql("SELECT code FROM deliveries WHERE completed >= $1 AND completed < $2 ORDER BY completed DESC LIMIT $3")
_GGRIDS = sql("SELECT id, ggrid FROM messages WHERE @one_of(id, $1) AND @day(completed) >= $2 AND @day(completed) < $3")
_DETAILS = sql(
    "SELECT id, detail FROM messages WHERE @one_of(id, $1) AND @day(completed) >= $2 AND @day(completed) < $3"
)


class TopValues(msgspec.Struct, frozen=True):
    """The most frequent values, each with its number of messages. Targets are recipients of mail that was neither clean
    nor bulk. Hosts are those that links of such mail lead to, counted in all mail. `counted` messages were looked at;
    with `more` the period has others, which are older than `reached`. Campaigns are subjects of such mail that came
    more than once but for digits: a message of each, the subject, and the number; new ones are those that the newest
    `COUNTED` messages of the seven days before did not have. Newcomers are domains of envelope senders that wrote for
    the first time, by the finding that says so."""

    counted: int = 0
    more: bool = False
    senders: tuple[tuple[str, int], ...] = ()
    domains: tuple[tuple[str, int], ...] = ()
    targets: tuple[tuple[str, int], ...] = ()
    findings: tuple[tuple[str, int], ...] = ()
    tenants: tuple[tuple[str, int], ...] = ()
    hosts: tuple[tuple[str, int], ...] = ()
    reached: int = 0
    campaigns: tuple[tuple[str, str, int], ...] = ()
    new_campaigns: tuple[tuple[str, str, int], ...] = ()
    newcomers: tuple[tuple[str, int], ...] = ()


class Replies(msgspec.Struct, frozen=True):
    """What next hops said to the newest messages that were sent on in a period: accepted (2xx), put off (4xx, or no
    reply), refused (5xx). With `more` the period has others."""

    accepted: int = 0
    put_off: int = 0
    refused: int = 0
    more: bool = False


class Traffic(Operations):
    """How many messages were analysed, with which results, and what is most frequent in them."""

    @large_query
    def buckets(self, tenant: str | None, since: int, until: int, step: int) -> Work[tuple[TrafficBucket, ...]]:
        """Every step of a time span, the empty ones too, the oldest first; of a tenant, or of all of them (None).

        Steps are whole multiples of five minutes and begin at whole multiples of themselves (UTC); at most 2,000.
        """
        first, last, width = _divide(since, until, step)
        found: dict[int, list[Row]] = {}
        for start, *row in (yield Read(_SELECT, (normalize_scope(tenant) or ALL_TENANTS, first, last, width))):
            found.setdefault(start, []).append(tuple(row))
        return tuple(_sum_bucket(start, found.get(start, ())) for start in range(first, last, width))

    @large_query
    def top_values(self, tenant: str | None, since: int, until: int) -> Work[TopValues]:
        """The most frequent values among the newest messages of a period, of a tenant or of all (None)."""
        scope = normalize_scope(tenant)
        limits = (since, until, COUNTED + 1)
        found = yield Read(_OF_TENANT, (*limits, scope)) if scope else Read(_ALL_TENANTS, limits)
        rows = [row for row in found[:COUNTED] if _TRIAL not in row[6]]
        bad = [row[0] for row in rows if row[1] not in _HARMLESS]
        # Evenly over the period: the newest alone would say the same of a day and of a month.
        some = tuple(bad[:: -(-len(bad) // READ_FOR_LINKS)]) if bad else ()
        details = (yield Read(_DETAILS, (Many(some), since, until))) if some else ()
        hosts = {number: _link_hosts(packed) for number, packed in details}
        before = (since - _EARLIER_MILLISECONDS, since, COUNTED)
        earlier = yield Read(_EARLIER_OF_TENANT, (*before, scope)) if scope else Read(_EARLIER_OF_ALL, before)
        known = {without_digits(subject) for verdict, subject in earlier if verdict not in _HARMLESS}
        campaigns = _count_subjects(rows)
        ids = tuple(row[0] for row, _ in campaigns)
        ggrids = dict((yield Read(_GGRIDS, (Many(ids), since, until)))) if ids else {}
        named = tuple((ggrids[row[0]], row[9], count) for row, count in campaigns if row[0] in ggrids)
        fresh = tuple(each for each in named if without_digits(each[1]) not in known)
        counted = _count(rows, len(found) > COUNTED, hosts)
        return msgspec.structs.replace(counted, campaigns=named[:TOP], new_campaigns=fresh[:TOP])

    @large_query
    def replies(self, since: int, until: int) -> Work[Replies]:
        """What next hops said to messages of a period, of all tenants."""
        codes = [row[0] for row in (yield Read(_REPLIES, (since, until, COUNTED + 1)))]
        accepted, refused = (sum(code // 100 == kind for code in codes[:COUNTED]) for kind in (2, 5))
        return Replies(accepted, len(codes[:COUNTED]) - accepted - refused, refused, len(codes) > COUNTED)


def _divide(since: int, until: int, step: int) -> tuple[int, int, int]:
    """Where the first step of a time span begins, where the last one ends, and how long each is."""
    width = max(1, -(-step // BUCKET_MILLISECONDS)) * BUCKET_MILLISECONDS
    last = max(0, -(-until // width)) * width
    return max(max(0, since) // width * width, last - MAX_STEPS * width), last, width


def _count_subjects(rows: Sequence[Row]) -> list[tuple[Row, int]]:
    """Subjects of bad mail that came more than once but for digits, the most frequent first, each with its newest
    row."""
    newest: dict[str, Row] = {}
    counts = Counter[str]()
    for row in rows:
        if row[1] not in _HARMLESS and (shape := without_digits(row[9])):
            newest.setdefault(shape, row)
            counts[shape] += 1
    return [(newest[shape], count) for shape, count in counts.most_common(3 * TOP) if count > 1]


def _count_hosts(rows: Sequence[Row], hosts: Mapping[int, set[str]]) -> tuple[tuple[str, int], ...]:
    """Those hosts of the records that were read that most messages have links to, counted as a search finds them."""
    first = Counter(host for each in hosts.values() for host in each).most_common(COUNTED_HOSTS)
    found = Counter[str]()
    for host, read in first:
        mark = digest("link", host)
        known = sum(mark in row[7] for row in rows if row[7] is not None)
        # Messages with too many values have no digests: of those, the ones that were read count.
        found[host] = max(read, known + sum(row[7] is None and host in hosts.get(row[0], ()) for row in rows))
    return tuple(found.most_common(TOP))


def _count(rows: Sequence[Row], more: bool, hosts: Mapping[int, set[str]]) -> TopValues:
    targets = (address for row in rows if row[1] not in _HARMLESS for address in split_lines(row[5]))
    return TopValues(
        counted=len(rows),
        more=more,
        senders=count_top(row[3] for row in rows if row[3]),
        domains=count_top(row[4] for row in rows if row[4]),
        targets=count_top(address for address in targets if not address.startswith("@")),
        findings=count_top(tag for row in rows for tag in split_lines(row[6])),
        tenants=count_top(row[2] for row in rows if row[2]),
        hosts=_count_hosts(rows, hosts),
        newcomers=count_top(row[4] for row in rows if row[4] and _FIRST_CONTACT in row[6]),
        reached=rows[-1][8] if rows else 0,
    )


def _link_hosts(packed: bytes) -> set[str]:
    """The hosts that links of a record lead to, each once."""
    detail = read_packed(BRIEFS, packed)
    links = detail.report.links[:MAX_LINKS] if detail else ()
    return {parts[0] for link in links if (parts := split_url(link))}
