"""`gatepost user`: who may sign in to the web interface, and a way back in for whoever lost a password."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, shown, tenant_uid, with_store
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.store.store import Store
    from gatepost.store.users import User

app = typer.Typer(help="Who may sign in to the web interface.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The user's name, in any case.")]
RoleOption = Annotated[
    Literal["administrator", "analyst", "auditor"],
    typer.Option(help="An administrator may do everything, an analyst works on mail and lists, an auditor only looks."),
]


@app.command("create")
def create(
    name: NameArgument,
    role: RoleOption = "analyst",
    tenant: Annotated[str | None, typer.Option(metavar="UID", help="Only for this tenant.")] = None,
    config: ConfigOption = None,
    data: DataOption = None,
) -> None:
    """Make a user. The password is read from standard input, or invented and printed once."""
    from gatepost.store.audit import CLI
    from gatepost.store.errors import NameTaken, NotFound

    if not name.strip():
        raise typer.BadParameter("must not be empty", param_hint="NAME")
    uid = tenant_uid(tenant) if tenant else None
    password, invented = _password(name)
    kept = _hashed(password)
    user = with_store(config, data, lambda store: store.create_user(name.strip(), role, uid, kept, CLI))
    if isinstance(user, NotFound):
        raise StartError(f"There is no tenant {uid}.")
    if isinstance(user, NameTaken):
        raise StartError(f"There is a user called {user.name} already.")
    print(f"{user.name} may sign in as {role}{_shown_once(password) if invented else ''}.")


@app.command("list")
def show(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Print all users."""
    from gatepost.cli.printing import console, print_json, rows, table

    users = with_store(config, data, lambda store: store.users())
    if json:
        print_json([_described(user) for user in users])
        return
    lines = [tuple(str(value) for value in _described(user).values()) for user in users]
    console().print(rows(table("name", "role", "tenant", "state", "second factor", "last sign-in"), lines))


@app.command("password")
def password(name: NameArgument, config: ConfigOption = None, data: DataOption = None) -> None:
    """Give a user another password, lift a lock-out, and end all sessions.

    The password is read from standard input, or invented and printed once.
    """
    from gatepost.store.audit import CLI

    user = _user(name, config, data)
    new, invented = _password(user.name)
    kept = _hashed(new)
    with_store(config, data, lambda store: store.set_password(user.uid, kept, CLI))
    print(f"{user.name} has another password{_shown_once(new) if invented else ''}.")


@app.command("disable")
def disable(
    name: NameArgument,
    enable: Annotated[bool, typer.Option("--enable", help="Let the user in again.")] = False,
    config: ConfigOption = None,
    data: DataOption = None,
) -> None:
    """Keep a user out, and end all sessions; with --enable, let in again."""
    from gatepost.store.audit import CLI
    from gatepost.store.errors import LastAdministrator

    user = _user(name, config, data)
    outcome = with_store(config, data, lambda store: store.change_user(user.uid, by=CLI, disabled=not enable))
    if isinstance(outcome, LastAdministrator):
        raise StartError(f"{user.name} is the last administrator; make another one first.")
    print(f"{user.name} may sign in again." if enable else f"{user.name} is kept out.")


@app.command("forget-second-factor")
def forget(name: NameArgument, config: ConfigOption = None, data: DataOption = None) -> None:
    """Let a user in without a code again, for whoever lost the device."""
    from gatepost.store.audit import CLI

    user = _user(name, config, data)
    with_store(config, data, lambda store: store.set_totp(user.uid, None, CLI))
    print(f"{user.name} signs in without a code.")


def _user(name: str, config: Any, data: Any) -> "User":
    async def asked(store: "Store") -> "User | None":
        known = await store.credentials(name)
        return known.user if known else None

    user = with_store(config, data, asked)
    if user is None:
        raise StartError(f"There is no user {name}.")
    return user


def _password(name: str) -> tuple[str, bool]:
    """The password, and whether it was invented here."""
    from gatepost.web.credentials import generate_password, password_fault

    if sys.stdin is None or sys.stdin.isatty():
        return generate_password(), True
    typed = sys.stdin.readline().rstrip("\r\n")
    if not typed:
        return generate_password(), True
    if reason := password_fault(typed, name):
        raise StartError(f"The password is not taken: {reason}.")
    return typed, False


def _hashed(password: str) -> str:
    import asyncio

    from gatepost.web.credentials import PasswordHashes

    return asyncio.run(PasswordHashes().hash(password))


def _shown_once(password: str) -> str:
    return f" with the password {password} (shown only this once)"


def _described(user: "User") -> dict[str, Any]:
    return {
        "name": user.name,
        "role": user.role,
        "tenant": user.tenant or "",
        "state": "disabled" if user.disabled else "active",
        "secondFactor": "on" if user.totp else "off",
        "lastSignIn": shown(user.last_sign_in) if user.last_sign_in else "never",
    }
