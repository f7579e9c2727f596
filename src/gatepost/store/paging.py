"""Keyset paging with a bound on work: a page of matching rows, found by reading so many rows and no more.

An index leads to the rows in their order (`within`); what no index knows is tested in each row (`tests`). Reading ends
when the page is full or the budget is spent, so a request costs the same whether a million rows are stored or a
hundred million. Where the budget was spent, a page is short or empty and still has a next one. Both statements must
see one moment, or the second would count from another first row.

The outer statement has no order of its own: both engines hand the rows of the inner one on as they come, and a second
sorting would make SQLite read the whole budget for a page that is full after a hundred rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from gatepost.store.engine import Read, Work
from gatepost.store.sql import Row, compose

T = TypeVar("T")

# How many rows a request reads at most.
ROW_BUDGET = 30_000
MAX_PAGE = 1_000
# How many words of a subject are searched for.
MAX_WORDS = 8
# How far results are counted.
MAX_COUNTED = 10_000
# Above all times and ids.
END = (1 << 62, 0)


class MessageCount(msgspec.Struct, frozen=True):
    """How many results fit; with `more`, at least so many."""

    messages: int
    more: bool = False


class SqlCondition(msgspec.Struct, frozen=True):
    """A condition in SQL, with `{}` for each of its values."""

    sql: str
    values: Row


class PageQuery(msgspec.Struct, frozen=True):
    """Where to look and what for.

    An index has the columns of `lead`, whose values are given, and then those of `order`, by which rows are ordered.
    `tested` are the columns that `tests` need. `reach` is above 1 where a row costs less to read than usual, and below
    1 where it costs more; with `is_whole` there are so few rows that all of them are read.
    """

    source: str
    order: tuple[str, ...]
    within: Sequence[SqlCondition]
    tests: Sequence[SqlCondition] = ()
    tested: Sequence[str] = ()
    lead: Sequence[str] = ()
    descending: bool = True
    reach: float = 1.0
    is_whole: bool = False

    @property
    def budget(self) -> int:
        """How many rows are read at most."""
        return max(1, int(ROW_BUDGET * self.reach))


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Results in their order. `next` is the cursor of the next page; `reached` is how far rows were read (a time, or an
    entry of a list) where the budget ended before the page was full."""

    rows: tuple[T, ...]
    next: str | None = None
    reached: Any = None


class Keys(msgspec.Struct, frozen=True):
    """The keys (columns of `order`) of the rows on a page, and where the next page begins.

    `is_spent` says that the budget was spent before the page was full.
    """

    rows: Sequence[Row]
    next: Row | None = None
    is_spent: bool = False

    @property
    def cursor(self) -> str | None:
        """Where the next page begins, as text; None after the last page."""
        return ".".join(map(str, self.next)) if self.next else None

    @property
    def reached(self) -> Any:
        """The first column of the key at which the budget was spent; None where the page is complete."""
        return self.next[0] if self.next and self.is_spent else None


def key_range(
    lead: Mapping[str, object], order: tuple[str, ...], start: Sequence[object], end: Sequence[object]
) -> list[SqlCondition]:
    """Rows with these values in `lead` from `start` up to but not including `end`, each of which may be empty.

    The bounds are on all columns of the index together: if `lead` were compared with `=`, PostgreSQL would choose
    another index and walk past all the rows of other tenants.
    """
    conditions = []
    if lead or start:
        conditions.append(_compare(">=", (*lead, *order[: len(start)]), (*lead.values(), *start)))
    if lead or end:
        conditions.append(_compare("<" if end else "<=", (*lead, *order[: len(end)]), (*lead.values(), *end)))
    return conditions


def parse_time_cursor(cursor: str | None, until: int | None) -> tuple[int, int]:
    """The earlier of a cursor (time and id) and `until`; a cursor that makes no sense is the first page."""
    time, _, uid = (cursor or "").partition(".")
    is_valid = time.isdecimal() and uid.isdecimal() and len(time) < 19 and len(uid) < 19
    return min((int(time), int(uid)) if is_valid else END, END if until is None else (until, -1))


def contains_all(column: str, parts: Sequence[str]) -> SqlCondition:
    """All of these parts occur in a column."""
    return SqlCondition(" AND ".join([f"@holds({column}, {{}})"] * len(parts)), tuple(parts))


