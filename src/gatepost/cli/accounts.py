"""`gatepost tenant`, `user` and `apikey`: who has a part of the deployment, and who may use it."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from gatepost.cli.commands import Argument, BadParameter, Group, Option
from gatepost.cli.deployment import Deployment, YesOption, parse_moment, parse_tenant_uid, render_time, require_found
from gatepost.cli.printing import Output
from gatepost.service.data_folder import StartError
from gatepost.store.errors import LastAdministrator, NameTaken, NotFound, TenantFull
from gatepost.times import now

if TYPE_CHECKING:
    from gatepost.store.api_keys import ApiKey
    from gatepost.store.store import Store
    from gatepost.store.tenants import Tenant
    from gatepost.store.users import User

tenants = Group("Create, list and delete the tenants of this deployment.")
users = Group("Create and manage the users of the web interface.")
keys = Group("Create, list and revoke the keys of the List API.")

UidArgument = Annotated[str, Argument(metavar="UID", help="The tenant's uid.")]
UserArgument = Annotated[str, Argument(metavar="NAME", help="The user's name, in any case.")]
RoleOption = Annotated[
    Literal["administrator", "analyst", "auditor"],
    Option(help="An administrator may do everything, an analyst handles mail and lists, an auditor can only read."),
]
FinalOption = Annotated[bool, Option("--final", help="Do not make the user change the password at the next sign-in.")]


def _require_name(name: str) -> str:
    if not name.strip():
        raise BadParameter("must not be empty", "NAME")
    return name.strip()


@tenants.command("create")
def create_tenant(
    name: Annotated[str, Argument(help="The tenant's name, for people.")], *, place: Deployment, output: Output
) -> None:
    """Create a tenant and print its uid."""
    stated = _require_name(name)
    tenant = place.with_store(lambda store: store.tenants.create(stated))
    if isinstance(tenant, NameTaken):
        raise StartError(f"A tenant named {tenant.name} already exists.")
    output.show(_describe_tenant(tenant), tenant.uid)


@tenants.command("list")
def show_tenants(*, place: Deployment, output: Output) -> None:
    """Print all tenants."""
    found = place.with_store(lambda store: store.tenants.all())
    lines = [
        (each.uid, each.name, render_time(each.created), *_render_retention(each), ", ".join(each.domains))
        for each in found
    ]
    columns = ("uid", "name", "created", "history", "quarantine", "domains")
    output.show_table([_describe_tenant(tenant) for tenant in found], columns, lines)


@tenants.command("retention")
def set_retention(
    uid: UidArgument,
    *,
    history: Annotated[
        int | None,
        Option("--history", metavar="DAYS", least=1, most=36_500, help="Days after which results are deleted."),
    ] = None,
    quarantine: Annotated[
        int | None,
        Option("--quarantine", metavar="DAYS", least=1, most=36_500, help="Days after which held mail is deleted."),
    ] = None,
    default: Annotated[
        bool, Option("--default", help="Go back to what the configuration says, for what is not given.")
    ] = False,
    yes: YesOption = False,
    place: Deployment,
    output: Output,
) -> None:
    """Print or set after how many days the results and the held mail of a tenant are deleted.

    What is not given stays as it is. A change holds from the next cleanup on, within an hour.
    """
    tenant = _find_tenant(uid, place)
    if history is not None or quarantine is not None or default:
        days = (
            history or (None if default else tenant.history_days),
            quarantine or (None if default else tenant.quarantine_days),
        )
        limits = [f"{each} days" if each else "the configuration says" for each in days]
        what = f"results older than {limits[0]} and held mail older than {limits[1]}"
        place.announce(f"Deletes, from the next hour on, {what} of tenant {tenant.uid} from", yes=yes)
        found = place.with_store(lambda store: store.tenants.set_retention(tenant.uid, *days))
        tenant = require_found(found, tenant.uid)
    output.show(_describe_tenant(tenant), "history: {}, quarantine: {}".format(*_render_retention(tenant)))


@tenants.command("delete")
def delete_tenant(uid: UidArgument, *, yes: YesOption = False, place: Deployment, output: Output) -> None:
    """Delete a tenant with its lists, keys, domains and results; its audit trail stays.

    Asks for confirmation on a terminal unless --yes is given.
    """
    wanted = parse_tenant_uid(uid, "UID") or ""
    place.announce(f"Deletes tenant {wanted} with its lists, keys, domains and results from", yes=yes)
    tenant = require_found(place.with_store(lambda store: store.tenants.delete(wanted)), wanted)
    output.show(_describe_tenant(tenant), f"Deleted {tenant.name}.")


@tenants.command("domains")
def set_domains(
    uid: UidArgument,
    names: Annotated[list[str] | None, Argument(metavar="DOMAIN", help="The new list of domains.")] = None,
    *,
    none: Annotated[bool, Option("--none", help="Remove all domains.")] = False,
    place: Deployment,
    output: Output,
) -> None:
    """Print the recipient domains of a tenant, or replace them by the given ones."""
    normal = _normalise_domains(names or ())
    tenant = _find_tenant(uid, place)
    if names or none:
        changed = place.with_store(lambda store: store.tenants.set_domains(tenant.uid, normal))
        if isinstance(changed, NameTaken):
            raise StartError(f"{changed.name} belongs to another tenant.")
        tenant = require_found(changed, tenant.uid)
    output.show(_describe_tenant(tenant), "\n".join(tenant.domains))


def _find_tenant(uid: str, place: Deployment) -> "Tenant":
    wanted = parse_tenant_uid(uid, "UID") or ""
    return require_found(place.with_store(lambda store: store.tenants.find(wanted)) or NotFound("tenant"), wanted)


def _normalise_domains(names: Sequence[str]) -> list[str]:
    from gatepost.lists.addresses import normalise_tenant_domain
    from gatepost.lists.entries import ListRefusal

    normal = []
    for name in names:
        domain = normalise_tenant_domain(name)
        if isinstance(domain, ListRefusal):
            raise BadParameter(f"{name} {domain.reason}", "DOMAIN")
        normal.append(domain.key)
    return normal


def _render_retention(tenant: "Tenant") -> list[str]:
    return ["default" if days is None else f"{days} d" for days in (tenant.history_days, tenant.quarantine_days)]


def _describe_tenant(tenant: "Tenant") -> dict[str, Any]:
    return {
        "uid": tenant.uid,
        "name": tenant.name,
        "created": render_time(tenant.created),
        "domains": tenant.domains,
        "historyDays": tenant.history_days,
        "quarantineDays": tenant.quarantine_days,
    }


@users.command("create")
def create_user(
    name: UserArgument,
    *,
    role: RoleOption = "analyst",
    tenant: Annotated[str | None, Option(metavar="UID", help="Limit the user to this tenant.")] = None,
    final: FinalOption = False,
    place: Deployment,
    output: Output,
) -> None:
    """Create a user. The password is read from standard input, or generated and printed once.

    The user has to change it at the first sign-in, unless it is --final.
    """
    stated = _require_name(name)
    uid = parse_tenant_uid(tenant) if tenant else None
    password, invented = _read_password(name)
    kept = _hash_password(password)
    by, must_change = place.actor, not final
    user = place.with_store(lambda store: store.users.create(stated, role, uid, kept, by, must_change=must_change))
    if isinstance(user, NotFound):
        raise StartError(f"There is no tenant {uid}.")
    if isinstance(user, NameTaken):
        raise StartError(f"A user named {user.name} already exists.")
    if isinstance(user, TenantFull):
        raise StartError(f"The user was not created: {user.explanation}.")
    _show_password(output, _describe_user(user), f"Created {user.name} as {role}.", password, invented)


@users.command("list")
def show_users(*, place: Deployment, output: Output) -> None:
    """Print all users."""
    found = [_describe_user(user) for user in place.with_store(lambda store: store.users.all())]
    columns = ("name", "role", "tenant", "state", "password", "second factor", "keys", "last sign-in")
    output.show_table(found, columns, [tuple(map(str, each.values())) for each in found])


@users.command("password")
def set_password(name: UserArgument, *, final: FinalOption = False, place: Deployment, output: Output) -> None:
    """Set a new password for a user, lift a lock-out and end all sessions.

    The password is read from standard input, or generated and printed once. The user has to change it at the next
    sign-in, unless it is --final.
    """
    user = _find_user(name, place)
    if user.external:
        raise StartError(f"{user.name} signs in through OpenID Connect and has no password here.")
    password, invented = _read_password(user.name)
    kept = _hash_password(password)
    place.with_store(lambda store: store.users.set_password(user.uid, kept, place.actor, must_change=not final))
    _show_password(output, {"name": user.name}, f"The password of {user.name} was changed.", password, invented)


@users.command("disable")
def disable_user(
    name: UserArgument,
    *,
    enable: Annotated[bool, Option("--enable", help="Enable the user again.")] = False,
    place: Deployment,
    output: Output,
) -> None:
    """Disable a user and end all sessions; with --enable, enable the user again."""
    user = _find_user(name, place)
    outcome = place.with_store(lambda store: store.users.update(user.uid, by=place.actor, disabled=not enable))
    if isinstance(outcome, LastAdministrator):
        raise StartError(f"{user.name} is the last administrator; create another one first.")
    state = "enabled" if enable else "disabled"
    output.show({"name": user.name, "state": "active" if enable else state}, f"{user.name} is {state}.")


@users.command("forget-second-factor")
def forget_second_factor(name: UserArgument, *, yes: YesOption = False, place: Deployment, output: Output) -> None:
    """Turn off the second factor of a user who lost the device: authenticator app, security keys and recovery codes."""
    user = _find_user(name, place)
    place.announce(f"Deletes the second factors of {user.name} from", yes=yes)
    place.with_store(lambda store: store.second_factors.forget(user.uid, place.actor))
    output.show({"name": user.name, "secondFactor": "off"}, f"{user.name} signs in without a second factor.")


def _find_user(name: str, place: Deployment) -> "User":
    async def find(store: "Store") -> "User | None":
        known = await store.users.credentials(name)
        return known.user if known else None

    user = place.with_store(find)
    if user is None:
        raise StartError(f"There is no user {name}.")
    return user


def _read_password(name: str) -> tuple[str, bool]:
    """Return the password, and whether it was generated here."""
    from gatepost.web.credentials import generate_password, password_fault

    if sys.stdin is None or sys.stdin.isatty():
        return generate_password(), True
    typed = sys.stdin.readline().rstrip("\r\n")
    if not typed:
        return generate_password(), True
    if reason := password_fault(typed, name):
        raise StartError(f"The password was refused: {reason}.")
    return typed, False


def _hash_password(password: str) -> str:
    import asyncio

    from gatepost.web.credentials import PasswordHashes

    return asyncio.run(PasswordHashes().hash(password))


def _show_password(output: Output, value: dict[str, Any], text: str, password: str, invented: bool) -> None:
    """Print a result with the password, if it was generated: whoever typed one knows it."""
    if invented:
        output.show(value | {"password": password}, f"{text} The new password is {password} (shown only once).")
    else:
        output.show(value, text)


def _describe_user(user: "User") -> dict[str, Any]:
    return {
        "name": user.name,
        "role": user.role,
        "tenant": user.tenant or "",
        "state": "disabled" if user.disabled else "active",
        "passwordState": "external" if user.external else "to be changed" if user.must_change else "set",
        "secondFactor": "on" if user.has_second_factor else "off",
        "securityKeys": user.keys,
        "lastSignIn": render_time(user.last_sign_in) if user.last_sign_in else "never",
    }


@keys.command("create")
def create_key(
    name: Annotated[str, Argument(help="A name for the key; the audit trail shows it.")],
    *,
    tenant: Annotated[
        str | None, Option("--tenant", metavar="UID", help="Limit the key to this tenant; without it, all scopes.")
    ] = None,
    read_only: Annotated[
        bool, Option("--read-only", help="The key may only read lists and try changes (dry runs).")
    ] = False,
    expires: Annotated[
        str | None, Option(metavar="DATE", help="The last day on which the key is valid (UTC), or a date-time.")
    ] = None,
    place: Deployment,
    output: Output,
) -> None:
    """Create a key and print it. The key is shown only once; only a hash of it is stored."""
    stated, uid, until = _require_name(name), parse_tenant_uid(tenant), parse_moment(expires, "--expires", end=True)
    if until is not None and until <= now():
        raise BadParameter("is in the past", "--expires")
    made = place.with_store(lambda store: store.api_keys.create(stated, uid, read_only, until))
    if isinstance(made, TenantFull):
        raise StartError(f"The key was not created: {made.explanation}.")
    secret, key = require_found(made, uid or "")
    output.show({"key": secret, **_describe_key(key)}, secret)


@keys.command("list")
def show_keys(
    *,
    tenant: Annotated[str | None, Option("--tenant", metavar="UID", help="Only the keys of this tenant.")] = None,
    place: Deployment,
    output: Output,
) -> None:
    """Print all keys, without their secrets."""
    uid = parse_tenant_uid(tenant)
    found = place.with_store(lambda store: store.api_keys.all(uid))
    columns = ("id", "name", "tenant", "may", "created", "expires", "last used", "revoked")
    output.show_table([_describe_key(key) for key in found], columns, [_render_key(key) for key in found])


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, Argument(metavar="ID", help="The id of the key, as printed by gatepost apikey list.")],
    *,
    yes: YesOption = False,
    place: Deployment,
    output: Output,
) -> None:
    """Revoke a key. It is refused from the next call on and cannot be restored."""
    place.announce(f"Revokes API key {key_id} for good in", yes=yes)
    key = require_found(place.with_store(lambda store: store.api_keys.revoke(key_id)), key_id)
    output.show(_describe_key(key), f"Revoked {key.name}.")


def _render_key(key: "ApiKey") -> tuple[str, ...]:
    times = (render_time(time) for time in (key.created, key.expires, key.last_used, key.revoked))
    return (key.id, key.name, key.tenant or "", "read" if key.read_only else "read, write", *times)


def _describe_key(key: "ApiKey") -> dict[str, Any]:
    times = {"created": key.created, "expires": key.expires, "revoked": key.revoked, "lastUsed": key.last_used}
    return {
        "id": key.id,
        "name": key.name,
        "tenantUid": key.tenant,
        "readOnly": key.read_only,
        **{name: render_time(time) or None for name, time in times.items()},
    }
