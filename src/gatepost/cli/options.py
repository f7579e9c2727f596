"""`--config` and `--data`, the same on every command, and what they mean where they are left out.

Uids and dates as people type them.

Using the storage of a deployment from the command line, beside a server that may be running.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gatepost.service.data_folder import DataFolder, StartError

if TYPE_CHECKING:
    from gatepost.store.errors import NotFound
    from gatepost.store.store import Store


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="DIR",
        envvar="GATEPOST_CONFIG",
        help="Folder with guard/core/guard.yml and abby/abby/abby.yml; the data folder if not given.",
        show_default=False,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="GATEPOST_DATA",
        help="Folder for everything that is kept; ~/.local/share/gatepost if not given.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def data_folder(option: Path | None) -> DataFolder:
    """The data folder that is meant, absolute."""
    if option is None:
        home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        option = Path(home) / "gatepost"
    return DataFolder(option.expanduser().absolute())


def config_folder(option: Path | None, data: DataFolder) -> Path:
    """The folder of the configuration that is meant, absolute."""
    return option.expanduser().absolute() if option else data.path


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
    from gatepost.times import milliseconds

    if text is None:
        return None
    found = milliseconds(text)
    day = milliseconds(f"{text}T00:00:00Z")
    if found is None and day is None:
        raise typer.BadParameter("must be a date such as 2030-01-31 or 2030-01-31T12:00:00Z", param_hint=option)
    return found if day is None else day + (_DAY if end else 0)


def shown(milliseconds: int | None) -> str:
    """A time for people; nothing for none."""
    from gatepost.times import date_time

    return "" if milliseconds is None else date_time(milliseconds)


T = TypeVar("T")


def with_store(config: Path | None, data: Path | None, use: Callable[["Store"], Awaitable[T]]) -> T:
    """Use the storage that the configuration names."""
    import asyncio

    from gatepost.settings.files import load_abby
    from gatepost.store import open_store

    place = data_folder(data)
    url = load_abby(config_folder(config, place)).storage.url
    place.make()

    async def used() -> T:
        store = open_store(url, place.path)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(used())


def require_found(outcome: "T | NotFound", what: str) -> T:
    """What a call found; a sentence where there is none."""
    from gatepost.store.errors import NotFound

    if isinstance(outcome, NotFound):
        raise StartError(f"There is no {outcome.what} {what}.")
    return outcome
