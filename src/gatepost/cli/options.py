"""Options that many commands share, and the parsing of uids and dates that people type."""

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="DIR",
        envvar="GATEPOST_CONFIG",
        help="Folder with guard/core/guard.yml and abby/abby/abby.yml; by default the data folder.",
        show_default=False,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="GATEPOST_DATA",
        help="Folder for all data; by default ~/.local/share/gatepost.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


TenantOption = Annotated[
    str | None, typer.Option("--tenant", metavar="UID", help="The uid of a tenant; without it, all tenants.")
]

_DAY = 86_400_000


def parse_tenant_uid(text: str | None) -> str | None:
    """Return a tenant uid in its stored form, from upper or lower case."""
    from gatepost.ids import canonical

    if text is None:
        return None
    uid = canonical(text)
    if uid is None:
        raise typer.BadParameter(
            "must be the uid of a tenant, as gatepost tenant list prints it", param_hint="--tenant"
        )
    return uid


def parse_moment(text: str | None, option: str, *, end: bool = False) -> int | None:
    """Return a date or date-time as Unix milliseconds. A date alone is the start of that day in UTC, or its `end`."""
    from gatepost.times import milliseconds

    if text is None:
        return None
    found = milliseconds(text)
    day = milliseconds(f"{text}T00:00:00Z")
    if found is None and day is None:
        raise typer.BadParameter("must be a date such as 2030-01-31 or 2030-01-31T12:00:00Z", param_hint=option)
    return found if day is None else day + (_DAY if end else 0)


def render_time(milliseconds: int | None) -> str:
    """Return a time as text; empty for None."""
    from gatepost.times import date_time

    return "" if milliseconds is None else date_time(milliseconds)


PolicyTenantOption = Annotated[
    str | None,
    typer.Option("--tenant", metavar="UID", help="Use the policy for the mail of this tenant.", show_default=False),
]
