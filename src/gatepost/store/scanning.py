"""A page of rows that fit, found by looking at so many rows and no more.

An index leads to the rows in their order (`within`); what no index knows is looked at in each (`tests`). The look ends
when the page is full or the budget is spent, so a request costs the same whether a million rows are kept or a
hundred million. Both statements must see one moment, or the second would count from another first row.

The outer statement has no order of its own: both engines hand the rows of the inner one on as they come, and a second
sorting would make SQLite read the whole budget for a page that is full after a hundred rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gatepost.store.searchstore import BUDGET
from gatepost.store.work import Read, Row, Work

MAX_PAGE = 1_000
# Above all times and ids.
END = (1 << 62, 0)


class Test(msgspec.Struct, frozen=True):
    """A condition with `{}` for each of its values."""

    condition: str
    values: Row


class Scan(msgspec.Struct, frozen=True):
    """Where to look and what for. An index has the columns of `lead`, whose values are given, and then those of
    `place`, by which rows are ordered; `looked` are the columns that `tests` need; `reach` is more than 1 where a
    row costs less to look at than usual, less than 1 where it costs more."""

    source: str
    place: tuple[str, ...]
    within: Sequence[Test]
    tests: Sequence[Test] = ()
    looked: Sequence[str] = ()
    lead: Sequence[str] = ()
    descending: bool = True
    reach: float = 1.0

    @property
    def budget(self) -> int:
        """How many rows are looked at."""
        return max(1, int(BUDGET * self.reach))


class Looked(msgspec.Struct, frozen=True):
    """The places of rows, where to go on, and whether that is where the budget was spent."""

    rows: Sequence[Row]
    next: Row | None = None
    spent: bool = False

    @property
    def cursor(self) -> str | None:
        """Where to go on, as text."""
        return ".".join(map(str, self.next)) if self.next else None

    @property
    def reached(self) -> Any:
        """The first column of the place where the budget was spent."""
        return self.next[0] if self.next and self.spent else None


def between(
    lead: Mapping[str, object], place: tuple[str, ...], start: Sequence[object], end: Sequence[object]
) -> list[Test]:
    """Rows with these values in `lead` from `start` up to but not including `end`, each of which may be empty.

    Said as two bounds on all columns of the index together: where `lead` were said to be equal, PostgreSQL would know
    better, and walk another index past all the rows of others.
    """
    tests = []
    if lead or start:
        tests.append(_compared(">=", (*lead, *place[: len(start)]), (*lead.values(), *start)))
    if lead or end:
        tests.append(_compared("<" if end else "<=", (*lead, *place[: len(end)]), (*lead.values(), *end)))
    return tests


def moment(text: str | None, until: int | None) -> tuple[int, int]:
    """The earlier of a cursor of time and id, and `until`."""
    time, _, uid = (text or "").partition(".")
    known = time.isdecimal() and uid.isdecimal() and len(time) < 19 and len(uid) < 19
    return min((int(time), int(uid)) if known else END, END if until is None else (until, -1))


def having(column: str, parts: Sequence[str]) -> Test:
    """All of these occur in a column."""
    return Test(" AND ".join([f"strpos({column}, {{}}) > 0"] * len(parts)), tuple(parts))


def look(scan: Scan, limit: int) -> Work[Looked]:
    """Look for a page."""
    wanted = max(1, min(limit, MAX_PAGE))
    rows = yield _search(scan, wanted + 1)
    width = len(scan.place)
    if len(rows) > wanted:
        return Looked(rows[:wanted], tuple(rows[wanted - 1][:width]))
    edge = (yield _edge(scan)) if scan.tests else ()
    return Looked(rows, tuple(edge[0]), spent=True) if edge else Looked(rows)


def _compared(how: str, columns: Sequence[str], values: Row) -> Test:
    return Test(f"({', '.join(columns)}) {how} ({', '.join(['{}'] * len(values))})", values)


def _search(scan: Scan, count: int) -> Read:
    values: list[object] = [count]
    if not scan.tests:
        columns = ", ".join(scan.place)
        return Read(f"SELECT {columns} {_ordered(scan, values)} LIMIT $1", tuple(values))
    values.append(scan.budget)
    inner = ", ".join(dict.fromkeys((*scan.place, *scan.looked)))
    outer = ", ".join(_bare(scan.place))
    ordered = _ordered(scan, values)
    tests = _stated(scan.tests, values)
    statement = f"SELECT {outer} FROM (SELECT {inner} {ordered} LIMIT $2) AS looked WHERE {tests} LIMIT $1"  # noqa: S608
    return Read(statement, tuple(values))


def _edge(scan: Scan) -> Read:
    """The last row that the budget reaches."""
    values: list[object] = [scan.budget - 1]
    return Read(f"SELECT {', '.join(scan.place)} {_ordered(scan, values)} LIMIT 1 OFFSET $1", tuple(values))


def _ordered(scan: Scan, values: list[object]) -> str:
    within = _stated(scan.within, values) or "true"
    order = ", ".join(f"{column} DESC" if scan.descending else column for column in (*scan.lead, *scan.place))
    return f"FROM {scan.source} WHERE {within} ORDER BY {order}"


def _stated(tests: Sequence[Test], values: list[object]) -> str:
    """Conditions with their places; what goes there is added to `values`."""
    stated = []
    for test in tests:
        places = range(len(values) + 1, len(values) + 1 + len(test.values))
        stated.append(test.condition.format(*(f"${place}" for place in places)))
        values.extend(test.values)
    return " AND ".join(stated)


def _bare(columns: Sequence[str]) -> list[str]:
    return [column.rpartition(".")[2] for column in columns]
