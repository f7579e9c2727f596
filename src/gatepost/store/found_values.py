"""What a search finds, at a glance: how many messages, when they came, and the most frequent values of every facet.

The newest messages that fit are counted by their narrow rows, up to a bound; the answer says how many those are and how
far they reach. Hosts, files and addresses of senders stand in rows only as digests. So some records are read, spread
over what was found, for the values that there are; how many messages have each is then counted by the digests of all
rows, as a search for the value would find them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, TypeAlias

import msgspec

from gatepost.lists.links import split_url
from gatepost.store.evidence import EvidenceKind, digest
from gatepost.store.record_packing import BRIEFS, read_packed
from gatepost.store.sql import Row

# How many messages are counted, and of how many the records are read.
COUNTED = 5_000
READ_FOR_VALUES = 150
TOP = 8
# Values that are counted by their digests: those that most of the records have that were read.
_CANDIDATES = 3 * TOP
_MAX_LINKS = 20
# Columns of narrow rows, behind their keys.
COLUMNS = ("tenant", "verdict", "decision", "sender_domain", "recipients", "tags", "evidence")

Facet: TypeAlias = Literal["verdict", "decision", "sender", "to", "host", "file", "ip", "tag", "tenant"]
Values: TypeAlias = tuple[tuple[str, int], ...]
_DIGESTS: dict[Facet, EvidenceKind] = {"host": "link", "file": "name", "ip": "host"}


class FoundValues(msgspec.Struct, frozen=True):
    """What was found: `counted` messages, and with `more` there may be others, which are older than `reached`. `times`
    are when each came, with its verdict. Values are terms of a search, each with its number of messages."""

    counted: int = 0
    more: bool = False
    reached: int = 0
    times: tuple[tuple[int, str], ...] = ()
    facets: dict[Facet, Values] = {}


class FoundRow(msgspec.Struct, frozen=True):
    """A narrow row: when the message came, its key, and the columns."""

    time: int
    key: Row
    values: Row


def choose_sample(rows: Sequence[FoundRow]) -> list[FoundRow]:
    """Some rows, evenly over all: the newest alone would say the same of a day and of a month."""
    return list(rows[:: -(-len(rows) // READ_FOR_VALUES)]) if rows else []


def count_values(rows: Sequence[FoundRow], packed: Iterable[bytes], *, more: bool) -> FoundValues:
    """Count the values of rows, newest first; `packed` are the records of some of them."""
    values = [row.values for row in rows]
    facets: dict[Facet, Values] = {
        "verdict": count_top(each[1] for each in values),
        "decision": count_top(each[2] for each in values if each[2]),
        "sender": count_top(each[3] for each in values if each[3]),
        "to": count_top(address for each in values for address in split_lines(each[4]) if not address.startswith("@")),
        "tag": _top_lines(each[5] for each in values),
        "tenant": count_top(each[0] for each in values if each[0]),
    }
    facets |= _count_digests(values, packed)
    times = tuple((row.time, row.values[1]) for row in rows)
    return FoundValues(len(rows), more, rows[-1].time if rows else 0, times, facets)


def _count_digests(values: Sequence[Row], packed: Iterable[bytes]) -> dict[Facet, Values]:
    seen: dict[Facet, Counter[str]] = {name: Counter() for name in _DIGESTS}
    for each in packed:
        for name, value in set(_list_values(each)):
            seen[name][value] += 1
    known = Counter(chain.from_iterable(each[6].split() for each in values if each[6]))
    counted: dict[Facet, Values] = {}
    for name, found in seen.items():
        kind = _DIGESTS[name]
        total = Counter(
            {value: max(read, known[digest(kind, value)]) for value, read in found.most_common(_CANDIDATES)}
        )
        counted[name] = tuple(total.most_common(TOP))
    return counted


def _list_values(packed: bytes) -> Iterator[tuple[Facet, str]]:
    detail = read_packed(BRIEFS, packed)
    if detail is None:
        return
    for address in (detail.envelope.remote_address, detail.report.authentication.host):
        if address and ":" not in address:
            yield "ip", address
    for file in detail.report.files:
        for name in file.names:
            yield "file", name.strip()[:500].casefold()
    for link in detail.report.links[:_MAX_LINKS]:
        if parts := split_url(link):
            yield "host", parts[0]


def count_top(values: Iterable[str]) -> Values:
    """The most frequent values."""
    return tuple(Counter(values).most_common(TOP))


def _top_lines(texts: Iterable[str | None]) -> Values:
    """The most frequent lines of texts, of which many are the same."""
    total = Counter[str]()
    for text, number in Counter(texts).items():
        for line in split_lines(text):
            total[line] += number
    return tuple(total.most_common(TOP))


def split_lines(text: str | None) -> list[str]:
    """The lines of a text, which has none where it is empty."""
    return text.strip("\n").split("\n") if text else []
