"""Dates that are far from when the mail was taken in (RFC 5322 section 3.6.1).

A date in the future keeps a mail on top of the list; one years ago hides it or comes from a wrong clock. The Date is
compared with the newest Received field, which a server of ours or of the provider wrote, else with the clock.
"""

import re
from calendar import timegm
from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import HEADER_DATE_AHEAD, HEADER_DATE_BEHIND, HEADER_NO_DATE, Finding

KINDS = (HEADER_DATE_AHEAD, HEADER_DATE_BEHIND, HEADER_NO_DATE)

_HOUR = 3600.0
# Clocks are wrong by a time zone often, queues hold mail for up to five days; more than that is no accident.
_AHEAD = 26 * _HOUR
_BEHIND = 7 * 24 * _HOUR

_SHORTEST = 20

_MONTHS = {name: index for index, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)}
_DATE = re.compile(
    r"\s{0,5}(?:[A-Za-z]{2,9},?\s{1,5}|[A-Za-z]{3},)?(\d{1,2})[\s-]{1,5}([A-Za-z]{3})[a-z]{0,6}[\s,-]{1,5}(\d{2,4})\s{1,5}(\d{1,2}):(\d{2})(?::(\d{2}))?"
    r"(?:\s{0,5}([+-]\d{4}))?"
)


def check(reading: Reading) -> Iterator[Finding]:
    value, received = reading.fields.get("date"), reading.fields.get("received")
    tail = received.rpartition(";")[2][:100] if received else ""
    # Nearly all mail arrives on the day it was written: `Tue, 10 Mar 2026`.
    if value and value[3:5] == ", " and value[5:16] in tail and len(value) > _SHORTEST:
        return
    taken = _parse_date(tail)
    if value is None or (written := _parse_date(value[:100])) is None:
        if received or reading.envelope.remote_address:
            yield HEADER_NO_DATE.at("Date", value=value or "")
        return
    if taken is None and not reading.now:
        return
    apart = written - (taken if taken is not None else reading.now)
    if apart > _AHEAD:
        yield HEADER_DATE_AHEAD.at("Date", date=value, hours=round(apart / _HOUR))
    # Without a Received field this is old mail that is looked at again.
    elif taken is not None and apart < -_BEHIND:
        yield HEADER_DATE_BEHIND.at("Date", date=value, hours=round(-apart / _HOUR))


def _parse_date(text: str) -> float | None:
    match = _DATE.match(text)
    if not match or match[2].lower() not in _MONTHS:
        return None
    year = int(match[3])
    year += (2000 if year < 50 else 1900) if year < 1000 else 0
    offset = match[7] or "+0000"
    east = (int(offset[1:3]) * 60 + int(offset[3:])) * (-60 if offset[0] == "-" else 60)
    moment = (year, _MONTHS[match[2].lower()], int(match[1]), int(match[4]), int(match[5]), int(match[6] or 0))
    return timegm((*moment, 0, 0, 0)) - east if 1 <= moment[2] <= 31 and 1900 < year < 9999 else None
