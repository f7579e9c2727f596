"""Many rows in few statements, for the thread that writes to SQLite.

Each statement is a moment in which that thread must win the interpreter back.
"""

from collections.abc import Sequence
from functools import lru_cache

import apsw

from gatepost.store.work import Row

MAX_ROWS = 256


def insert_rows(
    connection: apsw.Connection, table: str, columns: tuple[str, ...], rows: Sequence[Row], ending: str = ""
) -> None:
    """Insert rows; `ending` says what becomes of those that are there already."""
    done = 0
    while done < len(rows):
        # Powers of two: few different statements, so that they stay prepared.
        count = min(MAX_ROWS, 1 << (len(rows) - done).bit_length() - 1)
        values = [value for row in rows[done : done + count] for value in row]
        connection.execute(_insertion(table, columns, count, ending), values)
        done += count


@lru_cache(64)
def _insertion(table: str, columns: tuple[str, ...], count: int, ending: str) -> str:
    places = ", ".join([f"({', '.join('?' * len(columns))})"] * count)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {places} {ending}"  # noqa: S608
