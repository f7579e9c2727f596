"""Entries in files: what a spreadsheet would run is defused in CSV, and comes back as it was."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.api.lists import ListFileError, PublicListsEntry, heading, lines_of, records

FORMULAS = (
    '=HYPERLINK("http://evil.example","x")',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    " =1+1",
    "\t=1",
    "\N{FULLWIDTH EQUALS SIGN}1",
    "'=1",
    "''=1",
)
INNOCENT = ("", "seen in May", "a=b", "x-y", "'quoted'", "ann@example.org", "it's = fine")


def exported(entry: str, comment: str) -> list[str]:
    made = PublicListsEntry(entry, comment, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "cli", None, 0, None)
    return list(lines_of([made], "csv"))


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_begins_like_a_formula(text: str) -> None:
    for entry, comment in ((text, "x"), ("a.example", text)):
        (row,) = csv.reader(exported(entry, comment))
        assert all(cell.lstrip()[:1] not in tuple("=+-@\N{FULLWIDTH EQUALS SIGN}") or not cell for cell in row)
        assert any(cell == f"'{text}" for cell in row)


@pytest.mark.parametrize("text", ["x\r=1+1", "x\n=1+1", "x\r\n=1+1", "\r=1+1", "x\r"])
def test_no_line_end_inside_a_cell_begins_a_row(text: str) -> None:
    """Spreadsheets end a row at a bare carriage return, too."""
    (line,) = exported("a.example", text)
    ((_, comment, _),) = csv.reader(io.StringIO(line, newline=""))
    assert comment.removeprefix("'") == text


@pytest.mark.parametrize("text", INNOCENT)
def test_other_cells_stay_as_they_are(text: str) -> None:
    (row,) = csv.reader(exported("a.example", text))
    assert row[1] == text


@given(st.text(alphabet="'=+-@ ax\"", max_size=8))
def test_what_was_exported_is_imported_as_it_was(text: str) -> None:
    comment = text.strip()
    lines = [heading("csv"), *exported("@a.example", comment)]
    (record,) = records((line.encode() for line in lines), "csv")
    assert (record.entry.entry, record.entry.comment or "") == ("@a.example", comment)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"entry":"a.example","entry":"b.example"}', "entry"),
        (b'{"entry":"a.example","\\u0065ntry":"a.example"}', "entry"),
        (b'{"entry":"a.example","comment":null,"comment":"x"}', "comment"),
        (b'{"entry":"a.example","hits":1,"hits":2}', "hits"),
    ],
)
def test_a_line_that_has_a_key_twice_is_refused(line: bytes, key: str) -> None:
    with pytest.raises(ListFileError, match=f"{key} twice") as refused:
        list(records([b'{"entry":"first.example"}\n', line + b"\n"], "ndjson"))
    assert refused.value.line == 2
