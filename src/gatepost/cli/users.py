"""`gatepost user`: the users of the web interface, and the way back in after a lost password or device."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, parse_tenant_uid, render_time, with_store
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.store.store import Store
    from gatepost.store.users import User

app = typer.Typer(help="The users of the web interface.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The user's name, in any case.")]
RoleOption = Annotated[
    Literal["administrator", "analyst", "auditor"],
    typer.Option(
        help="An administrator may do everything, an analyst handles mail and lists, an auditor can only read."
    ),
]
FinalOption = Annotated[
    bool, typer.Option("--final", help="Do not make the user change the password at the next sign-in.")
]


@app.command("create")
def create(
    name: NameArgument,
    role: RoleOption = "analyst",
    tenant: Annotated[str | None, typer.Option(metavar="UID", help="Limit the user to this tenant.")] = None,
    final: FinalOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Create a user. The password is read from standard input, or generated and printed once.

    The user has to change it at the first sign-in, unless it is --final.
    """
    from gatepost.cli.printing import print_result
    from gatepost.store.audit import CLI
    from gatepost.store.errors import NameTaken, NotFound, TenantFull

    if not name.strip():
        raise typer.BadParameter("must not be empty", param_hint="NAME")
    uid = parse_tenant_uid(tenant) if tenant else None
    password, invented = _read_password(name)
    kept = _hash_password(password)
    user = with_store(
        config, data, lambda store: store.users.create(name.strip(), role, uid, kept, CLI, must_change=not final)
    )
    if isinstance(user, NotFound):
        raise StartError(f"There is no tenant {uid}.")
    if isinstance(user, NameTaken):
        raise StartError(f"A user named {user.name} already exists.")
    if isinstance(user, TenantFull):
        raise StartError(f"The user was not created: {user.explanation}.")
    text = f"Created {user.name} as {role}."
    print_result(json, _describe(user) | _new_password(password, invented), _add_password(text, password, invented))


@app.command("list")
def show(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Print all users."""
    from gatepost.cli.printing import console, print_json, rows, table

    users = with_store(config, data, lambda store: store.users.all())
    if json:
        print_json([_describe(user) for user in users])
        return
    lines = [tuple(str(value) for value in _describe(user).values()) for user in users]
    console().print(
        rows(table("name", "role", "tenant", "state", "password", "second factor", "keys", "last sign-in"), lines)
    )


@app.command("password")
def password(
    name: NameArgument,
    final: FinalOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Set a new password for a user, lift a lock-out and end all sessions.

    The password is read from standard input, or generated and printed once. The user has to change it at the next
    sign-in, unless it is --final.
    """
    from gatepost.cli.printing import print_result
    from gatepost.store.audit import CLI

    user = _find_user(name, config, data)
    if user.external:
        raise StartError(f"{user.name} signs in through OpenID Connect and has no password here.")
    new, invented = _read_password(user.name)
    kept = _hash_password(new)
    with_store(config, data, lambda store: store.users.set_password(user.uid, kept, CLI, must_change=not final))
    text = f"The password of {user.name} was changed."
    print_result(json, {"name": user.name, **_new_password(new, invented)}, _add_password(text, new, invented))


@app.command("disable")
def disable(
    name: NameArgument,
    enable: Annotated[bool, typer.Option("--enable", help="Enable the user again.")] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Disable a user and end all sessions; with --enable, enable the user again."""
    from gatepost.cli.printing import print_result
    from gatepost.store.audit import CLI
    from gatepost.store.errors import LastAdministrator

    user = _find_user(name, config, data)
    outcome = with_store(config, data, lambda store: store.users.update(user.uid, by=CLI, disabled=not enable))
    if isinstance(outcome, LastAdministrator):
        raise StartError(f"{user.name} is the last administrator; create another one first.")
    state = "enabled" if enable else "disabled"
    print_result(json, {"name": user.name, "state": "active" if enable else state}, f"{user.name} is {state}.")


@app.command("forget-second-factor")
def forget(name: NameArgument, config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Turn off the second factor of a user who lost the device: authenticator app, security keys and recovery codes."""
    from gatepost.cli.printing import print_result
    from gatepost.store.audit import CLI

    user = _find_user(name, config, data)
    with_store(config, data, lambda store: store.second_factors.forget(user.uid, CLI))
    text = f"{user.name} signs in without a second factor."
    print_result(json, {"name": user.name, "secondFactor": "off"}, text)


def _find_user(name: str, config: Any, data: Any) -> "User":
    async def find(store: "Store") -> "User | None":
        known = await store.users.credentials(name)
        return known.user if known else None

    user = with_store(config, data, find)
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


def _add_password(text: str, password: str, invented: bool) -> str:
    return f"{text} The new password is {password} (shown only once)." if invented else text


def _new_password(password: str, invented: bool) -> dict[str, str]:
    """Return the password for JSON output, if it was generated: whoever typed one knows it."""
    return {"password": password} if invented else {}


def _describe(user: "User") -> dict[str, Any]:
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
