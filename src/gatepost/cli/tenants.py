"""`gatepost tenant`: the tenants of a deployment and their recipient domains."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatepost.cli.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    parse_tenant_uid,
    render_time,
    require_found,
    with_store,
)
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.store.tenants import Tenant

app = typer.Typer(help="The tenants of this deployment.", no_args_is_help=True)

UidArgument = Annotated[str, typer.Argument(metavar="UID", help="The tenant's uid.")]


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="The tenant's name, for people.")],
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Create a tenant and print its uid."""
    from gatepost.cli.printing import print_json

    if not name.strip():
        raise typer.BadParameter("must not be empty", param_hint="NAME")
    from gatepost.store.errors import NameTaken

    tenant = with_store(config, data, lambda store: store.tenants.create(name.strip()))
    if isinstance(tenant, NameTaken):
        raise StartError(f"A tenant named {tenant.name} already exists.")
    if json:
        print_json(_describe(tenant))
    else:
        print(tenant.uid)


@app.command("list")
def show(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Print all tenants."""
    from gatepost.cli.printing import console, print_json, rows, table

    tenants = with_store(config, data, lambda store: store.tenants.all())
    if json:
        print_json([_describe(tenant) for tenant in tenants])
        return
    lines = [
        (
            *(tenant.uid, tenant.name, render_time(tenant.created)),
            *map(_render_days, (tenant.history_days, tenant.quarantine_days)),
            ", ".join(tenant.domains),
        )
        for tenant in tenants
    ]
    console().print(rows(table("uid", "name", "created", "history", "quarantine", "domains"), lines))


def _render_days(days: int | None) -> str:
    return "default" if days is None else f"{days} d"


@app.command("retention")
def retention(
    uid: UidArgument,
    history: Annotated[
        int | None,
        typer.Option("--history", metavar="DAYS", min=1, max=36_500, help="Days after which results are deleted."),
    ] = None,
    quarantine: Annotated[
        int | None,
        typer.Option("--quarantine", metavar="DAYS", min=1, max=36_500, help="Days after which held mail is deleted."),
    ] = None,
    default: Annotated[
        bool, typer.Option("--default", help="Go back to what the configuration says, for what is not given.")
    ] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print or set after how many days the results and the held mail of a tenant are deleted.

    What is not given stays as it is. A change holds from the next cleanup on, within an hour.
    """
    from gatepost.cli.printing import print_result
    from gatepost.store.errors import NotFound

    wanted = parse_tenant_uid(uid) or ""
    tenant = require_found(
        with_store(config, data, lambda store: store.tenants.find(wanted)) or NotFound("tenant"), wanted
    )
    if history is not None or quarantine is not None or default:
        days = (
            history or (None if default else tenant.history_days),
            quarantine or (None if default else tenant.quarantine_days),
        )
        tenant = require_found(
            with_store(config, data, lambda store: store.tenants.set_retention(wanted, *days)), wanted
        )
    shown = f"history: {_render_days(tenant.history_days)}, quarantine: {_render_days(tenant.quarantine_days)}"
    print_result(json, _describe(tenant), shown)


@app.command("delete")
def delete(
    uid: UidArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Delete a tenant with its lists, keys, domains and results; its audit trail stays.

    Asks for confirmation on a terminal unless --yes is given.
    """
    from gatepost.cli.printing import print_result

    wanted = parse_tenant_uid(uid) or ""
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete tenant {wanted} with its lists, keys, domains and results?", abort=True)
    tenant = require_found(with_store(config, data, lambda store: store.tenants.delete(wanted)), wanted)
    print_result(json, _describe(tenant), f"Deleted {tenant.name}.")


@app.command("domains")
def domains(
    uid: UidArgument,
    names: Annotated[list[str] | None, typer.Argument(metavar="[DOMAIN]...", help="The new list of domains.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove all domains.")] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print the recipient domains of a tenant, or replace them by the given ones."""
    from gatepost.cli.printing import print_json
    from gatepost.store.errors import NameTaken, NotFound
    from gatepost.store.tenants import Tenant

    wanted = parse_tenant_uid(uid) or ""
    if names or none:
        normal = _normalise_domains(names or ())
        tenant = require_found(
            with_store(config, data, lambda store: store.tenants.set_domains(wanted, normal)), wanted
        )
    else:
        tenant = require_found(
            with_store(config, data, lambda store: store.tenants.find(wanted)) or NotFound("tenant"), wanted
        )
    if isinstance(tenant, NameTaken):
        raise StartError(f"{tenant.name} belongs to another tenant.")
    assert isinstance(tenant, Tenant)
    if json:
        print_json(_describe(tenant))
    else:
        print("\n".join(tenant.domains))


def _normalise_domains(names: Sequence[str]) -> list[str]:
    from gatepost.lists.addresses import normalise_tenant_domain
    from gatepost.lists.entries import ListRefusal

    normal = []
    for name in names:
        domain = normalise_tenant_domain(name)
        if isinstance(domain, ListRefusal):
            raise typer.BadParameter(f"{name} {domain.reason}", param_hint="DOMAIN")
        normal.append(domain.key)
    return normal


def _describe(tenant: "Tenant") -> dict[str, Any]:
    return {
        "uid": tenant.uid,
        "name": tenant.name,
        "created": render_time(tenant.created),
        "domains": tenant.domains,
        "historyDays": tenant.history_days,
        "quarantineDays": tenant.quarantine_days,
    }
