"""`gatepost tenant`: the customers of a deployment, and the domains whose mail is theirs."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, require_found, shown, tenant_uid, with_store
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.store.tenants import Tenant

app = typer.Typer(help="The customers of this deployment.", no_args_is_help=True)

UidArgument = Annotated[str, typer.Argument(metavar="UID", help="The tenant's uid.")]


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
    from gatepost.store.errors import NameTaken

    tenant = with_store(config, data, lambda store: store.create_tenant(name.strip()))
    if isinstance(tenant, NameTaken):
        raise StartError(f"There is a tenant called {tenant.name} already.")
    if json:
        _print_json(_described(tenant))
    else:
        print(tenant.uid)


@app.command("list")
def show(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Print all tenants."""
    from gatepost.cli.printing import console, rows, table

    tenants = with_store(config, data, lambda store: store.tenants())
    if json:
        _print_json([_described(tenant) for tenant in tenants])
        return
    lines = [(tenant.uid, tenant.name, shown(tenant.created), ", ".join(tenant.domains)) for tenant in tenants]
    console().print(rows(table("uid", "name", "created", "domains"), lines))


@app.command("delete")
def delete(
    uid: UidArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: ConfigOption = None,
    data: DataOption = None,
) -> None:
    """Delete a tenant with its lists, keys, domains and results; its audit trail stays.

    Asks before it does so where a person sits at the keyboard.
    """
    wanted = tenant_uid(uid) or ""
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete tenant {wanted} with everything that is its own?", abort=True)
    tenant = require_found(with_store(config, data, lambda store: store.delete_tenant(wanted)), wanted)
    print(f"Deleted {tenant.name}.")


@app.command("domains")
def domains(
    uid: UidArgument,
    names: Annotated[list[str] | None, typer.Argument(metavar="[DOMAIN]...", help="Its domains from now on.")] = None,
    none: Annotated[bool, typer.Option("--none", help="It has no domains from now on.")] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print the domains whose mail is a tenant's, or set them: those that are named, and no others."""
    from gatepost.store.errors import NameTaken, NotFound
    from gatepost.store.tenants import Tenant

    wanted = tenant_uid(uid) or ""
    if names or none:
        normal = _normal(names or ())
        tenant = require_found(with_store(config, data, lambda store: store.set_tenant_domains(wanted, normal)), wanted)
    else:
        tenant = require_found(
            with_store(config, data, lambda store: store.tenant(wanted)) or NotFound("tenant"), wanted
        )
    if isinstance(tenant, NameTaken):
        raise StartError(f"{tenant.name} is another tenant's domain.")
    assert isinstance(tenant, Tenant)
    if json:
        _print_json(_described(tenant))
    else:
        print("\n".join(tenant.domains))


def _normal(names: Sequence[str]) -> list[str]:
    from gatepost.lists.addresses import DOMAIN
    from gatepost.lists.entries import ListRefusal

    normal = []
    for name in names:
        domain = DOMAIN.normalise(name)
        if isinstance(domain, ListRefusal):
            raise typer.BadParameter(f"{name} {domain.reason}", param_hint="DOMAIN")
        normal.append(domain.key)
    return normal


def _described(tenant: "Tenant") -> dict[str, Any]:
    return {
        "uid": tenant.uid,
        "name": tenant.name,
        "created": shown(tenant.created),
        "domains": tenant.domains,
    }


def _print_json(value: Any) -> None:
    from gatepost.cli.printing import print_json

    print_json(value)
