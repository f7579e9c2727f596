"""Times that people choose: a day, or a day and a minute, in UTC."""

from datetime import UTC, datetime, timedelta

import msgspec

from gatepost.abby.web.forms import Form
from gatepost.api.errors import INVALID_REQUEST, Failure

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
UNREADABLE = Failure(INVALID_REQUEST, "that is no day: write it as 2027-01-31")
PAST = Failure(INVALID_REQUEST, "that day is over; choose a later one, or none at all")


def instant(text: str, *, end: bool = False) -> int | Failure | None:
    """`2027-01-31`, or `2027-01-31T10:30` as browsers send it; the end of a day where it is asked for."""
    if not text:
        return None
    try:
        stated = datetime.fromisoformat(text)
        moment = stated.replace(tzinfo=UTC) if stated.tzinfo is None else stated.astimezone(UTC)
        if end and len(text) <= len("2027-01-31"):
            moment += timedelta(days=1)
    except (ValueError, OverflowError):
        return UNREADABLE
    return (moment - _EPOCH) // _MILLISECOND


class Period(msgspec.Struct, frozen=True):
    """A stretch of time; None where it is open at that side."""

    since: int | None = None
    until: int | None = None


def period(asked: Form) -> Period | Failure:
    """What the fields `since` and `until` say; the last day counts whole."""
    since, until = instant(asked.text("since")), instant(asked.text("until"), end=True)
    if isinstance(since, Failure):
        return since
    return until if isinstance(until, Failure) else Period(since, until)


def expiry(text: str, now: int) -> int | Failure | None:
    """When something ends: with the end of that day; None for never."""
    moment = instant(text, end=True)
    if isinstance(moment, int) and moment <= now:
        return PAST
    return moment
