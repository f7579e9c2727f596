from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.times import date_time, milliseconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01t00:00:00.0019z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2016-12-31T23:59:60Z", 1_483_228_799_000),  # a leap second
        ("1970-01-01", None),
        ("1970-01-01 00:00:00Z", None),
        ("1970-01-01T00:00:00", None),
        ("1970-13-01T00:00:00Z", None),
        ("1970-01-01T00:00:00+0100", None),
        ("1970-W01-1T00:00:00Z", None),
        ("١٩٧٠-01-01T00:00:00Z", None),
        ("", None),
    ],
)
def test_reading(text: str, expected: int | None) -> None:
    assert milliseconds(text) == expected


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_is_written_is_read_back(moment: datetime) -> None:
    stamp = int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    text = date_time(stamp)
    assert len(text) == 24
    assert text.endswith("Z")
    assert milliseconds(text) == stamp


@given(st.text())
def test_reading_is_total(text: str) -> None:
    assert milliseconds(text) is None or isinstance(milliseconds(text), int)
