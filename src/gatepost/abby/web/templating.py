"""Templates, compiled once. All that is put into one is escaped; a name that is missing is an error, not a gap."""

from collections.abc import Mapping
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from gatepost.api.times import date_time

_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def environment(assets: Mapping[str, str]) -> Environment:
    """All templates; `assets` are the paths of style, script and icon by their names."""
    made = Environment(
        loader=PackageLoader("gatepost.abby.web"),
        autoescape=select_autoescape(default_for_string=True, default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["asset"] = dict(assets)
    made.filters.update(
        moment=moment, machine=date_time, size=size, points=points, count=count, percent=percent, ago=ago
    )
    return made


def moment(milliseconds: int | None) -> str:
    """A time as people read it; the zone is always UTC, and is said once for each page."""
    if milliseconds is None:
        return "never"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def ago(milliseconds: int, now: int) -> str:
    """How long since, roughly."""
    seconds = max(0, now - milliseconds) // 1000
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= unit:
            number = seconds // unit
            return f"{number} {name}{'' if number == 1 else 's'} ago"
    return "just now"


def size(number: float) -> str:
    """`1536` as `1.5 KB`."""
    for unit in _UNITS[:-1]:
        if number < 1000:
            return f"{number:.0f} {unit}" if number >= 100 else f"{round(number, 1):g} {unit}"
        number /= 1024
    return f"{number:.1f} {_UNITS[-1]}"


def points(hundredths: int) -> str:
    """`250` as `2.5`."""
    return f"{hundredths / 100:g}"


def count(number: int) -> str:
    """`1234567` as `1,234,567`."""
    return f"{number:,}"


def percent(part: float, whole: float) -> str:
    """A share, with one decimal where it is small."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if 0 < share < 10 else f"{share:.0f} %"
