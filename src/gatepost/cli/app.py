"""The tree of commands, each one a line here."""

import typer

from gatepost import __version__
from gatepost.cli import (
    apikeys,
    audit,
    configuration,
    diagnosis,
    lists,
    models,
    policies,
    quarantine,
    replays,
    running,
    scanning,
    storage,
    tenants,
    users,
)

app = typer.Typer(
    name="gatepost",
    help="Gatepost, an e-mail security service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gatepost {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Gatepost, an e-mail security service."""


app.command("serve")(running.serve)
app.command("guard")(running.guard)
app.command("abby")(running.abby)
app.command("scan")(scanning.scan)
app.command("replay")(replays.replay)
app.command("doctor")(diagnosis.doctor)
app.add_typer(configuration.app, name="config")
app.add_typer(lists.app, name="lists")
app.add_typer(tenants.app, name="tenant")
app.add_typer(users.app, name="user")
app.add_typer(apikeys.app, name="apikey")
app.command("audit")(audit.audit)
app.add_typer(policies.app, name="policy")
app.add_typer(models.app, name="model")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(storage.app, name="storage")
app.command("backup")(storage.backup)
app.command("restore")(storage.restore)
