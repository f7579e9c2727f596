"""What is to be done with the database, written once for both engines.

A piece of work is a generator: it yields a statement and is sent its result, so the rules (what counts, what is full,
what is audited) stand in one place, while one engine runs them in its writer thread and the other over the network.

Statements are written as PostgreSQL has them. The few words that SQLite spells otherwise are put into its spelling by
`in_sqlite`: `$1` is `?1`, `= ANY($1)` is `IN carray(?1)`, `unnest($1)` is `carray(?1)`; casts and row locks, which it
does not need, go away.
"""

import re
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]


class Many(msgspec.Struct, frozen=True):
    """A parameter that is an array of text or of numbers; never empty."""

    values: tuple[Any, ...]


class Read(msgspec.Struct, frozen=True):
    """A statement with rows for a result."""

    statement: str
    parameters: Row = ()


class Write(msgspec.Struct, frozen=True):
    """A statement whose result is the number of rows that it touched."""

    statement: str
    parameters: Row = ()


class Bulk(msgspec.Struct, frozen=True):
    """The same change for many rows; its result is how many it touched.

    SQLite takes the rows one by one, PostgreSQL as one array for each column.
    """

    sqlite: str
    postgres: str
    rows: Sequence[Row]


class Undone(Exception):  # noqa: N818  an outcome, not a fault
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
    """Text as both engines can keep it: PostgreSQL has no NUL, and lone surrogates are no UTF-8."""
    if text.isascii():
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text
    plain = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return plain.replace("\0", "\N{REPLACEMENT CHARACTER}")
