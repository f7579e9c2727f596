"""Times as a user reads and writes them: in UTC, or in the zone that the user has set.

The zone of the request is a context variable: filters and macros of templates have no other way to know for whom they
write. Zones are those of the IANA database, by name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

UTC_NAME = "UTC"
_FOLDERS_LEFT_OUT = ("Etc/", "SystemV/", "US/", "posix/", "right/")

_zone: ContextVar[tuple[str, tzinfo]] = ContextVar("zone", default=(UTC_NAME, UTC))


@lru_cache(1)
def zone_names() -> tuple[str, ...]:
    """Return the zones that a user can choose: places, and UTC first."""
    places = (name for name in available_timezones() if "/" in name and not name.startswith(_FOLDERS_LEFT_OUT))
    return (UTC_NAME, *sorted(places))


@lru_cache(200)
def find_zone(name: str) -> tzinfo:
    """Return a zone by its name; UTC for the empty name and for one that this machine does not know."""
    if name not in zone_names()[1:]:
        return UTC
    return ZoneInfo(name)


@contextmanager
def times_in(name: str) -> Iterator[None]:
    """Have times read and written in this zone."""
    token = _zone.set((name or UTC_NAME, find_zone(name)) if find_zone(name) is not UTC else (UTC_NAME, UTC))
    try:
        yield
    finally:
        _zone.reset(token)


def current_zone_name() -> str:
    return _zone.get()[0]


def current_zone() -> tzinfo:
    return _zone.get()[1]


def local_time(milliseconds: int) -> datetime:
    """Return a time in the zone of the request."""
    return datetime.fromtimestamp(milliseconds / 1000, _zone.get()[1])


def format_moment(milliseconds: int | None) -> str:
    """A time for people, in the zone of the request; every page names the zone."""
    return "never" if milliseconds is None else local_time(milliseconds).strftime("%Y-%m-%d %H:%M:%S")


def format_brief(milliseconds: int) -> str:
    """A time in a narrow place: the time of day for today, the day for others, with the year of another year."""
    moment, today = local_time(milliseconds), datetime.now(_zone.get()[1])
    if moment.date() == today.date():
        return moment.strftime("%H:%M")
    return moment.strftime("%d %b" if moment.year == today.year else "%d %b %Y")


def format_ago(milliseconds: int, now: int) -> str:
    """How long ago a time was, roughly."""
    seconds = max(0, now - milliseconds) // 1000
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "min")):
        if seconds >= unit:
            number = seconds // unit
            return f"{number} {name}{'' if number == 1 or name == 'min' else 's'} ago"
    return "just now"
