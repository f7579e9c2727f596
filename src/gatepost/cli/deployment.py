"""The deployment that a command works on: its folders, storage and policies, beside a service that may be running."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gatepost.service.data_folder import DataFolder, StartError

if TYPE_CHECKING:
    from gatepost.policy.layers import Policies
    from gatepost.settings.keys import Policy as PolicySettings
    from gatepost.store.errors import NotFound
    from gatepost.store.store import Store

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


def with_store(config: Path | None, data: Path | None, use: Callable[["Store"], Awaitable[T]]) -> T:
    """Call `use` with the storage of the configuration, and return its result."""
    import asyncio

    from gatepost.settings.files import load_abby
    from gatepost.store import open_store

    place = data_folder(data)
    url = load_abby(config_folder(config, place)).storage.url
    place.make()

    async def run() -> T:
        store = open_store(url, place.path)
        try:
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

    return files.load_policies(load_policy_settings(config, data))


def load_policy_settings(config: Path | None, data: Path | None) -> "PolicySettings":
    """Return the policy files of the configuration."""
    from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_abby, load_guard
    from gatepost.settings.keys import Policy

    folder = config_folder(config, data_folder(data))
    if (folder / GUARD_FILE).exists():
        return load_guard(folder).policy
    return load_abby(folder).policy if (folder / ABBY_FILE).exists() else Policy()


def load_policies_with(file: Path, tenant: str | None, config: Path | None, data: Path | None) -> "Policies":
    """Return the policies with a file in place of the tenant's policy, or of the deployment's."""
    from gatepost.settings import files

    named = load_policy_settings(config, data)
    place = str(file.absolute())
    changed = {"tenants": {**named.tenants, tenant: place}} if tenant else {"file": place}
    return files.load_policies(named.model_copy(update=changed))
