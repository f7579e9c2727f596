"""Statements, written once for both engines, and the tables that they are about.

A statement is in the SQL that PostgreSQL and SQLite share: parameters are `$1`, casts are `CAST($1 AS BIGINT)`. What
the engines say in different ways is one of the words of `WORDS`, written like a function: `WHERE @one_of(key, $1)`. A
word that is not in the table is an error where the statement is made.

`sql` makes a statement that stands in a module, and a test prepares everything that it made on each engine. `compose`
makes one whose text depends on a call. `insert_many`, `update_many` and `delete_many` change many rows with one
statement, whose columns have the types of the schema; a column that a table does not have is an error there as well.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any, Self, TypeAlias

import msgspec

Row: TypeAlias = tuple[Any, ...]

# Each word on PostgreSQL and on SQLite.
WORDS: Mapping[str, tuple[str, str]] = {
    # A value is among those of an array, which is a parameter (`Many`).
    "one_of": ("{0} = ANY({1})", "{0} IN carray({1})"),
    # A text contains another one.
    "holds": ("strpos({0}, {1}) > 0", "instr({0}, {1}) > 0"),
    # The larger one of two numbers.
    "larger": ("GREATEST({0}, {1})", "max({0}, {1})"),
    # How many bytes a text has.
    "bytes": ("octet_length({0})", "length(CAST({0} AS BLOB))"),
    # A time that is named for the sake of partitions alone (`message_days`); the sign keeps SQLite from choosing an
    # index by it.
    "day": ("{0}", "+{0}"),
    # Rows that are changed in the same transaction (UPDATE), or whose keys stay until it ends (KEY SHARE).
    "lock": ("FOR {0}", ""),
}
ENGINES = ("postgres", "sqlite")

_WORD = re.compile(r"@(\w+)")
_PARAMETER = re.compile(r"\$(\d+)")
_TABLE = re.compile(r"^CREATE TABLE (\w+) \(\n((?:    .*\n)+)\)", re.MULTILINE)
_COLUMN = re.compile(r"^ +([a-z]\w*) (BIGSERIAL|\w+)", re.MULTILINE)


class SqlError(Exception):
    """A statement has a word, a table or a column that there is not."""


class Sql(str):
    """A statement; `postgres` and `sqlite` are its text for each engine."""

    def __new__(cls, text: str) -> Self:
        """Check the words of a statement."""
        if unknown := [word for word in _WORD.findall(text) if word not in WORDS]:
            raise SqlError(f"{unknown[0]} is not one of the words {', '.join(WORDS)}: {text}")
        return super().__new__(cls, text)

    @cached_property
    def postgres(self) -> str:
        """The text for PostgreSQL."""
        return _spell(str(self), 0)

    @cached_property
    def sqlite(self) -> str:
        """The text for SQLite."""
        return _PARAMETER.sub(r"?\1", _spell(str(self), 1))


# What modules have stated, with the engines that run it.
STATED: list[tuple[Sql, Sequence[str]]] = []


def sql(text: str, *engines: str) -> Sql:
    """A statement that stands in a module; both engines run it, unless only some are named."""
    made = Sql(text)
    STATED.append((made, engines or ENGINES))
    return made


@lru_cache(512)
def compose(text: str) -> Sql:
    """A statement whose text depends on a call."""
    return Sql(text)


class Bulk(msgspec.Struct, frozen=True):
    """The same change for many rows; its result is the number of rows that it changed.

    SQLite takes the rows one by one, PostgreSQL as one array for each column.
    """

    sqlite: str
    postgres: str
    rows: Sequence[Row] = ()

    def of(self, rows: Sequence[Row]) -> "Bulk":
        """The same change for these rows."""
        return Bulk(self.sqlite, self.postgres, rows)


def insert_many(table: str, columns: str, on_conflict: str = "DO NOTHING") -> Bulk:
    """Insert rows that have these columns."""
    names, arrays = _check_columns(table, columns)
    into, conflict = f"INSERT INTO {table} ({', '.join(names)})", f"ON CONFLICT {on_conflict}"
    return _state_bulk(
        f"{into} VALUES ({', '.join('?' * len(names))}) {conflict}",
        f"{into} SELECT * FROM {arrays} {conflict}",  # noqa: S608
    )


def update_many(table: str, keys: str, columns: str, setting: str) -> Bulk:
    """Change the rows that have these values in `keys`; `setting` names the values of the other columns `new.name`."""
    names, arrays = _check_columns(table, f"{keys}, {columns}")
    same = " AND ".join(f"{table}.{name} = new.{name}" for name in keys.split(", "))
    update = f"UPDATE {table} SET {setting}"  # noqa: S608
    return _state_bulk(
        re.sub(r"\bnew\.(\w+)", lambda found: f"?{names.index(found[1]) + 1}", f"{update} WHERE {same}"),
        f"{update} FROM {arrays} AS new ({', '.join(names)}) WHERE {same}",
    )


def delete_many(table: str, columns: str) -> Bulk:
    """Delete the rows that have these values in their columns."""
    names, arrays = _check_columns(table, columns)
    same = " AND ".join(f"{table}.{name} = gone.{name}" for name in names)
    return _state_bulk(
        f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = ?' for name in names)}",  # noqa: S608
        f"DELETE FROM {table} USING {arrays} AS gone ({', '.join(names)}) WHERE {same}",  # noqa: S608
    )


@cache
def baseline(engine: str) -> str:
    """The statements that make a new storage (`upgrading`)."""
    return (files("gatepost.store") / "schema" / f"{engine}.sql").read_text("utf-8")


@cache
def tables() -> Mapping[str, Mapping[str, str]]:
    """Every table, with the types of its columns on PostgreSQL in their order; SQLite has the same columns."""
    return {
        name: {column: kind.replace("SERIAL", "INT").lower() for column, kind in _COLUMN.findall(body)}
        for name, body in _TABLE.findall(baseline("postgres"))
    }


def unnest(types: Iterable[str], first: int = 1) -> str:
    """How PostgreSQL makes rows of parameters that are arrays of these types."""
    return f"unnest({', '.join(f'${number}::{kind}[]' for number, kind in enumerate(types, first))})"


def _check_columns(table: str, columns: str) -> tuple[list[str], str]:
    """Return the names of columns, and how PostgreSQL makes rows of an array for each."""
    names, types = columns.split(", "), tables().get(table, {})
    if missing := [name for name in names if name not in types]:
        raise SqlError(f"The schema has no column {missing[0]} of a table {table}.")
    return names, unnest(types[name] for name in names)


def _state_bulk(sqlite: str, postgres: str) -> Bulk:
    return Bulk(sql(sqlite, "sqlite").sqlite, sql(postgres, "postgres").postgres)


def _spell(text: str, engine: int) -> str:
    """Replace the words of a statement, the innermost ones first."""
    while found := list(_WORD.finditer(text)):
        word = found[-1]
        arguments, end = _read_arguments(text, word.end())
        text = f"{text[: word.start()]}{WORDS[word[1]][engine].format(*arguments)}{text[end:]}"
    return text


def _read_arguments(text: str, start: int) -> tuple[list[str], int]:
    """Return what stands in the parentheses that open at `start`, and where they end."""
    arguments, begin, depth = list[str](), start + 1, 0
    for at in range(start, len(text) if text.startswith("(", start) else start):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0 or (depth == 1 and text[at] == ","):
            arguments.append(text[begin:at].strip())
            begin = at + 1
        if depth == 0:
            return arguments, begin
    raise SqlError(f"A word has no arguments: {text}")
