"""Options that many commands share, and the parsing of uids and dates that people type.

The second half opens the deployment that a command works on: its folders, storage and policies, beside a service that
may be running.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gatepost.service.data_folder import DataFolder, StartError

if TYPE_CHECKING:
    from gatepost.policy.layers import Policies
    from gatepost.settings.keys import PolicySettings
    from gatepost.store.errors import NotFound
    from gatepost.store.store import Store


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


T = TypeVar("T")


def data_folder(option: Path | None) -> DataFolder:
    """Return the data folder of an option or the default, as an absolute path."""
    if option is None:
        home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        option = Path(home) / "gatepost"
    return DataFolder(option.expanduser().absolute())


def config_folder(option: Path | None, data: DataFolder) -> Path:
    """Return the configuration folder of an option, or else the data folder, as an absolute path."""
    return option.expanduser().absolute() if option else data.path


def with_store(
    config: Path | None, data: Path | None, use: Callable[["Store"], Awaitable[T]], *, any_node: bool = False
) -> T:
    """Call `use` with the storage that `abby.yml` names, and return its result; with `any_node`, the one of `guard.yml`
    where a node has that."""
    import asyncio

    from gatepost.cli.change_events import emit_changes, load_event_source
    from gatepost.settings.files import load_abby
    from gatepost.store import open_store

    place = data_folder(data)
    folder = config_folder(config, place)
    url = (load_event_source if any_node else load_abby)(folder).storage.url
    place.make()

    async def run() -> T:
        store = open_store(url, place.path)
        try:
            with emit_changes(folder, place, store):
                return await use(store)
        finally:
            await store.close()

    return asyncio.run(run())


def require_found(outcome: "T | NotFound", what: str) -> T:
    """Return the result of a call; raise `StartError` if it is `NotFound`."""
    from gatepost.store.errors import NotFound

    if isinstance(outcome, NotFound):
        raise StartError(f"There is no {outcome.what} {what}.")
    return outcome


def load_policies(config: Path | None, data: Path | None) -> "Policies":
    """Return the policies in force; the shipped policy if there is no configuration."""
    from gatepost.settings import files

    return files.load_policies(*load_policy_settings(config, data))


def load_policy_settings(config: Path | None, data: Path | None) -> "tuple[PolicySettings, list[str]]":
    """Return the policy files and the plug-ins of the configuration."""
    from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_abby, load_guard
    from gatepost.settings.keys import PolicySettings

    folder = config_folder(config, data_folder(data))
    if not (folder / GUARD_FILE).exists() and not (folder / ABBY_FILE).exists():
        return PolicySettings(), []
    settings = load_guard(folder) if (folder / GUARD_FILE).exists() else load_abby(folder)
    return settings.policy, settings.plugins


def load_policies_with(file: Path, tenant: str | None, config: Path | None, data: Path | None) -> "Policies":
    """Return the policies with a file in place of the tenant's policy, or of the deployment's."""
    from gatepost.settings import files

    named, plugins = load_policy_settings(config, data)
    place = str(file.absolute())
    changed = {"tenants": {**named.tenants, tenant: place}} if tenant else {"file": place}
    return files.load_policies(named.model_copy(update=changed), plugins)
