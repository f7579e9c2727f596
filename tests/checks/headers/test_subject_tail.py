"""Marks behind a row of blanks."""

import pytest

from gatepost.checks.headers.subject import check
from gatepost.findings import Reading
from gatepost.kinds import HEADER_SUBJECT_TAIL
from gatepost.mail.reader import read


@pytest.mark.parametrize(
    ("subject", "found"),
    [
        ("All channels free !!                     18441", [HEADER_SUBJECT_TAIL.id]),
        ("Get what you deserve            11.180", [HEADER_SUBJECT_TAIL.id]),
        ("Hello      x7", [HEADER_SUBJECT_TAIL.id]),
        ("Minutes   of 10 November,  version 2", []),
        ("Agenda            tomorrow", []),  # a word is a layout
        ("Invoice 18441", []),
        ("            18441", []),  # nothing before it: the blanks end with the field's name
        ("Hello      ", []),
        ("", []),
    ],
)
def test_subject_tail(subject: str, found: list[str]) -> None:
    reading = Reading(read(f"From: a@b.example\nSubject: {subject}\n\nHello\n".encode()))
    assert [finding.kind for finding in check(reading)] == found


def test_a_folded_subject_is_one_line() -> None:
    reading = Reading(read(b"From: a@b.example\nSubject: Quarterly figures and an outlook,\n\t part 2\n\nHello\n"))
    assert list(check(reading)) == []
