"""Uids and dates as people type them."""

from typing import Annotated

import typer

TenantOption = Annotated[
    str | None, typer.Option("--tenant", metavar="UID", help="The tenant's uid; without it, the global scope.")
]

_DAY = 86_400_000


def tenant_uid(text: str | None) -> str | None:
    """A uid in any case."""
    from gatepost.ids import canonical

    if text is None:
        return None
    uid = canonical(text)
    if uid is None:
        raise typer.BadParameter("must be a tenant's uid; gatepost tenant list has them", param_hint="--tenant")
    return uid


def moment(text: str | None, option: str, *, end: bool = False) -> int | None:
    """A date or a date-time as Unix milliseconds. A date alone is the start of that day in UTC, or its `end`."""
    from gatepost.api.times import milliseconds

    if text is None:
        return None
    found = milliseconds(text)
    day = milliseconds(f"{text}T00:00:00Z")
    if found is None and day is None:
        raise typer.BadParameter("must be a date such as 2030-01-31 or 2030-01-31T12:00:00Z", param_hint=option)
    return found if day is None else day + (_DAY if end else 0)


def shown(milliseconds: int | None) -> str:
    """A time for people; nothing for none."""
    from gatepost.api.times import date_time

    return "" if milliseconds is None else date_time(milliseconds)