def find_page(query: PageQuery, limit: int) -> Work[Keys]:
    """Find the keys of a page of at most `limit` rows."""
    wanted = max(1, min(limit, MAX_PAGE))
    rows = yield _matching(query, wanted + 1)
    width = len(query.order)
    if len(rows) > wanted:
        return Keys(rows[:wanted], tuple(rows[wanted - 1][:width]))
    edge = (yield _last_within_budget(query)) if _has_bound(query) else ()
    return Keys(rows, tuple(edge[0]), is_spent=True) if edge else Keys(rows)


def find_any(queries: Sequence[PageQuery], limit: int) -> Work[Keys]:
    """Find a page of rows that one of the queries finds, which all have the same descending order. A query that has
    more than its page makes the rows below its last one unknown: the page ends there."""
    if len(queries) == 1:
        return (yield from find_page(queries[0], limit))
    found: list[Keys] = []
    for query in queries:
        found += [(yield from find_page(query, limit))]
    rows = sorted({tuple(row[: len(queries[0].order)]) for keys in found for row in keys.rows}, reverse=True)
    floor = max((tuple(keys.next) for keys in found if keys.next), default=None)
    known = [row for row in rows if floor is None or row >= floor]
    wanted = max(1, min(limit, MAX_PAGE))
    if len(known) > wanted:
        return Keys(known[:wanted], known[wanted - 1])
    is_spent = any(keys.is_spent for keys in found if keys.next and tuple(keys.next) == floor)
    return Keys(known, floor, is_spent=is_spent)


def count_any(queries: Sequence[PageQuery], most: int) -> Work[MessageCount]:
    """Count the rows that one of the queries finds, up to `most`."""
    found: set[Row] = set()
    more = False
    for query in queries:
        rows = yield _matching(query, most + 1)
        found.update(tuple(row[: len(query.order)]) for row in rows)
        edge = (yield _last_within_budget(query)) if _has_bound(query) and len(rows) <= most else ()
        more = more or bool(edge) or len(rows) > most
    return MessageCount(min(len(found), most), more or len(found) > most)


def read_rows(query: PageQuery, columns: Sequence[str], most: int) -> Work[tuple[Sequence[Row], bool]]:
    """Read these columns of at most `most` rows, behind those of the order, and say whether there may be more."""
    rows = yield _matching(query, most + 1, columns)
    edge = (yield _last_within_budget(query)) if _has_bound(query) and len(rows) <= most else ()
    return rows[:most], bool(edge) or len(rows) > most


def _has_bound(query: PageQuery) -> bool:
    return bool(query.tests) and not query.is_whole


def _compare(operator: str, columns: Sequence[str], values: Row) -> SqlCondition:
    return SqlCondition(f"({', '.join(columns)}) {operator} ({', '.join(['{}'] * len(values))})", values)


def _matching(query: PageQuery, count: int, further: Sequence[str] = ()) -> Read:
    values: list[object] = [count]
    if not query.tests:
        columns = ", ".join((*query.order, *further))
        return Read(compose(f"SELECT {columns} {_ordered_rows(query, values)} LIMIT $1"), tuple(values))
    values.append(END[0] if query.is_whole else query.budget)
    inner = ", ".join(dict.fromkeys((*query.order, *query.tested, *further)))
    outer = ", ".join(column.rpartition(".")[2] for column in (*query.order, *further))
    ordered = _ordered_rows(query, values)
    tests = _join_conditions(query.tests, values)
    statement = f"SELECT {outer} FROM (SELECT {inner} {ordered} LIMIT $2) AS looked WHERE {tests} LIMIT $1"  # noqa: S608
    return Read(compose(statement), tuple(values))


def _last_within_budget(query: PageQuery) -> Read:
    """The last row that the budget reaches."""
    values: list[object] = [query.budget - 1]
    return Read(
        compose(f"SELECT {', '.join(query.order)} {_ordered_rows(query, values)} LIMIT 1 OFFSET $1"), tuple(values)
    )


def _ordered_rows(query: PageQuery, values: list[object]) -> str:
    within = _join_conditions(query.within, values) or "true"
    order = ", ".join(f"{column} DESC" if query.descending else column for column in (*query.lead, *query.order))
    return f"FROM {query.source} WHERE {within} ORDER BY {order}"


def _join_conditions(conditions: Sequence[SqlCondition], values: list[object]) -> str:
    """Conditions with numbered placeholders; their values are added to `values`."""
    joined = []
    for condition in conditions:
        numbers = range(len(values) + 1, len(values) + 1 + len(condition.values))
        joined.append(condition.sql.format(*(f"${number}" for number in numbers)))
        values.extend(condition.values)
    return " AND ".join(joined)
