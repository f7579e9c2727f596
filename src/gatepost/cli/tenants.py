"""`gatepost tenant`: the customers of a deployment."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gatepost.cli.places import ConfigOption, DataOption, JsonOption, config_folder, data_folder
from gatepost.service.datafolder import StartError

if TYPE_CHECKING:
    from gatepost.store.interface import Store

T = TypeVar("T")

app = typer.Typer(help="The customers of this deployment.", no_args_is_help=True)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="The tenant's name, for people.")],
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Make a tenant and print its uid."""
    if not name.strip():
        raise typer.BadParameter("must not be empty", param_hint="NAME")
    from gatepost.store.interface import Taken

    tenant = _with_store(config, data, lambda store: store.create_tenant(name.strip()))
    if isinstance(tenant, Taken):
        raise StartError(f"There is a tenant called {tenant.name} already.")
    if json:
        from gatepost.cli.printing import print_json

        print_json(tenant)
    else:
        print(tenant.uid)


@app.command("list")
def show(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Print all tenants."""
    from gatepost.api.times import date_time
    from gatepost.cli.printing import console, print_json, rows, table

    tenants = _with_store(config, data, lambda store: store.tenants())
    if json:
        print_json(tenants)
        return
    lines = [(tenant.uid, tenant.name, date_time(tenant.created)) for tenant in tenants]
    console().print(rows(table("uid", "name", "created"), lines))


def _with_store(config: Path | None, data: Path | None, use: Callable[["Store"], Awaitable[T]]) -> T:
    """Use the storage that the configuration names, beside a server that may be running."""
    import asyncio

    from gatepost.config import load_abby
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
