"""The most frequent senders, targets, findings, tenants and link hosts of a period, of a bounded number of messages.

Counters for each of these would be several more rows a message, and a stranger could make any number of them. So the
newest messages of the period are counted when somebody asks: narrow rows for most of it, and packed records of some
messages that were not clean for the hosts that their links lead to. The answer says how many messages it is about.
Trials are no mail and are left out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from gatepost.lists.links import split_url
from gatepost.store.engine import Many, Operations, Read, Row, Work, normalize_scope, search
from gatepost.store.record_packing import decompress

# How many messages are counted, and of how many the links are read.
COUNTED = 5_000
READ_FOR_LINKS = 200
MAX_LINKS = 20
TOP = 8
_TRIAL = "\ntrial\n"
# What nobody is attacked by.
_HARMLESS = frozenset({"clean", "bulk"})

_ROWS = """SELECT id, verdict, tenant, sender, sender_domain, recipients, tags FROM message_search
WHERE completed >= $1 AND completed < $2{} ORDER BY completed DESC, id DESC LIMIT $3"""
_ALL_TENANTS, _OF_TENANT = _ROWS.format(""), _ROWS.format(" AND tenant = $4")
_DETAILS = "SELECT detail FROM messages WHERE id = ANY($1)"


class TopValues(msgspec.Struct, frozen=True):
    """The most frequent values, each with its number of messages. Targets are recipients of mail that was neither clean
    nor bulk. `counted` messages were looked at; with `more` the period has others."""

    counted: int = 0
    more: bool = False
    senders: tuple[tuple[str, int], ...] = ()
    domains: tuple[tuple[str, int], ...] = ()
    targets: tuple[tuple[str, int], ...] = ()
    findings: tuple[tuple[str, int], ...] = ()
    tenants: tuple[tuple[str, int], ...] = ()
    hosts: tuple[tuple[str, int], ...] = ()


class TopValueStore(Operations):
    """What is most frequent."""

    @search
    def top_values(self, tenant: str | None, since: int, until: int) -> Work[TopValues]:
        """The most frequent values among the newest messages of a period, of a tenant or of all (None)."""
        scope = normalize_scope(tenant)
        limits = (since, until, COUNTED + 1)
        found = yield Read(_OF_TENANT, (*limits, scope)) if scope else Read(_ALL_TENANTS, limits)
        rows = [row for row in found[:COUNTED] if _TRIAL not in row[6]]
        bad = tuple(row[0] for row in rows if row[1] not in _HARMLESS)[:READ_FOR_LINKS]
        details = (yield Read(_DETAILS, (Many(bad),))) if bad else ()
        hosts = Counter(host for (packed,) in details for host in _link_hosts(packed))
        return _count(rows, len(found) > COUNTED, hosts)


def _count(rows: Sequence[Row], more: bool, hosts: Counter[str]) -> TopValues:
    targets = (address for row in rows if row[1] not in _HARMLESS for address in _lines(row[5]))
    return TopValues(
        counted=len(rows),
        more=more,
        senders=_top(row[3] for row in rows if row[3]),
        domains=_top(row[4] for row in rows if row[4]),
        targets=_top(address for address in targets if not address.startswith("@")),
        findings=_top(tag for row in rows for tag in _lines(row[6])),
        tenants=_top(row[2] for row in rows if row[2]),
        hosts=tuple(hosts.most_common(TOP)),
    )


def _top(values: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(values).most_common(TOP))


def _lines(text: str) -> list[str]:
    return text.strip("\n").split("\n") if text else []


class _Subject(msgspec.Struct, frozen=True, array_like=True):
    role: str
    value: str


class _Report(msgspec.Struct, frozen=True):
    subjects: tuple[_Subject, ...] = ()


class _Detail(msgspec.Struct, frozen=True):
    report: _Report


_details = msgspec.msgpack.Decoder(_Detail)


def _link_hosts(packed: bytes) -> set[str]:
    """The hosts that links of a record lead to, each once; of each packed value only the links are decoded."""
    subjects = _details.decode(decompress(packed)).report.subjects
    links = [subject.value for subject in subjects if subject.role == "link"][:MAX_LINKS]
    return {parts[0] for link in links if (parts := split_url(link))}
