"""Rows as files: no cell is a formula, and whoever exports many rows does not hold up the event loop."""

import asyncio
import csv
import io
import json
import threading

import pytest

from gatepost.web.pages.searches import MAX_EXPORTED, PIECE, export_rows

COLUMNS = ("number", "text", "list")


def values(number: int) -> tuple[object, ...]:
    return number, f'=HYPERLINK("{number}")', ("a\tb", "c")


@pytest.mark.parametrize("number", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
def test_all_rows_are_there_once(number: int) -> None:
    rows = range(number)
    table = asyncio.run(export_rows("x", "csv", COLUMNS, rows, values))
    assert list(csv.reader(io.StringIO(bytes(table.body).decode()))) == [
        list(COLUMNS),
        *([str(row), f'\'=HYPERLINK("{row}")', "a\tb c"] for row in rows),
    ]
    listed = json.loads(bytes(asyncio.run(export_rows("x", "json", COLUMNS, rows, values)).body))
    assert listed == [{"number": row, "text": f'=HYPERLINK("{row}")', "list": ["a\tb", "c"]} for row in rows]


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t=", "\r=", " =", "\uff1d"])
def test_no_cell_is_a_formula(sign: str) -> None:
    table = asyncio.run(export_rows("x", "csv", ("a",), [f"{sign}1+1"], lambda row: (row,)))
    (_, (cell,)) = csv.reader(io.StringIO(bytes(table.body).decode(), newline=""))
    assert cell == f"'{sign}1+1"


def test_rows_are_written_in_a_thread() -> None:
    threads = set()

    def note(row: int) -> tuple[object, ...]:
        threads.add(threading.get_ident())
        return row, "", ()

    for kind in ("csv", "json"):
        asyncio.run(export_rows("x", kind, COLUMNS, range(MAX_EXPORTED), note))
    assert threads
    assert threading.get_ident() not in threads
