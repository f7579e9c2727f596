import re

from gatepost.api import errors
from gatepost.api.errors import ERRORS, ErrorCode

STATUSES = {400, 401, 403, 404, 405, 409, 413, 415, 429, 500, 503, 504}


def test_every_code_is_in_the_table_once() -> None:
    named = [value for value in vars(errors).values() if isinstance(value, ErrorCode)]
    assert sorted(error.code for error in named) == sorted(error.code for error in ERRORS)
    assert len({error.code for error in ERRORS}) == len(ERRORS)


def test_codes_are_words_and_statuses_known() -> None:
    for error in ERRORS:
        assert re.fullmatch("[a-z]+(_[a-z]+)*", error.code)
        assert error.meaning.endswith(".")
    assert {error.status for error in ERRORS} == STATUSES


def test_429_and_503_always_say_when_to_come_back() -> None:
    assert all(bool(error.retry_after) == (error.status in (429, 503)) for error in ERRORS)
