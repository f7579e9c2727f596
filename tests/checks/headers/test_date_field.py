"""Dates far from the truth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.checks.headers.date_field import check
from gatepost.findings import Reading
from gatepost.kinds import HEADER_DATE_AHEAD, HEADER_DATE_BEHIND, HEADER_NO_DATE
from gatepost.mail.message import Field, Headers, Message

TAKEN = "from a by b; Tue, 10 Mar 2026 12:00:00 +0000"
NOW = 1_773_144_000.0  # the same moment


def reading(date: str | None, received: str | None = TAKEN, now: float = NOW) -> Reading:
    fields = [Field(name, value, b"") for name, value in (("received", received), ("date", date)) if value is not None]
    return Reading(Message(headers=Headers(tuple(fields))), now=now)


@pytest.mark.parametrize(
    ("date", "kinds"),
    [
        ("Thu, 12 Mar 2026 12:00:00 +0000", [HEADER_DATE_AHEAD.id]),
        ("Tue, 19 Jan 2038 03:14:07 +0000", [HEADER_DATE_AHEAD.id]),
        ("Sun, 1 Mar 2026 12:00:00 +0000", [HEADER_DATE_BEHIND.id]),
        ("Thu, 1 Jan 1970 00:00:00 +0000", [HEADER_DATE_BEHIND.id]),
        ("yesterday", [HEADER_NO_DATE.id]),
        ("Tue, 99 Foo 2026 12:00:00 +0000", [HEADER_NO_DATE.id]),
        (None, [HEADER_NO_DATE.id]),
        ("Tue, 10 Mar 2026 11:59:00 +0000", []),
        ("Tue, 10 Mar 2026 23:59:00 +1200", []),
        ("10 Mar 2026 12:00 -0800", []),
        ("Wed, 11 Mar 2026 09:00:00 +0000 (UTC)", []),  # a clock in the wrong time zone
        ("Thu, 5 Mar 2026 12:00:00 +0000", []),  # five days in a queue
        ("Tuesday, 10-Mar-26 12:00:00", []),
    ],
)
def test_date_field(date: str | None, kinds: list[str]) -> None:
    assert [finding.kind for finding in check(reading(date))] == kinds


def test_old_mail_without_received_is_old_mail() -> None:
    assert list(check(reading("Mon, 1 Jan 2001 00:00:00 +0000", None))) == []
    assert [finding.kind for finding in check(reading("Tue, 19 Jan 2038 03:14:07 +0000", None))] == [
        HEADER_DATE_AHEAD.id
    ]


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_date_is_read(date: str, received: str) -> None:
    list(check(reading(date, received)))


@given(st.from_regex(r"\d{1,2} (Jan|Feb|Dec) \d{2,4} \d{1,2}:\d{2}:\d{2} [+-]\d{4}", fullmatch=True))
def test_any_numbers_are_read(date: str) -> None:
    list(check(reading(date)))
