"""Statements and work: what is to be done with the database, written once for both engines.

A piece of work is a generator: it yields a statement and is sent its result. So the rules (what counts, what is full,
what is audited) stand in one place, while SQLite runs them in its writer thread and PostgreSQL over the network.

Statements are written as PostgreSQL has them. `in_sqlite` replaces the few words that SQLite spells otherwise: `$1` is
`?1`, `= ANY($1)` is `IN carray(?1)`, `unnest($1)` is `carray(?1)`; casts and row locks, which SQLite does not need, are
dropped.
"""

import re
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import apsw
import msgspec

T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]

MAX_INSERTED = 256


class Many(msgspec.Struct, frozen=True):
    """A parameter that is an array of text or of numbers; never empty."""

    values: tuple[Any, ...]


class Read(msgspec.Struct, frozen=True):
    """A statement whose result is its rows."""

    statement: str
    parameters: Row = ()


class Write(msgspec.Struct, frozen=True):
    """A statement whose result is the number of rows that it changed."""

    statement: str
    parameters: Row = ()


class Bulk(msgspec.Struct, frozen=True):
    """The same change for many rows; its result is the number of rows that it changed.

    SQLite takes the rows one by one, PostgreSQL as one array for each column.
    """

    sqlite: str
    postgres: str
    rows: Sequence[Row]


class Rollback(Exception):  # noqa: N818  an outcome, not a fault
    """Ends a piece of work with a result, and with nothing of it applied."""

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self.result = result


Step: TypeAlias = Read | Write | Bulk
Work: TypeAlias = Generator[Step, Any, T]

_SPELLINGS = (
    (re.compile(r"::[a-z]+(\[\])?"), ""),
    (re.compile(r"= ANY\(\$(\d+)\)"), r"IN carray(?\1)"),
    (re.compile(r"\bunnest\(\$(\d+)\)"), r"carray(?\1)"),
    (re.compile(r"\$(\d+)"), r"?\1"),
    (re.compile(r" FOR (?:UPDATE|KEY SHARE)\b"), ""),
    (re.compile(r"\bGREATEST\("), "max("),
    (re.compile(r"\bstrpos\("), "instr("),
)


@lru_cache(256)
def in_sqlite(statement: str) -> str:
    """A statement in SQLite's spelling."""
    for pattern, spelling in _SPELLINGS:
        statement = pattern.sub(spelling, statement)
    return statement


def storable(text: str) -> str:
    """Text as both engines can hold it: PostgreSQL has no NUL, and lone surrogates are not UTF-8."""
    if text.isascii():
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text
    plain = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return plain.replace("\0", "\N{REPLACEMENT CHARACTER}")


def insert_rows(
    connection: apsw.Connection, table: str, columns: tuple[str, ...], rows: Sequence[Row], conflict: str = ""
) -> None:
    """Insert many rows into SQLite with few statements; `conflict` is the ON CONFLICT clause.

    Each statement is a moment in which the writer thread must win the interpreter back.
    """
    done = 0
    while done < len(rows):
        # Powers of two: few different statements, so that they stay prepared.
        count = min(MAX_INSERTED, 1 << (len(rows) - done).bit_length() - 1)
        values = [value for row in rows[done : done + count] for value in row]
        connection.execute(_insert_statement(table, columns, count, conflict), values)
        done += count


@lru_cache(64)
def _insert_statement(table: str, columns: tuple[str, ...], count: int, conflict: str) -> str:
    placeholders = ", ".join([f"({', '.join('?' * len(columns))})"] * count)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {placeholders} {conflict}"  # noqa: S608
