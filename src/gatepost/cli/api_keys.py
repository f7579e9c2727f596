"""`gatepost apikey`: the keys of the List API."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatepost.cli.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    parse_moment,
    parse_tenant_uid,
    render_time,
    require_found,
    with_store,
)

if TYPE_CHECKING:
    from gatepost.store.api_keys import ApiKey


app = typer.Typer(help="The keys of the List API.", no_args_is_help=True)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="A name for the key; the audit trail shows it.")],
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="UID", help="Limit the key to this tenant; without it, all scopes."),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="The key may only read lists and try changes (dry runs).")
    ] = False,
    expires: Annotated[
        str | None, typer.Option(metavar="DATE", help="The last day on which the key is valid (UTC), or a date-time.")
    ] = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Create a key and print it. The key is shown only once; only a hash of it is stored."""
    from gatepost.cli.printing import print_json
    from gatepost.service.data_folder import StartError
    from gatepost.store.errors import TenantFull
    from gatepost.times import now

    if not name.strip():
        raise typer.BadParameter("must not be empty", param_hint="NAME")
    uid, until = parse_tenant_uid(tenant), parse_moment(expires, "--expires", end=True)
    if until is not None and until <= now():
        raise typer.BadParameter("is in the past", param_hint="--expires")
    made = with_store(config, data, lambda store: store.api_keys.create(name.strip(), uid, read_only, until))
    if isinstance(made, TenantFull):
        raise StartError(f"The key was not created: {made.explanation}.")
    secret, key = require_found(made, uid or "")
    if json:
        print_json({"key": secret, **_describe(key)})
    else:
        print(secret)


@app.command("list")
def show(
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="UID", help="Only the keys of this tenant.")] = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print all keys, without their secrets."""
    from gatepost.cli.printing import console, print_json, rows, table

    uid = parse_tenant_uid(tenant)
    keys = with_store(config, data, lambda store: store.api_keys.all(uid))
    if json:
        print_json([_describe(key) for key in keys])
        return
    made = table("id", "name", "tenant", "may", "created", "expires", "last used", "revoked")
    console().print(rows(made, [_row(key) for key in keys]))


@app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the key, as printed by gatepost apikey list.")],
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Revoke a key. It is refused from the next call on and cannot be restored."""
    from gatepost.cli.printing import print_result

    key = require_found(with_store(config, data, lambda store: store.api_keys.revoke(key_id)), key_id)
    print_result(json, _describe(key), f"Revoked {key.name}.")


def _row(key: "ApiKey") -> tuple[str, ...]:
    times = (render_time(time) for time in (key.created, key.expires, key.last_used, key.revoked))
    return (key.id, key.name, key.tenant or "", "read" if key.read_only else "read, write", *times)


def _describe(key: "ApiKey") -> dict[str, Any]:
    times = {"created": key.created, "expires": key.expires, "revoked": key.revoked, "lastUsed": key.last_used}
    return {
        "id": key.id,
        "name": key.name,
        "tenantUid": key.tenant,
        "readOnly": key.read_only,
        **{name: render_time(time) or None for name, time in times.items()},
    }
