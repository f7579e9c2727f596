"""The policies that hold in a deployment, as its configuration names them, and a file tried in the place of one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatepost.cli.options import config_folder, data_folder

if TYPE_CHECKING:
    from gatepost.policy.layers import Effective, Policies
    from gatepost.settings.keys import Policy as PolicySettings


TenantOption = Annotated[
    str | None, typer.Option("--tenant", metavar="UID", help="As it holds for this tenant's mail.", show_default=False)
]


def in_force(config: Path | None, data: Path | None) -> "Policies":
    """What guard judges by; the shipped policy where there is no configuration."""
    from gatepost.settings import files

    return files.load_policies(settings(config, data))


def settings(config: Path | None, data: Path | None) -> "PolicySettings":
    """The policy files that the configuration names."""
    from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_abby, load_guard
    from gatepost.settings.keys import Policy

    folder = config_folder(config, data_folder(data))
    if (folder / GUARD_FILE).exists():
        return load_guard(folder).policy
    return load_abby(folder).policy if (folder / ABBY_FILE).exists() else Policy()


def with_file(file: Path, tenant: str | None, config: Path | None, data: Path | None) -> "Policies":
    """The policies as they would be with this file in the place of the tenant's, or else of the deployment's."""
    from gatepost.settings import files

    named = settings(config, data)
    place = str(file.absolute())
    changed = {"tenants": {**named.tenants, tenant: place}} if tenant else {"file": place}
    return files.load_policies(named.model_copy(update=changed))


def own_uid(tenant: str | None) -> str | None:
    """A tenant's uid as it is kept, from any spelling of it."""
    from gatepost.ids import canonical

    if tenant is None:
        return None
    uid = canonical(tenant)
    if uid is None:
        raise typer.BadParameter("must be a tenant's uid, as gatepost tenant list prints it", param_hint="--tenant")
    return uid


def of(policies: "Policies", tenant: str | None) -> "Effective":
    """The policy that holds for a tenant, whose uid may be spelt in any way."""
    return policies.of(own_uid(tenant))
