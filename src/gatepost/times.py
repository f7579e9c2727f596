"""Times on the wire: RFC 3339, UTC, milliseconds, `Z`. Inside the program a time is an int in Unix milliseconds."""

import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

# In milliseconds, as times are kept.
HOUR, DAY = 3_600_000, 86_400_000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


def now() -> int:
    """Return the current time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def date_time(milliseconds: int) -> str:
    """Return `1700000000123` as `2023-11-14T22:13:20.123Z`."""
    seconds, rest = divmod(milliseconds, 1_000)
    return f"{_second(seconds)}.{rest:03d}Z"


# Every answer has two times, and hundreds of answers have the same second.
@lru_cache(256)
def _second(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).isoformat()[:-6]


def milliseconds(text: str) -> int | None:
    """Return a date-time of RFC 3339 section 5.6 in Unix milliseconds; None if the text is not one."""
    if not _DATE_TIME.fullmatch(text):
        return None
    # A leap second (section 5.7) has no Unix time of its own; it becomes the last one before it.
    stated = text.upper().replace(":60", ":59") if text[17:19] == "60" else text.upper()
    try:
        return (datetime.fromisoformat(stated) - EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        return None
